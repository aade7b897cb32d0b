"""LiRA, property inference and canaries find what is there, and nothing in controls where nothing is."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from tests.study.conftest import central

from epsilog.study import CanaryExperiment, Condition, MembershipExperiment, PropertyExperiment
from epsilog.study.experiment import ResultCells, StudyRun
from epsilog.study.membership import (
    AttackResult,
    compute_lira_scores,
    compute_unit_confidences,
    compute_unit_losses,
    evaluate_attack,
)
from epsilog.study.results import pool_z_score
from epsilog.verification.audits import estimate_epsilon


def trial(task, scheme_for, *, noise=1.0, private=True, seed=1):
    return StudyRun(task, scheme_for(noise), scheme_for(0.0), private, 1e-3, seed, ResultCells().within("one"))


def gaussian(shadows, units, apart, seed=5):
    """Confidences of models that saw units or did not, with a mean for each unit; the last one is attacked."""
    draws = np.random.default_rng(seed)
    inside = draws.random((shadows + 1, units)) < 0.5
    told = 3 * draws.standard_normal(units) + draws.standard_normal(inside.shape) + apart * inside
    return told, inside


@pytest.mark.parametrize("shadows", [8, 64])
def test_lira_sees_what_one_threshold_does_not(shadows):
    """Units differ more than membership does: a likelihood ratio for each unit knows that, and raw scores do not."""
    told, inside = gaussian(shadows, 4000, 1.5)
    scores = compute_lira_scores(told[-1], told[:-1], inside[:-1])
    found, raw = evaluate_attack(scores, inside[-1], fpr=0.01), evaluate_attack(told[-1], inside[-1], fpr=0.01)
    best = stats.norm.cdf(1.5 / np.sqrt(2))  # for known means
    assert best - 0.08 < found.auc < best + 0.02
    assert found.auc > raw.auc + 0.1
    assert found.tpr > 2 * raw.tpr
    assert found.tpr_beyond_chance
    shuffled = evaluate_attack(scores, np.random.default_rng(1).permutation(inside[-1]), fpr=0.01)
    assert not shuffled.beyond_chance
    assert not shuffled.tpr_beyond_chance


def test_a_unit_that_too_few_shadow_models_saw_has_no_score():
    told, inside = gaussian(6, 5, 1.0)
    inside[:, 0], inside[:, 1], inside[:, 2:] = np.arange(7) > 0, False, (np.arange(7) % 2 == 0)[:, None]
    scores = compute_lira_scores(told[-1], told[:-1], inside[:-1])
    assert np.isnan(scores).tolist() == [True, True, False, False, False]


def test_chance_of_true_positives_is_that_of_a_random_order():
    """Beyond chance where at least so many members come first once in 740 orders; seen in 6,000 orders."""
    draws, members, others, fpr = np.random.default_rng(2), 60, 50, 0.05
    counts = []
    for _ in range(6_000):
        order = draws.permutation(members + others) < members  # in order of their scores
        counts.append(int(order[: np.flatnonzero(~order)[int(fpr * others)]].sum()))
    needed = next(t for t in range(members) if AttackResult(0.5, t / members, fpr, members, others).tpr_beyond_chance)
    assert np.mean(np.array(counts) >= needed) < 0.0025
    assert np.mean(np.array(counts) >= needed - 1) > 0.0005


@pytest.mark.slow
def test_confidence_is_the_log_odds_of_the_right_class(task):
    one = replace(task, unit_is_client=False)
    model = np.linspace(-1, 1, task.model.size)
    p = np.exp(-compute_unit_losses(one, model))
    assert np.allclose(compute_unit_confidences(one, model), np.log(p / (1 - p)))
    assert np.isfinite(compute_unit_confidences(one, 1e4 * model)).all()


@pytest.mark.slow
def test_lira_wins_against_a_model_that_remembers_and_not_under_noise(make_task, central):
    task = make_task(width=400)
    question = MembershipExperiment((0.05,), shadows=6)
    bare = question.measure(trial(task, central, private=False))["LiRA"]
    assert bare["auc"] > 0.9
    assert bare["auc_beyond_chance"]
    noisy = question.measure(trial(task, central, noise=20.0))["LiRA"]
    assert not noisy["auc_beyond_chance"]


@pytest.mark.slow
def test_updates_tell_a_mark_and_nothing_where_nobody_carries_it(task):
    """The mark is on a feature that says nothing and is 0 in everybody else's rows, like a corner of a picture."""
    features, test = np.array(task.clients.features), np.array(task.test_features)
    features[:, 3] = test[:, 3] = 0.0
    task = replace(task, clients=replace(task.clients, features=features), test_features=test)
    long, mark = partial(central, rounds=40), PropertyExperiment(features=(3,), value=4.0)
    bare = mark.measure(trial(task, long, private=False))["property"]
    assert bare["auc"] > 0.9
    assert bare["auc_beyond_chance"]
    nobody = replace(mark, share=0.0).measure(trial(task, long, private=False))["property"]
    assert nobody["auc"] == 0.5  # without a mark both of the attacker's models are the same
    noisy = mark.measure(trial(task, long, noise=50.0))["property"]
    assert not noisy["auc_beyond_chance"]
    assert abs(noisy["auc"] - 0.5) < 0.28  # three standard errors of 20 and 20 rounds


