"""Pairs of laws (P, Q), seen through their privacy loss: a base law, and the direction in which sampling bends it.

The direction says how sampling turns the ratio u of the base law into the loss g of the sampled pair. All that an
accountant needs of a cell, its surplus P - e^g Q at a lattice point g, is A(g) p - B(g) q in the *base* masses p and q:
sampling then never subtracts numbers that agree to q digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from epsilog.numerics.laws.base import LARGEST_LOSS, Array, Atoms, BaseLaw, Normal, Tent, ratio_misplacement
from epsilog.numerics.laws.replaced import ReplacedLaplace
from epsilog.numerics.rounding import BOUND, ELEMENTARY, LOSS, RATIO, UNDERFLOW, down, gamma, up

_NEAR = 10.0  # a shift of Laplace noise from which on next to nothing lies beyond it
_FARTHEST = 700.0  # a ratio from which on sampled losses are worked out by their logarithms


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


class Direction(StrEnum):
    """How the loss of a pair follows from the ratio u of its base law."""

    PLAIN = "plain"  # (P, Q)
    REMOVE = "remove"  # ((1 - q) Q + q P, Q)
    ADD = "add"  # (P, (1 - q) P + q Q)
    BOTH = "both"  # the profile of REMOVE for losses above 0 and of ADD below: symmetric; upper bounds only


@dataclass(frozen=True)
class Pair:
    """A dominating pair: a base law, the chance q that the unit is in the sample, and the direction."""

    law: BaseLaw
    sampling_probability: float = 1.0
    direction: Direction = Direction.PLAIN

    def to_base(self, g: Array) -> Array:
        """Returns the base ratio u at each loss g; infinite where no outcome has such a loss."""
        if self.direction is Direction.PLAIN:
            return g
        sign, share = (1.0 if self.direction is Direction.REMOVE else -1.0), self.sampling_probability
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
        if self.direction is Direction.PLAIN or not self.law.has_atoms:
            return self.law.misplacement if self.law.has_atoms else 0.0
        ends = np.array(self.law.ends())
        loss = self.from_base(ends)
        steepest = float(self._slope(ends, loss).max())  # the slope is monotone
        return steepest * self.law.misplacement + gamma(64.0) * float(np.abs(loss).max()) + UNDERFLOW

    def _slope(self, u: Array, g: Array) -> Array:
        """The derivative of the loss g in u, or a little more: the chance of having been sampled, given the outcome."""
        away = u - g if self.direction is Direction.REMOVE else g - u
        return np.asarray(np.exp(np.minimum(math.log(self.sampling_probability) + away + BOUND, 0.0)))

    def misplacement(self, g: Array, offset: float = 0.0) -> float:
        """Bounds how far, in loss, ``to_base`` and ``masses`` may misplace an outcome at any of the losses g.

        ``offset`` is the largest number that g was made from. docs/accounting/certified-bounds.md, section 2.
        """
        u = self.to_base(g)
        seen = np.isfinite(u)
        losses = gamma(32.0) * np.abs(g) + gamma(4.0) * abs(offset) + UNDERFLOW
        u, g = u[seen], g[seen]
        slope = np.ones(len(u)) if self.direction is Direction.PLAIN else self._slope(u, g)
        edges = slope * ratio_misplacement(self.law, u)
        return float(np.max(losses, initial=0.0)) + float(np.max(edges, initial=0.0))

    def from_base(self, u: Array) -> Array:
        """Returns the loss at each base ratio: off by 16 units of itself, beyond what 8 units of u amount to.

        docs/accounting/certified-bounds.md, section 2.
        """
        if self.direction is Direction.PLAIN:
            return u
        sign, q = (-1.0 if self.direction is Direction.ADD else 1.0), self.sampling_probability
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
        if self.direction is Direction.PLAIN or (low == math.inf and self.direction is not Direction.ADD):
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
        if not isinstance(law, Atoms) or self.direction is Direction.BOTH:
            return None
        far, error = float(np.abs(law.u).max(initial=0.0)), law.relative_error
        if self.direction is Direction.PLAIN:
            low, high = down(law.u, law.roundings), up(law.u, law.roundings)
            return _outcomes(low, high, law.p, (law.only_p, law.only_p), error)
        low, high = self._outwards(law.u, RATIO + law.roundings)
        if self.direction is Direction.ADD:
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
        match self.direction:
            case Direction.REMOVE:
                return np.full_like(g, share), np.expm1(g) + share
            case Direction.ADD:
                return np.exp(g) * (np.expm1(-g) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def magnitudes(self, g: Array) -> tuple[Array, Array]:
        """Returns A and B with every term taken positive: what their rounding errors are relative to."""
        share = self.sampling_probability
        match self.direction:
            case Direction.REMOVE:
                return np.full_like(g, share), np.abs(np.expm1(g)) + share
            case Direction.ADD:
                return np.exp(g) * (np.abs(np.expm1(-g)) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def own(self, p: Array, q: Array) -> tuple[Array, Array]:
        """Returns the masses under the pair's own two laws, from base masses (or from their errors)."""
        share = self.sampling_probability
        match self.direction:
            case Direction.REMOVE:
                return (1 - share) * q + share * p, q
            case Direction.ADD:
                return p, (1 - share) * p + share * q
            case _:
                return p, q

    def reach(self, tail: float) -> tuple[float, float]:
        """Returns the losses beyond which P has at most ``tail`` (or which e^loss cannot follow)."""
        low, high = self.law.reach(tail)
        if self.law.only_p > 0:  # what one law alone produces has a finite loss if sampling can hide it
            low, high = (
                (-math.inf if self.direction is Direction.REMOVE else low),
                (math.inf if self.direction is Direction.ADD else high),
            )
        low, high = self.from_base(np.array([low, high]))
        return max(float(low), -LARGEST_LOSS), min(float(high), LARGEST_LOSS)

    def anchor(self) -> float:
        """Returns a loss worth a lattice point of its own: where most of P sits."""
        match self.law:
            case Normal(mu=mu) if self.direction is not Direction.PLAIN:
                bulk = float(ndtr(1 - mu) / ndtr(1.0)) - 1
                offset = math.log1p(self.sampling_probability * bulk)
                return offset if self.direction is Direction.REMOVE else -offset
            case Tent(epsilon=eps, top=top) if top > 0:
                return float(self.from_base(np.array([-eps if self.direction is Direction.REMOVE else eps]))[0])
            case ReplacedLaplace(shift=shift) if shift < _NEAR:
                return self.law.top
            case Atoms(u=u, p=p) if len(u):
                mass = self.own(p, p * np.exp(-u))[0]
                return float(self.from_base(u[[int(np.argmax(mass))]])[0])
            case _:
                return 0.0


Parts = tuple[tuple[Pair, int], ...]
"""Composed pairs, with their counts."""
