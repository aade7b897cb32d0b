"""Truncated Poisson samples that reveal whether the others alone fill the batch (certified-bounds, 1.9).

Revealing an event that no unit decides loses nothing: by joint convexity, the mixture of both pairs bounds a round with
a secret choice between them. Its delta is the mean of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epsilog.numerics.distributions.base import LARGEST_LOSS, Array, CellMasses, GaussianPair
from epsilog.numerics.distributions.replace_one import LARGEST_MU, ReplaceOneGaussianPair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.rounding import MU, ONCE, gamma, round_up
from epsilog.terms import NeighboringRelation

_ROUNDINGS = 64 * LARGEST_LOSS  # of 1, in a loss or a ratio of that size at most
_MEAN = 16  # roundings of a mean of two masses, each of which is one itself: up to eight


@dataclass(frozen=True)
class PublicMixturePair:
    """The pair ``rare`` with the probability ``chance``, else ``common``; public choice, no atoms."""

    common: DominatingPair  # what is drawn else
    rare: DominatingPair  # a pair that is at least as easy to tell apart, so that a larger chance never loses less
    chance: float  # between 0 and 1

    infinity_mass: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def _shares(self) -> tuple[tuple[DominatingPair, float], ...]:
        return (self.common, 1 - self.chance), (self.rare, self.chance)

    @property
    def ratio_error(self) -> float:
        """Return how far ``masses`` moves edges: the roundings of two losses, and the loss of the base pairs."""
        rare = sum(abs(math.log(pair.sampling_probability)) for pair, _ in self._shares)
        return gamma(_ROUNDINGS + 64 * rare) + max(pair.base.ratio_error for pair, _ in self._shares)

    def masses(self, edges: Array) -> CellMasses:
        """Return the mean of the masses of both."""
        total = [np.zeros(len(edges) + 1) for _ in range(4)]
        for pair, share in self._shares:
            found = pair.base.masses(pair.to_base(np.asarray(edges, dtype=np.float64)))
            own = (*pair.own(found.p, found.q), *pair.own(found.p_error, found.q_error))
            for mean, one in zip(total, own, strict=True):
                np.add(mean, share * one, out=mean)
        p, q, p_error, q_error = total
        return CellMasses(p, q, p_error + gamma(_MEAN) * p, q_error + gamma(_MEAN) * q)

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of both."""
        lows, highs = zip(*(pair.tail_bounds(tail) for pair, _ in self._shares), strict=True)
        return min(lows), max(highs)

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest loss of either."""
        found = [pair.from_base(np.array(pair.base.finite_range())) for pair, _ in self._shares]
        return min(float(one[0]) for one in found), max(float(one[1]) for one in found)

    def max_loss(self) -> tuple[float, float]:
        """Return the larger of both."""
        lows, highs = zip(*(pair.largest_loss() for pair, _ in self._shares), strict=True)
        return max(lows), max(highs)

    def breakpoints(self, tail: float) -> Array:
        """Return those of both."""
        return np.unique(np.concatenate([pair.from_base(pair.base.breakpoints(tail)) for pair, _ in self._shares]))


_NEAREST, _RAREST = 1e-6, 1e-290  # a distance, and a probability with an inverse, times any loss, in double range


def cut_samples(
    mu: float, share: float, full: float, relation: NeighboringRelation
) -> dict[AdjacencyType, DominatingPair] | None:
    """Return pairs over Gaussians ``mu`` apart, where others fill the batch with at most the chance ``full``.

    None out of reach.
    """
    if not _NEAREST < mu < LARGEST_MU / 2 or not _RAREST < share < 1:
        return None
    near, far = GaussianPair(round_up(mu, MU)), GaussianPair(round_up(2 * mu, MU))
    match relation:
        case NeighboringRelation.REPLACE_ONE:
            mixture = PublicMixturePair(
                DominatingPair(ReplaceOneGaussianPair(near.mu, share)),
                DominatingPair(ReplaceOneGaussianPair(far.mu, share)),
                full,
            )
            return dict.fromkeys(AdjacencyType, DominatingPair(mixture))
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return {
                way: DominatingPair(
                    PublicMixturePair(DominatingPair(near, share, way), DominatingPair(far, share, way), full)
                )
                for way in (AdjacencyType.REMOVE, AdjacencyType.ADD)
            }
        case NeighboringRelation.ZERO_OUT:
            return {
                way: DominatingPair(
                    PublicMixturePair(
                        DominatingPair(near, share, way), DominatingPair(near), round_up(full * share, ONCE)
                    )
                )
                for way in (AdjacencyType.REMOVE, AdjacencyType.ADD)
            }
