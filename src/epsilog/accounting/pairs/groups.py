"""Pairs of a group: what k units that join or leave together lose in one release, mechanism by mechanism.

If all of a group's members push the sum the same way, a Poisson-sampled round shows the mixture
sum_j Bin(k, q)(j) N(j mu, 1) with the group and N(0, 1) without it. No group does worse (Ganesh 2024,
arXiv:2401.10294), under adaptive composition, too. docs/accounting/groups.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from epsilog.accounting.flatten import flatten, total_mu
from epsilog.mechanisms import FixedSizeSampled, PoissonSampled, Release
from epsilog.numerics.counts import Counts, binomial, hypergeometric
from epsilog.numerics.laws.base import BaseLaw
from epsilog.numerics.laws.mixture import GaussianMixture, ToldDistance
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.reach import METHOD
from epsilog.numerics.rounding import MU, down, up
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

_FARTHEST = 300.0  # a distance of the mixture's Gaussians
_NEAREST = 1e-6

Laws = Callable[[Release, NeighboringRelation], tuple[BaseLaw, BaseLaw]]


class GroupPair(NamedTuple):
    """A pair that dominates, and one that is attained, in one of the ways in which neighbours differ."""

    direction: Direction
    above: Pair
    below: Pair
    sampled: bool = True


def group_pairs(part: Release, relation: NeighboringRelation, *, units: int, laws: Laws) -> tuple[GroupPair, ...]:
    """What a group of ``units`` that acts as a whole loses by one release, in each direction; ``laws`` are of one unit.

    Raises:
        UnsupportedMechanismError: no pair is proven.
    """
    if isinstance(part, PoissonSampled) and relation is not NeighboringRelation.REPLACE_ONE:
        mu, share = total_mu(flatten(part.release), relation), part.sampling_probability
        if mu is not None and 0 < share < 1 and mu > _NEAREST:
            found = _poisson(mu, share, units)
            if found is not None:
                return found
    elif isinstance(part, FixedSizeSampled) and relation is NeighboringRelation.REPLACE_ONE:
        mu = total_mu(flatten(part.release), relation)
        if mu is not None and mu > _NEAREST:
            found = _fixed_size(mu, part.population, part.sample_size, units)
            if found is not None:
                return found
    else:
        sides = [part.for_group(relation, units, above=high) for high in (True, False)]
        if sides[0] is not None and sides[1] is not None:
            above, below = Pair(laws(sides[0], relation)[0]), Pair(laws(sides[1], relation)[1])
            return tuple(GroupPair(direction, above, below, sampled=False) for direction in Direction)
    raise UnsupportedMechanismError(part, method=METHOD, reason="no pair is proven for a group")


@lru_cache(maxsize=64)
def _poisson(mu: float, share: float, units: int) -> tuple[GroupPair, ...] | None:
    sides = [binomial(units, share, above=above) for above in (True, False)]
    if any(side is None or not float(side.values[-1]) * mu < _FARTHEST for side in sides):
        return None
    found = []
    for direction in (Direction.REMOVE, Direction.ADD):
        above, below = (
            Pair(mixture(side, outwards(mu, MU), direction))
            for side, outwards in zip(sides, (up, down), strict=True)
            if side is not None
        )
        found.append(GroupPair(direction, above, below))
    return tuple(found)


def mixture(counts: Counts, mu: float, direction: Direction) -> GaussianMixture:
    """A random number of units, each ``mu`` away."""
    return GaussianMixture(
        counts.values * mu,
        counts.chances,
        counts.rest,
        direction,
        beyond=counts.beyond,
        roundings=counts.roundings,
        least=counts.least,
    )


@lru_cache(maxsize=64)
def _fixed_size(mu: float, population: int, size: int, units: int) -> tuple[GroupPair, ...] | None:
    """The sample holds j of the members with the same chance on both sides (docs: accounting/groups)."""
    units = min(units, population)
    above, below = (hypergeometric(population, units, size, above=side) for side in (True, False))
    if above is None or below is None or not float(above.values[-1]) * mu < _FARTHEST:
        return None
    taken = min(up(float(above.chances.sum()) + above.beyond, above.roundings), 1.0)
    if above.rest == 0:
        taken = 1.0
    law = ToldDistance(
        above.values * up(mu, MU), above.chances / taken, beyond=above.beyond / taken, roundings=above.roundings + 8
    )
    both = Pair(law, taken, Direction.BOTH) if taken < 1 else Pair(law)
    removed, added = (Pair(mixture(below, down(mu, MU), direction)) for direction in (Direction.REMOVE, Direction.ADD))
    return (
        GroupPair(Direction.REMOVE, both, removed),
        GroupPair(Direction.ADD, both, added),
        GroupPair(Direction.BOTH, both, removed),
    )
