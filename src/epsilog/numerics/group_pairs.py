"""Pairs of a group: what k units that join or leave together lose by one release on a sample.

If all of a group's members push the sum the same way, a Poisson-sampled round shows the mixture
sum_j Bin(k, q)(j) N(j mu, 1) with the group and N(0, 1) without it. No group does worse (Ganesh 2024,
arXiv:2401.10294), under adaptive composition, too. docs/accounting/groups.md.
"""

from __future__ import annotations

from functools import lru_cache

from epsilog.numerics.counts import Counts, binomial, hypergeometric
from epsilog.numerics.laws.mixture import GaussianMixture, ToldDistance
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.pairs import Ordering, Pairs, single
from epsilog.numerics.rounding import MU, down, up

_FARTHEST = 300.0  # a distance of the mixture's Gaussians
_NEAREST = 1e-6


@lru_cache(maxsize=64)
def poisson_group(mu: float, share: float, units: int) -> Pairs | None:
    """Gaussians ``mu`` apart on a Poisson sample; None out of reach."""
    if not (0 < share < 1 and mu > _NEAREST):
        return None
    sides = [binomial(units, share, above=above) for above in (True, False)]
    if any(side is None or not float(side.values[-1]) * mu < _FARTHEST for side in sides):
        return None
    found: dict[Direction, Ordering] = {}
    for direction in (Direction.REMOVE, Direction.ADD):
        above, below = (
            Pair(mixture(side, outwards(mu, MU), direction))
            for side, outwards in zip(sides, (up, down), strict=True)
            if side is not None
        )
        found[direction] = single(above, below)
    return found


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
def fixed_size_group(mu: float, population: int, size: int, units: int) -> Pairs | None:
    """Gaussians ``mu`` apart on a sample of a fixed size; None out of reach.

    The sample holds j of the members with the same chance on both sides (docs: accounting/groups).
    """
    if not mu > _NEAREST:
        return None
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
    return {
        Direction.REMOVE: single(both, removed),
        Direction.ADD: single(both, added),
        Direction.BOTH: single(both, removed),
    }
