"""Upper bounds on tails of the binomial distribution."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from epsilog.numerics.rounding import BOUND, ELEMENTARY, LEAST, ONCE, TINY, round_down, round_up
from epsilog.terms import check

_TERMS = 2048  # of the distribution that are summed one by one
_ROUNDINGS = 32  # of 1, in an exponent: what each of its two terms may err by, as a part of it


def binomial_tail(trials: int, chance: float, most: int) -> float:
    """Bound from above the chance that more than ``most`` of ``trials`` independent coins of ``chance`` fall.

    By Stirling's formula the binomial term at k = most + 1 is sqrt(n / (2 pi k (n - k))) e^(-n KL(k / n, p)), with a
    bounded error. Each further one is (n - j) p / ((j + 1) (1 - p)) times the one at j before, a falling factor. A
    fixed number of terms is summed; the rest is at most a geometric series. If ``most`` is below the mean, the same
    number of terms bounds the other tail from below.

    Args:
        trials: how many coins there are.
        chance: that one falls, in [0, 1].
        most: a number, -1 or more, that is exceeded.

    Raises:
        CheckError: an argument is out of bounds.

    Source:
        Robbins 1955, A Remark on Stirling's Formula, which bounds n! from both sides.

    >>> from math import comb
    >>> exact = sum(comb(100, k) for k in range(71, 101)) / 2**100
    >>> exact < binomial_tail(100, 0.5, 70) < 1.01 * exact
    True
    """
    trials, most = check.integer(0)(trials=trials), check.integer(-1)(most=most)
    chance = check.in_closed_interval(0, 1, check.UP)(chance=chance)
    k, n, p = most + 1, trials, Fraction(max(chance, TINY))  # a larger chance falls no less often
    if k > n or chance == 0:
        return 0.0
    if chance == 1:
        return 1.0
    if k > (n + 1) * p:
        return _beyond(n, k, p, above=True)
    return min(round_up(1 - _beyond(n, n - k + 1, 1 - p, above=False), ONCE), 1.0)


def _beyond(n: int, k: int, p: Fraction, *, above: bool) -> float:
    """Bound the chance of k or more of n coins from one side, for k about the mean or beyond it."""
    if k > n:
        return 0.0
    outwards, sign = (round_up, 1) if above else (round_down, -1)
    if k == n:
        exponent = n * (math.log1p(-float(1 - p)) if p > Fraction(1, 2) else math.log(p))  # no digit cancels near 1
        return min(max(outwards(math.exp(_off(exponent, n, sign)), ELEMENTARY) + sign * LEAST, 0.0), 1.0)
    beyond = k - n * p  # exact: the two terms nearly cancel where k is near the mean
    gains, losses = k * math.log1p(float(beyond / (n * p))), (n - k) * math.log1p(float(-beyond / (n * (1 - p))))
    over, under = (0, 1) if above else (1, 0)
    stirling = 1 / (12 * n + over) - 1 / (12 * k + under) - 1 / (12 * (n - k) + under)
    largest = math.exp(_off(stirling - (gains + losses), abs(gains) + abs(losses), sign))
    largest *= math.sqrt(n / (2 * math.pi * k)) / math.sqrt(n - k)
    i = np.arange(min(n - k, _TERMS), dtype=np.float64)
    factors = outwards((float(n - k) - i) / (float(k + 1) + i) * float(p / (1 - p)), 6)
    series, terms = 1.0, np.cumprod(factors)
    if above and n - k > _TERMS:  # what follows the last of them
        left = 1 - float(factors[-1])
        if left <= 0:
            return 1.0
        series += float(terms[-1]) * (1 / left - 1)
    series += float(terms.sum())
    return min(max(outwards(largest * series, 16 + 2 * len(i)) + sign * LEAST, 0.0), 1.0)


def _off(exponent: float, terms: float, sign: int) -> float:
    """Return an exponent moved outwards by what rounding can have made of its terms."""
    return exponent + sign * (BOUND + (abs(exponent) + terms) * _ROUNDINGS * 2.0**-53)
