"""Pairs of mixtures of Gaussians: docs/accounting/mixtures.md.

Added, removed or zeroed out, a unit shows the mixture sum_i p_i N(c_i, 1) beside N(0, 1) at worst (Ganesh 2024,
arXiv:2401.10294); where that is beyond a lattice's reach, and where units are replaced, stand Poisson samples instead.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from epsilog.accounting.flatten import total_mu
from epsilog.accounting.pairs.noise import normal
from epsilog.accounting.pairs.replace_one import replaced
from epsilog.accounting.pairs.sampling import sampled_pair, shares
from epsilog.mechanisms import Composed, MixtureOfGaussians, PoissonSampled, Release
from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import BaseLaw, Normal
from epsilog.numerics.laws.mixture import GaussianMixture
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.laws.replaced import LARGEST_MU, ReplacedSample
from epsilog.numerics.laws.told import ToldWhich
from epsilog.numerics.reach import pure, same
from epsilog.numerics.rounding import up
from epsilog.terms import NeighboringRelation

Found = tuple[tuple[Direction, Pair, Pair], ...]

_FARTHEST = 300.0  # a distance of the mixture's Gaussians
_NEAREST = 1e-6
_MOST = 256  # distances that a lattice is worked out with
_MOST_TOLD = 24  # of them, each of which is a law of its own
_RAREST = 1e-290  # a probability whose product with a small mass a double holds
_REPLACE = NeighboringRelation.REPLACE_ONE


@lru_cache(maxsize=64)
def mixture_pairs(part: MixtureOfGaussians, relation: NeighboringRelation) -> Found:
    """What one such release loses, by direction: a pair that dominates, and one that neighbours attain or exceed."""
    bounds = part.most(), part.least()
    if relation is _REPLACE:
        above, below = _told(part) or _replaced(bounds[0])[0], _replaced(bounds[1])[1]
        return tuple((direction, Pair(above), Pair(below)) for direction in Direction)
    found = []
    for direction in (Direction.REMOVE, Direction.ADD):
        over, under = (_mixed(part, direction, above=side) for side in (True, False))
        over = over or _sampled(bounds[0], relation, direction, above=True)
        found.append((direction, over, under or _sampled(bounds[1], relation, direction, above=False)))
    return tuple(found)


def _mixed(part: MixtureOfGaussians, direction: Direction, *, above: bool) -> Pair | None:
    """The mixture with distances and probabilities rounded outwards; None where no distance is within reach.

    It is a sample, with the chance of any distance above 0, of the mixture of those: no small chance cancels.
    Above, a distance beyond reach gives everything away; below, it counts as the farthest within reach.
    """
    law: dict[float, Fraction] = {}
    beyond = Fraction(0)
    for move, chance in part.chances(above=above):
        far = rounded(Fraction(move) / Fraction(part.noise_stddev), up=above)
        if far > _FARTHEST and above:
            beyond += chance
            continue
        far = max(far, _NEAREST) if above else min(far, _FARTHEST)
        if far >= _NEAREST:
            law[far] = law.get(far, Fraction(0)) + chance
    total = sum(law.values(), beyond)
    share = rounded(total, up=above)
    if not law or (not above and share < _RAREST) or (above and not beyond and max(law) <= _NEAREST):
        return None
    law = _without_rare({far: chance / total for far, chance in law.items()}, above=above)
    if not law:
        return None
    law = _fewer(law, above=above)
    base = GaussianMixture(
        np.array(list(law)),
        np.array([float(chance) for chance in law.values()]),
        0.0,
        direction,
        beyond=rounded(beyond / total, up=True),
    )
    return sampled_pair(base, max(share, _RAREST), direction)


def _without_rare(law: dict[float, Fraction], *, above: bool) -> dict[float, Fraction]:
    """Probabilities that doubles hold in any product: rarer ones count at the next distance, outwards."""
    found: dict[float, Fraction] = {}
    carried, last = Fraction(0), None
    for far in law if above else reversed(law):
        carried += law[far]
        if carried >= _RAREST:
            found[far], carried = carried, Fraction(0)
        last = far
    if above and carried and last is not None:
        found[last] = max(carried, Fraction(_RAREST))
    return dict(sorted(found.items()))


def _fewer(law: dict[float, Fraction], *, above: bool, kept: int = _MOST) -> dict[float, Fraction]:
    """At most so many distances: those that move the mean distance least count at the next, outwards."""
    if len(law) <= kept:
        return law
    far, whole = np.array(list(law)), list(law.values())
    weights = np.array([float(chance) for chance in whole])
    while len(whole) > kept:
        moved = (weights[:-1] if above else weights[1:]) * np.diff(far)
        which = int(np.argmin(moved))  # joins the next distance, or is joined by it
        whole[which] += whole.pop(which + 1)
        far = np.delete(far, which if above else which + 1)
        weights = np.delete(weights, which + 1)
        weights[which] = float(whole[which])
    return dict(zip(far.tolist(), whole, strict=True))


def _told(part: MixtureOfGaussians) -> BaseLaw | None:
    """Replaced units, where it is told what was drawn if it is not 0: a mean of Poisson samples; None beyond reach."""
    law: dict[float, Fraction] = {}
    for move, chance in part.chances(above=True):
        far = max(rounded(Fraction(move) / Fraction(part.noise_stddev), up=True), _NEAREST)
        law[far] = law.get(far, Fraction(0)) + chance
    total, so_far, found = sum(law.values(), Fraction(0)), Fraction(0), None
    if total < _RAREST or max(law) >= LARGEST_MU / 2:
        return None
    share = rounded(total, up=True)
    for far, chance in _fewer(law, above=True, kept=_MOST_TOLD).items():
        pair = Pair(Normal(up(2 * far, 1)) if share == 1 else ReplacedSample(far, share))
        so_far += chance
        found = pair if found is None else Pair(ToldWhich(found, pair, rounded(chance / so_far, up=True)))
    return None if found is None else found.law


def _replaced(bound: Release) -> tuple[BaseLaw, BaseLaw]:
    if isinstance(bound, PoissonSampled):
        return replaced(bound)
    return _base(bound, _REPLACE)


def _base(bound: Release, relation: NeighboringRelation) -> tuple[BaseLaw, BaseLaw]:
    """The law of a Gaussian, or of nothing."""
    mu = 0.0 if bound == Composed([]) else total_mu({bound: 1}, relation)
    assert mu is not None
    return normal(mu) if mu > 0 else same(pure(0.0, 0.0))


def _sampled(bound: Release, relation: NeighboringRelation, direction: Direction, *, above: bool) -> Pair:
    """A Poisson sample in one direction."""
    base = bound.release if isinstance(bound, PoissonSampled) else bound
    law, share = _base(base, relation)[0 if above else 1], shares(bound)[1 if above else 0]
    return sampled_pair(law if share > 0 else pure(0.0, 0.0), share, direction)
