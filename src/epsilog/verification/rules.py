"""The list of verification rules. To add one, write its check and add a line to ``RULES``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from epsilog.schemes import Scheme
from epsilog.terms import EVIDENCE_KINDS, Finding, Status
from epsilog.verification.charge_checks import check_charge, check_files, check_ledger, check_released
from epsilog.verification.claim import check_certified_claim, check_claimed_certificate, check_delta, check_stated_plan
from epsilog.verification.evidence import Evidence
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.noise import check_noise
from epsilog.verification.outcome import Verification, redact
from epsilog.verification.owner_checks import check_audit, check_owner
from epsilog.verification.participation import check_custody, check_participation, check_population
from epsilog.verification.rounds import (
    check_attempts,
    check_clipping,
    check_columns,
    check_divisor,
    check_norms,
    check_rounds,
)
from epsilog.verification.what_if import compute_what_ifs

RUN, LOGS = "run", "logs"


@dataclass(frozen=True, slots=True)
class Need:
    """Evidence that a rule requires.

    Attributes:
        part: the part of the evidence, as an argument of ``Evidence.has``.
        missing_evidence: the kind of evidence, as in ``required``; "" if it is always required.
        message: the message if it is missing.
        kinds: the kinds of evidence that it applies to: a run, logs, or both.
    """

    part: str
    missing_evidence: str
    message: str
    kinds: tuple[str, ...] = (RUN, LOGS)


def of_logs(part: str, lacks: str, message: str) -> Need:
    """Return a need of logs."""
    return Need(part, lacks, message, (LOGS,))


CUSTODY = Need("custody", "custody", "The curator's records are missing.", (RUN,))
LEDGER = Need("ledger", "ledger", "No ledger was given.", (RUN,))
SOUND = Need("ledger.sound", "ledger", "The ledger is invalid.", (RUN,))
CHARGE = Need("ledger.key", "ledger", "No charge names the plan.", (RUN,))
PADDED = "No record contains padding, so only the configured noise is known, not the noise added."
LISTS = of_logs("participation", "clients", "No log lists participants; one client in every round would go unnoticed.")
SETTINGS = of_logs(
    "rounds.clip_norm|rounds.noise_stddev", "settings", "No log contains clip norms or configured noise."
)
NORMS = of_logs("participation.largest_norm", "norms", "No log contains norms of contributions.")
SIZES = of_logs("cohort_sizes", "cohorts", "No log contains cohort sizes.")
ATTEMPTS = of_logs("rounds.attempts", "attempts", "No log counts the starts of a round.")
DIVISOR = of_logs("rounds.divisor", "divisor", "No log contains the divisor of noisy sums.")
ENROLLMENT = of_logs("logs.enrolled", "enrollment", "No enrollment list was given; N was not checked.")


@dataclass(frozen=True, slots=True)
class Rule:
    """A verification rule.

    Attributes:
        id: its name, which begins the codes of its findings.
        check: returns the findings on evidence, perhaps none.
        needs: required evidence; the first missing part makes the rule "not checked".
        kinds: the kinds of evidence that it applies to: a run, logs, or both.
        private: whether it reads a curator's records: then a report states only its status, and the owner attestation
            must agree.
        reads_draws: whether it reads hidden draws of a scheme.
    """

    id: str
    check: Callable[[Evidence], Finding | Iterable[Finding]]
    needs: tuple[Need, ...] = ()
    kinds: tuple[str, ...] = (RUN, LOGS)
    private: bool = False
    reads_draws: Callable[[Scheme], bool] = lambda _: False

    def apply(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield the findings on evidence, or "not checked" if required evidence is missing."""
        kind = RUN if evidence.logs is None else LOGS
        if kind not in self.kinds:
            return
        for need in self.needs:
            if kind in need.kinds and not evidence.has(need.part):
                yield Finding(
                    f"{self.id}/not-checked", Status.NOT_CHECKED, need.message, missing_evidence=need.missing_evidence
                )
                return
        found = self.check(evidence)
        yield from (found,) if isinstance(found, Finding) else found


