"""Numbers without round-off: fractions, rounded once, to the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.mechanisms import DiscreteLaplace, Laplace, PureDP, ReportNoisyMax, SparseVector, Staircase
from epsilog.numerics.rounding import rounded
from epsilog.terms import NeighboringRelation


def rounded_sum(numbers: Iterable[tuple[float, int]]) -> float:
    """The sum of numbers from 0 on, each so many times, rounded up once; ``inf`` with an infinite one.

    >>> rounded_sum([(0.1, 3), (0.0, 5)]) >= 0.3, rounded_sum([(1.0, 1), (float("inf"), 2)])
    (True, inf)
    """
    total = Fraction(0)
    for number, count in numbers:
        if number == math.inf:
            return math.inf
        total += Fraction(number) * count
    return rounded(total, up=True)


def pure_loss(bag: Bag, relation: NeighboringRelation) -> Fraction | None:
    """The largest loss of a mix of Laplace noises and pure statements, which simply add up; None if a part is no such.

    Neighbours attain it: with Laplace and staircase noise those a whole sensitivity apart, with a statement those of
    randomized response; with noisy maxima and sparse vectors they come as close as one likes
    (docs/accounting/selection.md).

    >>> pure_loss({Laplace(100.0): 40}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    Fraction(2, 5)
    """
    far = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
    total = Fraction(0)
    for part, count in bag.items():
        match part:
            case Laplace(noise_multiplier=noise) if noise > 0:
                total += count * far / Fraction(noise)
            case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity) if scale > 0:
                total += count * far * sensitivity / Fraction(scale)
            case Staircase(epsilon=epsilon):
                total += count * far * Fraction(epsilon)
            case PureDP(epsilon=epsilon):
                total += count * Fraction(epsilon)
            case ReportNoisyMax():
                total += count * choice_loss(part)
            case SparseVector() if (loss := sparse_vector_loss(part)) is not None:
                total += count * loss
            case _:
                return None
    return total


def choice_loss(release: ReportNoisyMax) -> Fraction:
    """The largest loss of a noisy maximum: what one candidate's noise must make up for, over its scale."""
    return Fraction(release.epsilon) / (2 if release.monotone else 1)


def sparse_vector_loss(release: SparseVector) -> Fraction | None:
    """The largest loss of a sparse vector, None without noise.

    Source:
        Lyu, Su & Li 2017 (arXiv:1603.01699), Section 4; the proof is in docs/accounting/selection.md.

    >>> sparse_vector_loss(SparseVector(2.0, 4.0, positives=3))
    Fraction(2, 1)
    """
    threshold, query = Fraction(release.threshold_noise_multiplier), Fraction(release.query_noise_multiplier)
    if threshold == 0 or query == 0:
        return None
    return 1 / threshold + release.positives * (1 if release.monotone else 2) / query
