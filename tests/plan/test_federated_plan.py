"""Federated plans: worked examples, the inverse questions re-checked forwards, words that match the numbers."""

import math
from itertools import pairwise

import pytest

from epsilog import plan
from epsilog.accounting import epsilon
from epsilog.mechanisms import BestOfTrials, BinomialTrialCount, Gaussian, Repeated
from epsilog.terms import (
    CalibrationError,
    CheckError,
    DeltaPolicy,
    Interval,
    NeighboringRelation,
    Status,
    UnsupportedMechanismError,
    codec,
)

RUN = {"population": 50_000, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2}


def test_the_worked_examples():
    first = plan.plan_federated(**RUN, policy=DeltaPolicy(None))
    assert first.delta.delta == 2e-5
    assert first.closed_form.total == pytest.approx(0.5621, abs=5e-5)
    second = plan.plan_federated(population=10_000, cohort_size=200, rounds=100, noise_multiplier=1.0, delta=1e-6)
    assert (second.closed_form.root_term, second.closed_form.linear_term) == pytest.approx((1.0513, 0.0400), abs=5e-5)
    assert second.closed_form.dominant_term == "root"
    told = second.to_json()
    assert (told["closed_form"]["total"], told["closed_form"]["side"]) == (second.closed_form.total, "estimate")
    assert told["closed_form_note"] == second.closed_form_note.to_json()


def test_the_closed_form_is_caught_under_reporting():
    found = plan.plan_federated(
        population=1000, cohort_size=10, rounds=1000, noise_multiplier=1.0, delta=1e-5, policy=DeltaPolicy(None)
    )
    assert found.closed_form.total == pytest.approx(1.617, abs=5e-4)
    assert found.epsilon.upper > found.closed_form.total
    assert found.closed_form_note.id == "formula/under-reports"


def test_blank_delta_says_why():
    found = plan.plan_federated(**RUN)
    assert found.delta.delta == 1e-6
    assert "policy cap" in found.delta.rationale


def test_no_noise_is_no_privacy():
    found = plan.plan_federated(**RUN | {"noise_multiplier": 0.0})
    assert found.epsilon.upper == math.inf
    assert found.to_json()["epsilon"]["upper"] == "inf"
    assert found.closed_form_note.id == "formula/no-noise"


@pytest.mark.slow
def test_no_noise_is_too_little_for_sampling_to_hide_something():
    found = [plan.plan_federated(**RUN | {"noise_multiplier": noise}) for noise in (0.01, 0.05, 0.199, 0.2)]
    assert all(less.epsilon.upper > more.epsilon.upper for less, more in pairwise(found))
    assert all(one.epsilon.upper < 0.2 * one.unamplified.upper for one in found)
    assert found[2].epsilon.upper < 1.05 * found[3].epsilon.upper, "nothing jumps at any noise"


@pytest.mark.slow
def test_two_runs_cost_at_most_twice_one_run_at_half_of_delta():
    run = RUN | {"noise_multiplier": 0.19, "rounds": 5}
    two = plan.plan_federated(**run, releases_per_period=2, delta=1e-6, group_size=2)
    one = plan.plan_federated(**run, delta=5e-7)
    assert two.epsilon.upper < two.cumulative.upper <= 2 * one.epsilon.upper
    assert two.epsilon.upper < two.group_interval.upper < two.unamplified.upper


def test_more_releases_cost_more():
    found = plan.plan_federated(**RUN, releases_per_period=4)
    assert found.cumulative.upper > found.epsilon.upper
    assert found.epsilon.upper < found.unamplified.upper


@pytest.mark.slow
def test_least_noise_keeps_to_the_goal():
    noise = plan.calibrate_noise(epsilon=2.0, population=50_000, cohort_size=500, rounds=200)
    given = RUN | {"noise_multiplier": noise}
    assert plan.plan_federated(**given).epsilon.upper <= 2.0
    assert plan.plan_federated(**given | {"noise_multiplier": noise * 0.98}).epsilon.upper > 2.0


def test_rounds_that_fit_are_the_most_that_fit():
    given = {"population": 2000, "cohort_size": 2000, "noise_multiplier": 20.0, "delta": 1e-6}
    most = plan.calibrate_rounds(epsilon=1.0, **given)
    assert plan.plan_federated(**given, rounds=most).epsilon.upper <= 1.0
    assert plan.plan_federated(**given, rounds=most + 1).epsilon.upper > 1.0


