"""Outcomes of checks on hidden draws: delta covers them, and what it does not cover is told to the curator alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.extent import amount
from tests.reports.drawn import make_plan
from tests.verification.checked import check_participation
from tests.verification.test_statistics import CENTRAL, custody, poisson

from epsilog.accounting import epsilon, expected_trials
from epsilog.mechanisms import BinomialTrialCount
from epsilog.terms import OUTCOME_SHARE, Finding, Guarantee, NeighboringRelation, Status
from epsilog.verification import get_published_verdict, publish, verify_evidence
from epsilog.verification.claim import certified_run
from epsilog.verification.hidden import CHECKS, RAREST, SMALLEST, compute_alarm, compute_plan_alarm


@given(st.floats(0, 1e3), st.floats(1e-300, 0.5), st.floats(1, 1e6))
def test_the_rest_of_delta_covers_every_outcome(eps, delta, trials):
    """(1 + e^epsilon) a for each check of each trial, in logarithms: e^epsilon may be no double."""
    alarm = compute_alarm(Guarantee(eps, delta, NeighboringRelation.ADD_OR_REMOVE_ONE, "client", 10), trials=trials)
    assert alarm <= RAREST
    if alarm:
        spent = math.log(CHECKS * trials * alarm) + float(np.logaddexp(0, eps))
        assert spent <= math.log(delta) + math.log(OUTCOME_SHARE)
    else:
        assert math.log(delta * OUTCOME_SHARE / trials) - eps < math.log(SMALLEST) + math.log(12)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [None, BinomialTrialCount(10, 0.5)])
def test_a_plan_prices_its_model_at_what_is_left_of_delta(trials):
    plan = make_plan(trials=trials)
    guarantee = plan.guarantee
    left = epsilon(plan.release, delta=guarantee.delta * (1 - OUTCOME_SHARE), relation=guarantee.relation)
    assert guarantee.epsilon == plan.epsilon.upper >= left.upper
    assert plan.epsilon == certified_run(plan)
    count = 1.0 if trials is None else expected_trials(trials)
    assert compute_plan_alarm(plan) == compute_alarm(guarantee, trials=count)


def lists_with(times, rng):
    """Poisson lists, but for one client that is in the first ``times`` of 60 rounds and in no other."""
    lists = poisson(rng)
    return [np.union1d(ids, [17]) if number < times else np.setdiff1d(ids, [17]) for number, ids in enumerate(lists)]


@pytest.mark.slow
def test_unlikely_lists_are_a_warning_until_delta_covers_a_failure():
    rng = np.random.default_rng(4)
    found = [
        check_participation(custody(lists_with(times, rng)), CENTRAL, false_alarm_rate=RAREST)
        for times in range(0, 61, amount(5, 1))
    ]
    codes = [one.code for one in found]
    order = ["participation/passed", "participation/unlikely", "participation/sampler-mismatch"]
    assert codes[amount(1, 5) :] == sorted(codes[amount(1, 5) :], key=order.index)  # 6 of 60 rounds are expected
    assert set(codes) == set(order)
    assert all(one.false_alarm_rate == RAREST for one in found)
    at_usual = [check_participation(custody(lists_with(60, rng)), CENTRAL).code]
    assert at_usual == ["participation/sampler-mismatch"]


def test_no_rate_is_no_check():
    rng = np.random.default_rng(4)
    found = check_participation(custody(poisson(rng)), CENTRAL, false_alarm_rate=0.0)
    assert (found.code, found.status) == ("participation/not-checked", Status.NOT_CHECKED)


def test_what_no_sound_run_does_fails_at_any_rate():
    fixed = replace(make_plan().scheme, sampling_probability=1.0)
    found = check_participation(custody([np.arange(fixed.clients - 1)]), fixed, false_alarm_rate=RAREST)
    assert found.status is Status.FAILED


def test_a_warning_stays_with_the_curator(run, monkeypatch):
    """Everything that is published of a run with unlikely lists is what is published of one with likely lists."""
    sound = verify_evidence(run)
    above = Finding("participation/sampler-mismatch", Status.FAILED, "rare", false_alarm_rate=1e-6)
    below = Finding("participation/passed", Status.PASSED, "usual", false_alarm_rate=1e-6)
    monkeypatch.setattr(
        "epsilog.verification.participation.check_cohorts",
        lambda *asked: above if asked[2] > 1e-9 else below,
    )
    warned = verify_evidence(run)
    (found,) = [one for one in warned.findings if one.check == "participation"]
    assert (found.code, found.status) == ("participation/unlikely", Status.WARNED)
    assert get_published_verdict(found) is Status.PASSED
    assert warned.status is Status.WARNED
    assert publish(warned).to_json() == publish(sound).to_json()
