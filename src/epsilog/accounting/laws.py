"""Pairs of laws (P, Q), seen through their privacy loss: a base law, and the link by which sampling bends it.

The base law answers one question: which masses do P and Q give to the outcomes whose log-likelihood ratio
u = ln dP/dQ falls between given edges? The link says how sampling turns u into the loss g of the
sampled pair. All that an accountant needs of a cell, its surplus P - e^g Q at a lattice point g, is A(g) p - B(g) q in
the *base* masses p and q: sampling then never subtracts numbers that agree to q digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from epsilog.accounting.rounding import BOUND, ELEMENTARY, LEAST, LOSS, RATIO, TINY, UNDERFLOW, down, gamma, up

Array = npt.NDArray[np.float64]

_ONE = np.ones(1)
LARGEST_LOSS = 600.0  # beyond it e^loss nears overflow: such outcomes count as giving everything away
_FARTHEST = 700.0  # a ratio from which on sampled losses are worked out by their logarithms


class Masses(NamedTuple):
    """Masses between n ascending edges, shape (n + 1,), outer cells included, and how far each may be off."""

    p: Array
    q: Array
    p_error: Array
    q_error: Array


class BaseLaw(Protocol):
    """Two laws by their log-likelihood ratio u; symmetric: swapping them leaves the law of the ratio as it was.

    Attributes:
        only_p: mass under P of outcomes that Q cannot produce.
        has_atoms: whether single ratios have a mass of their own.
        misplacement: how far, in u, rounding may move an atom, or an edge beyond 8 roundings of its own.
    """

    @property
    def only_p(self) -> float: ...  # noqa: D102

    @property
    def has_atoms(self) -> bool: ...  # noqa: D102

    @property
    def misplacement(self) -> float: ...  # noqa: D102

    def masses(self, edges: Array) -> Masses:
        """Returns the masses of the outcomes with u in (-inf, e_0], (e_0, e_1], ..., (e_last, inf]."""
        ...

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns (low, high): under P and under Q at most ``tail`` of finite u lies beyond either."""
        ...

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest finite ratio."""
        ...

    def largest(self) -> tuple[float, float]:
        """Bounds the largest ratio of what the law stands for, which may reach further; ``inf`` if none is."""
        ...

    def landmarks(self, tail: float) -> Array:
        """Returns ascending u at which to cut the law for planning, a few hundred at most."""
        ...


@dataclass(frozen=True)
class Normal:
    """N(mu, 1) against N(0, 1): u = mu x - mu^2 / 2."""

    mu: float

    only_p: ClassVar[float] = 0.0
    has_atoms: ClassVar[bool] = False

    @property
    def misplacement(self) -> float:
        """Returns what rounding of x = u / mu + mu / 2 moves u by."""
        return gamma(2.0) * self.mu**2

    def masses(self, edges: Array) -> Masses:
        """Returns differences of normal tails, each taken on its smaller side."""
        x = edges / self.mu + self.mu / 2
        q, q_error = normal_cells(x)
        p, p_error = normal_cells(x - self.mu)
        return Masses(p, q, p_error, q_error)

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the tails of both laws."""
        far = self.mu * -float(ndtri(tail)) + self.mu**2 / 2
        return -far, far

    def ends(self) -> tuple[float, float]:
        """Returns infinities: every ratio can occur."""
        return -math.inf, math.inf

    def largest(self) -> tuple[float, float]:
        """Returns infinities."""
        return math.inf, math.inf

    def landmarks(self, tail: float) -> Array:
        """Returns even steps in x."""
        low, high = self.reach(tail)
        return np.linspace(low, high, 257)


