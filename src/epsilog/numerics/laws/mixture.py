"""Mixtures of Gaussians: a mean that moves by a random distance which is not told, and one that is.

The pair (sum_j w_j N(c_j, 1), N(0, 1)) with distances c_j from 0 on is what a sum shows to which a random number of
units of a group contribute, of a Poisson sample or of a sample of a fixed size, and what a mixture of Gaussians states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, ndtri

from epsilog.numerics.laws.base import Array, Masses, Normal, Unbounded, normal_cells
from epsilog.numerics.laws.pair import Direction
from epsilog.numerics.rounding import RATIO, down, gamma, up
from epsilog.terms import CalibrationError

_ROUNDS = 100
_PIECE = 2**21  # terms that are looked at together
_INVERTED = 2e5  # roundings of 1 by which inverting the ratio may move an edge


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """The pair (mixture, N(0, 1)) for ``Direction.REMOVE``, turned round for ``Direction.ADD``, by its log ratio.

    Attributes:
        distances: ascending, above 0, at least one, shape (k,).
        weights: their chances, above 0, shape (k,).
        rest: the chance of the distance 0.
        direction: which of the two is P.
        beyond: the chance of a distance that gives everything away: for upper bounds.
        roundings: of the chances, beyond a few.
        least: the logarithm of ``rest`` of the pair that this one stands for.
    """

    distances: Array
    weights: Array
    rest: float
    direction: Direction
    beyond: float = 0.0
    roundings: float = 0.0
    least: float | None = None

    only_p: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def misplacement(self) -> float:
        """Returns how far ``masses`` moves edges."""
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
            x[seen] = np.concatenate([self._inverted(piece) for piece in np.array_split(goal, pieces)])
        return x

    def _inverted(self, goal: Array) -> Array:
        far, start = self.distances, self._starts
        at = ((goal[:, None] - start) / far).min(axis=1)
        for _ in range(_ROUNDS):
            terms = start + at[:, None] * far
            total = logsumexp(terms, axis=1)
            slope = np.exp(terms - total[:, None]) @ far
            away = total - goal
            at = at - away / slope
            if float(np.abs(away / (1 + np.abs(goal) + np.abs(at) * far[-1])).max()) < gamma(64.0):
                return np.asarray(at)
        raise CalibrationError(f"the likelihood ratio of {self!r} could not be inverted")

    def masses(self, edges: Array) -> Masses:
        """Returns the mixture's and the normal's masses between the x that belong to the edges."""
        edges = np.asarray(edges, dtype=np.float64)
        x = self._where(edges if self.direction is Direction.REMOVE else -edges[::-1])
        x = np.clip(x, -1e9, 1e9)
        plain, plain_error = normal_cells(x)
        mixed, mixed_error = self.rest * plain, self.rest * plain_error
        for far, weight in zip(self.distances, self.weights, strict=True):
            cells, error = normal_cells(x - far)
            mixed += weight * cells
            mixed_error += weight * error
        mixed_error += gamma(64.0 * (len(self.weights) + 8) + self.roundings) * mixed
        if self.direction is Direction.REMOVE:
            mixed[int(np.searchsorted(edges, np.inf, side="left"))] += self.beyond
            return Masses(mixed, plain, mixed_error, plain_error)
        return Masses(plain[::-1], mixed[::-1], plain_error[::-1], mixed_error[::-1])

    def _ratio(self, x: Array) -> Array:
        moved = logsumexp(self._starts + x[:, None] * self.distances, axis=1)
        return np.asarray(np.logaddexp(self._least, moved))

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of both laws."""
        far = -float(ndtri(tail))
        low, high = (float(v) for v in self._ratio(np.array([-far, far + float(self.distances[-1])])))
        return (low, high) if self.direction is Direction.REMOVE else (-high, -low)

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest ratio."""
        return (self._least, math.inf) if self.direction is Direction.REMOVE else (-math.inf, -self._least)

    def largest(self) -> tuple[float, float]:
        """Returns the highest ratio of what the law stands for, with room for its rounding."""
        if self.direction is Direction.REMOVE:
            return math.inf, math.inf
        high = -(self._least if self.least is None else self.least)
        return down(high, RATIO + self.roundings), up(high, RATIO + self.roundings)

    def landmarks(self, tail: float) -> Array:
        """Returns even steps in x."""
        far = -float(ndtri(tail))
        u = self._ratio(np.linspace(-far, far + float(self.distances[-1]), 257))
        return np.unique(u if self.direction is Direction.REMOVE else -u)


@dataclass(frozen=True, eq=False)
class ToldDistance(Unbounded):
    """Two Gaussians at a random distance that is told; without atoms, and symmetric.

    Attributes:
        distances: ascending, above 0, shape (k,).
        weights: their chances, which add up to 1, shape (k,).
        beyond: the chance of giving everything away instead, for upper bounds.
        roundings: of the chances, beyond a few.
    """

    distances: Array
    weights: Array
    beyond: float = 0.0
    roundings: float = 0.0

    @cached_property
    def _laws(self) -> tuple[Normal, ...]:
        return tuple(map(Normal, map(float, self.distances)))

    @property
    def misplacement(self) -> float:
        """Returns that of the farthest."""
        return self._laws[-1].misplacement

    def masses(self, edges: Array) -> Masses:
        """Returns the mean of the masses of all."""
        edges = np.asarray(edges, dtype=np.float64)
        total = [np.zeros(len(edges) + 1) for _ in range(4)]
        for law, weight in zip(self._laws, self.weights, strict=True):
            for mean, one in zip(total, law.masses(edges), strict=True):
                np.add(mean, weight * one, out=mean)
        p, q, p_error, q_error = total
        error = gamma(16.0 + 4 * len(self.weights) + self.roundings)
        p[int(np.searchsorted(edges, np.inf, side="left"))] += self.beyond
        q[int(np.searchsorted(edges, -np.inf, side="right"))] += self.beyond
        return Masses(p, q, p_error + error * p, q_error + error * q)

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of the farthest that matters."""
        left = np.cumsum(self.weights[::-1])[::-1]
        return self._laws[max(int((left > tail).sum()) - 1, 0)].reach(tail)

    def landmarks(self, tail: float) -> Array:
        """Returns even steps."""
        return np.linspace(*self.reach(tail), 257)
