"""The two distributions that a simulated release must hide one unit between, drawn exactly and in small.

Q = N(0, s^2 I) is the run without the unit, P the mixture over the unit's hidden participation. ``draw`` gives
privacy losses: ln(P / Q) under P for "remove", ln(Q / P) under Q for "add". Draws are exchangeable, so that any prefix
is a fair sample. Hypotheses: C lower triangular and entrywise at least 0, participation independent per unit, no
truncated batches, public normalizers; zero-out and add-or-remove-one are then the same. Sources per class.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo.mixtures import METHOD, BallsInBinsPair, SimulatedPair
from epsilog.accounting.montecarlo.paths import CyclicPoissonPair, MinSepPair, RandomAllocationPair
from epsilog.mechanisms import (
    BallsInBinsParticipation,
    BoundedParticipation,
    CyclicPoissonParticipation,
    DenseStrategy,
    FullParticipation,
    MatrixMechanism,
    MinSepParticipation,
    RandomAllocationParticipation,
    Release,
    ToeplitzStrategy,
    TreeAggregationStrategy,
)
from epsilog.terms import UnsupportedMechanismError

Array = NDArray[np.float64]
MOST_MODES = 2**13  # hidden places of one unit; their Gram matrix fills 512 MB
MOST_ROUNDS = 2**16  # of a path; a block of draws fills 512 MB
_MOST_CELLS = 2**26  # rounds times modes
_PLAIN = ToeplitzStrategy((1.0,))  # independent noise, scaled as it is
_NOISES = (1e-100, 1e100)  # beyond, its square leaves the range of numbers


def compute_bin_gram(release: MatrixMechanism, bins: int) -> Array:
    """Return the Gram matrix of the bins' modes m_i = sum_j C[:, i + j b], not yet over s^2; shape (b, b)."""
    rounds = release.rounds
    modes = np.zeros((rounds, bins))
    if isinstance(release.strategy, ToeplitzStrategy):
        column = np.array(release.strategy.coefficients[:rounds])
        for t in range(rounds):
            length = min(len(column), rounds - t)
            modes[t : t + length, t % bins] += column[:length]
    elif isinstance(release.strategy, DenseStrategy):
        for t, row in enumerate(release.strategy.rows):
            np.add.at(modes[t], np.arange(t + 1) % bins, row)
    if isinstance(release.strategy, ToeplitzStrategy) and len(release.strategy.coefficients) == 1:
        return np.diag((modes**2).sum(axis=0))
    return np.asarray(modes.T @ modes)


@lru_cache(maxsize=8)
def build_simulated_pair(release: Release) -> SimulatedPair:
    """Build the dominating pair of a release.

    Raises:
        UnsupportedMechanismError: there is no proven pair, or no noise, or it takes too much memory.
    """
    if (run := release.as_matrix()) is None:
        raise _build_error(
            release, "releases without correlated noise need no simulation: an accounting method bounds them"
        )
    if isinstance(run.strategy, TreeAggregationStrategy) or isinstance(run.participation, BoundedParticipation):
        raise _build_error(release, "a tree and fixed rounds need no simulation: an accounting method bounds them")
    noise = run.noise_stddev
    if noise <= 0:
        raise _build_error(release, "there is no noise, hence no privacy")
    if not _NOISES[0] <= noise <= _NOISES[1]:
        raise _build_error(release, f"noise of {noise:g} cannot be simulated in double precision")
    match run.participation:
        case FullParticipation():
            _require_memory(release, cells=run.rounds)
            return BallsInBinsPair(compute_bin_gram(run, 1) / noise**2)
        case BallsInBinsParticipation(cycle_length=bins) if run.strategy == _PLAIN and run.rounds % bins == 0:
            _require_memory(release, modes=bins)
            return BallsInBinsPair(np.eye(bins) * (run.rounds // bins / noise**2))
        case BallsInBinsParticipation(cycle_length=bins):
            _require_memory(release, modes=bins, cells=run.rounds * bins)
            return BallsInBinsPair(compute_bin_gram(run, bins) / noise**2)
        case MinSepParticipation(min_separation=apart) as spaced:
            _require_memory(release, path=max(run.rounds, apart))
            return MinSepPair(_column(run, spaced.min_separation), noise, run.rounds, spaced)
        case CyclicPoissonParticipation(cycle_length=slots) as cyclic:
            _require_memory(release, path=max(run.rounds, slots))
            return CyclicPoissonPair(_column(run, cyclic.cycle_length), noise, run.rounds, cyclic)
        case RandomAllocationParticipation(participations=often):
            _require_memory(release, path=run.rounds, cells=run.rounds * often)
            return RandomAllocationPair(_column(run, 1), noise, run.rounds, often)


def _build_error(release: Release, reason: str) -> UnsupportedMechanismError:
    return UnsupportedMechanismError(release, method=METHOD, reason=reason)


def _require_memory(release: Release, *, path: int = 0, modes: int = 0, cells: int = 0) -> None:
    """Refuse releases that would fill the memory before the first draw: documents may be untrusted."""
    if path > MOST_ROUNDS or modes > MOST_MODES or cells > _MOST_CELLS:
        reason = f"it takes too much memory; at most {MOST_ROUNDS} rounds or slots, {MOST_MODES} bins"
        raise _build_error(release, reason)


def _column(release: MatrixMechanism, separation: int) -> Array:
    if not isinstance(release.strategy, ToeplitzStrategy):
        raise _build_error(release, "this participation needs a banded Toeplitz C")
    column = np.array(release.strategy.coefficients[: release.rounds])
    if len(column) > separation:
        reason = f"the columns of one participation overlap: {len(column)} bands, separation {separation}"
        raise _build_error(release, reason)
    return column
