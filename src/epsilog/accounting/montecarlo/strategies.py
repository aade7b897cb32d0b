"""Strategy columns for training with correlated noise: how much noise reaches the model, at what sensitivity.

A Toeplitz strategy C has the generating function c(x). The model after t rounds carries the noise of row t of A C^-1 Z,
A summing rounds. Its squared error per coordinate is the sum of the first t squared coefficients of 1 / ((1 - x) c(x)),
times the variance of Z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilog.mechanisms import BufferedToeplitzStrategy, ToeplitzStrategy
from epsilog.terms import UnsupportedMechanismError, arrays, check

__all__ = [
    "build_buffered_column",
    "build_square_root_column",
    "compute_column_sensitivity",
    "compute_prefix_error",
    "invert_power_series",
    "normalize_column",
    "optimize_banded_column",
    "optimize_buffered_column",
]

Array = NDArray[np.float64]


def normalize_column(column: Sequence[float] | Array) -> ToeplitzStrategy:
    """Return the strategy with this first column, scaled to norm 1."""
    values: Array = arrays.doubles("column", column)
    return ToeplitzStrategy(tuple(float(v) for v in values / np.linalg.norm(values)))


def build_square_root_column(bands: int) -> ToeplitzStrategy:
    """Return the first coefficients of (1 - x)^(-1/2), scaled to norm 1: near optimal for one pass, without tuning.

    Source:
        Fichtenberger, Henzinger & Upadhyay 2023 (arXiv:2202.11205).

    >>> [round(value, 4) for value in build_square_root_column(3).coefficients]
    [0.848, 0.424, 0.318]
    """
    bands = check.integer(1)(bands=bands)
    ratios = (2 * np.arange(1, bands) - 1) / (2 * np.arange(1, bands))
    return normalize_column(np.concatenate([[1.0], np.cumprod(ratios)]))


def build_buffered_column(rounds: int, *, weights: Sequence[float], decays: Sequence[float]) -> ToeplitzStrategy:
    """Return the column 1, sum w_i, sum w_i d_i, ... of a buffered linear Toeplitz strategy, scaled to norm 1.

    Source:
        Dvijotham et al. 2024 (arXiv:2404.16706).

    >>> build_buffered_column(3, weights=[0.5], decays=[0.5]) == normalize_column([1.0, 0.5, 0.25])
    True
    """
    return normalize_column(
        BufferedToeplitzStrategy(tuple(decays), tuple(weights)).column(check.integer(1)(rounds=rounds))
    )


def optimize_buffered_column(
    buffers: int, rounds: int, *, separation: int, participations: int
) -> BufferedToeplitzStrategy:
    """Find decays and weights with a small prefix error for their sensitivity, without amplification.

    A local search over nonincreasing columns, from buffers with memories spread evenly, in logarithms, over the run.

    Source:
        McMahan, Xu & Zhang 2024 (arXiv:2408.08868), for the loss, here of the mean error.

    >>> found = optimize_buffered_column(1, 64, separation=16, participations=4)
    >>> [round(one, 3) for one in (*found.decays, *found.weights)]
    [0.865, 0.521]
    """
    buffers, rounds = check.integer(1, 15)(buffers=buffers), check.integer(2)(rounds=rounds)
    from scipy.optimize import minimize

    def build_strategy(point: Array) -> BufferedToeplitzStrategy:
        decays, shares = 1 / (1 + np.exp(-point[:buffers])), np.exp(point[buffers:] - point[buffers:].max())
        rest = math.exp(-min(float(point[buffers:].max()), 700.0))  # of the weights, which come to less than 1
        return BufferedToeplitzStrategy(tuple(decays.tolist()), tuple((shares / (rest + shares.sum())).tolist()))

    def loss(point: Array) -> float:
        column = ToeplitzStrategy(build_strategy(point).column(rounds))
        moved = compute_column_sensitivity(column, rounds=rounds, separation=separation, participations=participations)
        return math.log(compute_prefix_error(column, rounds)) + math.log(moved)

    memories = np.geomspace(2, 2 * rounds, buffers + 2)[1:-1]
    start = np.concatenate([np.log(memories), -0.5 * np.log(memories)])
    return build_strategy(minimize(loss, start, method="L-BFGS-B", bounds=[(-15.0, 15.0)] * len(start)).x)


def invert_power_series(column: Array, rounds: int) -> Array:
    """Return coefficients of 1 / c(x) up to x^(rounds - 1), by Newton's iteration; shape (rounds,)."""
    result = np.array([1 / column[0]])
    while len(result) < rounds:
        size = min(2 * len(result), rounds)
        residue = -_product(column[:size], result, size)
        residue[0] += 2
        result = _product(result, residue, size)
    return result


