"""Exact samplers, shared by the ``sample`` hooks: whole numbers and coins, no floating point on the way.

Floating-point noise leaks the answer through its low bits (Mironov 2012). These samplers draw exactly from their
distributions, with the operating system's randomness. They are not constant-time: the duration of a draw reveals
something about its size.

Source: Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), algorithms 1 to 3; for rounded normal variables, Karney 2016
(arXiv:1303.6257), algorithm N.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

from epsilog.terms import check

RandBelow = Callable[[int], int]  # n to a whole number that is uniform over 0 .. n - 1


def discrete_laplace(noise_scale: float | Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Draw k with probability proportional to exp(-abs(k) / noise_scale).

    Args:
        noise_scale: the parameter b of the distribution, above 0; a float means its exact binary value.
        below: where randomness comes from.

    Source:
        Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), algorithm 2, with b = t / s.
    """
    t, s = _exactly(noise_scale=noise_scale).as_integer_ratio()
    while True:
        u = below(t)
        if not exp_coin(u, t, below):
            continue
        v = 0
        while exp_coin(1, 1, below):
            v += 1
        magnitude = (u + t * v) // s
        negative = below(2) == 1
        if not (negative and magnitude == 0):  # else zero would come up twice as often
            return -magnitude if negative else magnitude


def discrete_gaussian(noise_stddev: float | Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Draw k with probability proportional to exp(-k^2 / (2 noise_stddev^2)).

    Args:
        noise_stddev: the parameter sigma of the distribution, above 0; a float means its exact binary value.
        below: where randomness comes from.

    Source:
        Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), algorithm 3.
    """
    stddev = _exactly(noise_stddev=noise_stddev)
    variance, t = stddev**2, math.floor(stddev) + 1
    while True:
        candidate = discrete_laplace(Fraction(t), below=below)
        exponent = (abs(candidate) - variance / t) ** 2 / (2 * variance)
        if exp_coin(*exponent.as_integer_ratio(), below):
            return candidate


def rounded_gaussian(noise_stddev: float | Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Draw from the normal distribution with this standard deviation, and round to the nearest integer.

    A whole number with this noise is what the Gaussian mechanism gives, rounded: every guarantee of that holds for it.

    Args:
        noise_stddev: the parameter sigma of the distribution, above 0; a float means its exact binary value.
        below: where randomness comes from.

    Source:
        Karney 2016 (arXiv:1303.6257), algorithm N: k has a weight of exp(-k^2 / 2), and x is uniform over (0, 1).
        Accept x with probability exp(-x (2 k + x) / 2); then k + x is a half-normal deviate.
    """
    stddev = _exactly(noise_stddev=noise_stddev)
    while True:
        k = 0
        while exp_coin(1, 2, below):
            k += 1
        if not exp_coin(k * (k - 1), 2, below):  # with the k coins above: exp(-k^2 / 2)
            continue
        x = _Unfolding(below)
        if all(_exp_coin_of(x, k, below) for _ in range(k + 1)):
            break
    while True:
        low, high = stddev * (k + x.low) + Fraction(1, 2), stddev * (k + x.high) + Fraction(1, 2)
        magnitude = math.floor(low)
        if high <= magnitude + 1:
            return -magnitude if below(2) else magnitude
        x.unfold()


class _Unfolding:
    """A uniform number over (0, 1) with digits drawn on demand.

    Attributes:
        low: it is no less.
        high: it is below.
    """

    def __init__(self, below: RandBelow) -> None:
        self._below, self._digits, self._scale = below, 0, 1
        self.unfold()

    def unfold(self) -> None:
        """Draw 32 binary digits more."""
        self._digits, self._scale = (self._digits << 32) + self._below(1 << 32), self._scale << 32
        self.low, self.high = Fraction(self._digits, self._scale), Fraction(self._digits + 1, self._scale)


def _exp_coin_of(x: _Unfolding, k: int, below: RandBelow) -> bool:
    """Return True with probability exp(-x (2 k + x) / (2 k + 2)): ``exp_coin`` with digits drawn on demand."""
    j = 1
    while _falls_below(x, k, (2 * k + 2) * j, below):
        j += 1
    return j % 2 == 1


def _falls_below(x: _Unfolding, k: int, divisor: int, below: RandBelow) -> bool:
    """Return whether a uniform number is below x (2 k + x) / divisor; as many digits are drawn of both as it takes."""
    u = _Unfolding(below)
    while True:
        if u.high * divisor <= x.low * (2 * k + x.low):
            return True
        if u.low * divisor >= x.high * (2 * k + x.high):
            return False
        u.unfold()
        x.unfold()


def _exactly(**named: object) -> Fraction:
    """Return the number as it is, without rounding; above 0."""
    check.positive(check.DOWN)(**named)
    return check.exact_rational()(**named)


def negative_binomial(shape: Fraction, stops: Fraction, below: RandBelow) -> int:
    """Draw from the negative binomial distribution on positive integers.

    Source:
        Rejection without a normalizing constant. For shapes up to 1 the weights are (1 - stops)^k prod (l + shape) / (l
        + 1), and each further trial takes one coin. Larger shapes are sums of such draws.
    """
    if shape <= 1:
        return _short_negative_binomial(shape, stops, 1, below)
    parts = math.ceil(shape)
    while True:  # truncated: a sum of 0 is drawn again
        found = sum(_short_negative_binomial(shape / parts, stops, 0, below) for _ in range(parts))
        if found:
            return found


def _short_negative_binomial(shape: Fraction, stops: Fraction, least: int, below: RandBelow) -> int:
    """Draw for a shape up to 1, on integers from 0 or 1 on."""
    count = least
    while True:
        if coin(stops, below):
            return count
        if not coin((count + shape) / (count + 1), below):
            count = least
        else:
            count += 1


def poisson(mean: float, below: RandBelow) -> int:
    """Draw from a Poisson distribution, as a sum of Poisson draws with means up to 1.

    Source:
        Rejection: k is proposed with the chance 2^(-k - 1), and kept with that of (2 mean)^k / (2 k!), which is at most
        1.
    """
    parts = math.ceil(mean)
    return sum(_poisson(Fraction(mean) / parts, below) for _ in range(parts))


def _poisson(mean: Fraction, below: RandBelow) -> int:
    while True:
        count = 0
        while below(2):
            count += 1
        if coin((2 * mean) ** count / (2 * math.factorial(count)), below):
            return count


def coin(chance: Fraction, below: RandBelow) -> bool:
    """True with that probability."""
    return below(chance.denominator) < chance.numerator


def exp_coin(numerator: int, denominator: int, below: RandBelow) -> bool:
    """True with probability exp(-numerator / denominator): algorithm 1 of the same paper.

    >>> exp_coin(0, 1, secrets.randbelow)
    True
    """
    while numerator > denominator:
        if not exp_coin(1, 1, below):
            return False
        numerator -= denominator
    k = 1
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
