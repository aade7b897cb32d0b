"""From a goal to a noise level and a claim that holds on average over the whole procedure."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats
from tests.accounting.montecarlo.simulated import BINS

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import bounds, noise_search, oracle, tilt
from epsilog.accounting.montecarlo.shards import BernoulliTrial
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.mechanisms import BallsInBins, Gaussian


def planned(*noises, delta=1e-3, **more):
    return noise_search.plan_noise_search(BINS, epsilon=1.0, target_delta=delta, seed=1, noises=noises or None, **more)


def exact(noise):
    return oracle.compute_balls_in_bins_delta(bins=16, noise_stddev=noise, epsilon=1.0).value


@pytest.mark.slow
def test_a_sweep_finds_the_noise_that_the_oracle_finds():
    found = noise_search.search_noise(BINS, epsilon=1.0, delta=1e-3, slack=0.1, seed=13)
    assert found.delta <= 1e-3
    assert exact(1.02 * found.noise) < 1e-3 < exact(0.93 * found.noise)
    assert found.release == BallsInBins(Gaussian(found.noise), bins=16)
    for delta in (1e-6,):
        estimated = noise_search.estimate_noise(BINS, epsilon=1.0, delta=delta, seed=2)
        assert exact(1.03 * estimated) < delta < exact(0.97 * estimated)


@pytest.mark.slow
def test_the_claim_is_the_integral_over_the_worst_test():
    plan = planned(1.1, 1.05, 1.0, 0.95)
    sides = [[pair[side] for pair in plan.checks] for side in range(2)]
    for tests in sides:
        y = np.linspace(0, 5e-3, 200_001)
        worst = np.zeros_like(y)
        for test in tests:
            passes = stats.binom.cdf(test.hits, test.trial.samples, np.minimum(y / test.trial.bound, 1))
            worst = np.maximum(worst, np.where(y <= test.trial.bound, passes, 0))
        area = float(np.sum((worst[1:] + worst[:-1]) / 2) * (y[1] - y[0]))
        assert area <= noise_search.envelope_delta(tests) <= 1.01 * area
    assert plan.claim <= 1e-3
    assert plan.claim < max(map(noise_search.envelope_delta, sides))  # draws of their own: theorem 3
    listed = [
        bounds.bound_listed_delta([(one.trial.samples, one.hits, one.trial.bound) for one in side]) for side in sides
    ]
    assert plan.claim == max(listed)
    same, trial = plan.checks[0][0], plan.checks[0][0].trial
    alone = bounds.binomial_delta(samples=trial.samples, hits=same.hits, bound=trial.bound)
    assert noise_search.envelope_delta([same] * 2) == alone


@pytest.mark.slow
def test_repeated_sweeps_release_no_more_than_claimed():
    """20,000 sweeps of nine candidates, true deltas from the oracle: the mean released delta is below the claim."""
    noises = tuple(0.90 * 1.03**j for j in range(8, -1, -1))
    plan = planned(*noises, slack=0.3, power=0.9)
    truth = np.array([0.0, *map(exact, noises)])
    chances = [
        stats.binom.cdf(remove.hits, remove.trial.samples, delta / remove.trial.bound)
        for (remove, _), delta in zip(plan.checks, truth[1:], strict=True)
    ]
    passed = np.random.default_rng(3).random((20_000, len(noises))) < chances
    released = truth[np.cumprod(passed, axis=1).sum(axis=1)]
    assert 0.6 * plan.claim < released.mean() <= plan.claim
    assert released.max() > plan.claim  # single runs may release more: the claim is about the whole procedure
    assert all(noise_search.run_noise_search(plan, seed=s).chosen is not None for s in range(1))


@pytest.mark.extended
@pytest.mark.parametrize("slack", [0.05, 0.9])
def test_few_draws_still_make_a_plan(slack):
    """With counts of a few hits a small change of the threshold changes none of them."""
    plan = planned(delta=1e-2, slack=slack)
    assert 0.3e-2 < plan.claim <= 1e-2
    assert plan.noises[0] / plan.noises[-1] == pytest.approx(1.01**9)


@pytest.mark.slow
def test_a_fallback_is_counted():
    plain, backed = planned(1.1), planned(1.1, fallback_delta=5e-4)
    assert backed.claim <= 1e-3
    assert backed.checks[0][0].trial.samples > plain.checks[0][0].trial.samples
    assert replace(plain, fallback_delta=5e-4).claim > plain.claim
    with pytest.raises(ValueError, match="fallback_delta"):
        planned(1.1, fallback_delta=1e-3)


@pytest.mark.slow
def test_nothing_is_chosen_when_the_first_candidate_fails():
    found = noise_search.run_noise_search(planned(0.5, 0.4, delta=1e-4, slack=0.5), seed=1)
    assert (found.chosen, found.noise, found.release) == (None, None, None)
    assert len(found.evidence) == 2
    assert montecarlo.recompute_document(json.loads(json.dumps(found.to_json())), shards=1) == ()


def test_evidence_of_a_sweep_is_whole_and_stops_at_the_first_failure():
    found = noise_search.run_noise_search(planned(1.2, 0.5, 0.4, delta=1e-2, slack=0.9), seed=3)
    assert (found.chosen, len(found.evidence)) == (0, 4)
    passed, failed = found.evidence[:2], found.evidence[2:]
    for says, evidence in (
        ("never tested as planned", passed),
        ("never tested as planned", (*passed[::-1], *failed)),
        ("more of it", (*passed, *failed, *failed)),
    ):
        with pytest.raises(ValueError, match=says):
            noise_search.NoiseSearchResult(found.plan, found.source, evidence)


def test_only_entropy_of_its_own_makes_a_claim():
    plan = planned(1.1, delta=1e-2, slack=0.5)
    assert noise_search.run_noise_search(plan, seed=3).simulation
    fresh = [noise_search.run_noise_search(plan) for _ in range(2)]
    assert not any(found.simulation for found in fresh)
    assert fresh[0].seed != fresh[1].seed
    for bad in (-1, 2**128, 1.5, True):
        with pytest.raises(ValueError, match="seed must be"):
            noise_search.run_noise_search(plan, seed=bad)


def test_the_worst_of_two_small_tests_is_integrated():
    """Against quadrature with SciPy's binomials; a test that always passes adds its bound, and no more."""
    payoff, how = HockeyStick(1.0), tilt.Tilt("remove", 0.0)
    tests = [
        noise_search.CandidateTest(BernoulliTrial(BINS, payoff, how, math.log(bound), samples), hits)
        for bound, samples, hits in ((0.5, 40, 3), (0.2, 60, 30))
    ]

    def worst(y):
        passes = (stats.binom.cdf(t.hits, t.trial.samples, y / t.trial.bound) for t in tests if y <= t.trial.bound)
        return max(passes, default=0.0)

    for fallback in (0.0, 0.03, 0.3):
        exact = fallback + integrate.quad(worst, fallback, 0.5, points=[0.2], limit=500)[0]
        assert exact * (1 - 1e-9) <= noise_search.envelope_delta(tests, fallback_delta=fallback) <= 1.002 * exact
    sure = [replace(tests[0], hits=40), tests[1]]
    assert 0.5 <= noise_search.envelope_delta(sure) <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("power", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("scale", [0.01, 0.9, 1.3, 50.0])
def test_the_passing_counts_take_what_the_target_leaves(power, scale):
    """Where the claim grows no faster than the share, the chosen share claims nearly the target, and never more."""
    found, share = noise_search._most_that_may_pass(
        lambda share: SimpleNamespace(claim=1e-5 * scale * share**power), 1e-5
    )
    assert found.claim == 1e-5 * scale * share**power
    assert 0.99e-5 <= found.claim <= 1e-5
