"""The number of group members in a sample: count distributions on few points, from above and from below.

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
from epsilog.numerics.rounding import LEAST, gamma

_LEFT = 1e-100  # of the distribution: each tail that is cut off
_RATIO = 1e-110  # of the likeliest count's chance, where a term is small enough to end at
_WIDEST = 2**21  # counts that are looked at
_MOST = 160  # of them that are kept
_FINE = 0.12  # standard deviations between those kept, about the mean; twice as far away it is twice as much
_ROUNDINGS = 16.0  # of a term by its neighbor


Ratio = Callable[[Array], Array]  # of the chance of one more to that of each count


class CountDistribution(NamedTuple):
    """A distribution of counts.

    Attributes:
        values: ascending, above 0, shape (n,).
        chances: shape (n,).
        rest: the chance of 0.
        beyond: an upper bound on the probability of more than all values; 0 in a lower distribution.
        roundings: of each chance.
        least: the logarithm of the chance of 0 before counts were rounded.
    """

    values: Array
    chances: Array
    rest: float
    beyond: float
    roundings: float
    least: float


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
