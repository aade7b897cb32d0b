"""Do the records agree with plan and ledger? Every check, in an auditor's order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from epsilog.terms import EVIDENCE_KINDS, Finding, Status
from epsilog.verification.attack import check_audit
from epsilog.verification.charge_checks import check_ledger
from epsilog.verification.claim import certified_run, check_claim, check_delta
from epsilog.verification.clipping import check_clipping, check_norms
from epsilog.verification.evidence import RunEvidence
from epsilog.verification.hidden import compute_plan_alarm, get_published_verdict
from epsilog.verification.noise import check_noise, rescale_to_first_round
from epsilog.verification.outcome import Reconciliation, adjust_false_alarm
from epsilog.verification.owner_attestation import check_control
from epsilog.verification.participation import check_custody, check_participation
from epsilog.verification.plans import check_plan
from epsilog.verification.rounds import check_rounds
from epsilog.verification.what_if import compute_what_ifs


def reconcile(evidence: RunEvidence, *, required: Collection[str] = EVIDENCE_KINDS) -> Reconciliation:
    """Runs every check over what a run left behind."""
    plan = evidence.plan
    scheme = plan.scheme
    findings = (
        check_claim(plan.guarantee.epsilon, certified_run(plan)),
        check_plan(plan),
        check_delta(evidence),
        *check_ledger(evidence),
        check_rounds(evidence),
        check_noise(rescale_to_first_round(evidence.records, scheme), noise_stddev=scheme.noise_stddev),
        check_clipping(evidence.records, scheme),
        *(_apply_owner_attestation(finding, evidence) for finding in check_private(evidence)),
        *check_owner(evidence),
        *check_audit(evidence),
    )
    chosen = (replace(one, false_alarm=adjust_false_alarm(one.false_alarm, plan)) for one in findings)
    return Reconciliation(tuple(chosen), compute_what_ifs(evidence), required)


def check_private(evidence: RunEvidence) -> tuple[Finding, ...]:
    """The checks on the curator's records, in the order of ``PRIVATE``."""
    scheme, rate = evidence.plan.scheme, compute_plan_alarm(evidence.plan)
    return (
        check_custody(evidence.custody, evidence.records, scheme),
        check_norms(evidence.custody, evidence.records, scheme, false_alarm=rate),
        check_participation(evidence.custody, scheme, false_alarm=rate),
    )


def _apply_owner_attestation(finding: Finding, evidence: RunEvidence) -> Finding:
    """The owner wrote down how these checks ended before the commit: a failure stands, another end contradicts it."""
    if evidence.owner is None:
        return finding
    told = evidence.owner.private[finding.check]
    if evidence.custody is None and told is Status.FAILED:
        return Finding(f"{finding.check}/failed-by-the-owner", Status.FAILED, "The owner's own word is that it failed.")
    if evidence.custody is None or told is get_published_verdict(finding):
        return finding
    says = f"The owner says {told}, and custody.jsonl says {finding.verdict}: {finding.message}"
    return replace(finding, code=f"{finding.check}/contradicts-the-owner", verdict=Status.FAILED, message=says)


def check_owner(evidence: RunEvidence) -> tuple[Finding, ...]:
    """The owner's word is here, speaks of a simulation only where one was planned, and its control was rejected."""
    if evidence.owner is None:
        return (Finding("owner/missing", Status.FAILED, "The owner's word, owner.json, is not here."),)
    utility = evidence.owner.utility
    if (utility is not None) != evidence.plan.simulation:
        return (
            Finding(
                "owner/utility-out-of-place",
                Status.FAILED,
                "Utility beside the run is for simulations, and for those only.",
            ),
        )
    here = Finding("owner/holds", Status.PASSED, "The owner's word is here; nobody else can recompute it.")
    return (here,) if utility is None else (here, check_control(utility))
