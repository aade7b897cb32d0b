"""Base pairs: two distributions (P, Q), described by the ratio of their densities.

A base pair answers one question: which masses do P and Q give to outcomes with a log-likelihood ratio u = ln dP/dQ
between given edges? ``pair`` turns that into a privacy loss under sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from epsilog.numerics.rounding import LEAST, ONCE, RATIO, TINY, TWICE, gamma, round_down, round_up

Array = npt.NDArray[np.float64]

_ONE = np.ones(1)
LARGEST_LOSS = 600.0  # beyond it e^loss nears overflow: such outcomes count as giving everything away
_EDGE = 8  # roundings of an edge, by its size and by mu^2: two quotients, a product and a sum
_TAIL, _TAIL_SQUARED = 16, 8  # of a normal tail, and of it by x^2: derived at ``compute_normal_masses``
_ATOM = 64  # of a mass that a few functions make


class CellMasses(NamedTuple):
    """Masses between n ascending edges, shape (n + 1,), outer cells included, and how far each may be off."""

    p: Array
    q: Array
    p_error: Array
    q_error: Array


class BasePair(Protocol):
    """Two distributions by their log-likelihood ratio u; symmetric: swapping them preserves the distribution of u.

    Attributes:
        only_p: mass under P of outcomes that Q cannot produce.
        has_atoms: whether single ratios have mass.
        misplacement: how far, in u, rounding may move an atom, or an edge beyond its 8 roundings.
    """

    @property
    def infinity_mass(self) -> float: ...  # noqa: D102

    @property
    def has_atoms(self) -> bool: ...  # noqa: D102

    @property
    def ratio_error(self) -> float: ...  # noqa: D102

    def masses(self, edges: Array) -> CellMasses:
        """Return the masses of the outcomes with u in (-inf, e_0], (e_0, e_1], ..., (e_last, inf]."""
        ...

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return (low, high): under P and under Q at most ``tail`` of finite u is beyond either."""
        ...

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest finite ratio."""
        ...

    def max_loss(self) -> tuple[float, float]:
        """Bound the largest ratio of the release, which may exceed that of the pair; ``inf`` if unbounded."""
        ...

    def breakpoints(self, tail: float) -> Array:
        """Return ascending u at which planning cuts the pair, a few hundred at most."""
        ...


class Unbounded:
    """A pair without atoms; every ratio can occur. Abstract."""

    infinity_mass: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    def finite_range(self) -> tuple[float, float]:
        """Return infinities: every ratio can occur."""
        return -math.inf, math.inf

    def max_loss(self) -> tuple[float, float]:
        """Return infinities."""
        return math.inf, math.inf


@dataclass(frozen=True)
class GaussianPair(Unbounded):
    """N(mu, 1) against N(0, 1): u = mu x - mu^2 / 2."""

    mu: float

    @property
    def ratio_error(self) -> float:
        """Return what rounding of x = u / mu + mu / 2 moves u by."""
        return gamma(TWICE) * self.mu**2

    def masses(self, edges: Array) -> CellMasses:
        """Return differences of normal tails, each taken on its smaller side."""
        x = edges / self.mu + self.mu / 2
        q, q_error = compute_normal_masses(x)
        p, p_error = compute_normal_masses(x - self.mu)
        return CellMasses(p, q, p_error, q_error)

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of both distributions."""
        far = self.mu * -float(ndtri(tail)) + self.mu**2 / 2
        return -far, far

    def breakpoints(self, tail: float) -> Array:
        """Return even steps in x."""
        low, high = self.tail_bounds(tail)
        return np.linspace(low, high, 257)


