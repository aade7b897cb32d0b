"""Counts: of group members in a sample, on few points from above and below; and tails of the binomial distribution.

A mixture of Gaussians loses no less if any of its distances grows (docs/accounting/groups.md). So counts are rounded up
above and down below, to few enough values for a lattice. The rest of the upper tail counts as no privacy above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from epsilog.numerics.distributions.base import Array
from epsilog.numerics.rounding import BOUND, ELEMENTARY, LEAST, ONCE, TINY, gamma, round_down, round_up
from epsilog.terms import check

_LEFT = 1e-100  # of the distribution: each tail that is cut off
_RATIO = 1e-110  # of the likeliest count's chance, where a term is small enough to end at
_WIDEST = 2**21  # counts that are looked at
_MOST = 160  # of them that are kept
_FINE = 0.12  # standard deviations between those kept, about the mean; twice as far away it is twice as much
_ROUNDINGS = 16.0  # of a term by its neighbor
_SUMMED = 2048  # of the distribution that are summed one by one
_EXPONENT = 32  # of 1, in an exponent: what each of its two terms may err by, as a part of it


Ratio = Callable[[Array], Array]  # of the chance of one more to that of each count


class CountDistribution(NamedTuple):
    """A distribution of counts."""

    values: Array  # ascending, above 0, shape (n,)
    chances: Array  # shape (n,)
    rest: float  # the chance of 0
    beyond: float  # an upper bound on the probability of more than all values; 0 in a lower distribution
    roundings: float  # of each chance
    least: float  # the logarithm of the chance of 0 before counts were rounded


def binomial(trials: int, chance: float, *, above: bool) -> CountDistribution | None:
    """Return the distribution of the number of successes; None beyond reach.

    >>> binomial(2, 0.5, above=True).chances.round(3).tolist()
    [0.5, 0.25]
    """
    odds = float(Fraction(chance) / (1 - Fraction(chance)))
    start = min(int((trials + 1) * Fraction(chance)), trials)
    roundings = 8.0

    many = float(trials)

    def up(j: Array) -> Array:
        return (many - j) / (j + 1) * odds

    return _build_counts(up, start, (0, trials), trials * math.log1p(-chance), above=above, roundings=roundings)


def hypergeometric(population: int, marked: int, drawn: int, *, above: bool) -> CountDistribution | None:
    """Return how many of the marked are among those drawn without replacement; None beyond reach.

    >>> hypergeometric(4, 2, 2, above=True).chances.round(3).tolist()
    [0.667, 0.167]
    """
    low, high = max(0, drawn + marked - population), min(drawn, marked)
    start = min(max((drawn + 1) * (marked + 1) // (population + 2), low), high)

    def up(j: Array) -> Array:
        return (marked - j) / (j + 1) * ((drawn - j) / (population - marked - drawn + j + 1.0))

    i = np.arange(min(drawn, marked), dtype=np.float64) if low == 0 and high <= _WIDEST else None
    least = -math.inf if i is None else math.fsum(np.log1p(-max(drawn, marked) / (population - i)).tolist())
    return _build_counts(up, start, (low, high), least, above=above, roundings=16.0)


def compute_upper_quantile(counts: CountDistribution, chance: float) -> int | None:
    """Return the least number that is exceeded with at most this probability; None if unknown.

    >>> compute_upper_quantile(binomial(2, 0.5, above=True), 0.3)
    1
    """
    beyond = (
        np.append(np.cumsum(counts.chances[::-1])[::-1], 0.0) * (1 + gamma(counts.roundings + 4096)) + counts.beyond
    )
    which = np.flatnonzero(beyond <= chance)
    if not len(which):
        return None
    return 0 if which[0] == 0 else int(counts.values[which[0] - 1])


def _build_counts(
    up: Ratio, start: int, ends: tuple[int, int], least: float, *, above: bool, roundings: float
) -> CountDistribution | None:
    """Return the probabilities by their ratios from the mode on; they sum to 1 up to bounded tails."""
    first, terms = _terms(up, start, ends)
    if terms is None:
        return None
    chances = terms / terms.sum()
    values = first + np.arange(len(terms), dtype=np.float64)
    roundings = roundings + (_ROUNDINGS + 2) * len(terms)
    rest = 0.0
    if first == 0:
        rest, values, chances = float(chances[0]), values[1:], chances[1:]
    elif not above:  # what is left of the lower tail counts as none
        rest = _LEFT
    if len(values) == 0:
        values, chances = np.ones(1), np.full(1, LEAST)
    values, chances = _fewer(values, chances, above=above)
    beyond = _LEFT if above and first + len(terms) - 1 < ends[1] else 0.0
    return CountDistribution(values, chances, rest, beyond, roundings, least)


def _terms(up: Ratio, start: int, ends: tuple[int, int]) -> tuple[int, Array | None]:
    """Return chances relative to the likeliest, out to where both tails together are far below what is left."""
    low, high = ends
    reach = 256
    while True:
        a, b = max(start - reach, low), min(start + reach, high)
        rising = np.cumprod(up(np.arange(start, b, dtype=np.float64)))
        falling = np.cumprod(1 / up(np.arange(start - 1, a - 1, -1, dtype=np.float64)))
        done_up = b == high or (len(rising) > 0 and rising[-1] < _RATIO)
        done_down = a == low or (len(falling) > 0 and falling[-1] < _RATIO)
        if done_up and done_down:
            break
        reach *= 4
        if reach > _WIDEST:
            return 0, None
    many, few = int((rising >= _RATIO).sum()) + 1, int((falling >= _RATIO).sum()) + 1
    rising, falling = rising[:many], falling[:few]
    terms = np.concatenate((falling[::-1], [1.0], rising))
    return start - len(falling), terms


def _fewer(values: Array, chances: Array, *, above: bool) -> tuple[Array, Array]:
    """Return the same on few values, each rounded up, or down."""
    if len(values) <= _MOST:
        return values, chances
    mean = float(chances @ values) / float(chances.sum())
    spread = math.sqrt(float(chances @ (values - mean) ** 2) / float(chances.sum()))
    scaled = np.arcsinh((values - mean) / (4 * spread)) * 4
    cell = np.floor((scaled - scaled[0]) / _FINE).astype(np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(cell) > 0))
    sums = np.add.reduceat(chances, starts)
    last = np.append(starts[1:] - 1, len(values) - 1)
    return values[last if above else starts], sums


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
    i = np.arange(min(n - k, _SUMMED), dtype=np.float64)
    factors = outwards((float(n - k) - i) / (float(k + 1) + i) * float(p / (1 - p)), 6)
    series, terms = 1.0, np.cumprod(factors)
    if above and n - k > _SUMMED:  # what follows the last of them
        left = 1 - float(factors[-1])
        if left <= 0:
            return 1.0
        series += float(terms[-1]) * (1 / left - 1)
    series += float(terms.sum())
    return min(max(outwards(largest * series, 16 + 2 * len(i)) + sign * LEAST, 0.0), 1.0)


def _off(exponent: float, terms: float, sign: int) -> float:
    """Return an exponent moved outwards by what rounding can have made of its terms."""
    return exponent + sign * (BOUND + (abs(exponent) + terms) * _EXPONENT * 2.0**-53)