def test_no_round_may_fit_and_all_may():
    assert plan.calibrate_rounds(epsilon=0.01, population=100, cohort_size=100, noise_multiplier=0.5) == 0
    for sampling, noise in (("poisson", 1e6), ("balls-in-bins", 1e9)):
        with pytest.raises(CalibrationError, match="any number"):
            plan.calibrate_rounds(
                epsilon=100.0, population=100, cohort_size=100, noise_multiplier=noise, sampling=sampling
            )


def test_a_fixed_size_is_priced_for_replace_one_only():
    replaced = plan.plan_federated(**RUN, sampling="fixed-size", relation=NeighboringRelation.REPLACE_ONE)
    assert replaced.epsilon.upper > plan.plan_federated(**RUN).epsilon.upper  # a sum moves twice as far
    with pytest.raises(UnsupportedMechanismError, match="replace-one"):
        plan.plan_federated(**RUN, sampling="fixed-size")


@pytest.mark.slow
def test_balls_in_bins_is_priced_between_poisson_sampling_and_none():
    binned = plan.plan_federated(**RUN, sampling="balls-in-bins")
    assert 0 < binned.epsilon.relative_width <= 0.002
    assert binned.epsilon.upper < binned.unamplified.lower
    assert any(line.id == "assumes/random-bins" for line in binned.epsilon.assumptions)
    points = plan.compute_epsilon_curve(binned, points=4)
    assert [point.epsilon.upper for point in points] == sorted(point.epsilon.upper for point in points)
    yearly = plan.plan_federated(**RUN, sampling="balls-in-bins", releases_per_period=4)
    assert yearly.cumulative.lower > binned.epsilon.upper
    replaced = plan.plan_federated(**RUN, sampling="balls-in-bins", relation=NeighboringRelation.REPLACE_ONE)
    epochs = binned.schedule.release().epochs
    told = epsilon(Repeated(Gaussian(RUN["noise_multiplier"]), epochs), delta=1e-6, relation=replaced.relation)
    assert replaced.epsilon.upper == pytest.approx(told.upper), "without a pair the bins hide nothing"


@pytest.mark.slow
def test_balls_in_bins_is_calibrated_in_noise_and_in_whole_epochs():
    given = {"population": 5_000, "cohort_size": 100, "sampling": "balls-in-bins"}
    noise = plan.calibrate_noise(**given, rounds=100, epsilon=2.0)
    assert plan.plan_federated(**given, rounds=100, noise_multiplier=noise).epsilon.upper <= 2.0
    rounds = plan.calibrate_rounds(**given, noise_multiplier=noise, epsilon=2.0)
    assert rounds % 50 == 0
    assert rounds >= 100
    assert plan.plan_federated(**given, rounds=rounds + 1, noise_multiplier=noise).epsilon.upper > 2.0
    assert plan.plan_federated(**given, rounds=rounds, noise_multiplier=noise).epsilon.upper <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [1, *(pytest.param(epochs, marks=pytest.mark.slow) for epochs in (3, 6, 7))])
def test_the_most_epochs_that_fit_are_found_whatever_their_number(epochs):
    """The cap lies between the price of so many epochs and of one more."""
    given = {"population": 500, "cohort_size": 50, "sampling": "balls-in-bins", "noise_multiplier": 4.0}
    below, above = (plan.plan_federated(**given, rounds=10 * n).epsilon.upper for n in (epochs, epochs + 1))
    assert below < above
    for cap in (below * 1.001, above * 0.999):
        assert plan.calibrate_rounds(**given, epsilon=cap) == 10 * epochs


def test_poisson_sampling_is_priced_for_replace_one_too():
    replaced = plan.plan_federated(**RUN, relation=NeighboringRelation.REPLACE_ONE)
    assert replaced.epsilon.lower > plan.plan_federated(**RUN).epsilon.upper


@pytest.mark.slow
def test_the_curve_rises_to_the_plan_and_brackets():
    found = plan.plan_federated(**RUN)
    points = plan.compute_epsilon_curve(found, points=6)
    assert [point.rounds for point in points] == [1, 40, 80, 120, 160, 200]
    uppers = [point.epsilon.upper for point in points]
    assert uppers == sorted(uppers)
    assert points[-1].epsilon.lower <= found.epsilon.upper
    assert found.epsilon.lower <= points[-1].epsilon.upper


