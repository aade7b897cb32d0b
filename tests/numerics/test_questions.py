"""Bounds: what contradicts itself, or is no number, is no interval."""

from __future__ import annotations

import math

import pytest

from epsilog.numerics.questions import Bounds


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, math.nextafter(1.0, 0.0)), (math.nan, 1.0), (0.0, math.nan), (math.inf, 1e308)]
)
def test_contradicting_bounds_are_an_error_at_birth(lower, upper):
    with pytest.raises(ArithmeticError, match="two proven bounds contradict each other"):
        Bounds(lower, upper)


def test_bounds_meet_where_both_hold():
    assert Bounds(0.0, 2.0).intersect(Bounds(1.0, math.inf)) == Bounds(1.0, 2.0)
    assert Bounds(1.0, 2.0).intersect(Bounds(2.0, 3.0)) == Bounds(2.0, 2.0)
    with pytest.raises(ArithmeticError, match="contradict"):
        Bounds(1.0, 2.0).intersect(Bounds(2.1, 3.0))


@pytest.mark.parametrize(
    ("bounds", "relative_width", "narrow"),
    [
        (Bounds(math.inf, math.inf), 0.1, True),
        (Bounds(0.0, 0.0), 0.1, True),
        (Bounds(1.0, math.inf), 0.1, False),
        (Bounds(0.9, 1.0), 0.11, True),
        (Bounds(0.9, 1.0), 0.09, False),
    ],
)
def test_a_width_is_judged_beside_the_upper_bound(bounds, relative_width, narrow):
    assert bounds.within(relative_width) is narrow
