"""An interval is two numbers: it prints both, each rounded to its own side, and is never taken for one."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from epsilog.terms import CheckError, Interval, NeighboringRelation

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
FOUND = Interval(1.2341, 1.2349, "a method", RELATION)


@pytest.mark.parametrize(
    "mistake",
    [
        float,
        lambda i: i < 5,
        lambda i: i <= 5,
        lambda i: i > 5,
        lambda i: i >= 5,
        lambda i: max(i, i),
        lambda i: min(5, i),
    ],
)
def test_it_says_what_to_use_where_one_number_is_wanted(mistake):
    with pytest.raises(TypeError, match=r"use \.upper .* or \.lower"):
        mistake(FOUND)


def test_formats_round_outwards():
    assert (f"{FOUND:.2f}", f"{FOUND:.3g}", f"{FOUND}") == ("[1.23, 1.24]", "[1.23, 1.24]", str(FOUND))
    endless = Interval(0.0, math.inf, "a method", RELATION)
    assert (f"{endless:.2f}", f"{endless:.3g}") == ("[0.00, inf]", "[0, inf]")
    for spec in ("d", ">10", ".2", ".2e", "10.2f"):
        with pytest.raises(ValueError, match="must be like"):
            format(FOUND, spec)


@pytest.mark.slow
@given(st.floats(0, 1e300), st.floats(0, 1e300), st.integers(0, 20), st.sampled_from("fg"))
def test_what_is_printed_holds_what_is_bounded(one, other, digits, kind):
    lower, upper = sorted((one, other))
    low, high = f"{Interval(lower, upper, 'm', RELATION):.{digits}{kind}}".strip("[]").split(", ")
    assert float(low) <= lower
    assert float(high) >= upper


@given(st.decimals(0, 10**6, places=3) | st.fractions(0, 10**6))
def test_bounds_hold_a_number_that_no_double_holds(value):
    found = Interval(value, value, "a method", RELATION)
    assert Fraction(found.lower) <= Fraction(value) <= Fraction(found.upper)
    assert found.upper <= math.nextafter(found.lower, math.inf)


@pytest.mark.parametrize("pair", [("delta",), ("delta", 1.0, 2.0), "delta", 1.0])
def test_what_is_given_is_a_list_of_pairs(pair):
    with pytest.raises(CheckError, match=r"given\[0\] must be a pair"):
        replace(FOUND, given=(pair,))
