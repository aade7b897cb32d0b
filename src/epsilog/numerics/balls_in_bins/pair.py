"""Balls-in-bins as a pair that composes: epochs with fresh bins, and other releases.

The sums of ``ratio_sums`` become distributions of the privacy loss ln(S / b). The upper one dominates the release; the
release dominates the lower one (docs/accounting/balls-in-bins.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from epsilog.numerics.balls_in_bins.ratio_sums import (
    RatioDistribution,
    TiltedSum,
    merge_to_lattice_means,
    spread_outcomes,
)
from epsilog.numerics.distributions.base import Array, BasePair, CellMasses, GaussianPair
from epsilog.numerics.lattice.distribution import LatticeDistribution, LatticeTooLargeError
from epsilog.numerics.pairs import (
    NEAREST,
    AdjacencyType,
    DominatingPair,
    Pairs,
    build_non_private_pair,
    pure,
    single,
    use_exact_pair,
)
from epsilog.numerics.rounding import MU, gamma, round_down, round_up

SMALLEST_MU, LARGEST_BINNED_MU = 1e-4, 30.0  # where a lattice of ratios helps
_ROUGH = 3e-4  # of a ratio's variance: what a step may add to it
_MOST_POINTS = 2**14  # of one ratio
_PER_TOP, _PER_SPREAD = (0.0, 3.0, 10.0, 25.0), (2.0, 6.0, 12.0, 25.0)  # tilts to look at sums with
_STEEPEST = 60.0  # per largest ratio: a tilt that favors large ratios alone shows nothing
_FINE = 5e-4  # of b: a step from which on small sums merge
_FAR = math.exp(-44.0)


@dataclass(frozen=True, eq=False)
class TabulatedPair:
    """A pair by the losses it can have.

    Attributes:
        u: ascending losses, shape (n,).
        p: their masses under P, shape (n,).
        q: their masses under Q, shape (n,).
        only_p: mass under P of outcomes that Q cannot produce.
    """

    u: Array
    p: Array
    q: Array
    infinity_mass: float

    has_atoms: ClassVar[bool] = True

    @property
    def ratio_error(self) -> float:
        """Return a few times what rounding can move a loss by."""
        return gamma(64 * (4 + float(np.abs(self.u).max())))

    def masses(self, edges: Array) -> CellMasses:
        """Sum by cell."""
        cell = np.searchsorted(edges, self.u, side="left")
        p, q = (np.bincount(cell, weights=m, minlength=len(edges) + 1).astype(np.float64) for m in (self.p, self.q))
        p[int(np.searchsorted(edges, np.inf, side="left"))] += self.infinity_mass
        error = gamma(16.0 + 4 * len(self.u))
        return CellMasses(p, q, error * p, error * q)

    def tail_bounds(self, tail: float) -> tuple[float, float]:
        """Return where the tails of P start."""
        below, above = np.cumsum(self.p), np.cumsum(self.p[::-1])
        low = self.u[min(int(np.searchsorted(below, tail)), len(self.u) - 1)]
        high = self.u[::-1][min(int(np.searchsorted(above, tail)), len(self.u) - 1)]
        return float(min(low, high)) - 1e-9, float(max(low, high)) + 1e-9

    def finite_range(self) -> tuple[float, float]:
        """Return the lowest and the highest loss."""
        return float(self.u[0]), float(self.u[-1])

    def max_loss(self) -> tuple[float, float]:
        """Return the highest loss with its rounding; ``inf`` if one is infinite."""
        top = math.inf if self.infinity_mass > 0 else float(self.u[-1])
        return top - self.ratio_error, top + self.ratio_error

    def breakpoints(self, tail: float) -> Array:
        """Return quantiles and even steps."""
        low, high = self.tail_bounds(tail)
        level = np.cumsum(self.p) / self.p.sum()
        quantiles = self.u[np.minimum(np.searchsorted(level, np.linspace(0, 1, 129)), len(self.u) - 1)]
        return np.unique(np.concatenate((np.linspace(low, high, 129), np.clip(quantiles, low, high))))


def build_balls_in_bins_pair(bins: int, mu: float, tail_mass: float) -> Pairs:
    """One epoch in both directions; out of reach of the lattice the bins are left out of account."""
    return {
        way: single(*map(DominatingPair, _build_pairs(bins, mu, way, tail_mass)))
        for way in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    }


def _build_pairs(bins: int, mu: float, direction: AdjacencyType, tail_mass: float) -> tuple[BasePair, BasePair]:
    zero = pure(0.0, 0.0)
    if mu == 0:
        return zero, zero
    if math.isinf(mu):
        return use_exact_pair(build_non_private_pair())
    if not SMALLEST_MU <= mu <= LARGEST_BINNED_MU:
        return GaussianPair(round_up(max(mu, NEAREST), MU)), zero
    above, below = build_allocation_pairs(bins, mu, direction, max(tail_mass, 1e-250))
    return above, below or zero


@lru_cache(maxsize=16)
def build_allocation_pairs(
    bins: int, mu: float, direction: AdjacencyType, tail_mass: float
) -> tuple[TabulatedPair, TabulatedPair | None]:
    """Return a pair that dominates one epoch in one direction, and one that it dominates (or none).

    Args:
        bins: rounds in an epoch, at least 2.
        mu: distance of the base Gaussians over the noise, all epochs of the same bins together.
        direction: ``REMOVE`` or ``ADD``.
        tail_mass: what truncating the ratio may add to delta.
    """
    top = math.exp(min(mu**2 / 2 - mu * float(ndtri(tail_mass)), 600.0))
    if direction is AdjacencyType.ADD:  # ratios above b have a loss below 0
        top = min(top, 4.0 * bins)
    variance = min(math.expm1(min(mu * mu, 600.0)), top * top)
    low = math.exp(-(mu**2) / 2 + mu * float(ndtri(1e-6 * tail_mass / bins)))
    step = max(math.sqrt(6 * _ROUGH * variance), _ROUGH * variance, top / _MOST_POINTS)
    if direction is AdjacencyType.ADD:
        step = min(step, _FINE * bins)
    while True:
        try:
            return _both(bins, mu, direction, step=step, low=low, top=top)
        except LatticeTooLargeError as problem:
            step *= 1.2 * problem.factor


def _both(
    bins: int, mu: float, direction: AdjacencyType, *, step: float, low: float, top: float
) -> tuple[TabulatedPair, TabulatedPair | None]:
    high = max(math.ceil(top / step), 2)
    above = spread_outcomes(
        GaussianPair(round_up(mu, MU)), step=step, low=min(math.floor(low / step), high - 1), high=high
    )
    below = merge_to_lattice_means(
        GaussianPair(round_down(mu, MU)), step=step, high=top, rising=direction is AdjacencyType.REMOVE
    )
    scale = math.sqrt(bins) * min(math.sqrt(math.expm1(min(mu * mu, 600.0))), top)
    if direction is AdjacencyType.REMOVE:
        steepest = min(_STEEPEST / top, _PER_SPREAD[-1] / scale)
        rates = [rate / top for rate in _PER_TOP] + [rate / scale for rate in _PER_SPREAD]
        tilts = [rate for rate in rates if rate <= steepest]
    else:
        tilts = [0.0, *(-rate / scale for rate in _PER_SPREAD)]
    upper = _tabulate(above, bins, tilts, step=step, direction=direction, upper=True)
    return upper, None if below is None else _tabulate(below, bins, tilts, step=step, direction=direction, upper=False)


def _tabulate(
    ratio: RatioDistribution, bins: int, tilts: list[float], *, step: float, direction: AdjacencyType, upper: bool
) -> TabulatedPair:
    """Return the distribution of the sum as losses; each mass comes from its most accurate tilt."""
    ratios = LatticeDistribution(ratio.points, ratio.weight, 0.0, ratio.offset)
    sums = [TiltedSum(ratios, bins, step=step, tilt=tilt, upper=upper) for tilt in tilts]
    starts = [round((one.values[0] - bins * ratio.offset) / step) for one in sums]
    first, last = max(min(starts), 0), max(start + one.size for start, one in zip(starts, sums, strict=True))
    values = bins * ratio.offset + step * np.arange(first, last)
    mass = np.full(last - first, 1.0 if upper else 0.0)
    beyond = math.inf
    for start, one in zip(starts, sums, strict=True):
        density = np.full(last - first, _FAR if upper else 0.0)  # outside its window: all of it together, or nothing
        density[max(start - first, 0) : start + one.size - first] = one.density[max(first - start, 0) :]
        found = density * np.exp(np.minimum(one.log_factor(values), 700.0))
        mass = np.minimum(mass, found) if upper else np.maximum(mass, found)
        end = one.values[-1:] if direction is AdjacencyType.REMOVE else np.maximum(one.values[:1], 0.0)
        outside = _FAR * math.exp(min(float(one.log_factor(end)[0]), 700.0))
        if direction is AdjacencyType.ADD:
            beyond = min(beyond, outside)
        elif one.tilt * float(end[0]) >= 1:  # s e^(-tilt s) falls from 1 / tilt on
            beyond = min(beyond, outside * float(end[0]) / bins)
    return _losses(ratio, bins, (values, mass), min(beyond, 1.0), direction=direction, upper=upper)


def _losses(
    ratio: RatioDistribution,
    bins: int,
    ratios: tuple[Array, Array],
    beyond: float,
    *,
    direction: AdjacencyType,
    upper: bool,
) -> TabulatedPair:
    """Map masses at sums to losses; ``beyond`` bounds the mass outside all windows, on the costly side."""
    values, mass = ratios
    seen = (mass > 0) & (values > 0)
    zero = float(mass[values <= 0].sum())  # sums of 0: Q alone for remove, P alone for add
    s, w = values[seen], mass[seen]
    u, share = np.log(s) - math.log(bins), w * s / bins
    outwards = round_up if upper else round_down
    if direction is AdjacencyType.REMOVE:
        p, q, only_p = outwards(share, 30), w, (ratio.over + beyond if upper else 0.0)
        if not upper and ratio.over > 0:  # delta contains it up to the loss of the largest ratio on the lattice
            u, p = np.append(u, math.log(ratio.top / bins)), np.append(p, outwards(ratio.over, 30))
            q = np.append(q, ratio.over * bins / ratio.top)
            order = np.argsort(u, kind="stable")
            u, p, q = u[order], p[order], q[order]
    else:
        u, p, q = -u[::-1], outwards(w, 30)[::-1], share[::-1]
        only_p = zero + beyond if upper else zero
    if upper:
        p[0] += 4 * _FAR * (1 + max(float(values[-1]), 0.0) / bins)
    return TabulatedPair(u, p, q, outwards(only_p, 30))
