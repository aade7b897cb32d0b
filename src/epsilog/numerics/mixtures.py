"""Pairs of mixtures of Gaussians: docs/accounting/groups.md.

The pair is (sum_j w_j N(c_j, 1), N(0, 1)) with distances c_j >= 0. A unit contributes a random amount, or a group a
random number of units: added, removed or zeroed out, on a Poisson sample or one of a fixed size. No unit and no group
does worse, also under adaptive composition (Ganesh 2024, arXiv:2401.10294). Poisson samples replace the pair beyond a
lattice's reach, and for replaced units of a mixture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri

from epsilog.numerics.counts import CountDistribution, binomial, hypergeometric
from epsilog.numerics.cut_samples import PublicMixturePair
from epsilog.numerics.distributions.base import (
    Array,
    BasePair,
    CellMasses,
    GaussianPair,
    Unbounded,
    compute_normal_masses,
)
from epsilog.numerics.distributions.replace_one import LARGEST_MU, ReplaceOneGaussianPair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition, Pairs, bent, single
from epsilog.numerics.rounding import MU, ONCE, RATIO, gamma, round_down, round_outward, round_up
from epsilog.terms import CalibrationError

_FARTHEST = 300.0  # a distance of the mixture's Gaussians
_NEAREST = 1e-6
_ROUNDS = 100
_PIECE = 2**21  # terms that are looked at together
_INVERTED = 2e5  # roundings of 1 by which inverting the ratio may move an edge
_FOUND = 64  # roundings that a root may be off by: below ``_INVERTED``


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """The pair (mixture, N(0, 1)) for ``REMOVE``, reversed for ``ADD``, by its log-likelihood ratio."""

    distances: Array  # ascending, above 0, at least one, shape (k,)
    weights: Array  # their chances, above 0, shape (k,)
    rest: float  # the chance of the distance 0
    direction: AdjacencyType  # which of the two is P
    beyond: float = 0.0  # the chance of a distance that gives everything away: for upper bounds
    roundings: float = 0.0  # of the chances, beyond a few
    least: float | None = None  # the logarithm of ``rest`` of the pair that this one stands for

    infinity_mass: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def ratio_error(self) -> float:
        """Return how far ``masses`` moves edges."""
        return gamma(_INVERTED + self.roundings + 8 * float(self.distances[-1]) ** 2)

    @property
    def _least(self) -> float:
        return math.log(self.rest) if self.rest > 0 else -math.inf

    @cached_property
    def _starts(self) -> Array:
        return np.asarray(np.log(self.weights) - self.distances**2 / 2)

    def _where(self, u: Array) -> Array:
        """The x at which the mixture's log-likelihood ratio is u: Newton's method on a convex function from above.

        ln sum_j w_j e^(c_j x - c_j^2 / 2) over the c_j above 0 is convex in x, with slope at least the least of them;
        it equals ln(e^u - rest).
        """
        u = np.asarray(u, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # where none is at 0, the lowest ratio is the lowest place
            over = u - self._least
        x = np.where(over > 0, np.inf, -np.inf)
        seen = (over > 0) & np.isfinite(u)
        goal = u[seen] + np.log(-np.expm1(-over[seen]))
        if goal.size:
            pieces = -(-goal.size * len(self.distances) // _PIECE)
            x[seen] = np.concatenate([self._invert(piece) for piece in np.array_split(goal, pieces)])
        return x

    def _invert(self, goal: Array) -> Array:
        far, start = self.distances, self._starts
        at = ((goal[:, None] - start) / far).min(axis=1)
        for _ in range(_ROUNDS):
            terms = start + at[:, None] * far
            total = logsumexp(terms, axis=1)
            slope = np.exp(terms - total[:, None]) @ far
            away = total - goal
            at = at - away / slope
            if float(np.abs(away / (1 + np.abs(goal) + np.abs(at) * far[-1])).max()) < gamma(_FOUND):
                return np.asarray(at)
        raise CalibrationError(f"the likelihood ratio of {self!r} could not be inverted")

    def masses(self, edges: Array) -> CellMasses:
        """Return the mixture's and the normal's masses between the x that belong to the edges."""
        edges = np.asarray(edges, dtype=np.float64)
        x = self._where(edges if self.direction is AdjacencyType.REMOVE else -edges[::-1])
        x = np.clip(x, -1e9, 1e9)
        plain, plain_error = compute_normal_masses(x)
        mixed, mixed_error = self.rest * plain, self.rest * plain_error
        for far, weight in zip(self.distances, self.weights, strict=True):
            cells, error = compute_normal_masses(x - far)
            mixed += weight * cells
            mixed_error += weight * error
        mixed_error += gamma(64.0 * (len(self.weights) + 8) + self.roundings) * mixed
        if self.direction is AdjacencyType.REMOVE:
            mixed[int(np.searchsorted(edges, np.inf, side="left"))] += self.beyond
            return CellMasses(mixed, plain, mixed_error, plain_error)
        return CellMasses(plain[::-1], mixed[::-1], plain_error[::-1], mixed_error[::-1])

    def _ratio(self, x: Array) -> Array:
        moved = logsumexp(self._starts + x[:, None] * self.distances, axis=1)
        return np.asarray(np.logaddexp(self._least, moved))

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of both distributions."""
        far = -float(ndtri(tail))
        low, high = (float(v) for v in self._ratio(np.array([-far, far + float(self.distances[-1])])))
        return (low, high) if self.direction is AdjacencyType.REMOVE else (-high, -low)

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio."""
        return (self._least, math.inf) if self.direction is AdjacencyType.REMOVE else (-math.inf, -self._least)

    def max_loss(self) -> tuple[float, float]:
        """Return the highest ratio of the release, with its rounding."""
        if self.direction is AdjacencyType.REMOVE:
            return math.inf, math.inf
        high = -(self._least if self.least is None else self.least)
        return round_down(high, RATIO + self.roundings), round_up(high, RATIO + self.roundings)

    def breakpoints(self, tail: float) -> Array:
        """Return even steps in x."""
        far = -float(ndtri(tail))
        u = self._ratio(np.linspace(-far, far + float(self.distances[-1]), 257))
        return np.unique(u if self.direction is AdjacencyType.REMOVE else -u)


@dataclass(frozen=True, eq=False)
class RevealedDistance(Unbounded):
    """Two Gaussians at a random public distance; without atoms, and symmetric."""

    distances: Array  # ascending, above 0, shape (k,)
    weights: Array  # their chances, which add up to 1, shape (k,)
    beyond: float = 0.0  # the chance of giving everything away instead, for upper bounds
    roundings: float = 0.0  # of the chances, beyond a few

    @cached_property
    def _list_normals(self) -> tuple[GaussianPair, ...]:
        return tuple(map(GaussianPair, map(float, self.distances)))

    @property
    def ratio_error(self) -> float:
        """Return that of the farthest."""
        return self._list_normals[-1].ratio_error

    def masses(self, edges: Array) -> CellMasses:
        """Return the mean of the masses of all."""
        edges = np.asarray(edges, dtype=np.float64)
        total = [np.zeros(len(edges) + 1) for _ in range(4)]
        for normal, weight in zip(self._list_normals, self.weights, strict=True):
            for mean, one in zip(total, normal.masses(edges), strict=True):
                np.add(mean, weight * one, out=mean)
        p, q, p_error, q_error = total
        error = gamma(16.0 + 4 * len(self.weights) + self.roundings)
        p[int(np.searchsorted(edges, np.inf, side="left"))] += self.beyond
        q[int(np.searchsorted(edges, -np.inf, side="right"))] += self.beyond
        return CellMasses(p, q, p_error + error * p, q_error + error * q)

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of the farthest that matters."""
        left = np.cumsum(self.weights[::-1])[::-1]
        return self._list_normals[max(int((left > tail).sum()) - 1, 0)].tail_bounds(tail)

    def breakpoints(self, tail: float) -> Array:
        """Return even steps."""
        return np.linspace(*self.tail_bounds(tail), 257)