RULES = (
    Rule("certificate", check_claimed_certificate, kinds=(RUN,)),
    Rule("claim", check_certified_claim),
    Rule("plan", check_stated_plan),
    Rule("log", check_columns, kinds=(LOGS,)),
    Rule("population", check_population, (ENROLLMENT,), (LOGS,)),
    Rule("delta", check_delta),
    Rule("ledger", check_ledger, (LEDGER,), (RUN,)),
    Rule("charge", check_charge, (LEDGER, SOUND), (RUN,)),
    Rule("released", check_released, (LEDGER, SOUND, CHARGE), (RUN,)),
    Rule("attempts", check_attempts, (LEDGER, SOUND, CHARGE, ATTEMPTS)),
    Rule("files", check_files, (LEDGER, SOUND, CHARGE), (RUN,)),
    Rule("rounds", check_rounds),
    Rule("noise", check_noise, (Need("padding", "", PADDED, (RUN,)), of_logs("padding", "padding", PADDED))),
    Rule("clipping", check_clipping, (SETTINGS,)),
    Rule("custody", check_custody, (CUSTODY, LISTS), private=True),
    Rule("norms", check_norms, (CUSTODY, NORMS), private=True, reads_draws=lambda one: one.count_noise is not None),
    Rule("participation", check_participation, (CUSTODY, SIZES), private=True, reads_draws=lambda _: True),
    Rule("divisor", check_divisor, (DIVISOR,), (LOGS,)),
    Rule("attestation", check_owner, kinds=(RUN,)),
    Rule("audit", check_audit, kinds=(RUN,)),
)


def verify_evidence(evidence: Evidence, *, required: Collection[str] = EVIDENCE_KINDS) -> Verification:
    """Apply every rule to the evidence of our own run or of another framework's logs."""
    runs = evidence.claim.expected_runs
    findings = (
        replace(one, false_alarm_rate=min(1.0, one.false_alarm_rate * runs))  # any of the runs may fail
        for rule in RULES
        for found in rule.apply(evidence)
        for one in (_apply_owner_attestation(found, evidence) if rule.private else found,)
    )
    return Verification(tuple(findings), compute_what_ifs(evidence), required, evidence=evidence)


def check_private(evidence: Evidence) -> tuple[Finding, ...]:
    """Apply only the rules on a curator's records, in the order of ``RULES``."""
    return tuple(found for rule in RULES if rule.private for found in rule.apply(evidence))


def publish(outcome: Verification) -> Verification:
    """Return the publishable part of a verification; see ``outcome.redact``."""
    evidence, private = outcome.evidence, {rule.id: rule for rule in RULES if rule.private}
    assert evidence is not None

    def get_highest_rate(check: str) -> float | None:
        if (rule := private.get(check)) is None:
            return None
        runs = evidence.claim.expected_runs
        return min(1.0, evidence.hidden_false_alarm_rate * runs) if rule.reads_draws(evidence.claim.scheme) else 0.0

    return redact(outcome, get_highest_rate)


def _apply_owner_attestation(finding: Finding, evidence: Evidence) -> Finding:
    """Compare a finding with the owner attestation: fail if it attests a failure or another status."""
    if evidence.owner is None:
        return finding
    attested = evidence.owner.custody_checks[finding.check]
    if evidence.custody is None and attested is Status.FAILED:
        message = "The owner attests that this check failed."
        return Finding(f"{finding.check}/attested-failure", Status.FAILED, message)
    if evidence.custody is None and attested is Status.NOT_CHECKED:
        return replace(finding, missing_evidence="")  # nobody's word stands for the missing records
    if evidence.custody is None and attested is Status.WARNED:
        message = "The owner attests that this check ended with a warning."
        return replace(finding, code=f"{finding.check}/attested", status=attested, message=message)
    if evidence.custody is None or attested is get_published_verdict(finding):
        return finding
    message = f"The owner attests {attested}, but custody.jsonl gives {finding.status}: {finding.message}"
    return replace(finding, code=f"{finding.check}/attestation-mismatch", status=Status.FAILED, message=message)
