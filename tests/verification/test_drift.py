"""A change on the way is found though each round may pass and the mean is right; the plan's variance is no drift."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from tests.extent import amount
from tests.verification.checked import check_noise
from tests.verification.logs.simulated import N, Q, T, honest, save

from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms import Status
from epsilog.verification import compute_control_limits
from epsilog.verification.logs import verify_logs
from epsilog.verification.participation import compare_cohort_sizes
from epsilog.verification.sampler_tests import (
    SHARES,
    TILTS,
    bound_cohort_drift,
    bound_noise_drift,
    compute_log_e_values,
)

RAMP = np.linspace(0.6, 1.4, T)


def squares(draws):
    return bound_noise_drift([draws.shape[1]] * draws.shape[0], (draws**2).sum(axis=1).tolist())


def test_bets_against_the_plan_are_fair():
    """For every number of rounds the mean over all that may happen is 1, to rounding."""
    clients, q, rounds = 2, 0.3, 3
    chance = binom.pmf(np.arange(clients + 1), clients, q)
    mean = np.zeros(rounds)
    for sizes in itertools.product(range(clients + 1), repeat=rounds):
        steps = TILTS * np.array(sizes)[:, None] - clients * np.log1p(q * np.expm1(TILTS))
        mean += math.prod(chance[list(sizes)]) * np.exp(compute_log_e_values(steps))
    assert mean == pytest.approx(np.ones(rounds), rel=1e-9)


@pytest.mark.parametrize("share", SHARES)
def test_a_bet_on_less_noise_is_fair(share):
    """The likelihood ratio of values with less spread integrates to 1 over what the plan draws."""
    x = np.linspace(-40, 40, 400_001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    ratio = np.exp(-math.log(share) - x**2 * (share**-2 - 1) / 2)
    assert np.trapezoid(density * ratio, x) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cohorts", "noise"])
def test_sound_runs_drift_no_oftener_than_is_stated(kind):
    """At a stated rate of 5%; a binomial exceeds this three times in a hundred thousand."""
    rng, found, runs = np.random.default_rng(11), 0, amount(600, 2400)
    for _ in range(runs):
        p = bound_cohort_drift(rng.binomial(N, Q, T), N, Q) if kind == "cohorts" else squares(rng.normal(size=(T, 16)))
        found += p[0] < 0.05
    assert found <= binom.isf(3e-5, runs, 0.05)


@pytest.mark.slow
def test_drift_is_found_where_its_mean_is_right():
    """The control that must fail: a rate, or noise, that moves 40% around its mean; and a fall that ends again."""
    rng, missed = np.random.default_rng(12), [0, 0, 0]
    for _ in range(200):
        missed[0] += bound_cohort_drift(rng.binomial(4 * N, Q * RAMP), 4 * N, Q)[0] >= 1e-7
        missed[1] += squares(rng.normal(size=(T, 64)) * RAMP[::-1, None])[0] >= 1e-7
        p, at = squares(
            rng.normal(size=(T, 64)) * np.where((np.arange(T) > 20) & (np.arange(T) < 40), 0.7, 1.0)[:, None]
        )
        missed[2] += p >= 1e-7 or not 34 <= at <= 42
    assert max(missed) <= 10, missed


def test_checks_name_the_drift():
    rng = np.random.default_rng(5)
    sizes = np.concatenate([rng.binomial(20_000, 0.0507, 300), rng.binomial(20_000, 0.0493, 300)])
    seen = compare_cohort_sizes(PoissonSampler(20_000, 0.05), sizes)
    assert (seen.code, seen.status, seen.claim_effect) == (
        "participation/drift",
        Status.FAILED,
        "supported without amplification",
    )
    numbers = dict(seen.values)
    assert numbers["p_total"] > 0.01
    assert f"by round {numbers['drifted_by_round']:.0f} " in seen.message
    draws = rng.normal(size=(600, 16)) * np.linspace(1.15, 0.85, 600)[:, None]
    records = [SimpleNamespace(round=t, padding=tuple(each), aborted=False) for t, each in enumerate(draws, start=1)]
    fell = check_noise(records, noise_stddev=1.0)
    assert (fell.code, fell.status, fell.claim_effect) == ("noise/drift", Status.FAILED, "unsupported")
    shuffled = [records[i] for i in rng.permutation(600)]
    assert check_noise(shuffled, noise_stddev=1.0).status is Status.PASSED, "the same noise, in no order"


@pytest.mark.slow
def test_logs_drift_too(tmp_path):
    """Few clients and few rounds need more drift, and then another test may be the first to see it."""
    for public, verdict in (("true", Status.FAILED), ("false", Status.WARNED)):  # delta does not cover this failure
        found = verify_logs(save(honest(q=Q * RAMP), tmp_path, head=f"public = {public}\n"))
        (seen,) = [one for one in found.findings if one.check == "participation"]
        assert seen.status is verdict
        assert dict(seen.values)["p_drift"] < 1e-4
    (sound,) = [one for one in verify_logs(save(honest(), tmp_path)).findings if one.check == "participation"]
    assert dict(sound.values)["p_drift"] > 0.01


def test_a_long_run_is_looked_at_in_blocks(monkeypatch):
    """A change that ends in the middle of 100,000 rounds; a sound run of as many is none."""
    rng = np.random.default_rng(13)
    sizes = np.concatenate([rng.binomial(1000, 0.0505, 50_000), rng.binomial(1000, 0.05, 50_000)])
    p, at = bound_cohort_drift(sizes, 1000, 0.05)
    assert p < 1e-12
    assert 40_000 < at <= 52_000
    assert bound_cohort_drift(rng.binomial(1000, 0.05, 100_000), 1000, 0.05)[0] > 1e-3
    draws = rng.chisquare(4, 100_000) * np.where(np.arange(100_000) < 50_000, 1.02, 0.97)
    p, at = bound_noise_drift([4] * 100_000, draws.tolist())
    assert (p < 1e-12, at > 90_000) == (True, True)
    short = bound_cohort_drift(sizes[:100], 1000, 0.05)
    monkeypatch.setattr("epsilog.verification.sampler_tests.MOST_STARTS", 10)
    blocks = bound_cohort_drift(sizes[:100], 1000, 0.05)
    assert blocks[1] % 10 == 0
    assert 0 < short[0] <= 1 >= blocks[0] > 0


def test_extremes_are_no_error():
    assert bound_cohort_drift(np.zeros(0, dtype=np.int64), 10, 0.5) == (1.0, 0)
    assert bound_cohort_drift(np.full(50, 10), 10, 0.5)[0] < 1e-9
    assert bound_cohort_drift(np.full(50, 0), 10, 0.5)[0] < 1e-9
    assert bound_noise_drift([16] * 20, [0.0] * 20)[0] < 1e-150
    assert bound_noise_drift([16] * 20, [1.7e308] * 20)[0] == pytest.approx(1.0)
    assert bound_noise_drift([0, 0], [0.0, 0.0])[0] == pytest.approx(1.0)
    assert bound_noise_drift([], []) == (1.0, 0)


@pytest.mark.parametrize(
    ("clients", "rate", "rounds"), [(400, 0.05, 60), (20_000, 0.0128, 120), (5, 0.5, 3), (7, 1e-6, 2)]
)
def test_limits_hold_for_all_rounds_together(clients, rate, rounds):
    low, high = compute_control_limits(clients, rate, rounds, 1e-3)
    outside = binom.cdf(low - 1, clients, rate) + binom.sf(high, clients, rate)
    assert outside * rounds <= 1e-3 * (1 + 1e-9)
    assert binom.cdf(low, clients, rate) > 1e-3 / (2 * rounds) * (1 - 1e-9), "and no tighter ones do"
    assert high == 0 or binom.sf(high - 1, clients, rate) > 1e-3 / (2 * rounds) * (1 - 1e-9)
