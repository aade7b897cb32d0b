"""Noise that fades out again: one Gaussian mechanism for the whole run, held against the matrix itself."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from tests.training.schemes.test_client_level_correlated_noise import noise_rows

from epsilog.accounting import epsilon
from epsilog.accounting.montecarlo import strategies
from epsilog.mechanisms import BufferedToeplitzStrategy, GaussianDP, ToeplitzStrategy
from epsilog.schemes import ClientLevelBufferedNoise
from epsilog.training import require_matching_scheme
from epsilog.training.schemes import round_robin

SCHEME = ClientLevelBufferedNoise(
    clients=12, cycle_length=4, rounds=10, decays=(0.9, 0.3), weights=(0.3, 0.2), clip_norm=0.2, noise_multiplier=2.0
)


def matrix(scheme):
    """C, written out from its parameters."""
    t = np.arange(scheme.rounds - 1)[:, None]
    column = np.concatenate([[1.0], (np.array(scheme.weights) * np.array(scheme.decays) ** t).sum(axis=1)])
    return linalg.toeplitz(column, np.zeros(scheme.rounds))


def test_the_column_is_that_of_the_parameters():
    assert SCHEME.coefficients == pytest.approx(matrix(SCHEME)[:, 0])
    assert len(SCHEME.coefficients) == SCHEME.rounds
    assert replace(SCHEME, rounds=1).coefficients == (1.0,)
    assert replace(SCHEME, rounds=2).coefficients == (1.0, 0.5)


@pytest.mark.slow
@given(
    cycle=st.integers(1, 9),
    total=st.integers(1, 40),
    pairs=st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 2.0)), min_size=1, max_size=3),
    signs=st.integers(0, 2**40 - 1),
)
def test_no_client_moves_more_than_it_is_priced_for(cycle, total, pairs, signs):
    """Whatever a client sends in its turns, after any number of rounds; who comes first attains the price."""
    decays, weights = zip(*pairs, strict=True)
    scheme = ClientLevelBufferedNoise(12, cycle, total, decays, weights, 1.0, 1.0)
    turns = np.array([2.0 * (signs >> t & 1) - 1 for t in range(total)])
    whole = matrix(scheme)
    for after in {1, total // 2 or 1, total}:
        priced = np.sqrt(scheme.after(after).count) / scheme.after(after).release.release.noise_multiplier
        for client in range(cycle):
            sent = np.array([1.0 * (client in scheme.cohorts.due(t + 1)) for t in range(after)])
            ends = [np.linalg.norm(whole[:after, :after] @ each) for each in (sent, sent * turns[:after])]
            assert max(ends) <= priced
            if client == 0:
                assert ends[0] == pytest.approx(priced)
    assert scheme.after(total) == scheme.release()
    assert (whole @ np.ones(total)).max() <= 1 / scheme.full_participation_release().release.noise_multiplier


def test_the_price_is_one_gaussian_and_an_attempt_shows_one_row_more():
    sent = np.array([1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0])
    mu = np.linalg.norm(matrix(SCHEME) @ sent) / 2
    assert epsilon(SCHEME.release(), delta=1e-5).upper == pytest.approx(
        epsilon(GaussianDP(mu), delta=1e-5).upper, rel=1e-6
    )
    row = (matrix(SCHEME) @ sent).max() / 2
    both = GaussianDP(np.hypot(mu, np.sqrt(3) * row))
    assert epsilon(SCHEME.with_attempts(3), delta=1e-5).upper == pytest.approx(
        epsilon(both, delta=1e-5).upper, rel=1e-6
    )


@pytest.mark.parametrize("total", [1, 9, 300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_norms_are_rounded_outwards(total):
    strategy = BufferedToeplitzStrategy((0.99, 0.7, 1e-200), (0.3, 0.21, 1e-3))
    with mpmath.workdps(40):
        pairs = [(mpmath.mpf(d), mpmath.mpf(w)) for d, w in zip(strategy.decays, strategy.weights, strict=True)]
        column = [mpmath.mpf(1)] + [mpmath.fsum(w * d**t for d, w in pairs) for t in range(total - 1)]
        for separation in (1, 7, total):
            seen = list(column)
            for t in range(separation, total):
                seen[t] += seen[t - separation]
            exact = mpmath.sqrt(mpmath.fsum(one * one for one in seen)), max(seen)
            for found, true in zip(strategy.turns(total, separation), exact, strict=True):
                assert true <= found <= true * (1 + mpmath.mpf(10) ** -10)


def test_the_noise_that_is_added_is_that_of_the_dense_matrix(small_task):
    """C times the rows is what was drawn; the memory is two vectors in every round."""
    task = small_task()
    weak = replace(SCHEME, weights=(1e-300, 1e-300))
    rows, drawn = (noise_rows(scheme, task, 5, lambda *_: 2)[0] for scheme in (SCHEME, weak))
    assert np.allclose(matrix(SCHEME) @ rows, drawn, atol=1e-10)
    assert np.allclose(rows, linalg.solve(matrix(SCHEME), drawn), atol=1e-10)
    assert not np.allclose(rows, drawn, atol=0.1)


def test_little_memory_carries_little_noise():
    """One buffer in place of 49 rows: 5% more noise in the model than with the band, a third of independent noise."""
    rounds, cycle = 200, 50
    found = strategies.optimize_buffered_column(1, rounds, separation=cycle, participations=4)

    def error(strategy):
        moved = strategies.compute_column_sensitivity(strategy, rounds=rounds, separation=cycle, participations=4)
        return moved * strategies.compute_prefix_error(strategy, rounds)

    buffered, band = error(ToeplitzStrategy(found.column(rounds))), error(strategies.build_square_root_column(cycle))
    assert buffered < 1.05 * band
    assert buffered < 0.3 * error(ToeplitzStrategy((1.0,)))
    scheme = ClientLevelBufferedNoise(1000, cycle, rounds, found.decays, found.weights, 1.0, 1.0)
    priced = (
        np.sqrt(4)
        / scheme.accounted_multiplier
        * strategies.compute_prefix_error(ToeplitzStrategy(scheme.coefficients), rounds)
    )
    assert priced == pytest.approx(buffered)


def test_the_search_finds_what_jax_privacy_finds():
    """jax_privacy 2.0.0, buffered_toeplitz.optimize(n=64, min_sep=16, max_participations=4, error="mean")."""
    found = strategies.optimize_buffered_column(1, 64, separation=16, participations=4)
    assert found.decays == pytest.approx([0.8648539330749051], abs=1e-4)
    assert found.weights == pytest.approx([0.5209672093068092], abs=1e-4)
    column = ToeplitzStrategy(found.column(64))
    moved = strategies.compute_column_sensitivity(column, rounds=64, separation=16, participations=4)
    assert moved * strategies.compute_prefix_error(column, 64) == pytest.approx(4.91683830207365, rel=1e-8)


@pytest.mark.slow
def test_columns_are_those_of_jax_privacy():
    theirs = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz")
    import jax

    with jax.enable_x64(True):
        made = theirs.BufferedToeplitz.build([0.9, 0.3], [0.3, 0.2])
        assert BufferedToeplitzStrategy((0.9, 0.3), (0.3, 0.2)).column(50) == pytest.approx(
            np.array(made.toeplitz_coefs(50))
        )


def test_what_cannot_be_priced_or_remembered_is_refused(small_task, monkeypatch):
    for wrong in (
        {"decays": ()},
        {"decays": (0.9, 1.0)},
        {"decays": (0.9,)},
        {"decays": (0.5,) * 65, "weights": (0.01,) * 65},
        {"weights": (0.1, -0.1)},
        {"rounds": 10**7},
    ):
        with pytest.raises(ValueError, match=r"decays|weights|rounds"):
            replace(SCHEME, **wrong)
    task = small_task()
    monkeypatch.setattr(round_robin, "MAX_REMEMBERED", 2 * task.model.size - 1)
    with pytest.raises(ValueError, match=r"buffers_times_parameters must be in \[0, 41\], got 42"):
        require_matching_scheme(SCHEME, task)
