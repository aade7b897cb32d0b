"""The interface to Arb: balls that hold the exact value, and the two exits from them, each to the safe side.

A ball is a number with a bound on how far off it is; every operation of Arb keeps the exact value inside (Johansson
2017, arXiv:1611.02831). A ball that has become infinite or no number holds everything: what is read from it is the
largest value there is, and a comparison with it never holds.
"""

from __future__ import annotations

import math
from fractions import Fraction

from epsilog.numerics.rounding import round_outward
from epsilog.terms import EpsilogError
from epsilog.terms.extras import install_command

try:
    from flint import acb, acb_mat, arb, ctx, fmpq
except ImportError as error:
    raise EpsilogError(
        f"ball arithmetic needs the extra `rigorous`: {install_command('rigorous')} ({error})"
    ) from error

__all__ = [
    "acb",
    "acb_mat",
    "arb",
    "ctx",
    "error_ball",
    "hull",
    "is_at_most",
    "make_ball",
    "midpoint",
    "normal_tail",
    "probability_of_none",
    "square_ball",
    "upper_double",
]

Number = int | float | Fraction


def make_ball(number: Number) -> arb:
    """The ball of one number, which is taken as it is: a double is a fraction with a power of two below the line.

    >>> str(make_ball(Fraction(1, 4)))
    '0.250000000000000'
    """
    if isinstance(number, Fraction):
        return arb(fmpq(number.numerator, number.denominator))
    return arb(number)


def upper_double(value: arb) -> float:
    """Return a double from 0 on that is proven to be at or above ``value``; ``inf`` if none is.

    >>> upper_double(make_ball(Fraction(1, 3))) >= Fraction(1, 3), upper_double(arb.nan())
    (True, inf)
    """
    most = value.upper()
    if not bool(most < 1e308):  # NaN and infinity included
        return math.inf
    if bool(most <= 1e-300):
        return 1e-300 if bool(most > 0) else 0.0
    mantissa, exponent = most.man_exp()
    return round_outward(Fraction(int(mantissa)) * Fraction(2) ** int(exponent), up=True)


def is_at_most(value: arb, bound: Number) -> bool:
    """Whether ``value`` is proven to be at most ``bound``.

    >>> is_at_most(arb.nan(), 1.0), is_at_most(make_ball(1), 1), is_at_most(arb(1, 1e-9), 1)
    (False, True, False)
    """
    return bool(value.is_finite()) and bool(value <= make_ball(bound))


def hull(low: arb, high: arb) -> arb:
    """Return a ball that contains everything between two."""
    return low.union(high)


def error_ball(value: arb) -> arb:
    """A ball around 0 that holds all that is at most as far from it as ``value``, which bounds an error."""
    return arb(0, value.abs_upper())


def probability_of_none(infinite: arb, count: int) -> arb:
    """The chance that what has the chance ``infinite`` happens in none of ``count`` rounds."""
    if infinite.is_zero():
        return arb(1)
    left = 1 - infinite
    return (count * left.log()).exp() if bool(left > 0) else hull(arb(0), left.max(arb(0)))


def square_ball(value: arb) -> arb:
    """The square, also of what may be 0."""
    return value * value


def midpoint(value: arb) -> float:
    """About ``value``: for plans, which prove nothing."""
    return float(value.mid())


def normal_tail(x: arb) -> arb:
    """Return the probability that a standard normal exceeds ``x``."""
    return (x / arb(2).sqrt()).erfc() / 2