def normal_cells(x: Array) -> tuple[Array, Array]:
    """Masses of a standard normal between edges, and how far each may be off.

    ndtr(x) errs by (8 + 4 x^2) u of the smaller tail (its argument is rounded before it is squared), and rounding of
    x - mu moves that tail by (1 + x^2) u of it (Mills' ratio): twice both is allowed for, at either edge of a cell.
    """
    below, above = ndtr(x), ndtr(-x)
    square = np.square(np.minimum(np.abs(x), 60))
    # from 37 on tails leave the normal numbers; beyond 60 no e^loss brings them back
    underflow = np.where((square > 37**2) & (square < 60**2), np.exp(-square / 2) + LEAST, 0.0)
    squared = gamma(8.0) * square * np.minimum(below, above) + underflow
    rising, falling = _between(0.0, below, 1.0), _between(1.0, above, 0.0)
    error_below, error_above = (_between(0.0, gamma(16.0) * tail + squared, 0.0) for tail in (below, above))
    left = np.concatenate((below, _ONE)) < 0.5  # cells below the median
    lower, upper = slice(None, -1), slice(1, None)
    mass = np.where(left, rising[upper] - rising[lower], falling[lower] - falling[upper])
    error = np.where(
        left,
        error_below[upper] + error_below[lower],
        error_above[upper] + error_above[lower] + gamma(1.0) * falling[lower],
    )
    return np.maximum(mass, 0.0), error


def _between(first: float, inner: Array, last: float) -> Array:
    return np.concatenate(((first,), inner, (last,)))


