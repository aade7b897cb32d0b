"""Check the attestation, the control run of a simulation, and the canaries: an attack may refute the claim only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epsilog.terms import Finding, RunArtifact, Status
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.audits.audit_plan import PlannedAudit, refute_claim
from epsilog.verification.audits.canaries import CanaryAudit, audit_one_run
from epsilog.verification.evidence import Evidence
from epsilog.verification.noise import compute_power
from epsilog.verification.owner_attestation import CONTROL_NOISE_RATIO, CanaryScores, SimulatedUtility
from epsilog.verification.sampler_tests import compute_two_sided_p_value


def check_owner(evidence: Evidence) -> Iterator[Finding]:
    """Check that utility figures exist exactly for a planned simulation, and that its control run was rejected."""
    if evidence.owner is None:
        message = f"The owner attestation, {RunArtifact.OWNER}, is missing."
        yield Finding("attestation/missing", Status.FAILED, message)
        return
    utility = evidence.owner.utility
    if (utility is not None) != evidence.claim.simulation:
        message = "The attestation must contain utility figures for a simulation, and only then."
        yield Finding("attestation/utility-misplaced", Status.FAILED, message)
        return
    message = "The owner attestation is present. Others cannot recompute its contents."
    yield Finding("attestation/passed", Status.PASSED, message)
    if utility is not None:
        yield check_control(utility)


def check_control(utility: SimulatedUtility) -> Finding:
    """Check that the noise check rejected the control run; otherwise it proves nothing about the run."""
    if utility.control["status"] == Status.FAILED:
        return Finding("control/passed", Status.PASSED, "The control run was rejected, so the noise check can fail.")
    values = int(utility.control["values"]["values"])
    if compute_power(values, share=CONTROL_NOISE_RATIO) < 0.99:
        message = (
            f"{values} padding values are too few to detect noise {1 - CONTROL_NOISE_RATIO:.0%} too low; the run "
            "is too short."
        )
        return Finding("control/too-short", Status.WARNED, message)
    return Finding(
        "control/not-rejected", Status.FAILED, "The control run was accepted, so the noise check does not work."
    )


FALSE_ALARM = 1e-6  # probability that a sound run fails, coins and guesses together; the protocol's confidence warns


def evaluate_planned_audit(evidence: Evidence) -> CanaryAudit | None:
    """Return the planned audit of the scores; None if either is missing, or the canaries or scores do not match."""
    stated, found = PlannedAudit.of(evidence.plan), evidence.canaries
    if stated is None or found is None or not _match_plan(evidence, stated) or not stated.is_possible(found.scores):
        return None
    return audit_one_run(np.array(found.scores), found.canaries.included, stated.protocol)


def _match_plan(evidence: Evidence, stated: PlannedAudit) -> bool:
    found = evidence.canaries
    return (
        found is not None
        and len(found.scores) == stated.protocol.canaries
        and found.canaries.commitment == stated.commitment
    )


def check_audit(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the canaries' scores with the claim, if an audit was planned."""
    stated, found = PlannedAudit.of(evidence.plan), evidence.canaries
    if stated is None:
        if found is None:
            return ()
        message = "The plan does not mention these canary scores: nothing shows that their audit was fixed in advance."
        return (Finding("audit/not-planned", Status.WARNED, message),)
    if found is None:
        return (_report_missing_scores(evidence),)
    audit = evaluate_planned_audit(evidence)
    if audit is None and _match_plan(evidence, stated):
        message = f"The canary scores are fabricated: no cosine is {max(map(abs, found.scores)):.6g}."
        return (Finding("audit/impossible-scores", Status.FAILED, message),)
    if audit is None:
        message = "The canaries do not match the hash in the plan: coins or scores were replaced after the run."
        return (Finding("audit/canary-mismatch", Status.FAILED, message),)
    return (_check_coins(found) or _judge_audit(audit, evidence),)


def _report_missing_scores(evidence: Evidence) -> Finding:
    committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
    if RunArtifact.CANARIES in committed:
        message = f"{RunArtifact.CANARIES} was committed and is missing."
        return Finding("audit/missing", Status.FAILED, message)
    message = "An audit was planned and its scores are missing."
    return Finding("audit/not-checked", Status.NOT_CHECKED, message)


def _check_coins(found: CanaryScores) -> Finding | None:
    """Fail coins that are implausible for fair draws: repeated draws of the secret could give any coins."""
    inside, count = int(found.canaries.included.sum()), found.canaries.count
    if float(compute_two_sided_p_value(np.array(inside), count, 0.5)) >= FALSE_ALARM / 2:
        return None
    message = f"{inside} of {count} canaries were included, which is implausible for fair coins: the scores are void."
    numbers = (("canaries", float(count)), ("inside", float(inside)))
    return Finding("audit/unlikely-coins", Status.FAILED, message, numbers, false_alarm_rate=FALSE_ALARM)


def _judge_audit(audit: CanaryAudit, evidence: Evidence) -> Finding:
    plan = evidence.plan
    surely, likely = refute_claim(audit, plan, mistaken=FALSE_ALARM / 2), refute_claim(audit, plan)
    numbers = (("lower_bound", audit.epsilon), ("claimed", likely.claimed), ("could_have_shown", audit.most))
    claim = f"the claim of epsilon {format_upper(likely.claimed)}"
    if surely.refuted:
        message = f"The canaries refute {claim}, or its privacy profile: {audit.message}"
        return Finding("audit/refuted", Status.FAILED, message, numbers, false_alarm_rate=FALSE_ALARM)
    if likely.refuted:
        message = (
            f"The canaries are evidence against {claim}: if it held, these guesses would have probability at most "
            f"{likely.mistaken:.3g}. {audit.message}"
        )
        return Finding(
            "audit/weak-evidence-against-claim", Status.WARNED, message, numbers, false_alarm_rate=FALSE_ALARM
        )
    message = f"The canaries do not refute {claim}; this does not support it. {audit.message}"
    if audit.epsilon > 0:
        message += f" They could have shown an epsilon of at most {format_lower(audit.most, 3)}."
    return Finding("audit/not-refuted", Status.PASSED, message, numbers, false_alarm_rate=FALSE_ALARM)
