"""Intervals that hold the true delta, alone and beside other events."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from tests.accounting.montecarlo.simulated import BINS

from epsilog.accounting import gaussian_delta, montecarlo
from epsilog.accounting.montecarlo import bounds, delta_bound, documents
from epsilog.accounting.montecarlo.tilt import HockeyStick, ProfilePayoff
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.terms import CalibrationError

EXACT = 6.87625191183830599e-4  # of BINS at epsilon 1


def certified(release=BINS, *, epsilon=1.0, **more):
    return delta_bound.bound_delta(release, epsilon=epsilon, **more)


@pytest.mark.slow
def test_bounds_hold_the_exact_value_within_the_relative_width():
    found, other = certified(seed=11), certified()
    for each in (found, other):
        assert EXACT in each.interval
        assert each.interval.upper < 1.15 * EXACT
    assert (found.simulation, other.simulation) == (True, False)
    assert other.seed != found.seed


@pytest.mark.slow
def test_coverage_of_the_interval():
    """40 bounds at failure 0.2: misses are at most binomial(40, 0.2), which exceeds this once in a million."""
    missed = sum(EXACT not in certified(failure=0.2, samples=2000, seed=s).interval for s in range(40))
    assert missed <= stats.binom.isf(1e-6, 40, 0.2)
    assert missed > 0  # the control: an interval that never misses at failure 0.2 tests nothing


@pytest.mark.slow
@pytest.mark.parametrize("relative_width", [0.2, 0.05])
def test_the_default_draws_reach_the_relative_width(relative_width):
    found = certified(BallsInBins(Gaussian(0.8), 16), relative_width=relative_width, seed=14)
    assert (
        found.interval.upper <= (1 + 1.2 * relative_width) * found.interval.estimate
    )  # the pilot's own error allowed for
    remove, add = (part.trial.samples for part in found.evidence)
    assert add < remove / 5 + 1024
    assert delta_bound._draws(0.0, 0.5, 1e-3, 1e-6) == pytest.approx(500 * math.log(2e6), rel=0.2)


def test_evidence_outside_its_brackets_is_refused(monkeypatch):
    monkeypatch.setattr(documents, "run_trials", lambda trials, **_: tuple((0,) * t.shards for t in trials))
    with pytest.raises(CalibrationError, match="misses its brackets"):
        certified(samples=10**6, seed=1)


def test_evidence_is_of_the_planned_trials_and_complete():
    found = certified(samples=20_000, seed=1)
    first, second = found.evidence
    for says, evidence in (
        ("of the planned trials", (second, first)),
        ("complete", (documents.TrialEvidence(first.trial, first.hits[:1]), second)),
    ):
        with pytest.raises(ValueError, match=says):
            delta_bound.MonteCarloEvidence(found.plan, found.source, evidence)


def test_the_worse_direction_counts_whichever_it_is_and_looks_end_at_the_evidence():
    found = certified(epsilon=0.0, samples=20_000, seed=1)  # where both directions have one delta
    for way in range(2):
        evidence = list(found.evidence)
        part = evidence[way]
        evidence[way] = part = documents.TrialEvidence(part.trial, (part.hits[0] + 600, *part.hits[1:]))
        interval = delta_bound.MonteCarloEvidence(found.plan, found.source, tuple(evidence)).interval
        low, high = (
            end * part.trial.bound
            for end in bounds.clopper_pearson_interval(hits=part.total, samples=20_000, failure=found.failure / 2)
        )
        assert (interval.lower, interval.upper) == pytest.approx((low, high), rel=1e-9)
        assert interval.estimate == pytest.approx(part.total / 20_000 * part.trial.bound)
        looks = delta_bound._looks(part, found.failure)
        assert [draws for draws, *_ in looks] == [16_384, 20_000]
        assert looks[-1][1:] == delta_bound.compute_running_interval(part.trial, 20_000, part.total, found.failure / 2)


@pytest.mark.slow
def test_composition_with_a_gaussian_beside_one_bin_is_one_gaussian():
    """One bin is a Gaussian of mu = 1 / 0.8; beside another of mu = 0.5 they are one of the root of squares."""
    mu, other, epsilon = 1 / 0.8, 0.5, 1.0

    def profile(e):
        return gaussian_delta(other, e)[1] if e >= 0 else 1 + math.exp(e) * (gaussian_delta(other, -e)[1] - 1)

    grid = np.linspace(-8, 8, 4001)
    table = ProfilePayoff(epsilon, tuple(grid), tuple(map(profile, grid)))
    truth = gaussian_delta(math.hypot(mu, other), epsilon)[1]
    found = certified(BallsInBins(Gaussian(0.8), bins=1), payoffs=(table, table), samples=300_000, seed=12)
    assert truth in found.interval
    assert found.interval.upper < 1.1 * truth
    for part in found.evidence:  # the control: the other event is seen
        low, _ = bounds.clopper_pearson_interval(hits=part.total, samples=part.trial.samples, failure=1e-6)
        assert low * part.trial.bound > gaussian_delta(mu, epsilon)[1]
    assert found.interval.lower == 0.0  # the table may be far above what it bounds: it proves nothing from below
    assert montecarlo.recompute_document(json.loads(json.dumps(found.to_json())), shards=1) == ()


def test_a_profile_is_read_from_above():
    table = ProfilePayoff(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, 0.0))
    read = np.exp(table.log_value(1.0 - np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0])))
    chord = 0.5 - 0.3 * (math.exp(0.3) - 1) / (math.e - 1)
    assert read[[0, 1, 2, 3, 5, 6]] == pytest.approx([1.0, 0.5, chord, 0.2, 0.0, 0.0])
    assert chord >= 1 - 0.5 * math.exp(0.3)  # a hockey-stick profile through the points lies below


@given(st.sets(st.integers(-256, 256), min_size=2, max_size=6), st.integers(-800, 800))
def test_a_profile_is_read_at_its_points_and_on_the_chord_between_them(grid, at):
    def profile(e):
        return gaussian_delta(1.0, e)[1] if e >= 0 else 1 + math.exp(e) * (gaussian_delta(1.0, -e)[1] - 1)

    grid, at = [e / 64 for e in sorted(grid)], at / 128  # exact in doubles, and their differences from 1
    table = ProfilePayoff(1.0, tuple(grid), tuple(map(profile, grid)))
    (found,) = np.exp(table.log_value(np.array([1.0 - at])))
    assert found >= profile(at) * (1 - 1e-9) or at > grid[-1]
    assert np.exp(table.log_value(1.0 - np.array(grid))) == pytest.approx(np.array(table.deltas), rel=1e-6)
    if grid[0] <= at <= grid[-1]:
        assert found == pytest.approx(np.interp(math.exp(at), np.exp(grid), table.deltas), rel=1e-6)


@pytest.mark.parametrize(
    ("epsilons", "deltas", "says"),
    [
        ((1.0, 0.0), (0.5, 0.2), "rise"),
        ((0.0, 1.0), (0.5, math.nan), r"deltas\[1\]"),
        ((0.0, 1.0), (0.5,), "match"),
        ((-50.0, 50.0), (0.0, 0.0), r"at least 1 - e\^epsilon"),  # a table below would make any bound [0, 0]
        ((-1e-3, 1.0), (9e-4, 0.0), r"at least 1 - e\^epsilon"),
        ((-800.0, 0.0), (0.9, 0.0), r"at least 1 - e\^epsilon"),
    ],
)
def test_an_impossible_profile_is_refused(epsilons, deltas, says):
    with pytest.raises(ValueError, match=says):
        ProfilePayoff(1.0, epsilons, deltas)


def test_a_profile_next_to_nothing_adds_nothing():
    """The control: the profile of a release that says nothing, rounded down, is accepted and read from above."""
    epsilons = tuple(float(e) for e in np.linspace(-30, 1, 200))
    table = ProfilePayoff(1.0, epsilons, tuple(max(0.0, -math.expm1(e)) * (1 - 2e-16) for e in epsilons))
    losses = np.linspace(-1, 40, 999)
    assert (table.log_value(losses) >= HockeyStick(1.0).log_value(losses)).all()
    assert certified(payoffs=(table, table), samples=20_000, seed=3).interval.upper >= EXACT


def test_payoffs_are_one_profile_in_each_direction_at_this_epsilon():
    table = ProfilePayoff(1.0, (0.0, 1.0), (0.5, 0.2))
    for payoffs in ((), (table,), (table,) * 3, (table, ProfilePayoff(2.0, (0.0, 1.0), (0.5, 0.2)))):
        with pytest.raises(ValueError, match="payoffs must hold two"):
            certified(payoffs=payoffs, samples=1000, seed=1)


@pytest.mark.slow
def test_the_largest_payoff_by_tilt():
    """At tilt 0 it is 1, as low losses cost all; tilted upwards it is finite only if low losses cost nothing."""
    ends, goes_on = (ProfilePayoff(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, last)) for last in (0.0, 0.1))
    assert ends.log_largest(0.0) == goes_on.log_largest(0.0) == HockeyStick(1.0).log_largest(0.0) == 0.0
    assert goes_on.log_largest(1e-9) == math.inf
    losses = np.linspace(-40, 40, 800_001)
    for order in (0.5, 3.0):
        for payoff, slack in ((ends, order), (HockeyStick(1.0), 1e-6)):  # a step of the table is 1 wide
            seen = (payoff.log_value(losses) - order * losses).max()
            assert seen <= payoff.log_largest(order) < seen + slack


@given(st.floats(0, 10), st.lists(st.floats(-30, 30), min_size=1))
def test_a_loss_of_at_most_the_floor_pays_nothing_whatever_it_is(epsilon, below):
    table = ProfilePayoff(epsilon, (0.0, 1.0, 2.0), (0.5, 0.2, 0.1))
    for payoff in (HockeyStick(epsilon), table):
        losses = payoff.floor - np.abs(below)
        assert (payoff.log_value(losses) == payoff.log_value(np.full(1, -np.inf))).all()
    assert table.floor == -np.inf


@pytest.mark.slow
def test_deltas_out_of_reach_are_small_and_never_nothing():
    """M far below the least double, and brackets that underflow: what is claimed is above the truth, which is not 0."""
    for noise, epsilon in ((5.0, 400.0), (1e5, 1.0)):
        found = certified(BallsInBins(Gaussian(noise), 16), epsilon=epsilon, samples=1000, seed=1)
        assert 0 < found.interval.upper < 1e-100
