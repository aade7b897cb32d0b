"""How rarely a check on hidden draws may reject a sound run, so that delta covers the publication of its outcome.

Amplification by sampling holds while the sampled lists are hidden, and the outcome of a check on them is a function of
them. Let M be the model, (epsilon, delta')-DP, and V the outcomes of all such checks. If a sound run fails one of them
with probability at most a, whatever the data are, then for neighbors D and D' and every event S of (M, V), with S' the
event of M that belongs to "all passed":

    P_D[S] <= P_D[M in S'] + a <= e^epsilon P_D'[M in S'] + delta' + a <= e^epsilon (P_D'[S] + a) + delta' + a.

So (M, V) is (epsilon, delta' + (1 + e^epsilon) a)-DP. A plan prices its model at delta' = delta (1 - OUTCOME_SHARE),
and a is chosen such that the rest of delta covers (1 + e^epsilon) a. What is unlikely, yet more likely than a, is a
warning to the curator, and is published as passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from epsilog.accounting import expected_trials
from epsilog.plan import RegisteredPlan
from epsilog.terms import OUTCOME_SHARE, Finding, Guarantee, Status

CHECKS = 2
"""Checks that read hidden draws: who was sampled, and the noise on an adaptive clip's counts."""
RAREST = 2.0**-64
"""The most that one check may have, whatever delta is."""
SMALLEST = 1e-290  # chances are computed as doubles: below this they have no relative precision
UNLIKELY = "participation/unlikely"
TOO_RARE = "Epsilon is so large that delta covers no outcome of a check on hidden draws."


def compute_alarm(guarantee: Guarantee, *, trials: float = 1.0) -> float:
    """Bound the probability with which one check on hidden draws may reject a sound run.

    Args:
        guarantee: the claim of the model.
        trials: how many runs are expected of which one is published: any of them may fail (union bound).

    Returns:
        At most ``RAREST``; 0 where e^epsilon leaves less than ``SMALLEST``, and then nothing may be checked.
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
        false_alarm_rate: how often a sound run may fail; 0 if nothing may be checked.
        weigh: the test as a function of its level.
        warned: how often a sound run may be warned of.
    """
    if not false_alarm_rate:
        return Finding("participation/not-checked", Status.NOT_CHECKED, TOO_RARE)
    found = weigh(max(warned, false_alarm_rate))
    if found.status is not Status.FAILED or not found.false_alarm_rate:  # what no sound run does fails at any level
        return replace(found, false_alarm_rate=min(found.false_alarm_rate, false_alarm_rate))
    at_level = weigh(false_alarm_rate)
    if at_level.status is Status.FAILED:
        return at_level
    says = f"Such lists have a probability below {warned:g} under the planned sampler. Look for a fault: a report says "
    says += "that this check passed, because its delta covers rarer outcomes only."
    return replace(found, code=UNLIKELY, status=Status.WARNED, message=says, false_alarm_rate=false_alarm_rate)


def get_published_verdict(finding: Finding) -> Status:
    """Return the outcome that may be published: a warning about hidden draws is for the curator alone."""
    return Status.PASSED if finding.code == UNLIKELY else finding.status
