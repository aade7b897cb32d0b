"""Sensitivities, against enumeration over every pair of neighbors of a small data set."""

import pytest

from epsilog import plan
from epsilog.terms import NeighboringRelation


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ({"query": "count"}, 1),
        ({"query": "count", "contributions": 5}, 5),
        ({"query": "sum", "low": -10, "high": 4}, 10),
        ({"query": "sum", "low": -10, "high": 4, "relation": NeighboringRelation.REPLACE_ONE}, 14),
        ({"query": "sum", "low": 20, "high": 30, "contributions": 2}, 60),
        ({"query": "mean", "low": 0, "high": 100, "size": 1000}, 0.1),
    ],
)
def test_sensitivities(asked, value):
    asked = dict(asked)
    assert plan.compute_query_sensitivity(asked.pop("query"), **asked).value == pytest.approx(value)


def test_sensitivity_bounds_every_pair_of_neighbors():
    """By enumeration: a unit has up to two rows with values in {-3, 1, 2}, the rest of the data does not matter."""
    rows = [[], *([a] for a in (-3, 1, 2)), *([a, b] for a in (-3, 1, 2) for b in (-3, 1, 2))]
    for kind, of in (("count", len), ("sum", sum)):
        removed = max(abs(of(mine) - of([])) for mine in rows)
        replaced = max(abs(of(mine) - of(other)) for mine in rows for other in rows)
        bounds = {"contributions": 2} if kind == "count" else {"contributions": 2, "low": -3, "high": 2}
        assert plan.compute_query_sensitivity(kind, **bounds).value == removed
        assert (
            plan.compute_query_sensitivity(kind, **bounds, relation=NeighboringRelation.REPLACE_ONE).value == replaced
        )


@pytest.mark.parametrize(
    ("asked", "name"),
    [({"query": "median"}, "query"), ({"query": "sum", "low": 1, "high": 1}, "high"), ({"query": "mean"}, "size")],
)
def test_bad_sensitivities_are_refused_by_name(asked, name):
    asked = dict(asked)
    with pytest.raises(ValueError, match=f"^{name} must be"):
        plan.compute_query_sensitivity(asked.pop("query"), **asked)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_values_that_nobody_bounded_lie_between_zero_and_one(relation):
    for kind, size in (("sum", None), ("mean", 50)):
        asked = {"contributions": 3, "relation": relation, "size": size}
        assert plan.compute_query_sensitivity(kind, **asked) == plan.compute_query_sensitivity(
            kind, low=0.0, high=1.0, **asked
        )
    assert plan.compute_query_sensitivity("sum").value == plan.compute_query_sensitivity("count").value == 1