def test_seeds_that_are_too_short_one_by_one_tell_together():
    def condition(areas):
        runs = tuple({"property": {"auc": area, "rounds_with": 5.0, "rounds_without": 5.0}} for area in areas)
        return Condition("s", 1.0, 1.0, {}, runs)

    assert pool_z_score(condition([1.0])) == pytest.approx((25 - 12.5) / np.sqrt(25 * 11 / 12))
    assert pool_z_score(condition([1.0])) < 3 < pool_z_score(condition([0.9, 0.8, 0.9, 1.0, 0.8]))
    assert abs(pool_z_score(condition([0.5, 0.6, 0.4, 0.5]))) < 1


@pytest.mark.parametrize(("mu", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (3.0, 1e-6)])
def test_the_estimate_of_two_shifted_normal_laws_is_that_of_gaussian_dp(mu, delta):
    found = estimate_epsilon((0.0, 0.3), (0.3 * mu, 0.3), delta=delta)
    exact = stats.norm.cdf(mu / 2 - found / mu) - np.exp(found) * stats.norm.cdf(-mu / 2 - found / mu)
    assert exact == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(
    ("one", "other"), [((0.0, 1.0), (1.0, 2.0)), ((0.5, 3.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 1.5))]
)
def test_the_estimate_of_two_normal_laws_of_other_widths_is_that_of_their_integral(one, other):
    found, x = estimate_epsilon(one, other, delta=0.01), np.linspace(-30, 30, 100_001)
    p, q = stats.norm.pdf(x, *one), stats.norm.pdf(x, *other)
    excess = max(np.trapezoid(np.maximum(a - np.exp(found) * b, 0), x) for a, b in ((p, q), (q, p)))
    assert excess == pytest.approx(0.01, rel=1e-3)


def test_laws_that_are_the_same_have_no_epsilon_and_laws_that_never_meet_the_most():
    assert estimate_epsilon((0.3, 1.0), (0.3, 1.0), delta=1e-5) == 0
    assert estimate_epsilon((0.0, 1e-3), (1.0, 1e-3), delta=1e-5) == 100


@pytest.mark.slow
def test_canaries_are_found_without_noise_and_less_with_more_of_it(make_task):
    task = make_task(width=200)
    told = {
        z: CanaryExperiment(30).measure(replace(trial(task, central, noise=z), delta=0.05))["canaries"]
        for z in (0.05, 1.0, 50.0)
    }
    found = [each["all_models"] for each in told.values()]
    assert found[0] > 20
    assert found[0] > found[1] > found[2]
    assert found[2] < 1.5
    assert max(each["control"] for each in told.values()) < 1.5
