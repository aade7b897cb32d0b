"""Laws on a lattice: above the truth by connecting, below it by merging, near it, and no mass is given out twice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from epsilog.numerics.distributions.base import Array, CellMasses, DiscretePair
from epsilog.numerics.lattice.distribution import LatticeDistribution, connect_dots, merge_outcomes
from epsilog.numerics.pairs import AdjacencyType, DominatingPair

TINY = 1e-12  # a long way above what the test itself rounds
DIRECTIONS = [
    (AdjacencyType.PLAIN, 1.0),
    (AdjacencyType.REMOVE, 0.3),
    (AdjacencyType.ADD, 0.3),
    (AdjacencyType.REMOVE, 0.9),
    (AdjacencyType.ADD, 1e-3),
]


@dataclass(frozen=True)
class Rough(DiscretePair):
    """Atoms whose masses are known only roughly: each of Q's is off by up to a share of its own."""

    shares: Array = field(default_factory=lambda: np.zeros(0))

    def masses(self, edges: Array) -> CellMasses:
        exact = super().masses(edges)
        cell = np.searchsorted(edges, self.u, side="left")
        off = np.bincount(cell, self.shares * self.p * np.exp(-self.u), minlength=len(edges) + 1)
        return CellMasses(*exact[:3], exact[3] + off)


def symmetric(rng: np.random.Generator, *, only_p: float) -> DiscretePair:
    """A few atoms or many, and their mirror images."""
    u = np.sort(rng.uniform(0.0, 4.0, rng.choice([1, 3, 40])))
    u = np.concatenate((-u[::-1], [0.0], u))
    half = rng.uniform(0.0, 1.0, len(u) // 2 + 1)
    p = np.concatenate((half[:0:-1] * np.exp(u[: len(u) // 2]), half[:1], half[1:]))
    return DiscretePair(u, p * (1 - only_p) / math.fsum(p), infinity_mass=only_p)


def true_delta(pair: DominatingPair, law: DiscretePair, epsilon: float) -> float:
    """By summing outcomes."""
    p, q = np.append(law.p, [law.infinity_mass, 0.0]), np.append(law.p * np.exp(-law.u), [0.0, law.infinity_mass])
    share = pair.sampling_probability
    if pair.direction is AdjacencyType.ADD:
        one, other = p, (1 - share) * p + share * q
    else:
        one, other = (1 - share) * q + share * p, q
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


def lattice_delta(law: LatticeDistribution, step: float, epsilon: float) -> float:
    """What a lattice law says."""
    away = np.maximum(law.offset + step * law.points - epsilon, 0.0)
    return law.infinite + float(np.sum(law.weight * -np.expm1(-away)))


def drawn(seed: int) -> tuple[DominatingPair, Array, float, float, float]:
    """A pair, a lattice with gaps in it, its step and offset, and how far merging may move an outcome."""
    rng = np.random.default_rng(seed)
    direction, share = DIRECTIONS[seed % len(DIRECTIONS)]
    pair = DominatingPair(symmetric(rng, only_p=float(rng.choice([0.0, 0.1]))), share, direction)
    step = float(rng.choice([0.1, 0.3, 1.0]))
    index = np.arange(math.floor(-5 / step), math.ceil(5 / step) + 1)
    index = index[(rng.random(len(index)) < rng.choice([0.5, 1.0])) | (abs(index) == index.max())]
    return pair, index, step, float(rng.uniform(-step, step)), float(rng.choice([0.4, 0.8, math.inf]))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("rough", [False, True])
def test_a_law_lies_between_its_merged_and_its_connected_lattice_law(seed: int, rough: bool) -> None:
    pair, index, step, offset, coarse = drawn(seed)
    law = pair.base
    assert isinstance(law, DiscretePair)
    if rough:
        shares = np.random.default_rng(seed).choice([0.0, 0.1, 0.3], size=len(law.u))
        pair = DominatingPair(
            Rough(law.u, law.p, law.infinity_mass, shares=shares), pair.sampling_probability, pair.direction
        )
    below = merge_outcomes(pair, index, step=step, offset=offset, coarse=coarse)
    above = connect_dots(pair, index, step=step, offset=offset)
    assert math.fsum(below.weight) + below.infinite <= 1
    widest = 1.001 * step * int(np.diff(index).max())
    for epsilon in (-1.0, 0.0, 0.2, 0.7, 1.5, 3.0, 4.5):
        low, high = (lattice_delta(found, step, epsilon) for found in (below, above))
        truth = true_delta(pair, law, epsilon)
        assert low <= truth + TINY
        assert high >= truth - TINY
        if not rough:
            assert high <= true_delta(pair, law, epsilon - widest) + TINY
            assert coarse == math.inf or low >= true_delta(pair, law, epsilon + widest + coarse) - TINY


def test_what_merging_has_used_in_part_is_not_used_again_in_whole() -> None:
    """The second atom lifts the first to 0, is too rough for the next point, and goes with the third to one above."""
    u, p = np.array([-1.0, 0.3, 0.5]), np.array([0.01, 0.6, 0.39])
    pair = DominatingPair(Rough(u, p, shares=np.array([0.0, 0.27, 0.0])))
    found = merge_outcomes(pair, np.arange(9), step=0.1, offset=0.0, coarse=0.35)
    assert 0.9 < math.fsum(found.weight) <= 1