def compute_prefix_error(strategy: ToeplitzStrategy, rounds: int) -> float:
    """Root mean square, over rounds, of the noise in the model, per unit of ``noise_stddev`` and clip norm.

    >>> compute_prefix_error(ToeplitzStrategy((1.0,)), 3)  # independent noise: variances 1, 2, 3
    1.4142135623730951
    """
    rounds = check.integer(1)(rounds=rounds)
    column = np.array(strategy.coefficients[:rounds])
    return math.sqrt(_error(column, rounds)[0] / rounds)


def compute_column_sensitivity(
    strategy: ToeplitzStrategy, *, rounds: int, separation: int, participations: int
) -> float:
    """Return the norm of C u for the worst unit with at most ``participations`` rounds, ``separation`` apart or more.

    Exact for at most ``separation`` bands (the columns are then orthogonal) and for a falling column.

    Raises:
        UnsupportedMechanismError: neither holds.

    Source:
        Kalinin & Lampert 2024, Thm. 2 (arXiv:2405.13763).

    >>> compute_column_sensitivity(ToeplitzStrategy((1.0,)), rounds=10, separation=5, participations=4)
    1.4142135623730951
    """
    rounds = check.integer(1)(rounds=rounds)
    separation = check.integer(1)(separation=separation)
    participations = check.integer(1)(participations=participations)
    column = np.array(strategy.coefficients[:rounds])
    if len(column) > separation and (np.diff(column) > 0).any():
        raise UnsupportedMechanismError(strategy, method="sensitivity", reason="long and not falling")
    image = np.zeros(rounds)
    for start in range(0, rounds, separation)[:participations]:
        length = min(len(column), rounds - start)
        image[start : start + length] += column[:length]
    return float(np.linalg.norm(image))


def optimize_banded_column(bands: int, rounds: int) -> ToeplitzStrategy:
    """Return the column of at most ``bands`` entries with the least ``compute_prefix_error`` at norm 1.

    Optimal for one participation, and for several if they are at least ``bands`` apart; without amplification.

    >>> compute_prefix_error(optimize_banded_column(8, 100), 100) < compute_prefix_error(build_square_root_column(8),
    ... 100)
    True
    """
    bands = check.integer(1)(bands=bands)
    rounds = check.integer(1)(rounds=rounds)
    from scipy.optimize import minimize

    size = min(bands, rounds)

    def objective(tail: Array) -> tuple[float, Array]:
        column = np.concatenate([[1.0], tail])
        error, slope = _error(column, rounds)
        norm = float(column @ column)
        value = math.log(error) + math.log(norm)
        return value, (slope / error + 2 * column / norm)[1:]

    start = np.array(build_square_root_column(size).coefficients)
    start = start[1:] / start[0]
    if not start.size:
        return ToeplitzStrategy((1.0,))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(start))
    best = found.x if found.fun <= objective(start)[0] else start
    return normalize_column(np.concatenate([[1.0], np.maximum(best, 0.0)]))


def _error(column: Array, rounds: int) -> tuple[float, Array]:
    """Sum over rounds of the squared error, and its gradient in the column."""
    inverted = invert_power_series(column, rounds)
    summed = np.cumsum(inverted)  # coefficients of 1 / ((1 - x) c(x))
    weight = np.arange(rounds, 0, -1)
    twice = _product(summed, inverted, rounds)  # of 1 / ((1 - x) c(x)^2)
    weighted = weight * summed
    slope = [-2 * float(weighted[j:] @ twice[: rounds - j]) for j in range(len(column))]
    return float(weighted @ summed), np.array(slope)


def _product(first: Array, second: Array, size: int) -> Array:
    """Return the first ``size`` coefficients of a product of series."""
    result = np.zeros(size)
    product = np.convolve(first[:size], second[:size])[:size]
    result[: len(product)] = product
    return result
