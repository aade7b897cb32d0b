"""A question is described once: read strictly, written back whole, bounded in work, and shown by the API."""

import inspect
from typing import Annotated

import pytest
from tests.web.test_typescript import ASKED

from epsilog import plan
from epsilog.plan import QUESTIONS, Question
from epsilog.terms import CheckError, fields
from epsilog.terms.fields import Field
from epsilog.web.desk import MOST_WORK, QUICK
from epsilog.web.routes import model_of

GIVEN = {path: ask for path, ask in ASKED if path in QUESTIONS}
RUN = GIVEN["/federated"]


def test_every_question_is_given_here():
    assert set(GIVEN) == set(QUESTIONS)


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_question_is_read_strictly_and_written_back_whole(path):
    asked = QUESTIONS[path].parse(GIVEN[path])
    written = asked.to_json()
    assert QUESTIONS[path].parse(written) == asked
    assert written.items() >= {n: v for n, v in GIVEN[path].items() if not isinstance(v, list | dict)}.items()
    with pytest.raises(CheckError, match="field must be one of"):
        QUESTIONS[path].parse(GIVEN[path] | {"more": 1})
    required = model_of(QUESTIONS[path]).model_json_schema()["required"]
    for name in required:
        with pytest.raises(CheckError, match=f"{name} must be given"):
            QUESTIONS[path].parse({key: value for key, value in GIVEN[path].items() if key != name})
        for wrong in (True, float("nan")):
            with pytest.raises(CheckError, match=name):
                QUESTIONS[path].parse(GIVEN[path] | {name: wrong})


def outside(one, kind):
    """Values just past a field's bounds, and none of its type."""
    step = 1 if kind is int else 1e-9
    yield from (one.ge - step,) if one.ge is not None else ()
    yield from (one.le + step,) if one.le is not None else ()
    yield from (bound for bound in (one.gt, one.lt) if bound is not None)
    yield from ("none of these",) if one.choices else ("",) if kind is str else ("1", float("nan"))


@pytest.mark.parametrize("path", QUESTIONS)
def test_every_bound_of_a_question_is_kept_there_and_in_the_library(path):
    """The function of ``plan`` that answers has fields of its own: whoever calls it is held to the same bounds."""
    kind = QUESTIONS[path]
    called = {"/federated": (plan.federated, RUN), "/queries": (plan.queries, {"epsilon": 1.0, "queries": 3})}
    for name, one in fields.list_fields(kind).items():
        for value in outside(one, fields.field_type(kind, name)):
            given = [value] * 3 if fields.is_list(kind, name) else value
            with pytest.raises(CheckError, match=name):
                kind.parse(GIVEN[path] | {name: given})
            function, known = called.get(path, (None, {}))
            if (
                function is not None
                and name in inspect.signature(function).parameters
                and name not in ("group", "trials")
            ):
                with pytest.raises(CheckError, match=rf"^{name}(\[\d\])? must be"):
                    function(**known | {name: given})


@pytest.mark.parametrize(
    ("path", "changes", "says"),
    [
        ("/federated", {"cohort_size": 1001}, r"cohort_size must be in \[1, 1000\]"),
        ("/federated", {"privacy_unit": "x" * 81}, "privacy_unit must be 0 to 80 characters long"),
        ("/federated", {"relation": "swap"}, "relation must be one of"),
        ("/federated", {"group": 65}, r"group must be in \[1, 64\]"),
        ("/queries", {"queries": 1001, "weights": [1.0] * 1001}, "weights must be 0 to 1000 items long"),
        ("/account", {"parts": []}, "parts must be 1 to 20 items long"),
        (
            "/account",
            {"parts": [{"mechanism": "gdp", "parameter": 1.0}, {"mechanism": "gdp"}]},
            r"parts\[1\].parameter",
        ),
        ("/account", {"parts": ["gdp"]}, r"parts\[0\] must be a Part"),
    ],
)
def test_a_question_out_of_its_bounds_is_refused_by_name(path, changes, says):
    with pytest.raises(CheckError, match=says):
        QUESTIONS[path].parse(GIVEN[path] | changes)


def test_a_release_that_is_none_is_named_by_its_place():
    asked = QUESTIONS["/account"].parse({"parts": [{"mechanism": "randomized-response", "parameter": 2.0}]})
    with pytest.raises(CheckError, match=r"parts\[0\].parameter must be in \[0, 1\], got 2.0"):
        asked.answer()
    asked = QUESTIONS["/account"].parse({"parts": [{"mechanism": "approximate", "parameter": 2.0, "second": 2.0}]})
    with pytest.raises(CheckError, match=r"parts\[0\].second"):
        asked.answer()


def test_work_grows_with_what_makes_an_answer_dear_and_picks_where_it_is_worked_out():
    quick = [path for path, given in GIVEN.items() if QUESTIONS[path].parse(given).work() <= QUICK]
    assert quick == ["/federated", "/queries", "/sensitivity"]
    assert all(QUESTIONS[path].parse(given).work() <= MOST_WORK for path, given in GIVEN.items())
    for more in ({"group": 64}, {"trials": "binomial:8,0.5"}):
        assert QUESTIONS["/federated"].parse(RUN | more).work() > QUICK
    weights = {"epsilon": 1.0, "queries": 1000, "delta": 1e-6, "weights": [1.0 + i for i in range(1000)]}
    assert QUESTIONS["/queries"].parse(weights).work() > QUICK
    assert QUESTIONS["/queries/risk"].parse(weights).work() > MOST_WORK  # minutes, and so it is not begun
    assert QUESTIONS["/queries/risk"].parse(weights | {"mechanism": "gaussian"}).work() < MOST_WORK


def test_a_new_field_reaches_the_api_by_its_description():
    class Longer(QUESTIONS["/sensitivity"], schema="LongerAsk"):
        """One count with a limit."""

        limit: Annotated[int | None, Field("the most", "l", ge=1, default=None, none_means="none")] = None

    schema = model_of(Longer).model_json_schema()
    assert schema["title"] == "LongerAsk"
    assert schema["description"] == "One count with a limit."
    told = schema["properties"]["limit"]
    assert told == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
        "description": "the most",
        "minimum": 1,
        "title": "Limit",
        "x-blank": "none",
        "x-symbol": "l",
    }
    assert Longer.parse({"query": "count", "limit": 3}).to_json()["limit"] == 3
    assert "/sensitivity" in QUESTIONS
    assert QUESTIONS["/sensitivity"] is not Longer
    with pytest.raises(NotImplementedError):
        Question().answer()
