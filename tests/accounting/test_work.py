"""What answers cost: laws of few atoms need few points, and no question is worked at for long."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilog.accounting.lattice import connect, merge, pair_delta
from epsilog.accounting.laws import Atoms, Link, Pair
from epsilog.accounting.saddle import lattice_points, sketch


def randomized_response(epsilon: float) -> Atoms:
    often = 1 / (1 + math.exp(-epsilon))
    return Atoms(np.array([-epsilon, epsilon]), np.array([often * math.exp(-epsilon), often]), step=2 * epsilon)


@pytest.mark.parametrize("pair", [
    Pair(randomized_response(3.0)),
    Pair(randomized_response(3.0), 0.2, Link.REMOVE),
    Pair(randomized_response(3.0), 0.2, Link.ADD),
])  # fmt: skip
@pytest.mark.parametrize("step", [1e-6, 0.001, 0.3, 7.0])
def test_two_atoms_have_lattice_points_beside_them_only_and_both_sides_still_hold(pair: Pair, step: float) -> None:
    offset = pair.anchor()
    points = lattice_points(
        pair, sketch(pair, 1e-12), theta=2.0, step=step, spacing=step, offset=offset, tail=1e-12, every=0
    )
    assert len(points) <= 20
    above = connect(pair, points, step=step, offset=offset)
    below = merge(pair, points, step=step, offset=offset)
    for epsilon in (0.0, 0.05, 0.5, 1.0, 2.5):
        low, high = pair_delta(pair, epsilon)
        found = [
            law.infinite
            + sum(
                w * -math.expm1(min(epsilon - law.offset - step * k, 0.0))
                for w, k in zip(law.weight.tolist(), law.points.tolist(), strict=True)
            )
            for law in (below, above)
        ]
        assert found[0] <= high
        assert found[1] >= low
        if step <= 0.001:
            assert found[1] - found[0] <= 4 * step
