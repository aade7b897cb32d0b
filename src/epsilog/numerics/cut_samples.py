"""Truncated Poisson samples, for whoever is told whether the others alone fill the batch.

docs/accounting/certified-bounds.md, 1.9.
"""

from __future__ import annotations

from epsilog.numerics.laws.base import Normal
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.laws.replaced import LARGEST_MU, ReplacedSample
from epsilog.numerics.laws.told import ToldWhich
from epsilog.numerics.rounding import MU, up
from epsilog.terms import NeighboringRelation

_NEAREST, _RAREST = 1e-6, 1e-290  # a distance, and a probability whose inverse, times any loss, a double holds


def cut_samples(mu: float, share: float, full: float, relation: NeighboringRelation) -> dict[Direction, Pair] | None:
    """Pairs over Gaussians ``mu`` apart, where others fill the batch with at most the chance ``full``.

    None out of reach.
    """
    if not _NEAREST < mu < LARGEST_MU / 2 or not _RAREST < share < 1:
        return None
    near, far = Normal(up(mu, MU)), Normal(up(2 * mu, MU))
    match relation:
        case NeighboringRelation.REPLACE_ONE:
            law = ToldWhich(Pair(ReplacedSample(near.mu, share)), Pair(ReplacedSample(far.mu, share)), full)
            return dict.fromkeys(Direction, Pair(law))
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return {
                way: Pair(ToldWhich(Pair(near, share, way), Pair(far, share, way), full))
                for way in (Direction.REMOVE, Direction.ADD)
            }
        case NeighboringRelation.ZERO_OUT:
            return {
                way: Pair(ToldWhich(Pair(near, share, way), Pair(near), up(full * share, 1)))
                for way in (Direction.REMOVE, Direction.ADD)
            }
