"""Where a test begins to hold: to the last double, or to the last whole number; and about where a curve meets 0."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

__all__ = ["bisect_doubles", "estimate_root", "find_first_integer", "find_last_integer", "find_safe_root"]

_ATTEMPTS = 10  # by secants, before bisecting
_STRIDE = 16  # doubles from where a test was thought to begin; then as many times more
_FAR_BELOW = -3.0  # of a curve: about where secants end they have not met it
_HALVINGS = 30  # of a place where a curve was seen to be low
_RESOLUTION = 1e-14  # of a root: a bracket that a secant search does not narrow


def bisect_doubles(
    holds: Callable[[float], bool], low: float, high: float, *, near: float | None = None
) -> tuple[float, float]:
    """Narrow ``[low, high]``, 0 or above, to two neighboring doubles between which a test begins to hold.

    The test held at the second, or that is ``high`` as it was; it failed at the first, or that is ``low`` as it was:
    neither end is an inference from the other. Doubles are in the order of their bits, so 64 halvings reach neighbors,
    however small they are; from ``near``, where the test is thought to begin, growing steps look about first.
    """
    first, last = _rank(low), _rank(high)
    middle, step = -1 if near is None else _rank(near), _STRIDE
    while first < middle < last:
        if holds(_double_at_rank(middle)):
            middle, last = middle - step, middle
        else:
            middle, first = middle + step, middle
        if _rank(low) < first and last < _rank(high):
            break
        step *= _STRIDE
    while last - first > 1:
        middle = (first + last) // 2
        if holds(_double_at_rank(middle)):
            last = middle
        else:
            first = middle
    return _double_at_rank(first), _double_at_rank(last)


def find_first_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first whole number above ``low`` at which a test holds that begins to hold somewhere up to ``high``.

    >>> find_first_integer(lambda n: n * n >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def find_last_integer(holds: Callable[[int], bool], *, start: int = 1, low: int = 0, limit: int | None = None) -> int:
    """The largest whole number up to ``limit`` at which a test holds that then ceases to hold; ``low`` if none does.

    ``start`` is tried first, then numbers four times as large, and then halves. What is returned was tried, unless it
    is ``low``, and so was the number above it, unless it is ``limit``.

    >>> find_last_integer(lambda n: n * n < 50), find_last_integer(lambda n: n * n < 50, limit=5)
    (7, 5)
    >>> find_last_integer(lambda n: n < 1)
    0
    """
    high = start
    while (limit is None or high < limit) and holds(high):
        low, high = high, 4 * high
    if limit is not None and high >= limit:
        if holds(limit):
            return limit
        high = limit
    return find_first_integer(lambda number: not holds(number), low, high) - 1


def estimate_root(
    excess: Callable[[float], float], guess: float, slope: float, *, enough: float, attempts: int = 60
) -> float:
    """About where a curve that falls from above 0 meets it, by secants inside a bracket; no bound rests on it.

    Args:
        excess: the curve, at numbers above 0.
        guess: where to look first, above 0.
        slope: about how steep the curve is there, below 0; it is nowhere taken to be flatter than a thousandth of that.
        enough: how near to 0 the curve should come.
        attempts: how often to look.

    >>> round(estimate_root(lambda x: 2 - x * x, 1.0, -1.0, enough=1e-12), 9)
    1.414213562
    """
    low, high, here, flattest = 0.0, math.inf, guess, 1e-3 * slope
    previous: tuple[float, float] | None = None
    for _ in range(attempts):
        value = excess(here)
        low, high = (here, high) if value > 0 else (low, here)
        if abs(value) < enough or high - low <= _RESOLUTION * here:
            break
        if previous is not None and previous[0] != here and previous[1] != value:
            slope = min((value - previous[1]) / (here - previous[0]), flattest)
        previous, following = (here, value), here - value / slope
        if not low < following < high:
            following = (low + high) / 2 if math.isfinite(high) else 2 * here
        here = following
    return here


def find_safe_root(excess: Callable[[float], float], guess: float, *, relative_width: float, most: float) -> float:
    """Return a point, about the least, where a falling curve was found at or below 0; inf if out of reach.

    Args:
        excess: the curve, at numbers above 0.
        guess: where to look first, above 0.
        relative_width: how far above the least place it may be, relatively, about.
        most: how far to look, or to eight times the guess.

    >>> 2.0 <= find_safe_root(lambda x: 4 - x * x, 1.0, relative_width=1e-3, most=100.0) < 2.004
    True
    >>> find_safe_root(lambda x: 1.0, 1.0, relative_width=1e-3, most=100.0)
    inf
    """
    near = estimate_root(excess, guess, -1.0, enough=relative_width, attempts=_ATTEMPTS) * (1 + relative_width)
    low, high, far = near, 2 * near, max(most, 8 * guess)
    if (value := excess(near)) <= 0:
        if value > _FAR_BELOW:
            return near
        low, high = near / 2, near  # the curve falls at once, which secants do not see
        for _ in range(_HALVINGS):
            if excess(low) > 0:
                break
            low, high = low / 2, low
        else:
            return high
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > far:
            return math.inf
    while high > low * (1 + relative_width):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high


def _rank(x: float) -> int:
    """Return how many doubles from 0 on lie below ``x``."""
    return int.from_bytes(struct.pack(">d", x + 0.0), "big")


def _double_at_rank(rank: int) -> float:
    return float(struct.unpack(">d", rank.to_bytes(8, "big"))[0])
