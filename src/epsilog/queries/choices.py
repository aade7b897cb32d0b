"""Choices out of several counts: the largest by permute-and-flip, and the first above a threshold by sparse vector.

Permute-and-flip visits the candidates in random order and selects the first that a coin accepts, with probability
exp(-(best - score) / scale). This is the report-noisy-max mechanism with exponential noise of that scale. Let a
neighboring data set change the difference of any two scores by at most ``bound_difference_shift``. Then the threshold
for the noise of one candidate changes by no more, and every probability by at most a factor exp(spread / scale).
McKenna & Sheldon 2020 (arXiv:2010.12603) for permute-and-flip; Ding et al. 2021 (arXiv:2105.07260) for the equivalence.

Sparse vector adds one draw of noise to the threshold and one to each count in turn, all from one distribution. It
releases the index of the first noisy count that reaches the noisy threshold. The counts before it cost nothing. Proof,
for discrete Laplace noise of scale b and whole counts (after Dwork & Roth 2014, Theorem 3.23). Fix the noise of the
counts before the k-th, and let g be the largest of these noisy counts. The answer is k if the noisy threshold is above
g and at most the noisy k-th count. A neighboring data set changes every count by at most m. So it changes g by some d
with abs(d) <= m, and the k-th count by c. Shift the noise of the threshold by d and that of the k-th count by d - c.
The answer stays the same, and its probability changes by at most a factor exp((abs(d) + abs(d - c)) / b). If a unit is
added, removed or zeroed out, all counts change in one direction. Then abs(d - c) <= m, and the sum is at most 2 m. If a
unit is replaced, abs(d - c) <= 2 m, and the sum is at most 3 m. If no count reaches the threshold, the shift of the
threshold suffices.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction

from epsilog.mechanisms.sampling import RandBelow, discrete_laplace, exp_coin
from epsilog.terms import NeighboringRelation

__all__ = ["bound_difference_shift", "bound_threshold_shift", "find_first_above", "sample_permute_and_flip"]


def bound_difference_shift(rows: int, relation: NeighboringRelation) -> int:
    """Bound the change of the difference of two counts, if a unit has at most ``rows`` rows.

    An added or removed unit changes all counts in one direction. A replaced unit may lower one and raise another.
    """
    return 2 * rows if relation is NeighboringRelation.REPLACE_ONE else rows


def sample_permute_and_flip(scores: Sequence[int], scale: Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Return the index of a score that is approximately the largest.

    Args:
        scores: whole numbers, one per candidate; at least one.
        scale: of the noise, above 0, in the unit of the scores.
        below: source of randomness; anything but the default makes this a simulation.

    >>> import random
    >>> sample_permute_and_flip([3, 50, 4], Fraction(2), below=random.Random(1).randrange)
    1
    """
    best, left = max(scores), list(range(len(scores)))
    while True:  # ends, since the coin of the best score always shows heads
        place = left.pop(below(len(left)))
        if exp_coin(*(Fraction(best - scores[place]) / scale).as_integer_ratio(), below):
            return place


def bound_threshold_shift(rows: int, relation: NeighboringRelation) -> int:
    """Bound the sum of the shifts of both draws in the proof, if a unit has at most ``rows`` rows."""
    return (3 if relation is NeighboringRelation.REPLACE_ONE else 2) * rows


def find_first_above(
    counts: Sequence[int], threshold: int, scale: Fraction, *, below: RandBelow = secrets.randbelow
) -> int | None:
    """Return the index of the first count that approximately reaches a threshold; None if no count does.

    Args:
        counts: whole numbers, in order.
        threshold: the least count to report.
        scale: of the noise, above 0.
        below: source of randomness; anything but the default makes this a simulation.

    >>> import random
    >>> find_first_above([3, 50, 90], 40, Fraction(1), below=random.Random(1).randrange)
    1
    """
    noisy_threshold = threshold + discrete_laplace(scale, below=below)
    for place, count in enumerate(counts):
        if count + discrete_laplace(scale, below=below) >= noisy_threshold:
            return place
    return None