@dataclass(frozen=True)
class Tent:
    """P has density weight * e^(u/2) for abs(u) < epsilon, and atoms at both ends; Q = e^-u P.

    Laplace: weight e^(-epsilon/2) / 4, top 1/2. Bounded range (the exponential mechanism): weight
    e^(epsilon/2) / (2 (e^epsilon - 1)), top 0. The bottom atom of P is e^-epsilon times the top one. ``stated``
    bounds the largest ratio of the release that the law stands for, if that is not the law's own.
    """

    epsilon: float
    weight: float
    top: float
    stated: tuple[float, float] | None = None

    only_p: ClassVar[float] = 0.0

    @property
    def has_atoms(self) -> bool:
        """Returns whether the ends weigh anything."""
        return self.top > 0

    @property
    def misplacement(self) -> float:
        """Returns a few times what rounding can move the ends by; without atoms they bound the support alone."""
        return gamma(256 + 64 * self.epsilon) if self.has_atoms else 0.0

    def masses(self, edges: Array) -> Masses:
        """Returns closed forms; nothing cancels."""
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
        return Masses(p, q, error * p, error * q)

    def reach(self, tail: float) -> tuple[float, float]:  # noqa: ARG002
        """Returns the ends of the support, with room for rounding."""
        far = up(self.epsilon, 2)
        return -far, far

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest ratio."""
        return -self.epsilon, self.epsilon

    def largest(self) -> tuple[float, float]:
        """Returns what is stated, or else epsilon."""
        return self.stated or (self.epsilon, self.epsilon)

    def landmarks(self, tail: float) -> Array:  # noqa: ARG002
        """Returns even steps, with the atoms apart."""
        return np.append(np.linspace(-self.epsilon, self.epsilon, 129)[:-1], self.epsilon * (1 - np.array([1e-9, 0])))


@dataclass(frozen=True)
class Atoms:
    """Finitely many outcomes: ascending ratios ``u`` with P-masses ``p``, and what one law alone can produce.

    Attributes:
        u: finite log-likelihood ratios, ascending, shape (k,).
        p: their masses under P, shape (k,); under Q they have p e^-u.
        only_p: mass under P of outcomes that Q cannot produce (and of Q's that P cannot: the law is symmetric), exact
            or on the law's safe side.
        step: if positive, all u lie on ``u[0] + step * integers``.
        relative_error: of the masses.
        stated: bounds of the largest ratio of the release that the law stands for, if that is not the law's own.
    """

    u: Array
    p: Array
    only_p: float = 0.0
    step: float = 0.0
    relative_error: float = gamma(64.0)
    stated: tuple[float, float] | None = None

    has_atoms: ClassVar[bool] = True

    @property
    def misplacement(self) -> float:
        """Returns a few times what rounding can move an atom by."""
        return 8 * self.relative_error + gamma(64 + 64 * float(np.abs(self.u).max(initial=0.0)))

    def masses(self, edges: Array) -> Masses:
        """Sums atoms by cell; what P alone produces lies above every finite edge, what Q alone produces below."""
        cell = np.searchsorted(edges, self.u, side="left")
        size = len(edges) + 1
        p: Array = np.bincount(cell, weights=self.p, minlength=size).astype(np.float64)
        q: Array = np.bincount(cell, weights=self.p * np.exp(-self.u), minlength=size).astype(np.float64)
        p[int(np.searchsorted(edges, np.inf, side="left"))] += self.only_p
        q[int(np.searchsorted(edges, -np.inf, side="right"))] += self.only_p
        error = self.relative_error + gamma(4 * float(np.abs(self.u).max(initial=0.0)))
        return Masses(p, q, error * p, error * q)

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns where the upper tail of P starts, with room for rounding; by symmetry Q's lower one."""
        if len(self.u) == 0:
            return 0.0, 0.0
        above = np.cumsum(self.p[::-1])[::-1]
        far = float(np.abs(self.u[max(int(np.searchsorted(-above, -tail)) - 1, 0)]))
        far = up(max(far, float(self.u[-1]) if len(self.u) <= 8 else far), 2) + TINY
        return -far, far

    def ends(self) -> tuple[float, float]:
        """Returns the lowest and the highest ratio."""
        return (float(self.u[0]), float(self.u[-1])) if len(self.u) else (0.0, 0.0)

    def largest(self) -> tuple[float, float]:
        """Returns what is stated, or else the highest ratio with room for its rounding; ``inf`` if one is infinite."""
        if self.stated is not None:
            return self.stated
        top = math.inf if self.only_p > 0 else self.ends()[1]
        return down(top, RATIO), up(top, RATIO)

    def landmarks(self, tail: float) -> Array:
        """Returns the atoms themselves, or even steps when there are many."""
        if len(self.u) <= 257:
            return np.unique(self.u) if len(self.u) else np.zeros(1)
        return np.linspace(*self.reach(tail), 257)


class Outcomes(NamedTuple):
    """The atoms of a pair, each with bounds of its loss and of its mass under P; they tell all that delta needs.

    Attributes:
        low: losses at least, ascending, shape (k,).
        high: losses at most, shape (k,).
        mass: masses under P, shape (k,).
        infinite: bounds of the mass under P of outcomes that Q cannot produce.
        relative_error: of the masses.
    """

    low: Array
    high: Array
    mass: Array
    infinite: tuple[float, float]
    relative_error: float

    def delta(self, epsilon: float, *, upper: bool) -> float:
        """Bounds delta of the pair from one side: each outcome adds its mass times 1 - e^(epsilon - loss)."""
        away = (self.high if upper else self.low) - epsilon
        beyond = away > 0
        if not beyond.any():
            return min(self.infinite[upper], 1.0)
        total = float(np.sum(self.mass[beyond] * -np.expm1(-away[beyond])))
        error = self.relative_error + gamma(16.0 + len(self.mass))
        if upper:
            return min(up(total * (1 + error) + self.infinite[1], 3) + UNDERFLOW, 1.0)
        return max(down(total * (1 - error) + self.infinite[0], 3) - UNDERFLOW, 0.0)


def _outcomes(low: Array, high: Array, mass: Array, infinite: tuple[float, float], error: float) -> Outcomes:
    order = np.argsort(low, kind="stable")
    order = order[mass[order] > 0]
    return Outcomes(low[order], high[order], mass[order], infinite, error)


def ratio_misplacement(law: BaseLaw, u: Array) -> Array:
    """Bounds how far, in ratio, ``masses`` may misplace an atom or an edge at u."""
    return np.asarray(law.misplacement + gamma(8.0) * np.abs(u))


class Link(Enum):
    """How the loss of a pair follows from the ratio u of its base law."""

    PLAIN = "plain"  # (P, Q)
    REMOVE = "remove"  # ((1 - q) Q + q P, Q)
    ADD = "add"  # (P, (1 - q) P + q Q)
    BOTH = "both"  # the profile of REMOVE for losses above 0 and of ADD below: symmetric; upper bounds only


@dataclass(frozen=True)
class Pair:
    """A dominating pair: a base law, the chance q that the unit is in the sample, and the link."""

    law: BaseLaw
    sampling_probability: float = 1.0
    link: Link = Link.PLAIN

    def to_base(self, g: Array) -> Array:
        """Returns the base ratio u at each loss g; infinite where no outcome has such a loss."""
        if self.link is Link.PLAIN:
            return g
        sign, share = (1.0 if self.link is Link.REMOVE else -1.0), self.sampling_probability
        v = sign * g
        with np.errstate(divide="ignore", over="ignore"):
            near = np.log1p(np.maximum(np.expm1(np.minimum(v, 1.0)) / share, -1.0))
            if share >= 0.5:  # 1 - share is exact, and nothing else cancels
                below = np.log(np.maximum(np.exp(np.minimum(v, 0.0)) - (1 - share), 0.0) / share)
                near = np.where(v < -0.5, below, near)
            far = v + np.log1p(-(1 - share) * np.exp(-np.maximum(v, 1.0))) - math.log(share)
        return np.asarray(sign * np.where(v < 1, near, far))

    @property
    def atom_misplacement(self) -> float:
        """Bounds how far, in loss, rounding may move an atom; 0 if there is none."""
        if self.link is Link.PLAIN or not self.law.has_atoms:
            return self.law.misplacement if self.law.has_atoms else 0.0
        ends = np.array(self.law.ends())
        loss = self.from_base(ends)
        steepest = float(self._slope(ends, loss).max())  # the slope is monotone
        return steepest * self.law.misplacement + gamma(64.0) * float(np.abs(loss).max()) + UNDERFLOW

    def _slope(self, u: Array, g: Array) -> Array:
        """The derivative of the loss g in u, or a little more: the chance of having been sampled, given the outcome."""
        away = u - g if self.link is Link.REMOVE else g - u
        return np.asarray(np.exp(np.minimum(math.log(self.sampling_probability) + away + BOUND, 0.0)))

    def misplacement(self, g: Array, offset: float = 0.0) -> float:
        """Bounds how far, in loss, ``to_base`` and ``masses`` may misplace an outcome at any of the losses g.

        ``offset`` is the largest number that g was made from. docs/accounting/certified-bounds.md, section 2.
        """
        u = self.to_base(g)
        seen = np.isfinite(u)
        losses = gamma(32.0) * np.abs(g) + gamma(4.0) * abs(offset) + UNDERFLOW
        u, g = u[seen], g[seen]
        slope = np.ones(len(u)) if self.link is Link.PLAIN else self._slope(u, g)
        edges = slope * ratio_misplacement(self.law, u)
        return float(np.max(losses, initial=0.0)) + float(np.max(edges, initial=0.0))

    def from_base(self, u: Array) -> Array:
        """Returns the loss at each base ratio: off by 16 units of itself, beyond what 8 units of u amount to.

        docs/accounting/certified-bounds.md, section 2.
        """
        if self.link is Link.PLAIN:
            return u
        sign, q = (-1.0 if self.link is Link.ADD else 1.0), self.sampling_probability
        v = sign * u
        with np.errstate(divide="ignore"):
            near = np.minimum(v, _FARTHEST)
            rise = q * np.expm1(near)
            low = np.log((1 - q) + q * np.exp(near))  # only if q is above 1/2, where 1 - q is exact
            near = np.where(rise > -0.5, np.log1p(np.maximum(rise, -0.5)), low)
            far = np.logaddexp(math.log1p(-q), np.maximum(v, _FARTHEST) + math.log(q)) if q < 1 else v
        return np.asarray(sign * np.where(v < _FARTHEST, near, far))

    def largest_loss(self) -> tuple[float, float]:
        """Bounds the largest loss of what the pair stands for from below and above; ``inf`` if none is the largest."""
        low, high = self.law.largest()
        if self.link is Link.PLAIN:
            return low, high
        lows, highs = self._outwards(np.array([low, high]), RATIO)
        return max(float(lows[0]), 0.0), max(float(highs[1]), 0.0)

    def _outwards(self, u: Array, roundings: float) -> tuple[Array, Array]:
        """Bounds the losses at ratios that took so many roundings: the loss rises with the ratio."""
        low, high = self.from_base(down(u, roundings)), self.from_base(up(u, roundings))
        return down(low, LOSS) - UNDERFLOW, up(high, LOSS) + UNDERFLOW

    def outcomes(self) -> Outcomes | None:
        """The pair's atoms if it has nothing else, sampled or not: nothing in them cancels."""
        law, q = self.law, self.sampling_probability
        if not isinstance(law, Atoms) or self.link is Link.BOTH:
            return None
        far, error = float(np.abs(law.u).max(initial=0.0)), law.relative_error
        if self.link is Link.PLAIN:
            return _outcomes(down(law.u, RATIO), up(law.u, RATIO), law.p, (law.only_p, law.only_p), error)
        low, high = self._outwards(law.u, 2 * RATIO)
        if self.link is Link.ADD:
            alone = -math.log1p(-q)  # of what the unit alone produces: it may not have been sampled
            low, high = np.append(low, down(alone, ELEMENTARY)), np.append(high, up(alone, ELEMENTARY))
            return _outcomes(low, high, np.append(law.p, law.only_p), (0.0, 0.0), error)
        alone = math.log1p(-q)
        mass = law.p * ((1 - q) * np.exp(-law.u) + q)
        low, high = np.append(low, down(alone, ELEMENTARY)), np.append(high, up(alone, ELEMENTARY))
        mass = np.append(mass, (1 - q) * law.only_p)
        certain = down(q * law.only_p, 1), up(q * law.only_p, 1)
        return _outcomes(low, high, mass, certain, error + gamma(24 + 16 * far))

    def coefficients(self, g: Array) -> tuple[Array, Array]:
        """Returns A and B: a cell with base masses (p, q) has surplus P - e^g Q = A(g) p - B(g) q.

        One of them is negative where no outcome has a loss so low, or so high.
        """
        share = self.sampling_probability
        match self.link:
            case Link.REMOVE:
                return np.full_like(g, share), np.expm1(g) + share
            case Link.ADD:
                return np.exp(g) * (np.expm1(-g) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def magnitudes(self, g: Array) -> tuple[Array, Array]:
        """Returns A and B with every term taken positive: what their rounding errors are relative to."""
        share = self.sampling_probability
        match self.link:
            case Link.REMOVE:
                return np.full_like(g, share), np.abs(np.expm1(g)) + share
            case Link.ADD:
                return np.exp(g) * (np.abs(np.expm1(-g)) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def own(self, p: Array, q: Array) -> tuple[Array, Array]:
        """Returns the masses under the pair's own two laws, from base masses (or from their errors)."""
        share = self.sampling_probability
        match self.link:
            case Link.REMOVE:
                return (1 - share) * q + share * p, q
            case Link.ADD:
                return p, (1 - share) * p + share * q
            case _:
                return p, q

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the losses beyond which P has at most ``tail`` (or which e^loss cannot follow)."""
        low, high = self.law.reach(tail)
        if self.law.only_p > 0:  # what one law alone produces has a finite loss if sampling can hide it
            low, high = (-math.inf if self.link is Link.REMOVE else low), (math.inf if self.link is Link.ADD else high)
        low, high = self.from_base(np.array([low, high]))
        return max(float(low), -LARGEST_LOSS), min(float(high), LARGEST_LOSS)

    def anchor(self) -> float:
        """Returns a loss worth a lattice point of its own: where most of P sits."""
        match self.law:
            case Normal(mu=mu) if self.link is not Link.PLAIN:
                bulk = float(ndtr(1 - mu) / ndtr(1.0)) - 1
                offset = math.log1p(self.sampling_probability * bulk)
                return offset if self.link is Link.REMOVE else -offset
            case Tent(epsilon=eps, top=top) if top > 0:
                return float(self.from_base(np.array([-eps if self.link is Link.REMOVE else eps]))[0])
            case Atoms(u=u, p=p) if len(u):
                mass = self.own(p, p * np.exp(-u))[0]
                return float(self.from_base(u[[int(np.argmax(mass))]])[0])
            case _:
                return 0.0
