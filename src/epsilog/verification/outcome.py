"""The result of a verification, and its publishable form."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from epsilog.terms import EVIDENCE_KINDS, LOG_EVIDENCE_KINDS, Finding, Status
from epsilog.terms.notebook import render_html_table
from epsilog.verification.evidence import Evidence
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.playbook import Playbook
from epsilog.verification.what_if import WhatIf

ORDER = (Status.FAILED, Status.NOT_CHECKED, Status.WARNED, Status.PASSED)
EXIT_CODES = {Status.PASSED: 0, Status.FAILED: 4, Status.NOT_CHECKED: 5, Status.WARNED: 5}
REQUIRED_LOGS = tuple(name for name in LOG_EVIDENCE_KINDS if name not in ("enrollment", "attempts"))
PERSONAL = ("log", "population", "clipping", "norms", "divisor", "custody", "participation")  # count or measure people
CONSTANT = ("clipping/passed", "divisor/passed")  # a configured constant
VERDICT_BASIS = {"owner": "the curator’s word", "writer": "the author’s word", "ledger": "the ledger’s copy"}
"""What a verdict rests on, by who attests it."""
NAMING = ("rounds/missing", "rounds/out-of-order")  # their values show which rounds had participants


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings on an artifact, and the claim that remains.

    Attributes:
        findings: one or more for each rule.
        what_ifs: the costs of deviations.
        required: evidence; its absence makes the status "not checked".
        claim: the supported claim, in a sentence; "" for an artifact without a claim.
        figures: each part of a verified report, by path: ``Recomputed``, ``Attested`` or ``Unknown``.
        files: SHA-256 by name of the logs that were read.
        evidence: the evidence; None for an artifact that is not a run.
    """

    findings: tuple[Finding, ...]
    what_ifs: tuple[WhatIf, ...] = ()
    required: Collection[str] = EVIDENCE_KINDS
    claim: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False)

    @property
    def status(self) -> Status:
        """Return the worst status of all findings, except those that lack evidence that is not required."""
        return combine_statuses(self.findings, required=self.required)

    @property
    def exit_code(self) -> int:
        """Return 0 if everything required passed, 4 if a check failed, 5 for a warning or a missing check."""
        return EXIT_CODES[self.status]

    @property
    def answer(self) -> str:
        """Return the verdict in a few words, with what it rests on."""
        found = write_answer(self.status, self._reasons, self._basis, simulation=self._simulation)
        return ", ".join(filter(None, found))

    @property
    def _reasons(self) -> list[str]:
        """List the checks that failed, or the evidence that is missing."""
        if self.failed:
            return sorted(self.failed)
        return [
            one.missing_evidence or one.check
            for one in self.findings
            if one.status is Status.NOT_CHECKED and (one.missing_evidence in {"", *self.required})
        ]

    @property
    def _basis(self) -> str:
        """Return on whose word the verdict rests; "" for nobody's."""
        evidence = self.evidence
        if evidence is None:
            return ""
        if evidence.logs is not None:
            return VERDICT_BASIS["writer"]
        return VERDICT_BASIS["owner"] if evidence.custody is None and evidence.owner is not None else ""

    @property
    def _simulation(self) -> bool:
        return self.evidence is not None and self.evidence.claim.simulation

    @property
    def false_alarm_rate(self) -> float:
        """Bound the probability that some rule rejects a sound run (union bound)."""
        return min(1.0, math.fsum(finding.false_alarm_rate for finding in self.findings))

    @property
    def failed(self) -> set[str]:
        """Return the rules that failed."""
        return {finding.check for finding in self.findings if finding.status is Status.FAILED}

    @property
    def unchecked(self) -> list[str]:
        """Return the rules that were not checked."""
        return [finding.check for finding in self.findings if finding.status is Status.NOT_CHECKED]

    def with_findings(self, others: Iterable[Finding]) -> Verification:
        """Return the verification with further findings."""
        return replace(self, findings=(*self.findings, *others))

    def to_json(self, playbook: Playbook | None = None) -> dict[str, Any]:
        """Return plain JSON values: each finding with its consequences and its steps in a playbook."""
        return {
            "status": self.status.value,
            "false_alarm_rate": self.false_alarm_rate,
            "findings": [one.to_json() | one.consequences() | _find_response(one, playbook) for one in self.findings],
            "what_ifs": [what_if.to_json() for what_if in self.what_ifs],
        }

    def _repr_html_(self) -> str:
        rows = [(finding.check, finding.status, finding.message) for finding in self.findings]
        return render_html_table(self.answer, rows, ["check", "status", "message"])


