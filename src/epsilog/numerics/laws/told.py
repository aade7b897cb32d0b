"""One of two pairs, drawn by a public coin: what a round shows where something that no unit decides is told with it.

Whoever sees which pair was drawn loses nothing by not being told: so the mixture bounds a round in which a pair was
drawn in secret, by joint convexity. Its delta is the mean of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilog.numerics.laws.base import LARGEST_LOSS, Array, Masses
from epsilog.numerics.laws.pair import Pair
from epsilog.numerics.rounding import gamma

_ROUNDINGS = 64 * LARGEST_LOSS  # of 1, in a loss or a ratio of that size at most


@dataclass(frozen=True)
class ToldWhich:
    """The pair ``seldom`` with the chance ``chance``, else ``often``; neither has atoms, and it is told which.

    Attributes:
        often: what is drawn else.
        seldom: a pair that is at least as easy to tell apart, so that a larger chance never loses less.
        chance: between 0 and 1.
    """

    often: Pair
    seldom: Pair
    chance: float

    only_p: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def _shares(self) -> tuple[tuple[Pair, float], ...]:
        return (self.often, 1 - self.chance), (self.seldom, self.chance)

    @property
    def misplacement(self) -> float:
        """Returns how far ``masses`` moves edges: the roundings of two losses, and what the base laws lose."""
        rare = sum(abs(math.log(pair.sampling_probability)) for pair, _ in self._shares)
        return gamma(_ROUNDINGS + 64 * rare) + max(pair.law.misplacement for pair, _ in self._shares)

    def masses(self, edges: Array) -> Masses:
        """Returns the mean of the masses of both."""
        total = [np.zeros(len(edges) + 1) for _ in range(4)]
        for pair, share in self._shares:
            found = pair.law.masses(pair.to_base(np.asarray(edges, dtype=np.float64)))
            own = (*pair.own(found.p, found.q), *pair.own(found.p_error, found.q_error))
            for mean, one in zip(total, own, strict=True):
                np.add(mean, share * one, out=mean)
        p, q, p_error, q_error = total
        return Masses(p, q, p_error + gamma(16.0) * p, q_error + gamma(16.0) * q)

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of both."""
        lows, highs = zip(*(pair.reach(tail) for pair, _ in self._shares), strict=True)
        return min(lows), max(highs)

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest loss of either."""
        found = [pair.from_base(np.array(pair.law.ends())) for pair, _ in self._shares]
        return min(float(one[0]) for one in found), max(float(one[1]) for one in found)

    def largest(self) -> tuple[float, float]:
        """Returns the larger of both."""
        lows, highs = zip(*(pair.largest_loss() for pair, _ in self._shares), strict=True)
        return max(lows), max(highs)

    def landmarks(self, tail: float) -> Array:
        """Returns those of both."""
        return np.unique(np.concatenate([pair.from_base(pair.law.landmarks(tail)) for pair, _ in self._shares]))
