"""Several releases on one sample: their product as one base pair, which is then sampled.

Poisson sampling and samples of a fixed size need the profile of what is computed on the sample and nothing else. That
of several releases is dominated by the product of their pairs, each with its dots connected on one lattice; the product
of what is merged on it bounds from below. What is sampled is (1 - q) Q + q P: so Q must have no less mass than 1 above,
and no more below (docs/accounting/certified-bounds.md, 1.11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilog.numerics.distributions.base import LARGEST_LOSS, Array, BasePair, DiscretePair
from epsilog.numerics.lattice.distribution import LatticeDistribution, connect_dots, merge_outcomes
from epsilog.numerics.pairs import DominatingPair
from epsilog.numerics.rounding import TWICE, gamma, round_down, round_up, union_probability

MOST_PARTS = 16
"""Limits for releases on one sample."""

_POINTS = 8192  # of the product's lattice
_TAIL = 1e-30  # of a part's outcomes that are not on it
_SCALE = 4  # roundings of a factor: two operations, and those of the masses it multiplies
_COARSE = 0.5  # nats: how far an outcome may move when it is merged
_PLACE = 64  # of a lattice point of the product, by the largest: MOST_PARTS sums, a product and a few more


def build_product_pair(parts: Sequence[tuple[BasePair, int]], *, upper: bool) -> DiscretePair | None:
    """Return a base pair that dominates several with their counts, or that they dominate; None beyond all lattices.

    >>> from epsilog.numerics.distributions.base import GaussianPair
    >>> both = build_product_pair([(GaussianPair(0.6), 1), (GaussianPair(0.8), 1)], upper=True)  # mu = 1
    >>> round(DominatingPair(both).outcomes().delta(1.0, upper=True), 4)
    0.1269
    """
    reaches = [max(abs(end) for end in one.tail_bounds(_TAIL)) for one, _ in parts]
    far = math.fsum(reach * count for reach, (_, count) in zip(reaches, parts, strict=True))
    if not 1e-90 < far < LARGEST_LOSS:
        return None
    step = 2 * far / _POINTS
    plds = [(_on_lattice(one, reach, step, upper=upper), n) for (one, n), reach in zip(parts, reaches, strict=True)]
    low, offset, weight, roundings = 0, 0.0, np.ones(1), 8.0
    for one, count in plds:
        for _ in range(count):
            low, offset = low + int(one.points[0]), offset + one.offset
            roundings += 4.0 + 2 * min(len(weight), len(one.weight))
            weight = np.convolve(weight, one.weight)
    away = gamma(_PLACE) * far
    u = offset + step * (low + np.arange(len(weight))) + (away if upper else -away)
    infinite = union_probability((one.infinite, count) for one, count in plds)[upper]
    of_q, error = float(np.sum(weight * np.exp(-u))) + infinite, gamma(roundings + 64 + 4 * far)
    scale = (
        round_up(max(1.0, 1 / (of_q * (1 - error))), _SCALE)
        if upper
        else round_down(min(1.0, 1 / (of_q * (1 + error))), _SCALE)
    )
    weight, infinite = weight * scale, min(infinite * scale, 1.0)
    kept = weight > 0
    losses: Array = np.asarray(u[kept], dtype=np.float64)
    masses: Array = np.asarray(weight[kept], dtype=np.float64)
    return DiscretePair(losses, masses, infinite, relative_error=gamma(roundings + 8), stated=sum_max_losses(parts))


def sum_max_losses(parts: Sequence[tuple[BasePair, int]]) -> tuple[float, float]:
    """Bound the largest loss of all of several from both sides: their largest ones add up."""
    ends = [(base.max_loss(), count) for base, count in parts]
    low, high = (math.fsum(count * one[side] for one, count in ends) for side in (0, 1))
    return round_down(low, TWICE), round_up(high, TWICE)


def _on_lattice(base: BasePair, reach: float, step: float, *, upper: bool) -> LatticeDistribution:
    edge = math.ceil(reach / step) + 2
    index = np.arange(-edge, edge + 1)
    if upper:
        return connect_dots(DominatingPair(base), index, step=step, offset=0.0)
    return merge_outcomes(DominatingPair(base), index, step=step, offset=0.0, coarse=_COARSE)
