"""Select the largest of several counts by permute-and-flip; the count itself is not released.

Permute-and-flip visits the candidates in random order and selects the first that a coin accepts, with probability
exp(-(best - score) / scale). This is the report-noisy-max mechanism with exponential noise of that scale. Let a
neighboring data set change the difference of any two scores by at most ``bound_difference_shift``. Then the threshold
for the noise of one candidate changes by no more, and every probability by at most a factor exp(spread / scale).

Source: McKenna & Sheldon 2020 (arXiv:2010.12603) for permute-and-flip; Ding et al. 2021 (arXiv:2105.07260) for the
equivalence. The bound for one neighbor is derived here, for the largest noisy score.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction

from epsilog.mechanisms.sampling import RandBelow, exp_coin
from epsilog.terms import NeighboringRelation

__all__ = ["bound_difference_shift", "sample_permute_and_flip"]


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
