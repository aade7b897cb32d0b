"""Limit false alarms of checks on hidden draws, so that delta covers the publication of their outcomes.

Amplification by sampling requires hidden samples, and the outcome of a check on them is a function of them. Let M be
the model, (epsilon, delta')-DP, and V the outcomes of all such checks. Assume that a sound run fails one of them with
probability at most a, for any data. Let D and D' be neighbors, S an event of (M, V), and S' its section at
V = "all passed". Then

    P_D[S] <= P_D[M in S'] + a <= e^epsilon P_D'[M in S'] + delta' + a <= e^epsilon (P_D'[S] + a) + delta' + a.

So (M, V) is (epsilon, delta' + (1 + e^epsilon) a)-DP. A plan computes the model's epsilon at
delta' = delta (1 - OUTCOME_SHARE), and a is small enough for the rest of delta to cover (1 + e^epsilon) a. An outcome
that is unlikely, but likelier than a, is a warning to the curator and is published as passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from epsilog.accounting import expected_trials
from epsilog.plan import RegisteredPlan
from epsilog.terms import OUTCOME_SHARE, Finding, Guarantee, Status

CHECKS = 2
"""The number of checks on hidden draws: on the samples, and on the count noise of an adaptive clip norm."""
RAREST = 2.0**-64
"""The largest false-alarm rate of one check, for any delta."""
SMALLEST = 1e-290  # smaller probabilities lose relative precision in double arithmetic
UNLIKELY = "participation/unlikely"
TOO_RARE = "Epsilon is too large for delta to cover the outcome of a check on hidden draws."


def compute_alarm(guarantee: Guarantee, *, trials: float = 1.0) -> float:
    """Bound the probability with which one check on hidden draws may reject a sound run.

    Args:
        guarantee: the claim of the model.
        trials: the expected number of runs, of which one is published: any of them may fail (union bound).

    Returns:
        At most ``RAREST``; 0 if the bound is below ``SMALLEST``, and then no check is permitted.
    """
    rest = guarantee.delta * OUTCOME_SHARE / (CHECKS * max(trials, 1.0))
    alarm = min(RAREST, rest * math.exp(-guarantee.epsilon) / 3)  # 1 + e^epsilon <= 2 e^epsilon, and rounding
    return alarm if alarm >= SMALLEST else 0.0


def compute_plan_alarm(plan: RegisteredPlan) -> float:
    """Bound the probability with which one check on hidden draws may reject a sound run of a plan."""
    return compute_alarm(plan.guarantee, trials=1.0 if plan.trials is None else expected_trials(plan.trials))


def weigh_at(false_alarm_rate: float, weigh: Callable[[float], Finding], *, warned: float) -> Finding:
    """Fail a sampler at one level, and warn of it at a higher one.

    Args:
        false_alarm_rate: the largest probability that a sound run fails; 0 if no check is permitted.
        weigh: the test, as a function of its level.
        warned: the largest probability that a sound run gets a warning.
    """
    if not false_alarm_rate:
        return Finding("participation/not-checked", Status.NOT_CHECKED, TOO_RARE)
    found = weigh(max(warned, false_alarm_rate))
    if found.status is not Status.FAILED or not found.false_alarm_rate:  # impossible outcomes fail at any level
        return replace(found, false_alarm_rate=min(found.false_alarm_rate, false_alarm_rate))
    at_level = weigh(false_alarm_rate)
    if at_level.status is Status.FAILED:
        return at_level
    message = f"Such lists have probability below {warned:g} under the planned sampler. Look for a fault: a report "
    message += "states that this check passed, because its delta covers only rarer outcomes."
    return replace(found, code=UNLIKELY, status=Status.WARNED, message=message, false_alarm_rate=false_alarm_rate)


def get_published_verdict(finding: Finding) -> Status:
    """Return the publishable status: a warning about hidden draws is for the curator only."""
    return Status.PASSED if finding.code == UNLIKELY else finding.status
