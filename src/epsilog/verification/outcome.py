"""The outcome of all checks, and what of it may be published."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import expected_trials
from epsilog.plan import RegisteredPlan
from epsilog.terms import EVIDENCE_KINDS, Finding, Status
from epsilog.terms.notebook import render_html_table
from epsilog.verification.evidence import RunEvidence
from epsilog.verification.findings import combine_statuses
from epsilog.verification.hidden import compute_plan_alarm, get_published_verdict
from epsilog.verification.owner_attestation import CUSTODY_CHECKS
from epsilog.verification.playbook import Playbook
from epsilog.verification.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The outcome of all checks.

    Attributes:
        findings: one for each check.
        what_ifs: what deviations would cost.
        required: evidence without which nothing is verified.
    """

    findings: tuple[Finding, ...]
    what_ifs: tuple[WhatIf, ...] = ()
    required: Collection[str] = EVIDENCE_KINDS

    @property
    def verdict(self) -> Status:
        """The worst of all findings."""
        return combine_statuses(self.findings, required=self.required)

    @property
    def false_alarm(self) -> float:
        """How often a sound run is rejected by some check, at most (union bound)."""
        return min(1.0, math.fsum(finding.false_alarm for finding in self.findings))

    def with_findings(self, others: Collection[Finding]) -> Reconciliation:
        """The same with further findings."""
        return replace(self, findings=(*self.findings, *others))

    def to_json(self, playbook: Playbook | None = None) -> dict[str, Any]:
        """Plain JSON values: each finding with what it does to the claim, how sure it is, and which steps it triggers.

        Args:
            playbook: whose steps; None for none.
        """
        return {
            "verdict": self.verdict.value,
            "false_alarm": self.false_alarm,
            "findings": [one.to_json() | one.consequences() | _find_response(one, playbook) for one in self.findings],
            "what_ifs": [what_if.to_json() for what_if in self.what_ifs],
        }

    def _repr_html_(self) -> str:
        rows = [(finding.check, finding.verdict, finding.message) for finding in self.findings]
        return render_html_table(
            f"Records against plan and ledger: {self.verdict}", rows, ["check", "verdict", "what was found"]
        )

    def published(self, evidence: RunEvidence) -> Reconciliation:
        """What a public report may say: of the checks on the curator's records how they ended, and no figure.

        Cohort sizes, norms and counts of clients are functions of the data that no noise hides. Where those records are
        not here, the owner's word stands in for the checks on them.
        """
        shown = tuple(_public(finding, evidence) for finding in self.findings)
        return Reconciliation(shown, tuple(what_if for what_if in self.what_ifs if not what_if.private))


def _find_response(finding: Finding, playbook: Playbook | None) -> dict[str, Any]:
    steps = playbook.steps_for(finding) if playbook is not None else ()
    return {"playbook": {"steps": list(steps), "sha256": playbook.sha256}} if playbook is not None and steps else {}


def _public(finding: Finding, evidence: RunEvidence) -> Finding:
    if finding.check not in CUSTODY_CHECKS:
        return finding
    told = get_published_verdict(finding)
    if evidence.custody is None and evidence.owner is not None:
        told = evidence.owner.private[finding.check]
    return Finding(
        f"{finding.check}/as-published",
        told,
        f"The curator checked it on custody.jsonl, which is not public: {told}.",
        false_alarm=0.0
        if told is Status.NOT_CHECKED
        else adjust_false_alarm(_highest_rate(finding.check, evidence.plan), evidence.plan),
    )


def adjust_false_alarm(rate: float, plan: RegisteredPlan) -> float:
    """How often a sound run is rejected that was chosen among several, if each is rejected at this rate: a union."""
    return rate if plan.trials is None else min(1.0, rate * expected_trials(plan.trials))


def _highest_rate(check: str, plan: RegisteredPlan) -> float:
    """How often a check on the curator's records rejects a sound run, at most, whatever they hold."""
    reads_draws = check == "participation" or (check == "norms" and plan.scheme.count_noise is not None)
    return compute_plan_alarm(plan) if reads_draws else 0.0