@pytest.mark.slow
def test_a_plan_tells_what_a_sweep_costs_where_it_is_asked():
    law = BinomialTrialCount(4, 0.5)
    run = RUN | {"cohort_size": RUN["population"], "noise_multiplier": 50.0}  # nobody is left out: a Gaussian
    found = plan.plan_federated(**run, trials=law)
    assert found.tuning_cost is not None
    assert (found.tuning_cost.expected, found.tuning_cost.count) == (pytest.approx(2.0), 2)
    assert found.tuning_cost.single_run == found.epsilon
    assert found.epsilon.upper < found.tuning_cost.best.upper < 2 * found.tuning_cost.all_released.upper
    tuned = BestOfTrials(found.schedule.release(), law)
    assert found.tuning_cost.best.upper == epsilon(tuned, delta=found.delta.delta).upper
    told = found.to_json()["tuning_cost"]
    assert (told["trial_distribution"], codec.decode(told["trials"]), codec.decode(told["best"])) == (
        "binomial:4,0.5", law, found.tuning_cost.best
    )  # fmt: skip
    assert "tuning_cost" not in plan.plan_federated(**run).to_json()
    faint = plan.plan_federated(**run | {"noise_multiplier": 0.1, "rounds": 2}, trials=law).tuning_cost
    assert faint.single_run.lower > 0.99 * faint.single_run.upper
    assert faint.best.upper > faint.single_run.upper > 100
    with pytest.raises(CheckError, match=r"^trials must be"):
        plan.plan_federated(**run, trials="fixed:2")


@pytest.mark.slow
def test_a_plan_tells_the_mu_that_comes_close_where_it_is_asked():
    found = plan.plan_federated(**RUN, fit=True)
    assert found.fit is not None
    assert 0 < found.fit.error < 0.006
    assert found.to_json()["fit"] == {"mu": found.fit.mu, "slack": found.fit.slack, "regret": found.fit.regret}
    exact = plan.plan_federated(population=100, cohort_size=100, rounds=4, noise_multiplier=2.0, fit=True).fit
    assert (exact.mu, exact.error) == (1.0, 0.0), "nobody is left out, so it is a Gaussian"
    assert plan.plan_federated(**RUN | {"noise_multiplier": 0.0}, fit=True).fit is None
    assert "fit" not in plan.plan_federated(**RUN).to_json()


@pytest.mark.parametrize(
    ("delta", "grade"), [(1e-3, "void"), (1e-2, "void"), (5e-4, "weak"), (1e-4, "good"), (1e-9, "good")]
)
def test_delta_is_graded_against_the_population(delta, grade):
    assert plan.grade_delta(delta, 1000)[0] == grade


def test_limits_say_what_is_not_covered():
    said = plan.list_limits(
        sampling="poisson", without_replacement=False, rounds_per_release=5, adaptive_clip=True, privacy_unit="school"
    )
    assert [limit.code for limit in said if limit.status is Status.WARNED] == [
        "coverage/several-updates",
        "coverage/adaptive-clip",
    ]
    assert ["NOT" in limit.message for limit in said] == [limit.status is Status.WARNED for limit in said]
    assert "never be claimed" in next(limit.message for limit in said if limit.code == "coverage/late-replies")
    assert any("model: 5)" in limit.message for limit in said)
    assert "school" in said[0].message


@pytest.mark.parametrize(
    ("late", "code"), [("close-early", "coverage/round-closes-early"), ("replace", "coverage/non-responders-replaced")]
)
def test_a_reply_that_keeps_another_out_is_not_priced(late, code):
    known = {"without_replacement": True, "rounds_per_release": 1, "adaptive_clip": False, "privacy_unit": "client"}
    warned = [
        one for one in plan.list_limits(sampling="poisson", **known, late_replies=late) if one.status is Status.WARNED
    ]
    assert [one.code for one in warned] == [code]
    assert "NOT" in warned[0].message
    with pytest.raises(CheckError, match="late_replies must be one of count-as-zero, close-early, replace"):
        plan.list_limits(sampling="poisson", **known, late_replies="never")
    with pytest.raises(CheckError, match="rounds_per_release must be"):
        plan.list_limits(sampling="poisson", **(known | {"rounds_per_release": 0}))


def test_a_sentence_never_rounds_a_bound_to_its_wrong_side():
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    assert "at least 3.999, " in str(plan.write_formula(3.5, Interval(3.99996, 4.00001, "m", relation)))
    assert "bound of 4.001" in str(plan.write_formula(4.0, Interval(3.9, 4.00001, "m", relation)))
