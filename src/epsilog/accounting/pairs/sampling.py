"""Samples: the chance that a unit is in one, what has a proof, and what batches and bins make of it.

docs/accounting/certified-bounds.md, 1.4 and 1.7 to 1.9; docs/accounting/balls-in-bins.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from epsilog.accounting.balls_in_bins.pair import LARGEST_BINNED_MU, SMALLEST_MU, allocated
from epsilog.accounting.flatten import bins_mu, check_absence, flatten, total_mu
from epsilog.accounting.truncation import binomial_above
from epsilog.mechanisms import BallsInBins, FixedSizeSampled, PoissonSampled, Release, Shuffled, TruncatedPoissonSampled
from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import BaseLaw, Normal
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.laws.replaced import LARGEST_MU, ReplacedSample
from epsilog.numerics.laws.told import ToldWhich
from epsilog.numerics.reach import METHOD, NEAREST, nothing_hidden, pure, same
from epsilog.numerics.rounding import MU, up
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

_RAREST = 1e-290  # a sampling probability whose inverse, times any loss, a double holds


def shares(part: Release) -> tuple[float, float]:
    """Bounds the chance of being in the sample from below and above; next to none counts as none below, above as some.

    Releases that are not sampled have the chance 1. A pair loses more the larger the chance.
    """
    match part:
        case PoissonSampled(sampling_probability=share):
            least = most = float(share)
        case FixedSizeSampled(sample_size=size, population=population):
            exact = Fraction(size, population)
            least, most = rounded(exact, up=False), rounded(exact, up=True)
        case _:
            least = most = 1.0
    return (least if least >= _RAREST else 0.0), (max(most, _RAREST) if most > 0 else 0.0)


def sampled_pair(law: BaseLaw, share: float, direction: Direction) -> Pair:
    """What sampling makes of a law in one direction; what is never sampled is a law of nothing."""
    return Pair(law) if share in (0.0, 1.0) else Pair(law, share, direction)


def check_sampling(part: Release, relation: NeighboringRelation) -> None:
    """A fixed size is proven for replacing, Poisson sampling for adding, removing, zeroing; else ``replace_one``."""
    if isinstance(part, FixedSizeSampled) and relation is not NeighboringRelation.REPLACE_ONE:
        raise UnsupportedMechanismError(part, method=METHOD, reason=f"a fixed size means replace-one, not {relation}")
    if isinstance(part, PoissonSampled):
        check_absence(part, part.release, relation)
    sampled = flatten(part.release) if isinstance(part, PoissonSampled | FixedSizeSampled) else ()
    if any(isinstance(one, Shuffled) for one in sampled):
        raise UnsupportedMechanismError(part, method=METHOD, reason="of a sample fewer units' reports are shuffled")


def binned(
    part: BallsInBins, relation: NeighboringRelation, direction: Direction, tail_mass: float
) -> tuple[BaseLaw, BaseLaw]:
    """Balls-in-bins in one direction; out of reach of its lattice the bins are left out of account."""
    mu, nothing = bins_mu(part, relation), pure(0.0, 0.0)
    if mu == 0:
        return same(nothing)
    if math.isinf(mu):
        return same(nothing_hidden())
    if not SMALLEST_MU <= mu <= LARGEST_BINNED_MU:
        return Normal(up(max(mu, NEAREST), MU)), nothing
    above, below = allocated(part.bins, mu, direction, max(tail_mass, 1e-250))
    return above, below or nothing


def truncated(part: TruncatedPoissonSampled, relation: NeighboringRelation, direction: Direction) -> BaseLaw:
    """Truncated Poisson samples: it is told whether the others alone fill the batch (docs, 1.9).

    If they do not, nothing is cut, with the unit or without. If they do, the unit takes the place of another if its
    coin falls, which is not told; under zero-out it is told, and its place is kept.
    """
    parts = flatten(part.release)
    mu = total_mu(parts, NeighboringRelation.ADD_OR_REMOVE_ONE)
    share = part.sampling_probability
    if mu is None or not 1e-6 < mu < LARGEST_MU / 2 or not _RAREST < share < 1:
        reason = "a cut sample has a proven pair over Gaussian noise within reach only"
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    full = binomial_above(part.population - 1, share, part.largest_batch - 1)
    near, far = Normal(up(mu, MU)), Normal(up(2 * mu, MU))
    match relation:
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return ToldWhich(Pair(near, share, direction), Pair(far, share, direction), full)
        case NeighboringRelation.ZERO_OUT:
            return ToldWhich(Pair(near, share, direction), Pair(near), up(full * share, 1))
        case NeighboringRelation.REPLACE_ONE:
            return ToldWhich(Pair(ReplacedSample(near.mu, share)), Pair(ReplacedSample(far.mu, share)), full)
