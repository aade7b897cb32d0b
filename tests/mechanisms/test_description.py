"""What a release is, in plain words: each mechanism has a sentence, and a large composition a short one."""

from dataclasses import fields
from string import Formatter

import pytest
from hypothesis import given, settings, strategies as st
from tests import generators

from epsilog.mechanisms import Composed, Gaussian, Grouped, PoissonSampled, PureDP, Release, Repeated, describe_release
from epsilog.terms import CheckError, codec
from epsilog.terms.messages import Message, catalogue

MECHANISMS = sorted(tag for tag, kind in codec.type_of.items() if issubclass(kind, Release))
NOT_A_TERM = {"further", "nested"}


@pytest.mark.parametrize("tag", MECHANISMS)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_mechanism_has_a_sentence(tag, data):
    described = describe_release(data.draw(generators.described(tag)))
    assert described.id == f"release/{tag}"
    assert Message.read(described.code) == described
    assert "{" not in str(described)


def test_every_sentence_is_of_a_term_and_names_its_fields():
    """With those of participations and of trial counts, which stand inside a mechanism's."""
    sentences = {name.removeprefix("release/"): text for name, text in catalogue().items() if "release/" in name}
    assert sentences.keys() >= NOT_A_TERM
    for tag in sentences.keys() - NOT_A_TERM:
        named = {name for _, name, _, _ in Formatter().parse(sentences[tag]) if name is not None}
        assert named <= {one.name for one in fields(codec.type_of[tag])}, tag
    inside = {tag for tag in codec.type_of if tag.endswith(("-participation", "-trials"))}
    assert inside <= sentences.keys()


def test_a_training_run_reads_as_it_goes():
    run = Repeated(PoissonSampled(Gaussian(1.1), 0.01), 1000)
    assert str(describe_release(run)) == (
        "1,000 times on a sample that each unit joins with probability 0.01, a sum with Gaussian noise, "
        "of standard deviation 1.1 times the sensitivity"
    )


def test_a_large_composition_is_cut_and_counted():
    many = Composed(tuple(PureDP(0.5 + number) for number in range(9)))
    assert str(describe_release(many)).endswith("a release of stated epsilon 3.5; and 5 further releases)")
    deep = PureDP(1.0)
    for _ in range(20):
        deep = Composed((Grouped(deep, 2), Gaussian(1.0)))
    assert len(str(describe_release(deep))) < 500
    with pytest.raises(CheckError):
        describe_release("a release")
