"""A delta that is given, left blank, capped or not: which one is used, and what is said of it."""

import math

import pytest

from epsilog.mechanisms import DenseStrategy, ToeplitzStrategy
from epsilog.terms import DeltaPolicy


@pytest.mark.parametrize(
    ("cap", "given", "population", "used", "says"),
    [
        (1e-6, None, 50_000, 1e-6, "is the policy cap"),
        (1e-6, None, 10**8, 1e-8, "is 1/N"),
        (1e-6, None, 10**6, 1e-6, "is 1/N"),
        (None, None, 50_000, 2e-5, "is 1/N"),
        (None, None, 2, 0.5, "is 1/N"),
        (0.25, None, 1, 0.25, "is the policy cap"),
        (1e-6, 1e-7, 100, 1e-7, "as given"),
        (1e-6, 1e-6, 100, 1e-6, "as given"),
        (1e-6, 1e-3, 100, 1e-6, "given as 0.001, lowered to the policy cap 1e-06"),
        (None, 0.75, 1, 0.75, "as given"),
    ],
)
def test_the_delta_that_is_used(cap, given, population, used, says):
    found = DeltaPolicy(cap).choose_delta(given, population=population)
    assert found.delta == used
    assert says in found.rationale
    assert [finding.code for finding in found.findings] == ["delta/too-large"] * (used >= 1 / population)
    numbers = {"delta": used, "one_over_n": 1 / population}
    assert all(dict(finding.values) == numbers for finding in found.findings)


@pytest.mark.parametrize("given", [0.0, 1.0, -1e-9, 2.0, math.nan, math.inf])
def test_a_given_delta_is_a_probability(given):
    for cap in (1e-6, None):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
            DeltaPolicy(cap).choose_delta(given, population=100)


def test_one_unit_leaves_no_room_below_one_over_n():
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 1.0 \(population 1 and no cap\)"):
        DeltaPolicy(None).choose_delta(None, population=1)
    for population in (0, -1, 1.5):
        with pytest.raises(ValueError, match="population must be"):
            DeltaPolicy().choose_delta(None, population=population)


@pytest.mark.parametrize("wrong", [(), (0.0,), (-1.0,), (0.0, 1.0), (1.0, -0.5), (math.nan,), (1.0, math.inf)])
def test_a_strategys_first_column_begins_above_0(wrong):
    with pytest.raises(ValueError, match="coefficients"):
        ToeplitzStrategy(wrong)
    assert ToeplitzStrategy((1.0, 0.0, 0.5)).coefficients == (1.0, 0.0, 0.5)


@pytest.mark.parametrize(
    "wrong", [(), ((1.0, 1.0),), ((1.0,), (1.0,)), ((1.0,), (1.0, 0.0)), ((0.0,),), ((1.0,), (-1.0, 1.0)), ((),)]
)
def test_a_dense_strategy_is_a_triangle_with_a_diagonal_above_0(wrong):
    with pytest.raises(ValueError, match="rows"):
        DenseStrategy(wrong)
    assert DenseStrategy(((1.0,), (0.0, 2.0))).rows == ((1.0,), (0.0, 2.0))