@lru_cache(maxsize=64)
def poisson_group(mu: float, share: float, units: int) -> Pairs | None:
    """Return Gaussians ``mu`` apart on a Poisson sample; None out of reach."""
    if not (0 < share < 1 and mu > _NEAREST):
        return None
    sides = [binomial(units, share, above=above) for above in (True, False)]
    if any(side is None or not float(side.values[-1]) * mu < _FARTHEST for side in sides):
        return None
    found: dict[AdjacencyType, PairComposition] = {}
    for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        above, below = (
            DominatingPair(mixture(side, outwards(mu, MU), direction))
            for side, outwards in zip(sides, (round_up, round_down), strict=True)
            if side is not None
        )
        found[direction] = single(above, below)
    return found


def mixture(counts: CountDistribution, mu: float, direction: AdjacencyType) -> GaussianMixture:
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
    """Return Gaussians ``mu`` apart on a sample of a fixed size; None out of reach.

    The sample holds j of the members with the same chance on both sides (docs: accounting/groups).
    """
    if not mu > _NEAREST:
        return None
    units = min(units, population)
    above, below = (hypergeometric(population, units, size, above=side) for side in (True, False))
    if above is None or below is None or not float(above.values[-1]) * mu < _FARTHEST:
        return None
    taken = min(round_up(float(above.chances.sum()) + above.beyond, above.roundings), 1.0)
    if above.rest == 0:
        taken = 1.0
    base = RevealedDistance(
        above.values * round_up(mu, MU),
        above.chances / taken,
        beyond=above.beyond / taken,
        roundings=above.roundings + 8,
    )
    both = DominatingPair(base, taken, AdjacencyType.BOTH) if taken < 1 else DominatingPair(base)
    removed, added = (
        DominatingPair(mixture(below, round_down(mu, MU), direction))
        for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    )
    return {
        AdjacencyType.REMOVE: single(both, removed),
        AdjacencyType.ADD: single(both, added),
        AdjacencyType.BOTH: single(both, removed),
    }


Chances = Sequence[tuple[float, Fraction]]
"""Distances above 0, ascending, each with its chance; the rest of 1 is the chance of none."""