def write_answer(
    status: Status | str, reasons: Iterable[str] = (), basis: str = "", *, simulation: bool = False
) -> tuple[str, str]:
    """Return the verdict in a few words, and what it rests on.

    It is "Does not hold" if a check failed, "Cannot tell" if something that the claim needs is neither recomputed nor
    attested, else "Holds"; of a simulation, "Would hold".

    Args:
        status: how all required checks ended.
        reasons: the checks that failed, or else what is missing.
        basis: on whose word it rests; "" for nobody's.
        simulation: whether randomness was seeded.

    >>> write_answer(Status.PASSED, basis=VERDICT_BASIS["owner"])
    ('Holds', 'on the curator’s word')
    """
    named = ", ".join(dict.fromkeys(reasons))
    if status == Status.FAILED:
        return "Does not hold", f"failed: {named}"
    if status == Status.NOT_CHECKED:
        return "Cannot tell", f"missing: {named}"
    notes = [f"on {basis}"] if basis else []
    notes += ["with a warning"] if status == Status.WARNED else []
    return "Would hold" if simulation else "Holds", ", ".join(notes)


def combine_statuses(findings: Iterable[Finding], *, required: Collection[str] = EVIDENCE_KINDS) -> Status:
    """Return the worst status: failed, else not checked, else warned, else passed; without findings, not checked.

    Args:
        findings: one for each check.
        required: required evidence; only its absence counts.
    """
    counted = [
        f
        for f in findings
        if f.status is not Status.NOT_CHECKED or not f.missing_evidence or f.missing_evidence in required
    ]
    statuses = {finding.status for finding in counted}
    return next((status for status in ORDER if status in statuses), Status.NOT_CHECKED)


def _find_response(finding: Finding, playbook: Playbook | None) -> dict[str, Any]:
    steps = playbook.steps_for(finding) if playbook is not None else ()
    return {"playbook": {"steps": list(steps), "sha256": playbook.sha256}} if playbook is not None and steps else {}


def redact(outcome: Verification, get_highest_rate: Callable[[str], float | None]) -> Verification:
    """Return the publishable findings: no figure that counts or measures people, and no cost that depends on one.

    Cohort sizes, norms and client counts are exact functions of private data. Public logs may show them. If a check on
    logs failed, no cost is published.

    Args:
        outcome: all findings.
        get_highest_rate: the false-alarm rate of each rule on a curator's records; None for other rules.
    """
    evidence = outcome.evidence
    assert evidence is not None
    what_ifs = outcome.what_ifs
    if evidence.logs is None:
        shown = tuple(_redact_finding(one, evidence, get_highest_rate(one.check)) for one in outcome.findings)
        what_ifs = tuple(one for one in what_ifs if not one.private)
        return replace(outcome, findings=shown, what_ifs=what_ifs, required=EVIDENCE_KINDS)
    counting = _list_counting_rules(outcome, evidence)
    shown = tuple(_redact_log_finding(one, counting) for one in outcome.findings)
    what_ifs = () if outcome.failed else tuple(one for one in what_ifs if evidence.public or not one.private)
    return replace(outcome, findings=shown, what_ifs=what_ifs, required=REQUIRED_LOGS)


def _redact_finding(finding: Finding, evidence: Evidence, rate: float | None) -> Finding:
    """Return the status of a check on a curator's records; without these, the attested status."""
    if rate is None:
        return finding
    status = get_published_verdict(finding)
    if evidence.custody is None and evidence.owner is not None:
        status = evidence.owner.custody_checks[finding.check]
    message = f"The curator checked this on custody.jsonl, which is not public: {status}."
    rate = 0.0 if status is Status.NOT_CHECKED else rate
    return Finding(f"{finding.check}/attested", status, message, false_alarm_rate=rate)


def _list_counting_rules(outcome: Verification, evidence: Evidence) -> set[str]:
    """List the rules with findings that count or measure people in these logs."""
    assert evidence.logs is not None
    ended = {one.check: one for one in outcome.findings}
    counting = {*PERSONAL}
    counting |= {"delta"} if evidence.logs.enrolled is not None else set()
    counting |= {"rounds"} if evidence.rounds is None else set()  # participation lists then determine the rounds
    clipping = ended["clipping"]  # a clip norm may depend on updates, and noise is measured in clip norms
    counting |= {"noise"} if clipping.code not in CONSTANT and clipping.status is not Status.NOT_CHECKED else set()
    return counting | ({"attempts", "noise"} if ended["rounds"].code in NAMING else set())


def _redact_log_finding(finding: Finding, counting: Collection[str]) -> Finding:
    unseen = finding.status is Status.NOT_CHECKED
    if finding.code in CONSTANT or (unseen and not finding.values):
        return finding
    if not unseen and finding.check not in counting and finding.code not in NAMING:
        return finding
    status = get_published_verdict(finding)
    code = finding.code if status is finding.status else f"{finding.check}/passed"
    message = f"Checked on logs that this report does not contain: {status}."
    return Finding(
        code, status, message, missing_evidence=finding.missing_evidence, false_alarm_rate=finding.false_alarm_rate
    )
