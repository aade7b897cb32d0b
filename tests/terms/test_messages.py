"""Messages: one text for each identifier, parameters by kind, and what documents hold of them read back."""

import json
import re
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import example, given, strategies as st

from epsilog.terms import CheckError, messages as messages_module
from epsilog.terms.messages import KINDS, Message, catalogue, sentence

SIMPLE = sorted(name for name, text in catalogue().items() if "{" not in text)
messages = st.recursive(
    st.sampled_from(SIMPLE).map(Message) | st.text(min_size=1).map(Message.read),
    lambda inner: (
        st.builds(lambda a, b: Message.of("method/each-side@1", above=a, below=b), inner, inner)
        | st.builds(lambda them: Message.of("method/best-of-trials@1", one=tuple(them)), st.lists(inner, max_size=3))
        | st.builds(lambda text, one: Message.of("method/training-loop@1", how=text, rest=one), st.text(), inner)
        | st.integers(1, 2**53).map(lambda units: Message.of("assumes/group-size", units=units))
        | st.floats(0, allow_nan=False).map(lambda share: Message.of("attack/tpr", fpr=share))
    ),
    max_leaves=6,
)


def test_each_identifier_is_well_formed_and_each_parameter_has_a_kind():
    for identifier, text in catalogue().items():
        assert identifier == "text" or re.fullmatch(r"method/[a-z-]+@[0-9]+|(?!method)[a-z-]+/[a-z-]+", identifier)
        assert {kind for _, name, kind, _ in Formatter().parse(text) if name is not None} <= set(KINDS)


def test_the_pages_render_each_kind():
    page = Path(__file__).parents[2] / "web/src/lib/messages.ts"
    assert set(re.findall(r"^  (\w+): \(value\) =>", page.read_text("utf-8"), re.MULTILINE)) == set(KINDS)


@given(messages)
@example(Message.of("method/training-loop@1", how="inf", rest=Message.read("a")))
def test_documents_hold_it_as_json_and_as_text(message):
    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message
    assert Message.read(message.code) == message
    assert sentence(message.to_json()) == str(message)


@given(st.text(min_size=1))
def test_any_other_text_is_a_sentence_of_somebody_else(text):
    assert Message.read(text).code == text or text in catalogue() or text.startswith("[")


def test_a_bound_rounds_outward_and_foreign_text_becomes_legible():
    assert [KINDS[side](0.12345678) for side in ("lower", "upper")] == ["0.1234", "0.1235"]
    assert (KINDS["percent"](0.27004), KINDS["percent"](0.001)) == ("27.1%", "0.1%")
    assert (KINDS["factor"](1.0), KINDS["factor"](800.0)) == ("2.72", "more than 1e300")
    assert (KINDS["count"](50_000), KINDS["exact"](1e-6), KINDS["estimate"](0.63339)) == ("50,000", "1e-06", "0.6334")
    assert str(Message.read("gone\x1b[2J")) == "gone\\u001b[2J"


@pytest.mark.parametrize(
    "document",
    [None, 3, {}, [], ["method/renyi@1"], ["no/such", {}], ["assumes/group-size", {}],
     ["assumes/group-size", {"units": "x"}], ["assumes/group-size", {"units": True}],
     ["method/training-loop@1", {"how": 1, "rest": "a"}],
     ["method/best-of-trials@1", {"one": 1}], ["method/renyi@1", {"id": 1}], ["method/renyi@1", {"cls": 1}]],
)  # fmt: skip
def test_what_is_no_message_is_refused_and_shown_as_it_is(document):
    with pytest.raises(CheckError):
        Message.from_json(document)
    assert sentence(document) == str(document)


def test_messages_nest_so_deep_and_no_deeper():
    deep = "method/renyi@1"
    for _ in range(17):
        deep = ["method/stated-deltas-apart@1", {"rest": deep}]
    with pytest.raises(CheckError):
        Message.from_json(deep)


def test_foreign_text_is_not_kept():
    kept = messages_module._kinds.cache_info().currsize
    for number in range(100):
        Message.read(f"another's words {number}")
    assert messages_module._kinds.cache_info().currsize <= kept + 1
