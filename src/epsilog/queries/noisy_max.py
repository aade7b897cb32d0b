"""Choosing the largest of several counts under exact coins: the count itself is never shown.

Permute-and-flip walks through the candidates in random order and takes the first whose coin, of the chance
exp(-(best - score) / scale), shows heads. That is the largest score under exponential noise of this scale. A neighbour
who moves the difference of any two scores by at most ``bound_difference_shift`` moves by no more what the noise of one
candidate must exceed, so every candidate's chance changes by at most a factor of exp(spread / scale).

Source: McKenna & Sheldon 2020 (arXiv:2010.12603), permute-and-flip; Ding et al. 2021 (arXiv:2105.07260), that the two
are one; what one neighbour changes is worked out here, for the largest noisy score.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction

from epsilog.mechanisms.sampling import RandBelow, exp_coin
from epsilog.terms import NeighboringRelation

__all__ = ["bound_difference_shift", "sample_permute_and_flip"]


def bound_difference_shift(rows: int, relation: NeighboringRelation) -> int:
    """How far a neighbour moves the difference of two counts, if a unit adds at most ``rows`` rows.

    One that is added or removed moves all counts one way; one that is replaced takes from one and gives to another.
    """
    return 2 * rows if relation is NeighboringRelation.REPLACE_ONE else rows


def sample_permute_and_flip(scores: Sequence[int], scale: Fraction, *, below: RandBelow = secrets.randbelow) -> int:
    """Returns the place of a score that is the largest, or about so.

    Args:
        scores: whole numbers, one for each candidate; at least one.
        scale: of the noise, above 0, in the scores' unit.
        below: where randomness comes from; anything but the default is a simulation.

    >>> import random
    >>> sample_permute_and_flip([3, 50, 4], Fraction(2), below=random.Random(1).randrange)
    1
    """
    best, left = max(scores), list(range(len(scores)))
    while True:  # whoever is best shows heads for sure, so it ends
        place = left.pop(below(len(left)))
        if exp_coin(*(Fraction(best - scores[place]) / scale).as_integer_ratio(), below):
            return place
