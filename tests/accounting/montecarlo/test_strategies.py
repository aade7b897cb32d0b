import math

import numpy as np
import pytest

from epsilog.accounting.montecarlo import strategies
from epsilog.mechanisms import ToeplitzStrategy
from epsilog.terms import UnsupportedMechanismError


def matrix(column, rounds):
    return np.array(
        [[column[t - s] if 0 <= t - s < len(column) else 0.0 for s in range(rounds)] for t in range(rounds)]
    )


@pytest.mark.parametrize("column", [(1.0,), (0.8, 0.4, 0.3, 0.1), strategies.build_square_root_column(20).coefficients])
def test_prefix_error_is_the_norm_of_the_matrix_product(column):
    rounds = 30
    carried = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(matrix(column, rounds))
    expected = math.sqrt((carried**2).sum() / rounds)
    assert strategies.compute_prefix_error(ToeplitzStrategy(tuple(column)), rounds) == pytest.approx(expected)


@pytest.mark.parametrize(("bands", "separation", "participations"), [(3, 5, 3), (5, 5, 9), (12, 4, 3), (1, 1, 4)])
def test_sensitivity_by_trying_every_schedule(bands, separation, participations):
    from itertools import combinations, pairwise

    rounds, column = 12, strategies.build_square_root_column(bands).coefficients
    columns = matrix(column, rounds).T
    worst = max(
        np.linalg.norm(columns[list(taken)].sum(axis=0))
        for size in range(1, participations + 1)
        for taken in combinations(range(rounds), size)
        if all(b - a >= separation for a, b in pairwise(taken))
    )
    found = strategies.compute_column_sensitivity(
        ToeplitzStrategy(column), rounds=rounds, separation=separation, participations=participations
    )
    assert found == pytest.approx(worst)


def test_sensitivity_without_proof_is_refused():
    with pytest.raises(UnsupportedMechanismError):
        strategies.compute_column_sensitivity(
            ToeplitzStrategy((0.5, 1.0, 0.5)), rounds=9, separation=2, participations=3
        )


@pytest.mark.parametrize("bands", [2, 5, 16])
def test_the_optimum_beats_every_neighbor(bands):
    rounds = 60
    best = strategies.optimize_banded_column(bands, rounds)
    assert np.linalg.norm(best.coefficients) == pytest.approx(1)
    least = strategies.compute_prefix_error(best, rounds)
    assert least <= strategies.compute_prefix_error(strategies.build_square_root_column(bands), rounds)
    rng = np.random.default_rng(1)
    for _ in range(30):
        moved = np.maximum(np.array(best.coefficients) * (1 + 0.05 * rng.standard_normal(bands)), 0)
        assert strategies.compute_prefix_error(strategies.normalize_column(moved), rounds) >= least * (1 - 1e-6)


def test_buffered_columns():
    found = strategies.build_buffered_column(5, weights=[0.4, 0.1], decays=[0.9, 0.2])
    raw = [1.0] + [0.4 * 0.9**j + 0.1 * 0.2**j for j in range(4)]
    np.testing.assert_allclose(found.coefficients, np.array(raw) / np.linalg.norm(raw))
    with pytest.raises(ValueError, match="decays"):
        strategies.build_buffered_column(5, weights=[0.4], decays=[1.0])
    with pytest.raises(ValueError, match="decays"):
        strategies.build_buffered_column(5, weights=[0.4], decays=[])