@dataclass(frozen=True)
class WideDiscrete(Unbounded):
    """Discrete Gaussian noise with tiny steps: its sums as integrals, with their errors bounded.

    The mass at k = x sigma is the normal mass from k - 1/2 to k + 1/2, up to (1 + x^2) / (20 sigma^2) of it (the
    midpoint rule). A ratio is at most half a step from its normal value.
    """

    stddev: float  # sigma, in counts, at least 1000
    shift: int  # how far the count moves, a whole number; the two are at most 1e4 sigma apart

    @property
    def _normal(self) -> GaussianPair:
        return GaussianPair(self.shift / self.stddev)

    @property
    def ratio_error(self) -> float:
        """Return half a step, and what rounding adds."""
        mu = self._normal.mu
        return 0.51 * mu / self.stddev + gamma(_EDGE) * mu**2

    def masses(self, edges: Array) -> CellMasses:
        """Return those of the normal distribution."""
        mu = self._normal.mu
        x = edges / mu + mu / 2
        (q, q_error), (p, p_error) = compute_normal_masses(x), compute_normal_masses(x - mu)
        return CellMasses(p, q, p_error + self._off(x - mu) * p, q_error + self._off(x) * q)

    def _off(self, x: Array) -> Array:
        far = np.minimum(np.abs(np.concatenate(([-np.inf], x, [np.inf]))), 40.0) + 1 / self.stddev
        return np.asarray((1 + np.maximum(far[:-1], far[1:]) ** 2) / (20 * self.stddev**2))

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the tails of both distributions."""
        low, high = self._normal.tail_bounds(tail)
        return low - self.ratio_error, high + self.ratio_error

    def breakpoints(self, tail: float) -> Array:
        """Return even steps in x."""
        return self._normal.breakpoints(tail)


def compute_normal_masses(x: Array) -> tuple[Array, Array]:
    """Return masses of a standard normal between edges, and how far each may be off.

    ndtr(x) errs by (8 + 4 x^2) u of the smaller tail, because its argument is rounded before it is squared. Rounding of
    x - mu moves that tail by (1 + x^2) u of it (Mills' ratio). The bound allows twice both, at either edge of a cell.
    The larger tail is the complement of the smaller.
    """
    away = np.abs(x)
    tail = ndtr(-away)
    below, above = np.where(x > 0, 1 - tail, tail), np.where(x > 0, tail, 1 - tail)
    square = np.square(np.minimum(away, 60))
    squared = gamma(_TAIL_SQUARED) * square * tail
    # from 37 on tails leave the normal numbers; beyond 60 no e^loss brings them back
    far = (away > 37) & (away < 60)
    squared[far] += np.exp(-square[far] / 2) + LEAST
    rising, falling = _between(0.0, below, 1.0), _between(1.0, above, 0.0)
    error_below, error_above = (_between(0.0, gamma(_TAIL) * tail + squared, 0.0) for tail in (below, above))
    left = np.concatenate((below, _ONE)) < 0.5  # cells below the median
    lower, upper = slice(None, -1), slice(1, None)
    mass = np.where(left, rising[upper] - rising[lower], falling[lower] - falling[upper])
    error = np.where(
        left,
        error_below[upper] + error_below[lower],
        error_above[upper] + error_above[lower] + gamma(ONCE) * falling[lower],
    )
    return np.maximum(mass, 0.0), error


def _between(first: float, inner: Array, last: float) -> Array:
    return np.concatenate(((first,), inner, (last,)))


@dataclass(frozen=True)
class LaplacePair:
    """P has density weight * e^(u/2) for abs(u) < epsilon, and atoms at both ends; Q = e^-u P.

    Laplace: weight e^(-epsilon/2) / 4, top 1/2. Bounded range (the exponential mechanism): weight e^(epsilon/2) / (2
    (e^epsilon - 1)), top 0. The bottom atom of P is e^-epsilon times the top one. ``stated`` bounds the largest ratio
    of the release, if it differs from that of the pair.
    """

    epsilon: float
    weight: float
    top: float
    stated: tuple[float, float] | None = None

    infinity_mass: ClassVar[float] = 0.0

    @property
    def has_atoms(self) -> bool:
        """Return whether the ends weigh anything."""
        return self.top > 0

    @property
    def ratio_error(self) -> float:
        """Return a few times what rounding can move the ends by; without atoms they bound the support alone."""
        return gamma(256 + 64 * self.epsilon) if self.has_atoms else 0.0

    def masses(self, edges: Array) -> CellMasses:
        """Return closed forms; nothing cancels."""
        v = np.clip(edges, -self.epsilon, self.epsilon)
        a, b = np.insert(v, 0, -self.epsilon), np.append(v, self.epsilon)
        span = 2 * self.weight * np.expm1((b - a) / 2)
        p, q = span * np.exp(a / 2), span * np.exp(-b / 2)
        high = int(np.searchsorted(edges, self.epsilon, side="left"))
        low = int(np.searchsorted(edges, -self.epsilon, side="left"))
        bottom = self.top * math.exp(-self.epsilon)
        p[high] += self.top
        q[high] += bottom
        p[low] += bottom
        q[low] += self.top
        error = gamma(16 + 4 * self.epsilon)
        return CellMasses(p, q, error * p, error * q)

    def tail_bounds(self, tail: float) -> tuple[float, float]:  # noqa: ARG002
        """Return the ends of the support, with their rounding."""
        far = round_up(self.epsilon, TWICE)
        return -far, far

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio."""
        return -self.epsilon, self.epsilon

    def max_loss(self) -> tuple[float, float]:
        """Return what is stated, or else epsilon."""
        return self.stated or (self.epsilon, self.epsilon)

    def breakpoints(self, tail: float) -> Array:  # noqa: ARG002
        """Return even steps, with the atoms apart."""
        return np.append(np.linspace(-self.epsilon, self.epsilon, 129)[:-1], self.epsilon * (1 - np.array([1e-9, 0])))


@dataclass(frozen=True)
class DiscretePair:
    """Finitely many outcomes: ascending ratios ``u`` with P-masses ``p``, and outcomes of P or Q alone.

    Attributes:
        u: finite log-likelihood ratios, ascending, shape (k,).
        p: their masses under P, shape (k,); under Q they have p e^-u.
        only_p: mass under P of outcomes that Q cannot produce (by symmetry also the reverse), exact or on the safe
            side.
        step: if positive, all u lie on ``u[0] + step * integers``.
        relative_error: of the masses.
        stated: bounds of the largest ratio of the release, if it differs from that of the pair.
        roundings: in a ratio, relative to it.
    """

    u: Array
    p: Array
    infinity_mass: float = 0.0
    step: float = 0.0
    relative_error: float = gamma(_ATOM)
    stated: tuple[float, float] | None = None
    roundings: float = RATIO

    has_atoms: ClassVar[bool] = True

    @property
    def ratio_error(self) -> float:
        """Return a few times what rounding can move an atom by."""
        return 8 * self.relative_error + gamma(64 + 8 * self.roundings * float(np.abs(self.u).max(initial=0.0)))

    def masses(self, edges: Array) -> CellMasses:
        """Sum atoms by cell; outcomes of P alone are above every finite edge, those of Q alone below."""
        cell = np.searchsorted(edges, self.u, side="left")
        size = len(edges) + 1
        p: Array = np.bincount(cell, weights=self.p, minlength=size).astype(np.float64)
        q: Array = np.bincount(cell, weights=self.p * np.exp(-self.u), minlength=size).astype(np.float64)
        p[int(np.searchsorted(edges, np.inf, side="left"))] += self.infinity_mass
        q[int(np.searchsorted(edges, -np.inf, side="right"))] += self.infinity_mass
        error = self.relative_error + gamma(4 * float(np.abs(self.u).max(initial=0.0)))
        return CellMasses(p, q, error * p, error * q)

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the start of the upper tail of P, with its rounding; by symmetry Q's lower one."""
        if len(self.u) == 0:
            return 0.0, 0.0
        above = np.cumsum(self.p[::-1])[::-1]
        far = float(np.abs(self.u[max(int(np.searchsorted(-above, -tail)) - 1, 0)]))
        far = round_up(max(far, float(self.u[-1]) if len(self.u) <= 8 else far), TWICE) + TINY
        return -far, far

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest ratio."""
        return (float(self.u[0]), float(self.u[-1])) if len(self.u) else (0.0, 0.0)

    def max_loss(self) -> tuple[float, float]:
        """Return the stated bounds, or the highest ratio with its rounding; ``inf`` if one is infinite."""
        if self.stated is not None:
            return self.stated
        top = math.inf if self.infinity_mass > 0 else self.finite_range()[1]
        return round_down(top, self.roundings), round_up(top, self.roundings)

    def breakpoints(self, tail: float) -> Array:
        """Return the atoms themselves, or even steps when there are many."""
        if len(self.u) <= 257:
            return np.unique(self.u) if len(self.u) else np.zeros(1)
        return np.linspace(*self.tail_bounds(tail), 257)


def bound_ratio_misplacement(base: BasePair, u: Array) -> Array:
    """Bound how far, in ratio, ``masses`` may misplace an atom or an edge at u."""
    return np.asarray(base.ratio_error + gamma(_EDGE) * np.abs(u))
