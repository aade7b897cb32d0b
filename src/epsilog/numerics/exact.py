"""Numbers without round-off: fractions, rounded once, to the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction


def rounded(number: Fraction, *, up: bool) -> float:
    """The nearest double that is not below (or not above) a number from 0 on.

    >>> rounded(Fraction(2, 5), up=True), rounded(Fraction(2, 5), up=False) < 0.4
    (0.4, True)
    """
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if up else math.nextafter(math.inf, 0.0)
    if up:
        return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, 0.0)


def rounded_sum(numbers: Iterable[tuple[float, int]]) -> float:
    """The sum of numbers from 0 on, each so many times, rounded up once; ``inf`` with an infinite one.

    >>> rounded_sum([(0.1, 3), (0.0, 5)]) >= 0.3, rounded_sum([(1.0, 1), (float("inf"), 2)])
    (True, inf)
    """
    total = Fraction(0)
    for number, count in numbers:
        if number == math.inf:
            return math.inf
        total += Fraction(number) * count
    return rounded(total, up=True)
