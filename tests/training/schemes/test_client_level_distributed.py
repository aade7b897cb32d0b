"""Noise in shares on a grid: the law of the sum, its price, and whole numbers that wrap around without harm."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.training.fixed import Fixed

from epsilog.accounting import epsilon
from epsilog.mechanisms import Repeated, ZeroConcentratedDP
from epsilog.schemes import ClientLevelDistributed
from epsilog.terms import NeighboringRelation
from epsilog.training import Randomness, require_matching_scheme
from epsilog.training.rounds import compute_next_round, make_initial_state
from epsilog.training.schemes.distributed import _wrap_modulo, draw_discrete_gaussians

SCHEME = ClientLevelDistributed(
    clients=12,
    cohort_size=5,
    survivors=4,
    rounds=6,
    max_participations=4,
    clip_norm=0.2,
    grid=0.01,
    modulus_bits=20,
    noise_multiplier=2.0,
)
ZERO_OUT = NeighboringRelation.ZERO_OUT


def law(stddev, reach=60):
    """The discrete Gaussian, in 60 digits."""
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(stddev) ** 2)) for k in range(-reach, reach + 1)]
    whole = mpmath.fsum(weights)
    return [weight / whole for weight in weights]


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [1.0, *(pytest.param(stddev, marks=pytest.mark.extended) for stddev in (1.5, 2.25))])
def test_a_sum_of_shares_is_as_close_to_a_discrete_gaussian_as_the_price_says(stddev):
    """Convolved in 60 digits: the largest difference of logarithms, against what one coordinate is priced for."""
    shares = 4
    with mpmath.workdps(60):
        one = sum_of = law(stddev)
        for _ in range(shares - 1):
            sum_of = convolved(sum_of, one)
        middle = len(sum_of) // 2
        target = law(stddev * mpmath.sqrt(shares), reach=middle)
        near = range(middle - 25, middle + 26)
        apart = max(abs(mpmath.log(sum_of[k] / target[k])) for k in near)
    scheme = replace(SCHEME, noise_multiplier=stddev * SCHEME.grid * 2)
    assert scheme.share_stddev == pytest.approx(stddev)
    z, parameters = scheme.noise_multiplier, 8_000_000
    allowed = (z / scheme.accounted_multiplier - 1) / (2 * z * parameters)
    assert 0 < apart <= allowed


def convolved(one, other):
    return [
        mpmath.fsum(one[i] * other[k - i] for i in range(max(0, k - len(other) + 1), min(len(one), k + 1)))
        for k in range(len(one) + len(other) - 1)
    ]


def test_a_fine_grid_costs_what_the_whole_noise_costs_and_a_coarse_one_promises_nothing():
    fine = replace(SCHEME, grid=1e-4)
    assert fine.accounted_multiplier == pytest.approx(2.0, rel=1e-12)
    assert fine.accounted_multiplier < 2.0
    assert fine.step().release == ZeroConcentratedDP(0.5 / fine.accounted_multiplier**2)
    assert epsilon(fine.release(), delta=1e-5, relation=ZERO_OUT).upper == pytest.approx(
        epsilon(ZeroConcentratedDP(4 * 0.5 / 4), delta=1e-5, relation=ZERO_OUT).upper, rel=1e-9
    )
    fine = replace(SCHEME, cohort_size=1, survivors=1, grid=1e-17, noise_multiplier=1.0)  # parity is not random there
    for coarse in (replace(SCHEME, grid=1.0, noise_multiplier=1.9), replace(SCHEME, noise_multiplier=0.0), fine):
        assert coarse.accounted_multiplier == 0
        assert epsilon(coarse.release(), delta=1e-5, relation=ZERO_OUT).upper > 1e100
    steps = [replace(SCHEME, grid=grid).accounted_multiplier for grid in (1e-3, 0.1, 0.3, 0.5, 0.9)]
    assert steps == sorted(steps, reverse=True)
    half = SCHEME.step(0.5).release.rho
    assert half == pytest.approx(4 * SCHEME.step().release.rho)


@pytest.mark.parametrize("stddev", [1.0, 3.7, 100.0])
def test_shares_have_the_law_they_claim(stddev):
    drawn = draw_discrete_gaussians(Randomness.from_seed(3).stream("noise", 1), stddev, 40_000)
    assert drawn.dtype == np.int64
    edges = np.unique(np.round(stddev * np.linspace(-3, 3, 13)).astype(int))
    reach = int(12 * stddev)
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * stddev**2))
    weights /= weights.sum()
    cells = np.searchsorted(edges, np.arange(-reach, reach + 1))
    expected = np.bincount(cells, weights, minlength=edges.size + 1) * drawn.size
    found = np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-6
    wide = draw_discrete_gaussians(Randomness.from_seed(3).stream("noise", 2), 1.1 * stddev, 40_000)
    wrong = np.bincount(np.searchsorted(edges, wide), minlength=edges.size + 1)
    assert stats.chisquare(wrong, expected).pvalue < 1e-6


def test_no_draw_is_lost_and_a_control_draws_less():
    stream = Randomness.from_seed(3).stream("noise", 1)
    assert draw_discrete_gaussians(stream, 2.0, 0).shape == (0,)
    assert not draw_discrete_gaussians(stream, 0.0, 5).any()
    assert draw_discrete_gaussians(stream, 2.0, 17).shape == (17,)
    weak = draw_discrete_gaussians(Randomness.with_weaker_noise(3, noise_factor=0.5).stream("noise", 1), 50.0, 5_000)
    assert weak.std() == pytest.approx(25, rel=0.1)


def test_sums_wrap_around_and_come_back():
    numbers = np.array([0, 7, -8, 8, -9, 100])
    assert _wrap_modulo(numbers, 4).tolist() == [0, 7, -8, -8, 7, 4]
    one, other = np.array([2**61 + 5, -(2**61)]), np.array([2**61, -9])
    assert _wrap_modulo(one + other, 62).tolist() == [5, 2**61 - 9]


def test_rounding_towards_zero_makes_no_norm_larger(small_task):
    task, engine = small_task(), Fixed(small_task())
    for grid in (1.0, 0.3, 0.01):
        scheme = replace(
            SCHEME, cohort_size=1, survivors=1, rounds=1, max_participations=1, noise_multiplier=1e-12, grid=grid
        )
        for seed in range(8):
            outcome = compute_next_round(scheme, engine, make_initial_state(task), Randomness.from_seed(seed))
            moved = np.linalg.norm(outcome.state.model - make_initial_state(task).model)
            assert moved <= SCHEME.clip_norm * (1 + 1e-9)


def test_what_cannot_be_whole_is_refused(small_task):
    with pytest.raises(ValueError, match="rounds must be at most 6, so that every cohort is whole, got 7"):
        replace(SCHEME, rounds=7, max_participations=4)
    with pytest.raises(ValueError, match="survivors"):
        replace(SCHEME, survivors=6)
    with pytest.raises(ValueError, match="modulus_bits"):
        replace(SCHEME, modulus_bits=63)
    require_matching_scheme(SCHEME, small_task())
    with pytest.raises(ValueError, match="share_stddev must be in"):
        require_matching_scheme(replace(SCHEME, grid=1e-14, modulus_bits=62), small_task())
    with pytest.raises(ValueError, match="modulus_bits must be at least"):
        require_matching_scheme(replace(SCHEME, modulus_bits=8), small_task())


@pytest.mark.parametrize("stddev", [2.0**38, 2.0**40])
def test_the_last_bits_of_the_widest_shares_are_random(stddev):
    drawn = draw_discrete_gaussians(Randomness.from_seed(5).stream("noise", 1), stddev, 40_000)
    for modulus in (2, 8):
        found = np.bincount(drawn % modulus, minlength=modulus)
        assert stats.chisquare(found).pvalue > 1e-6


def test_a_client_in_every_round_meets_every_sum():
    free = replace(SCHEME, max_participations=SCHEME.rounds)
    assert SCHEME.full_participation_release() == Repeated(SCHEME.step(), 6) == free.release()
    assert SCHEME.release() == Repeated(SCHEME.step(), 4)
