"""Truncated samples taken apart: a run whose samples were never cut, and the chance that any of them was.

Whether a sample is cut depends on coins alone. Drawn with the same coins, a run that truncates and one that does not
show the same unless some sample is too large, which has at most the chance c under either of two neighbours. So their
deltas differ by at most c (1 + e^epsilon), whichever units a cut leaves out, and whatever earlier outputs steer: Chua
et al. 2024 (arXiv:2411.04205), Theorem 3.3; docs/accounting/certified-bounds.md, 1.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.flatten import Bag
from epsilog.accounting.rounding import BOUND, ELEMENTARY, LEAST, down, union, up
from epsilog.terms import PoissonSampled, Release, TruncatedPoissonSampled

_ATTEMPTS = 64  # to find an epsilon whose own share of delta leaves enough for it
_TERMS = 2048  # of a binomial law that are summed one by one
_NUDGE = 1e-4  # by which an epsilon is tried above the last one, as a part of it
_ROUNDINGS = 32  # of 1, in an exponent: what each of its two terms may err by, as a part of it


@dataclass(frozen=True, slots=True)
class Cut:
    """The chance that any sample of a run is cut, bounded from above.

    Attributes:
        chance: at most this, for either of two neighbours.
    """

    chance: float

    def spends(self, epsilon: float) -> float:
        """Bounds from above what truncating may add to delta at ``epsilon``, or take away: c (1 + e^epsilon)."""
        if epsilon > 700:
            return math.inf
        return up(self.chance * (1 + math.exp(epsilon)), 2 + ELEMENTARY) + LEAST

    def beside(self, rest: Bounds, epsilon: float) -> Bounds:
        """Bounds delta at ``epsilon`` from bounds on that of the run without truncation."""
        spent = self.spends(epsilon)
        return Bounds(max(down(rest.lower - spent, 1), 0.0), min(up(rest.upper + spent, 1), 1.0))

    def epsilon(self, delta: float, rest: Callable[[float], Bounds], *, above: bool) -> Bounds:
        """Bounds epsilon at ``delta``; ``rest`` bounds that of the run without truncation.

        From above: where ``rest`` proves x at delta - c (1 + e^y) for some y >= x, the delta at x is at most
        ``delta``. From below, by the same: no epsilon under what ``rest`` proves at delta + c (1 + e^y), y being an
        upper bound, has a delta that small.
        """
        upper, tried = math.inf, rest(delta).upper
        for _ in range(_ATTEMPTS):
            tried += _NUDGE * max(tried, _NUDGE)
            left = down(delta - self.spends(tried), 1)
            if not left > 0:
                break
            found = rest(left).upper
            if found <= tried:
                upper = found
                break
            tried = found
        more = up(delta + self.spends(upper), 1)
        lower = rest(more).lower if more < 1 and not above else 0.0
        return Bounds(min(lower, upper), upper)


def untruncated(bag: Bag) -> tuple[Bag, Cut] | None:
    """A mix whose Poisson samples are not cut, and the chance that any is; None where nothing is cut anyway.

    >>> from epsilog.terms import Gaussian
    >>> untruncated({TruncatedPoissonSampled(Gaussian(1.0), 0.01, population=1000, largest_batch=40): 5})
    ... # doctest: +ELLIPSIS
    ({PoissonSampled(...): 5}, Cut(chance=5.503...e-13))
    """
    cuts: list[tuple[float, int]] = []
    rest: dict[Release, int] = {}
    for part, count in bag.items():
        one: Release = part
        if isinstance(part, TruncatedPoissonSampled):
            one = PoissonSampled(part.release, part.sampling_probability)
            cuts.append((binomial_above(part.population, part.sampling_probability, part.largest_batch), count))
        rest[one] = rest.get(one, 0) + count
    return (rest, Cut(union(cuts)[1])) if cuts else None


def binomial_above(trials: int, chance: float, most: int) -> float:
    """Bounds from above the chance that more than ``most`` of ``trials`` independent coins of ``chance`` fall.

    The term of the binomial law at k = most + 1 is sqrt(n / (2 pi k (n - k))) e^(-n KL(k / n, p)) but for what
    Stirling's formula leaves. Each further one is (n - j) p / ((j + 1) (1 - p)) times the one at j before, a falling
    factor: so many are summed, and what follows is at most a geometric series. Where ``most`` is below the mean, the
    other tail is bounded from below, by as many terms.

    Source:
        Robbins 1955, A Remark on Stirling's Formula, which bounds n! from both sides.

    >>> from math import comb
    >>> exact = sum(comb(100, k) for k in range(71, 101)) / 2**100
    >>> exact < binomial_above(100, 0.5, 70) < 1.01 * exact
    True
    """
    k, n, p = most + 1, trials, Fraction(chance)
    if k > n or chance == 0:
        return 0.0
    if chance == 1:
        return 1.0
    if k > (n + 1) * p:
        return _beyond(n, k, p, above=True)
    return min(up(1 - _beyond(n, n - k + 1, 1 - p, above=False), 1), 1.0)


def _beyond(n: int, k: int, p: Fraction, *, above: bool) -> float:
    """Bounds the chance of k or more of n coins from one side, for k about the mean or beyond it."""
    if k > n:
        return 0.0
    outwards, sign = (up, 1) if above else (down, -1)
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
    """An exponent moved outwards by what rounding can have made of its terms."""
    return exponent + sign * (BOUND + (abs(exponent) + terms) * _ROUNDINGS * 2.0**-53)
