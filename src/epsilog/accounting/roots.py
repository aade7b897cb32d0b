"""Where a test begins to hold: to the last double, or to the last whole number."""

from __future__ import annotations

import struct
from collections.abc import Callable


def bracket(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Narrows ``[low, high]``, 0 or above, to two neighbouring doubles between which a test begins to hold.

    The test held at the second, or that is ``high`` as it was; it failed at the first, or that is ``low`` as it was:
    neither end is an inference from the other. Doubles are in the order of their bits, so 64 halvings reach neighbours,
    however small they are.
    """
    first, last = _rank(low), _rank(high)
    while last - first > 1:
        middle = (first + last) // 2
        if holds(_ranked(middle)):
            last = middle
        else:
            first = middle
    return _ranked(first), _ranked(last)


def first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first whole number above ``low`` at which a test holds that begins to hold somewhere up to ``high``.

    >>> first(lambda n: n * n >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _rank(x: float) -> int:
    """How many doubles from 0 on lie below ``x``."""
    return int.from_bytes(struct.pack(">d", x + 0.0), "big")


def _ranked(rank: int) -> float:
    return float(struct.unpack(">d", rank.to_bytes(8, "big"))[0])
