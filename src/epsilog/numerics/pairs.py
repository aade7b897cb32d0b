"""Dominating pairs (P, Q) by their privacy loss: sampling of a base pair, and composition of pairs.

The direction defines how sampling turns the ratio u of the base pair into the loss g of the sampled pair. An accountant
needs only the surplus P - e^g Q of a cell at a lattice point g. It is A(g) p - B(g) q in the *base* masses p and q, so
sampling never subtracts numbers that agree to q digits.

A release has two base pairs: one dominates it, and neighbors attain the other. Pairs outside double range are replaced
by others, between no loss and no privacy (docs/accounting/certified-bounds.md, 1 and 1.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from epsilog.numerics.distributions.base import (
    LARGEST_LOSS,
    Array,
    BasePair,
    DiscretePair,
    GaussianPair,
    LaplacePair,
    bound_ratio_misplacement,
)
from epsilog.numerics.distributions.replace_one import ReplaceOneLaplacePair
from epsilog.numerics.rounding import (
    BOUND,
    ELEMENTARY,
    LEAST,
    LOSS,
    ONCE,
    RATIO,
    UNDERFLOW,
    gamma,
    round_down,
    round_outward,
    round_up,
    union_probability,
)

_NEAR = 10.0  # a shift of Laplace noise with negligible mass beyond it
_SUM = 3  # roundings of a sum times one more, and what is added to it
_FARTHEST = 700.0  # a ratio from which on sampled losses use logarithms
_OF_LOSS, _OF_OFFSET = 32, 4  # roundings of a loss, and of what it was made from
_OF_ATOM = 64  # of the loss of an atom: docs/accounting/certified-bounds.md, 2


class OutcomeTable(NamedTuple):
    """The atoms of a pair, each with bounds of its loss and of its mass under P; they tell all that delta needs."""

    low: Array  # losses at least, ascending, shape (k,)
    high: Array  # losses at most, shape (k,)
    mass: Array  # masses under P, shape (k,)
    infinite: tuple[float, float]  # bounds of the mass under P of outcomes that Q cannot produce
    relative_error: float  # of the masses

    def delta(self, epsilon: float, *, upper: bool) -> float:
        """Bound delta of the pair from one side: each outcome adds its mass times 1 - e^(epsilon - loss)."""
        away = (self.high if upper else self.low) - epsilon
        beyond = away > 0
        if not beyond.any():
            return min(self.infinite[upper], 1.0)
        total = float(np.sum(self.mass[beyond] * -np.expm1(-away[beyond])))
        error = self.relative_error + gamma(16.0 + len(self.mass))
        if upper:
            return min(round_up(total * (1 + error) + self.infinite[1], _SUM) + UNDERFLOW, 1.0)
        return max(round_down(total * (1 - error) + self.infinite[0], _SUM) - UNDERFLOW, 0.0)


def _outcomes(low: Array, high: Array, mass: Array, infinite: tuple[float, float], error: float) -> OutcomeTable:
    order = np.argsort(low, kind="stable")
    order = order[mass[order] > 0]
    return OutcomeTable(low[order], high[order], mass[order], infinite, error)


class AdjacencyType(StrEnum):
    """The relation between the loss of a pair and the ratio u of its base pair."""

    PLAIN = "plain"  # (P, Q)
    REMOVE = "remove"  # ((1 - q) Q + q P, Q)
    ADD = "add"  # (P, (1 - q) P + q Q)
    BOTH = "both"  # the profile of REMOVE for losses above 0 and of ADD below: symmetric; upper bounds only


@dataclass(frozen=True)
class DominatingPair:
    """A dominating pair: a base pair, the sampling probability q of the unit, and the direction."""

    base: BasePair
    sampling_probability: float = 1.0
    direction: AdjacencyType = AdjacencyType.PLAIN

    def to_base(self, g: Array) -> Array:
        """Return the base ratio u at each loss g; infinite where no outcome has such a loss."""
        if self.direction is AdjacencyType.PLAIN:
            return g
        sign, share = (1.0 if self.direction is AdjacencyType.REMOVE else -1.0), self.sampling_probability
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
        """Bound how far, in loss, rounding may move an atom; 0 without atoms."""
        if self.direction is AdjacencyType.PLAIN or not self.base.has_atoms:
            return self.base.ratio_error if self.base.has_atoms else 0.0
        ends = np.array(self.base.finite_range())
        loss = self.from_base(ends)
        steepest = float(self._slope(ends, loss).max())  # the slope is monotone
        return steepest * self.base.ratio_error + gamma(_OF_ATOM) * float(np.abs(loss).max()) + UNDERFLOW

    def _slope(self, u: Array, g: Array) -> Array:
        """The derivative of the loss g in u, or a little more: the chance of having been sampled, given the outcome."""
        away = u - g if self.direction is AdjacencyType.REMOVE else g - u
        return np.asarray(np.exp(np.minimum(math.log(self.sampling_probability) + away + BOUND, 0.0)))

    def ratio_error(self, g: Array, offset: float = 0.0) -> float:
        """Bound how far, in loss, ``to_base`` and ``masses`` may misplace an outcome at any of the losses g.

        ``offset`` is the largest number that g was made from. docs/accounting/certified-bounds.md, section 2.
        """
        u = self.to_base(g)
        seen = np.isfinite(u)
        losses = gamma(_OF_LOSS) * np.abs(g) + gamma(_OF_OFFSET) * abs(offset) + UNDERFLOW
        u, g = u[seen], g[seen]
        slope = np.ones(len(u)) if self.direction is AdjacencyType.PLAIN else self._slope(u, g)
        edges = slope * bound_ratio_misplacement(self.base, u)
        return float(np.max(losses, initial=0.0)) + float(np.max(edges, initial=0.0))

    def from_base(self, u: Array) -> Array:
        """Return the loss at each base ratio: off by 16 units of itself, beyond what 8 units of u amount to.

        docs/accounting/certified-bounds.md, section 2.
        """
        if self.direction is AdjacencyType.PLAIN:
            return u
        sign, q = (-1.0 if self.direction is AdjacencyType.ADD else 1.0), self.sampling_probability
        v = sign * u
        with np.errstate(divide="ignore"):
            near = np.minimum(v, _FARTHEST)
            rise = q * np.expm1(near)
            low = np.log((1 - q) + q * np.exp(near))  # only if q is above 1/2, where 1 - q is exact
            near = np.where(rise > -0.5, np.log1p(np.maximum(rise, -0.5)), low)
            far = np.logaddexp(math.log1p(-q), np.maximum(v, _FARTHEST) + math.log(q)) if q < 1 else v
        return np.asarray(sign * np.where(v < _FARTHEST, near, far))

    def largest_loss(self) -> tuple[float, float]:
        """Bound the largest loss of what the pair stands for from below and above; ``inf`` if none is the largest."""
        low, high = self.base.max_loss()
        if self.direction is AdjacencyType.PLAIN or (low == math.inf and self.direction is not AdjacencyType.ADD):
            return low, high
        lows, highs = self._outwards(np.array([low, high]), RATIO)
        return max(float(lows[0]), 0.0), max(float(highs[1]), 0.0)

    def _outwards(self, u: Array, roundings: float) -> tuple[Array, Array]:
        """Bound the losses at ratios with this many roundings: the loss rises with the ratio."""
        low, high = self.from_base(round_down(u, roundings)), self.from_base(round_up(u, roundings))
        return round_down(low, LOSS) - UNDERFLOW, round_up(high, LOSS) + UNDERFLOW

    def outcomes(self) -> OutcomeTable | None:
        """Return the pair's atoms if it has nothing else, sampled or not: nothing in them cancels."""
        base, q = self.base, self.sampling_probability
        if not isinstance(base, DiscretePair) or self.direction is AdjacencyType.BOTH:
            return None
        far, error = float(np.abs(base.u).max(initial=0.0)), base.relative_error
        if self.direction is AdjacencyType.PLAIN:
            low, high = round_down(base.u, base.roundings), round_up(base.u, base.roundings)
            return _outcomes(low, high, base.p, (base.infinity_mass, base.infinity_mass), error)
        low, high = self._outwards(base.u, RATIO + base.roundings)
        if self.direction is AdjacencyType.ADD:
            alone = -math.log1p(-q)  # of what the unit alone produces: it may not have been sampled
            low, high = np.append(low, round_down(alone, ELEMENTARY)), np.append(high, round_up(alone, ELEMENTARY))
            return _outcomes(low, high, np.append(base.p, base.infinity_mass), (0.0, 0.0), error)
        alone = math.log1p(-q)
        mass = base.p * ((1 - q) * np.exp(-base.u) + q)
        low, high = np.append(low, round_down(alone, ELEMENTARY)), np.append(high, round_up(alone, ELEMENTARY))
        mass = np.append(mass, (1 - q) * base.infinity_mass)
        certain = round_down(q * base.infinity_mass, ONCE), round_up(q * base.infinity_mass, ONCE)
        return _outcomes(low, high, mass, certain, error + gamma(24 + 16 * far))

    def coefficients(self, g: Array) -> tuple[Array, Array]:
        """Return A and B: a cell with base masses (p, q) has surplus P - e^g Q = A(g) p - B(g) q.

        One of them is negative where no outcome has a loss so low, or so high.
        """
        share = self.sampling_probability
        match self.direction:
            case AdjacencyType.REMOVE:
                return np.full_like(g, share), np.expm1(g) + share
            case AdjacencyType.ADD:
                return np.exp(g) * (np.expm1(-g) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def magnitudes(self, g: Array) -> tuple[Array, Array]:
        """Return A and B with every term taken positive: what their rounding errors are relative to."""
        share = self.sampling_probability
        match self.direction:
            case AdjacencyType.REMOVE:
                return np.full_like(g, share), np.abs(np.expm1(g)) + share
            case AdjacencyType.ADD:
                return np.exp(g) * (np.abs(np.expm1(-g)) + share), share * np.exp(g)
            case _:
                return np.ones_like(g), np.exp(g)

    def own(self, p: Array, q: Array) -> tuple[Array, Array]:
        """Return the masses under the pair's two distributions, from base masses (or from their errors)."""
        share = self.sampling_probability
        match self.direction:
            case AdjacencyType.REMOVE:
                return (1 - share) * q + share * p, q
            case AdjacencyType.ADD:
                return p, (1 - share) * p + share * q
            case _:
                return p, q

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return the losses beyond which P has at most ``tail`` (or which e^loss cannot follow)."""
        low, high = self.base.tail_bounds(tail)
        if self.base.infinity_mass > 0:  # outcomes of P or Q alone have a finite loss if sampling can hide them
            low, high = (
                (-math.inf if self.direction is AdjacencyType.REMOVE else low),
                (math.inf if self.direction is AdjacencyType.ADD else high),
            )
        low, high = self.from_base(np.array([low, high]))
        return max(float(low), -LARGEST_LOSS), min(float(high), LARGEST_LOSS)

    def anchor(self) -> float:
        """Return a loss with most of P's mass, which should be a lattice point."""
        match self.base:
            case GaussianPair(mu=mu) if self.direction is not AdjacencyType.PLAIN:
                bulk = float(ndtr(1 - mu) / ndtr(1.0)) - 1
                offset = math.log1p(self.sampling_probability * bulk)
                return offset if self.direction is AdjacencyType.REMOVE else -offset
            case LaplacePair(epsilon=eps, top=top) if top > 0:
                return float(self.from_base(np.array([-eps if self.direction is AdjacencyType.REMOVE else eps]))[0])
            case ReplaceOneLaplacePair(shift=shift) if shift < _NEAR:
                return self.base.top
            case DiscretePair(u=u, p=p) if len(u):
                mass = self.own(p, p * np.exp(-u))[0]
                return float(self.from_base(u[[int(np.argmax(mass))]])[0])
            case _:
                return 0.0


Parts = tuple[tuple[DominatingPair, int], ...]
"""Composed pairs, with their counts."""


METHOD = "privacy loss distributions"
MOST_ATOMS = 2_000_000
NEAREST = 1e-100  # a distance between Gaussians, or a loss, with a square in double range
LONGEST = 600.0  # a loss with an exponential in double range; beyond it an outcome counts as infinity mass
NO_LARGEST = (math.inf, math.inf)  # bounds of the largest loss where none is the largest


def use_exact_pair(base: BasePair) -> tuple[BasePair, BasePair]:
    """Return a pair that dominates and is attained."""
    return base, base


def pure(epsilon: float, delta: float) -> DiscretePair:
    """Randomized response, with a chance delta of giving everything away: Kairouz, Oh & Viswanath 2015, Thm 3.1."""
    if epsilon == 0:
        return DiscretePair(np.zeros(1), np.array([1 - delta]), infinity_mass=delta, step=1.0)
    common = 1 / (1 + math.exp(-epsilon))
    rare = common * math.exp(-epsilon)  # not 1 - often: under Q this is nearly everything, so every digit counts
    return DiscretePair(np.array([-epsilon, epsilon]), (1 - delta) * np.array([rare, common]), delta, 2 * epsilon)


def build_non_private_pair(stated: tuple[float, float] | None = None) -> DiscretePair:
    """Whatever happens gives everything away; the largest loss remains what is ``stated``, if anything is."""
    return DiscretePair(np.zeros(0), np.zeros(0), infinity_mass=1.0, stated=stated)


def clamp_to_doubles(
    build: Callable[[float], LaplacePair | DiscretePair],
    epsilon: float,
    stated: tuple[float, float] | None,
    *,
    certain: float = 0.0,
) -> tuple[BasePair, BasePair]:
    """Return a pair of a family that grows with ``epsilon``; substitutes stand for it outside double range.

    Losses too small to square become the smallest that are not, or (below) none, except for the probability ``certain``
    of infinity mass. Losses too large to exponentiate count as infinity mass, or (below) become the largest that are
    not. The maximum loss remains ``stated``.
    """
    if epsilon < NEAREST:
        return replace(build(NEAREST), stated=stated), replace(pure(0.0, certain), stated=stated)
    if epsilon > LONGEST:
        return build_non_private_pair(stated), replace(build(LONGEST), stated=stated)
    return use_exact_pair(replace(build(epsilon), stated=stated))


def bound_rounded(epsilon: float) -> tuple[float, float]:
    """Bound a number from 0 on that was rounded a few times."""
    return round_down(epsilon, RATIO), round_up(epsilon, RATIO) + LEAST


BasePairs = tuple[BasePair, BasePair]
"""A base pair that dominates, and one that some neighbors attain."""

_EITHER = (AdjacencyType.REMOVE, AdjacencyType.ADD)
_RAREST = 1e-290  # a sampling probability with an inverse, times any loss, in double range


class Effort(NamedTuple):
    """The resolution of pairs."""

    tail_mass: float = 1e-11  # what cutting the tails of one release may add to delta
    alone: bool = True  # whether the release is composed only with Gaussians, so that many of its instances are used


@dataclass(frozen=True)
class PairComposition:
    """One of the ways in which two neighbors can be ordered, as composed pairs."""

    upper: Parts  # pairs with a composition that dominates the release in this order, with their counts
    lowers: tuple[Parts, ...]  # compositions that some two neighbors attain (or exceed), any of which bounds from below

    @cached_property
    def largest_loss(self) -> float:
        """Bound the largest loss from above."""
        return bound_max_loss(self.upper)[1]

    @cached_property
    def rounds(self) -> int:
        """Count the single pairs."""
        return sum(count for _, count in self.upper)


Pairs = Mapping[AdjacencyType, PairComposition]
"""By direction; ``AdjacencyType.PLAIN`` is there if neighbors look the same in either order."""


def single(above: DominatingPair, *below: DominatingPair) -> PairComposition:
    """One release: the pair that dominates it, and others that neighbors attain."""
    return PairComposition(((above, 1),), tuple(((pair, 1),) for pair in below))


def plain(bases: BasePairs, instances: Sequence[BasePair] = ()) -> Pairs:
    """Return pairs of an unsampled release; ``instances`` are pairs that neighbors attain, if there are several."""
    above, below = bases
    return dict.fromkeys(
        AdjacencyType, single(DominatingPair(above), *(DominatingPair(base) for base in instances or (below,)))
    )


def build_sampled_pairs(bases: BasePairs, shares: tuple[float, float], instances: Sequence[BasePair] = ()) -> Pairs:
    """A release on a sample that a unit is in with a chance between these two: a pair loses more the larger it is.

    Next to none counts as none below, above as some.
    """
    (above, below), (low, high) = bases, shares
    low, high = low if low >= _RAREST else 0.0, max(high, _RAREST) if high > 0 else 0.0
    no_loss = pure(0.0, 0.0)
    belows = (instances or (below,)) if low > 0 else (no_loss,)
    return {
        way: single(bent(above if high > 0 else no_loss, high, way), *(bent(base, low, way) for base in belows))
        for way in AdjacencyType
        if low == 1 or way is not AdjacencyType.PLAIN
    }


def bent(base: BasePair, share: float, direction: AdjacencyType) -> DominatingPair:
    """Return the sampled pair of a base pair in one direction."""
    return DominatingPair(base) if share in (0.0, 1.0) else DominatingPair(base, share, direction)


def compose_pairs(parts: Iterable[tuple[Pairs, int]]) -> Pairs:
    """Return all of several releases, each so often."""
    found = list(parts)
    ways = [way for way in AdjacencyType if all(way in pairs for pairs, _ in found)]
    return {way: _compose_orderings([(pairs[way], count) for pairs, count in found]) for way in ways}


def _compose_orderings(parts: list[tuple[PairComposition, int]]) -> PairComposition:
    many = max((len(one.lowers) for one, _ in parts), default=1)
    each = [one.lowers if len(one.lowers) == many else one.lowers * many for one, _ in parts]
    counts = [count for _, count in parts]
    return PairComposition(
        _times([one.upper for one, _ in parts], counts),
        tuple(_times(lowers, counts) for lowers in zip(*each, strict=True)) if parts else ((),),
    )


def _times(parts: Iterable[Parts], counts: Iterable[int]) -> Parts:
    return tuple((pair, count * n) for part, n in zip(parts, counts, strict=True) for pair, count in part)


def build_dominating_pairs(pairs: Pairs, *, replaced: bool) -> tuple[PairComposition, ...]:
    """Return every order in which neighbors can differ; the worst of them counts.

    With units that are ``replaced`` either neighbor may come first in each release.
    """
    if AdjacencyType.PLAIN in pairs:
        return (pairs[AdjacencyType.PLAIN],)
    removed, added = (pairs[way] for way in _EITHER)
    if not replaced:
        return removed, added
    sides = zip(removed.lowers, added.lowers, strict=True)
    lowers = ((first, other, _half_and_half(first, other)) for first, other in sides)
    return (PairComposition(pairs[AdjacencyType.BOTH].upper, tuple(chain.from_iterable(lowers))),)


def _half_and_half(removed: Parts, added: Parts) -> Parts:
    """The analyst may turn the question round at every other release: then both orders occur."""
    mixed: list[tuple[DominatingPair, int]] = []
    for (first, count), (other, _) in zip(removed, added, strict=True):
        turned = count // 2 if first != other else 0
        mixed += [(first, count - turned)] + ([(other, turned)] if turned else [])
    return tuple(mixed)


def bound_max_loss(parts: Parts) -> tuple[float, float]:
    """Bound the largest loss of a composition from below and above: epsilon at delta 0; ``inf`` if none is largest.

    The parts' bounds are added as they are and rounded once, outwards.
    """
    sides, largest = [], [(pair.largest_loss(), count) for pair, count in parts]
    for side in (0, 1):
        if any(math.isinf(losses[side]) for losses, _ in largest):
            sides.append(math.inf)
        else:
            total = sum((Fraction(losses[side]) * count for losses, count in largest), Fraction(0))
            sides.append(round_outward(total, up=side == 1))
    return sides[0], sides[1]


def bound_infinity_mass(parts: Parts) -> float:
    """Return the mass under P of what Q cannot produce, rounded down."""
    alone = [
        (0.0 if pair.direction is AdjacencyType.ADD else pair.base.infinity_mass * pair.sampling_probability, n)
        for pair, n in parts
    ]
    return union_probability(alone)[0]
