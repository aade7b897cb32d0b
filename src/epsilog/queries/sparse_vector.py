"""The first of several counts that reaches a threshold, for the price of one answer: the sparse vector technique.

One draw of noise is added to the threshold and one to each count in turn, all of the same law; the first noisy count
that is not below the noisy threshold ends the walk, and its place is shown. What was passed over is not paid for.

Proof, for discrete Laplace noise of scale b and whole counts (after Dwork & Roth 2014, Theorem 3.23). Fix the noise of
the counts before the k-th, and let g be the largest of those, with their noise. The answer is k where the noisy
threshold is above g and not above the noisy k-th count. A neighbour moves every count by at most m, and so g by some d
of at most m in size, and the k-th count by c. Shift the threshold's noise by d and the k-th count's by d - c: the same
answer comes out, and no chance has changed by more than a factor of exp((abs(d) + abs(d - c)) / b). Where a unit is
added, removed or zeroed out, all counts move one way, so that abs(d - c) is at most m and the two are at most 2 m;
where one unit takes another's place, it is at most 2 m and the two are at most 3 m. If no count is shown, the
threshold's shift is enough.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction

from epsilog.mechanisms.sampling import RandBelow, discrete_laplace
from epsilog.terms import NeighboringRelation

__all__ = ["bound_threshold_shift", "find_first_above"]


def bound_threshold_shift(rows: int, relation: NeighboringRelation) -> int:
    """How far the two draws that decide are shifted together, if a unit adds at most ``rows`` rows."""
    return (3 if relation is NeighboringRelation.REPLACE_ONE else 2) * rows


def find_first_above(
    counts: Sequence[int], threshold: int, scale: Fraction, *, below: RandBelow = secrets.randbelow
) -> int | None:
    """Returns the place of the first count that reaches a threshold, or about so; None if none does.

    Args:
        counts: whole numbers, in the order in which they are looked at.
        threshold: what is to be reached.
        scale: of the noise, above 0.
        below: where randomness comes from; anything but the default is a simulation.

    >>> import random
    >>> find_first_above([3, 50, 90], 40, Fraction(1), below=random.Random(1).randrange)
    1
    """
    wanted = threshold + discrete_laplace(scale, below=below)
    for place, count in enumerate(counts):
        if count + discrete_laplace(scale, below=below) >= wanted:
            return place
    return None
