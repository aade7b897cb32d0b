"""What answers cost: laws of few atoms need few points, and no question is worked at for long."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    Release,
    Repeated,
)
from epsilog.numerics.balls_in_bins import ratio_sums
from epsilog.numerics.distributions.base import DiscretePair
from epsilog.numerics.lattice import composition, discretize
from epsilog.numerics.lattice.discretize import lattice_points, sketch_pair
from epsilog.numerics.lattice.distribution import bound_pair_delta, connect_dots, merge_outcomes
from epsilog.numerics.pairs import AdjacencyType, DominatingPair


def randomized_response(epsilon: float) -> DiscretePair:
    often = 1 / (1 + math.exp(-epsilon))
    return DiscretePair(np.array([-epsilon, epsilon]), np.array([often * math.exp(-epsilon), often]), step=2 * epsilon)


@pytest.mark.parametrize("pair", [
    DominatingPair(randomized_response(3.0)),
    DominatingPair(randomized_response(3.0), 0.2, AdjacencyType.REMOVE),
    DominatingPair(randomized_response(3.0), 0.2, AdjacencyType.ADD),
])  # fmt: skip
@pytest.mark.parametrize("step", [1e-6, 0.001, 0.3, 7.0])
def test_two_atoms_have_lattice_points_beside_them_only_and_both_sides_still_hold(
    pair: DominatingPair, step: float
) -> None:
    offset = pair.anchor()
    points = lattice_points(
        pair, sketch_pair(pair, 1e-12), theta=2.0, step=step, spacing=step, offset=offset, tail=1e-12, every=0
    )
    assert len(points) <= 20
    above = connect_dots(pair, points, step=step, offset=offset)
    below = merge_outcomes(pair, points, step=step, offset=offset)
    for at in (0.0, 0.05, 0.5, 1.0, 2.5):
        low, high = bound_pair_delta(pair, at)
        found = [
            law.infinite
            + sum(
                w * -math.expm1(min(at - law.offset - step * k, 0.0))
                for w, k in zip(law.weight.tolist(), law.points.tolist(), strict=True)
            )
            for law in (below, above)
        ]
        assert found[0] <= high
        assert found[1] >= low
        if step <= 0.001:
            assert found[1] - found[0] <= 4 * step


def transforms(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[int]:
    """The lengths of all transforms from here on."""
    lengths: list[int] = []
    if kind is composition.LatticeComposition:
        multiplied = composition.LatticeComposition._transform
        monkeypatch.setattr(
            composition.LatticeComposition, "_transform", lambda self: (lengths.append(self.size), multiplied(self))[1]
        )
    else:
        power = ratio_sums._power
        monkeypatch.setattr(ratio_sums, "_power", lambda *given: (lengths.append(given[-1]), power(*given))[1])
    return lengths


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(("module", "release"), [
    (composition, Repeated(PoissonSampled(Gaussian(2.0), 0.1), 10)),
    (composition, Composed([Repeated(PoissonSampled(base, 0.1), 10) for base in (Gaussian(2.0), Laplace(2.0))])),
    (ratio_sums, BallsInBins(Gaussian(1.0), bins=16)),
])  # fmt: skip
def test_no_transform_is_longer_than_memory_should_hold_and_answers_still_hold(
    module: ModuleType, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = epsilon(release, delta=1e-6)
    lengths = transforms(monkeypatch, getattr(module, "LatticeComposition", object))
    epsilon(release, delta=1e-6)
    longest = max(lengths) // 2
    lengths.clear()
    monkeypatch.setattr(module, "_LONGEST", longest)
    tight = epsilon(release, delta=1e-6)
    assert 0 < max(lengths) <= longest
    assert tight.lower <= free.upper
    assert free.lower <= tight.upper < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("release", [
    Composed([ExponentialMechanism(0.05 * (i + 1)) for i in range(40)]),
    Composed([
        *(ExponentialMechanism(0.1 * (i + 1)) for i in range(3)),
        *(Repeated(PoissonSampled(Laplace(1.0 + 0.3 * i), 0.01), 20 + i) for i in range(3)),
    ]),
])  # fmt: skip
def test_work_that_is_used_up_widens_an_answer_and_never_moves_it(
    release: Composed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discretize, "_MOST_WORK", 100_000)
    monkeypatch.setattr(composition, "_MOST_WORK", 100_000)
    hasty = epsilon(release, delta=1e-6)
    monkeypatch.setattr(discretize, "_MOST_WORK", 2_000_000)
    monkeypatch.setattr(composition, "_MOST_WORK", 1_000_000)
    patient = epsilon(release, delta=1e-6)
    assert 0 < hasty.lower <= patient.upper
    assert patient.lower <= hasty.upper < math.inf
    assert hasty.upper - hasty.lower >= 0.99 * (patient.upper - patient.lower)
