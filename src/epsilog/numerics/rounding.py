"""Named allowances for rounding: what the proofs take from floating-point arithmetic, each with its bound and source.

Doubles are rounded to nearest: an operation on doubles returns its exact result times 1 + d, abs(d) <= u, unless that
falls below the normal numbers. So n roundings, in products and quotients alike, give a relative error of at most
gamma_n = n u / (1 - n u), relative to either number (Higham 2002, Lemma 3.1). A library function counts as the
roundings that it may err by. A sum of n terms errs by gamma_n of the sum of their sizes, in any order (section 4.2).
The terms for errors, and the proof or measurement of each allowance: docs/accounting/rounding.md. Arrays are rounded as
numbers are. NumPy is loaded only for them, since descriptions of releases round, too.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable
from fractions import Fraction

__all__ = ["ELEMENTARY", "MU", "PLANNED", "round_down", "round_outward", "round_up"]

if typing.TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Number = typing.TypeVar("Number", float, "npt.NDArray[np.float64]")

UNIT = 2.0**-53
"""The unit round-off u of doubles."""

LEAST = 5e-324
"""The least double above 0: what underflows to 0 is below it."""

UNDERFLOW = 256 * LEAST
"""More than a few products and quotients lose below the normal numbers, if none of them makes a loss grow."""

ONCE, TWICE = 1, 2
"""Roundings in one operation, and in a product and a sum, or the like."""

ELEMENTARY = 4
"""Roundings in ``exp``, ``expm1``, ``log``, ``log1p``, ``sin``, ``cos`` and ``arctan2``, NumPy's and libm's."""

ERFCX = 16
"""Roundings in SciPy's ``erfcx`` from 0 on: measured below 8."""

MU = 8
"""Roundings in a mu: quotients, products and roots, and two for ``hypot``; docs/accounting/rounding.md, 4."""

UNION = 2 + 2 * ELEMENTARY
"""Roundings in ``union_probability``: a product and a sum, ``log1p`` and ``expm1``."""

RATIO = 8
"""Roundings in the ratio of an atom, a largest loss included: docs/accounting/certified-bounds.md, 1.6."""

LOSS = 14
"""Roundings in a sampled loss, beyond what those of its ratio amount to: docs/accounting/certified-bounds.md, 2."""

TINY = 1e-300
"""A substitute for 0 in a divisor or a logarithm; any number added or compared to it is far above it."""

SECOND_ORDER = 1.01
"""A factor on sums of error bounds: for products of two errors, and for the roundings of the bounds themselves."""

BOUND = 1e-9
"""The error of a logarithm of an error bound: far above its roundings, and negligible against SECOND_ORDER."""

PLANNED = 1e-12
"""A part by which planned noise is larger than its formula says: far above its roundings; rounding.md, 4."""


def gamma(roundings: Number) -> Number:
    """Return the relative error of ``roundings`` roundings, gamma_n = n u / (1 - n u); infinite from n u = 1 on.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd edition, Lemma 3.1.

    >>> gamma(4) == 4 * UNIT
    False
    >>> gamma(2.0**53)
    inf
    """
    if isinstance(roundings, (float, int)):
        part = roundings * UNIT
        return part / (1 - part) if part < 1 else math.inf
    import numpy as np

    with np.errstate(divide="ignore"):
        return np.asarray(roundings * UNIT / np.maximum(1 - roundings * UNIT, 0.0))


def round_up(number: Number, roundings: float) -> Number:
    """At least what ``roundings`` roundings can have made ``number`` of; 0 stays 0, and infinite numbers stay.

    The two roundings in here are counted. It knows nothing of underflow: where a factor may have fallen below the
    normal numbers, ``UNDERFLOW`` is added.

    >>> round_up(1.0, 2) == 1 + 4 * UNIT, round_up(-1.0, 2) == -1 + 4 * UNIT
    (True, True)
    """
    return _move(number, gamma(roundings + 2.0))


def round_down(number: Number, roundings: float) -> Number:
    """At most what ``roundings`` roundings can have made ``number`` of; the mirror image of ``round_up``.

    >>> round_down(1.0, 2) == 1 - 4 * UNIT, round_down(0.0, 100)
    (True, 0.0)
    """
    return _move(number, -gamma(roundings + 2.0))


def union_probability(chances: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the least and the most chance that something happens in at least one of independent rounds.

    It is 1 - prod (1 - p)^n over (p, n): off by ``UNION`` roundings, and below the normal numbers by ``LEAST``.

    >>> union_probability([(0.0, 10)]), union_probability([(1.0, 1), (0.5, 2)])
    ((0.0, 0.0), (1.0, 1.0))
    >>> least, most = union_probability([(0.5, 2)])
    >>> least < 0.75 < most < least + 1e-14
    True
    """
    chances = [(chance, count) for chance, count in chances if chance and count]
    if not chances:
        return 0.0, 0.0
    if any(chance >= 1 for chance, _ in chances):
        return 1.0, 1.0
    found = -math.expm1(math.fsum(count * math.log1p(-chance) for chance, count in chances))
    return max(round_down(found, UNION) - LEAST, 0.0), min(round_up(found, UNION) + LEAST, 1.0)


def _move(number: Number, by: float) -> Number:
    """A number moved up (or down, if ``by`` is negative) by a part of itself."""
    if isinstance(number, (float, int)):
        return number * (1 - by if number < 0 else 1 + by)
    import numpy as np

    with np.errstate(over="ignore"):  # next to the largest double: infinity is above it
        return np.asarray(number * np.where(number < 0, 1 - by, 1 + by))


def round_outward(number: Fraction, *, up: bool) -> float:
    """Return the nearest double that is not below (or not above) a number from 0 on.

    >>> round_outward(Fraction(2, 5), up=True), round_outward(Fraction(2, 5), up=False) < 0.4
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
    """Sum numbers from 0 on with their counts, rounded up once; ``inf`` with an infinite one.

    >>> rounded_sum([(0.1, 3), (0.0, 5)]) >= 0.3, rounded_sum([(1.0, 1), (float("inf"), 2)])
    (True, inf)
    """
    total = Fraction(0)
    for number, count in numbers:
        if number == math.inf:
            return math.inf
        total += Fraction(number) * count
    return round_outward(total, up=True)
