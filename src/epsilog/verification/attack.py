"""What the canaries of a run show of its claim: an attack that may refute it, and never speaks for it."""

from __future__ import annotations

import numpy as np

from epsilog.terms import Finding, RunArtifact, Status
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.audits.audit_plan import PlannedAudit
from epsilog.verification.audits.canaries import CanaryAudit, audit_one_run
from epsilog.verification.audits.claim_test import refute_claim
from epsilog.verification.canaries import CanaryScores
from epsilog.verification.evidence import Evidence
from epsilog.verification.sampler_tests import compute_two_sided_p_value

FALSE_ALARM = 1e-6  # how often a sound run fails, by coins and guesses together; the protocol's confidence warns


def evaluate_planned_audit(evidence: Evidence) -> CanaryAudit | None:
    """The audit that was planned, on the scores that are here; None without either, or of other canaries or scores."""
    stated, found = PlannedAudit.of(evidence.plan), evidence.canaries
    if stated is None or found is None or not _are_those(evidence, stated) or not stated.is_possible(found.scores):
        return None
    return audit_one_run(np.array(found.scores), found.canaries.included, stated.protocol)


def _are_those(evidence: Evidence, stated: PlannedAudit) -> bool:
    found = evidence.canaries
    return (
        found is not None
        and len(found.scores) == stated.protocol.canaries
        and found.canaries.commitment == stated.commitment
    )


def check_audit(evidence: Evidence) -> tuple[Finding, ...]:
    """Holds the canaries' scores against the claim; nothing where no audit was planned."""
    stated, found = PlannedAudit.of(evidence.plan), evidence.canaries
    if stated is None:
        if found is None:
            return ()
        message = "There are scores of canaries that no plan speaks of: nothing shows what was fixed before the run."
        return (Finding("audit/not-planned", Status.WARNED, message),)
    if found is None:
        return (_absent(evidence),)
    audit = evaluate_planned_audit(evidence)
    if audit is None and _are_those(evidence, stated):
        message = f"{max(map(abs, found.scores)):.6g} is the cosine of no angle: the scores of canaries were made up."
        return (Finding("audit/impossible-scores", Status.FAILED, message),)
    if audit is None:
        message = "The canaries are not those whose hash the plan names: coins or scores were made up afterwards."
        return (Finding("audit/canary-mismatch", Status.FAILED, message),)
    return (_of_coins(found) or _judge_audit(audit, evidence),)


def _absent(evidence: Evidence) -> Finding:
    committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
    if RunArtifact.CANARIES in committed:
        message = f"{RunArtifact.CANARIES} was committed, and is not here."
        return Finding("audit/missing", Status.FAILED, message)
    message = "An audit was planned, and its scores are not here."
    return Finding("audit/not-checked", Status.NOT_CHECKED, message)


def _of_coins(found: CanaryScores) -> Finding | None:
    """Coins that fair ones show too seldom: whoever draws a secret again and again may have any."""
    inside, count = int(found.canaries.included.sum()), found.canaries.count
    if float(compute_two_sided_p_value(np.array(inside), count, 0.5)) >= FALSE_ALARM / 2:
        return None
    message = f"{inside} of {count} canaries were in, which fair coins do not show: what their scores show is void."
    numbers = (("canaries", float(count)), ("inside", float(inside)))
    return Finding("audit/unlikely-coins", Status.FAILED, message, numbers, false_alarm_rate=FALSE_ALARM)


def _judge_audit(audit: CanaryAudit, evidence: Evidence) -> Finding:
    plan = evidence.plan
    surely, likely = refute_claim(audit, plan, mistaken=FALSE_ALARM / 2), refute_claim(audit, plan)
    numbers = (("lower_bound", audit.epsilon), ("claimed", likely.claimed), ("could_have_shown", audit.most))
    claim = f"the claim of epsilon {format_upper(likely.claimed)}"
    if surely.refuted:
        message = f"The canaries refute {claim}, or its profile: {audit.says}"
        return Finding("audit/refuted", Status.FAILED, message, numbers, false_alarm_rate=FALSE_ALARM)
    if likely.refuted:
        message = (
            f"The canaries speak against {claim}, which so many right guesses leave a chance of at most "
            f"{likely.mistaken:.3g}: {audit.says}"
        )
        return Finding(
            "audit/weak-evidence-against-claim", Status.WARNED, message, numbers, false_alarm_rate=FALSE_ALARM
        )
    message = f"The canaries do not refute {claim}, which says nothing for it: {audit.says}"
    if audit.epsilon > 0:
        message += f" {format_lower(audit.most, 3)} is the most that they could have shown."
    return Finding("audit/not-refuted", Status.PASSED, message, numbers, false_alarm_rate=FALSE_ALARM)