_MOST = 256  # distances in a lattice computation
_MAX_REVEALED = 24  # of them, each a separate pair
_RAREST = 1e-290  # a probability with a product with a small mass in double range


def mixture_pairs(
    distances: tuple[Chances, Chances], noise: float, samples: tuple[Pairs, Pairs], *, replaced: bool
) -> Pairs:
    """Return what one such release loses, by direction.

    Args:
        distances: of what a unit contributes, rounded up and down.
        noise: its standard deviation.
        samples: pairs of Poisson samples that lose no less, and no more.
        replaced: whether neighbors replace a unit.
    """
    (over, under), (most, least) = distances, samples
    if replaced:
        base = build_revealed_mixture(over, noise)
        upper = most[AdjacencyType.PLAIN].upper if base is None else ((DominatingPair(base), 1),)
        return dict.fromkeys(AdjacencyType, PairComposition(upper, least[AdjacencyType.PLAIN].lowers))
    found: dict[AdjacencyType, PairComposition] = {}
    for way in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        above, below = build_mixture(over, noise, way, above=True), build_mixture(under, noise, way, above=False)
        found[way] = PairComposition(
            most[way].upper if above is None else ((above, 1),),
            least[way].lowers if below is None else (((below, 1),),),
        )
    return found


def build_mixture(distances: Chances, noise: float, direction: AdjacencyType, *, above: bool) -> DominatingPair | None:
    """Return the mixture with distances and probabilities rounded outwards; None where no distance is within reach.

    It is a sample, with the chance of any distance above 0, of the mixture of those: no small chance cancels.
    Above, a distance beyond reach gives everything away; below, it counts as the farthest within reach.
    """
    near: dict[float, Fraction] = {}
    beyond = Fraction(0)
    for move, chance in distances:
        far = round_outward(Fraction(move) / Fraction(noise), up=above)
        if far > _FARTHEST and above:
            beyond += chance
            continue
        far = max(far, _NEAREST) if above else min(far, _FARTHEST)
        if far >= _NEAREST:
            near[far] = near.get(far, Fraction(0)) + chance
    total = sum(near.values(), beyond)
    share = round_outward(total, up=above)
    if not near or (not above and share < _RAREST) or (above and not beyond and max(near) <= _NEAREST):
        return None
    near = _without_rare({far: chance / total for far, chance in near.items()}, above=above)
    if not near:
        return None
    near = _fewer(near, above=above)
    base = GaussianMixture(
        np.array(list(near)),
        np.array([float(chance) for chance in near.values()]),
        0.0,
        direction,
        beyond=round_outward(beyond / total, up=True),
    )
    return bent(base, max(share, _RAREST), direction)


def _without_rare(distances: dict[float, Fraction], *, above: bool) -> dict[float, Fraction]:
    """Return probabilities that doubles hold in any product: rarer ones count at the next distance, outwards."""
    found: dict[float, Fraction] = {}
    carried, last = Fraction(0), None
    for far in distances if above else reversed(distances):
        carried += distances[far]
        if carried >= _RAREST:
            found[far], carried = carried, Fraction(0)
        last = far
    if above and carried and last is not None:
        found[last] = max(carried, Fraction(_RAREST))
    return dict(sorted(found.items()))


def _fewer(distances: dict[float, Fraction], *, above: bool, kept: int = _MOST) -> dict[float, Fraction]:
    """Reduce the number of distances: those that move the mean distance least count at the next, outwards."""
    if len(distances) <= kept:
        return distances
    far, exact = np.array(list(distances)), list(distances.values())
    weights = np.array([float(chance) for chance in exact])
    while len(exact) > kept:
        moved = (weights[:-1] if above else weights[1:]) * np.diff(far)
        which = int(np.argmin(moved))  # joins the next distance, or is joined by it
        exact[which] += exact.pop(which + 1)
        far = np.delete(far, which if above else which + 1)
        weights = np.delete(weights, which + 1)
        weights[which] = float(exact[which])
    return dict(zip(far.tolist(), exact, strict=True))


def build_revealed_mixture(distances: Chances, noise: float) -> BasePair | None:
    """Return a pair for replaced units that reveals nonzero draws: a mean of Poisson samples; None beyond reach."""
    near: dict[float, Fraction] = {}
    for move, chance in distances:
        far = max(round_outward(Fraction(move) / Fraction(noise), up=True), _NEAREST)
        near[far] = near.get(far, Fraction(0)) + chance
    total, so_far, found = sum(near.values(), Fraction(0)), Fraction(0), None
    if total < _RAREST or max(near) >= LARGEST_MU / 2:
        return None
    share = round_outward(total, up=True)
    for far, chance in _fewer(near, above=True, kept=_MAX_REVEALED).items():
        pair = DominatingPair(
            GaussianPair(round_up(2 * far, ONCE)) if share == 1 else ReplaceOneGaussianPair(far, share)
        )
        so_far += chance
        found = (
            pair
            if found is None
            else DominatingPair(PublicMixturePair(found, pair, round_outward(chance / so_far, up=True)))
        )
    return None if found is None else found.base
