"""Exact discrete noise for counts that are shown to people: whole numbers and coins, no floating point on the way.

Floating-point noise leaks the answer through its low bits (Mironov 2012); these samplers draw from their laws exactly,
from the operating system's randomness. They are not constant-time: how long a draw takes tells something of its size.

Source: Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), algorithms 1 to 3.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

from epsilog.terms import DiscreteGaussian, DiscreteLaplace, check

__all__ = ["RandBelow", "discrete_gaussian", "discrete_laplace", "exp_coin", "noisy_count"]

RandBelow = Callable[[int], int]  # n to a whole number that is uniform over 0 .. n - 1


def noisy_count(
    count: int, release: DiscreteGaussian | DiscreteLaplace, *, below: RandBelow = secrets.randbelow
) -> int:
    """Adds the noise that a release describes to a count.

    Args:
        count: the true count; it was charged as ``release`` before.
        release: which noise; without any (scale 0) the count itself comes back, and no budget would have borne it.
        below: where randomness comes from; anything but the default is a simulation.

    >>> import random
    >>> noisy_count(100, DiscreteLaplace(noise_scale=2.0), below=random.Random(1).randrange)
    98
    """
    count = check.integer(-check.LARGEST_INTEGER)(count=count)
    check.instance((DiscreteGaussian, DiscreteLaplace))(release=release)
    if isinstance(release, DiscreteLaplace):
        return count + (discrete_laplace(release.noise_scale, below=below) if release.noise_scale else 0)
    return count + (discrete_gaussian(release.noise_stddev, below=below) if release.noise_stddev else 0)


def discrete_laplace(noise_scale: float | Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Draws k with probability proportional to exp(-abs(k) / noise_scale).

    Args:
        noise_scale: the law's parameter b, above 0; a float stands for the binary number that it is.
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
    """Draws k with probability proportional to exp(-k^2 / (2 noise_stddev^2)).

    Args:
        noise_stddev: the law's parameter sigma, above 0; a float stands for the binary number that it is.
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


def _exactly(**named: object) -> Fraction:
    """The number as it is, without rounding; above 0."""
    check.positive()(**named)
    return check.ratio()(**named)


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
