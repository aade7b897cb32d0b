"""Group privacy of Poisson-sampled Gaussians: what k units that join or leave together lose, exactly as pairs.

If all of a group's members push the sum the same way, a round shows the mixture sum_j Bin(k, q)(j) N(j mu, 1) with the
group and N(0, 1) without it. No group does worse (Ganesh 2024, arXiv:2401.10294), under adaptive composition, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri

from epsilog.accounting.flatten import Bag, gaussian_mu_of
from epsilog.accounting.laws.base import Array, Masses, Normal, normal_cells
from epsilog.accounting.laws.pair import Direction, Pair, Parts
from epsilog.accounting.pairs.dominating import Ordering
from epsilog.accounting.rounding import MU, RATIO, down, gamma, up
from epsilog.terms import CalibrationError, NeighboringRelation, PoissonSampled

LARGEST_GROUP = 256  # members whose mixture is worked out
_ROUNDS = 100
_INVERTED = 2e5  # roundings of 1 by which inverting the ratio may move an edge


@dataclass(frozen=True)
class GroupMixture:
    """The pair (mixture, N(0, 1)) for ``Direction.REMOVE``, turned round for ``Direction.ADD``, by its log ratio.

    Attributes:
        mu: distance that one member moves the mean, over the noise.
        sampling_probability: the chance that a member takes part, below 1.
        units: members, k.
        direction: which of the two is P.
    """

    mu: float
    sampling_probability: float
    units: int
    direction: Direction

    only_p: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def misplacement(self) -> float:
        """Returns how far ``masses`` moves edges."""
        return gamma(_INVERTED + 8 * (self.units * self.mu) ** 2)

    @cached_property
    def _log_weights(self) -> Array:
        q, k = self.sampling_probability, self.units
        return np.array([math.log(math.comb(k, j)) + j * math.log(q) + (k - j) * math.log1p(-q) for j in range(k + 1)])

    def _where(self, u: Array) -> Array:
        """The x at which the mixture's log-likelihood ratio is u: Newton's method on a convex function from above.

        ln sum_{j >= 1} w_j e^(j mu x - j^2 mu^2 / 2) is convex in x, with slope at
        least mu; it equals ln(e^u - w_0).
        """
        least = float(self._log_weights[0])
        over = np.asarray(u, dtype=np.float64) - least
        x = np.where(over > 0, np.inf, -np.inf)
        seen = (over > 0) & np.isfinite(over)
        goal = least + over[seen] + np.log(-np.expm1(-over[seen]))
        if not goal.size:
            return x
        j = np.arange(1, self.units + 1)
        start = self._log_weights[1:] - (j * self.mu) ** 2 / 2
        at = ((goal[:, None] - start) / (j * self.mu)).min(axis=1)
        for _ in range(_ROUNDS):
            terms = start + self.mu * j * at[:, None]
            total = logsumexp(terms, axis=1)
            slope = self.mu * (np.exp(terms - total[:, None]) @ j)
            away = total - goal
            at = at - away / slope
            if float(np.abs(away / (1 + np.abs(goal) + np.abs(self.mu * at) * self.units)).max()) < gamma(64.0):
                x[seen] = at
                return x
        raise CalibrationError(f"the likelihood ratio of {self!r} could not be inverted")

    def masses(self, edges: Array) -> Masses:
        """Returns the mixture's and the normal's masses between the x that belong to the edges."""
        x = self._where(np.asarray(edges if self.direction is Direction.REMOVE else -edges[::-1], dtype=np.float64))
        x = np.clip(x, -1e9, 1e9)
        plain, plain_error = normal_cells(x)
        mixed, mixed_error = np.zeros(len(x) + 1), np.zeros(len(x) + 1)
        for j, weight in enumerate(np.exp(self._log_weights)):
            cells, error = normal_cells(x - j * self.mu)
            mixed += weight * cells
            mixed_error += weight * error
        mixed_error += gamma(64.0 * (self.units + 8)) * mixed
        if self.direction is Direction.REMOVE:
            return Masses(mixed, plain, mixed_error, plain_error)
        return Masses(plain[::-1], mixed[::-1], plain_error[::-1], mixed_error[::-1])

    def _ratio(self, x: Array) -> Array:
        j = np.arange(self.units + 1)
        return np.asarray(logsumexp(self._log_weights + j * self.mu * x[:, None] - (j * self.mu) ** 2 / 2, axis=1))

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of both laws."""
        far = -float(ndtri(tail))
        low, high = (float(v) for v in self._ratio(np.array([-far, far + self.units * self.mu])))
        return (low, high) if self.direction is Direction.REMOVE else (-high, -low)

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest ratio."""
        least = float(self._log_weights[0])
        return (least, math.inf) if self.direction is Direction.REMOVE else (-math.inf, -least)

    def largest(self) -> tuple[float, float]:
        """Returns the highest ratio with room for its rounding."""
        high = self.ends()[1]
        return down(high, RATIO), up(high, RATIO)

    def landmarks(self, tail: float) -> Array:
        """Returns even steps in x."""
        far = -float(ndtri(tail))
        u = self._ratio(np.linspace(-far, far + self.units * self.mu, 257))
        return np.unique(u if self.direction is Direction.REMOVE else -u)


def group_orderings(bag: Bag, relation: NeighboringRelation, *, units: int) -> tuple[Ordering, Ordering] | None:
    """Pairs for a group of ``units`` that joins and for one that leaves; None if a part has none that is proven.

    They bound a group that acts as a whole: all its members are added, removed or zeroed out.
    """
    if relation is NeighboringRelation.REPLACE_ONE or units > LARGEST_GROUP:
        return None
    ways = []
    for direction in (Direction.REMOVE, Direction.ADD):
        sides = []
        for outwards in (up, down):
            parts = _parts(bag, relation, units=units, direction=direction, outwards=outwards)
            if parts is None:
                return None
            sides.append(parts)
        ways.append(Ordering(sides[0], (sides[1],)))
    return ways[0], ways[1]


def _parts(
    bag: Bag,
    relation: NeighboringRelation,
    *,
    units: int,
    direction: Direction,
    outwards: Callable[[float, float], float],
) -> Parts | None:
    distances, found = [], []
    for part, count in bag.items():
        sampled = part if isinstance(part, PoissonSampled) else None
        mu = gaussian_mu_of(sampled.release if sampled else part, relation)
        if mu is None or not 0 < mu < 100:
            return None
        if sampled:
            found.append((Pair(GroupMixture(outwards(mu, MU), sampled.sampling_probability, units, direction)), count))
        else:
            distances.append(math.sqrt(count) * units * mu)
    if distances:
        found.append((Pair(Normal(outwards(math.hypot(*distances), MU))), 1))
    return tuple(found)
