"""The rules of verification, as a list. To add one, write its check and add a line to ``RULES``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from epsilog.schemes import Scheme
from epsilog.terms import EVIDENCE_KINDS, Finding, Status
from epsilog.verification.attack import check_audit
from epsilog.verification.certificates import check_claimed_certificate
from epsilog.verification.charge_checks import check_charge, check_files, check_ledger, check_released
from epsilog.verification.claim import check_certified_claim, check_delta
from epsilog.verification.clipping import check_clipping, check_divisor, check_norms
from epsilog.verification.evidence import Evidence
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.noise import check_noise
from epsilog.verification.outcome import Verification, redact
from epsilog.verification.owner_checks import check_owner
from epsilog.verification.participation import check_custody, check_participation, check_population
from epsilog.verification.plans import check_stated_plan
from epsilog.verification.rounds import check_attempts, check_columns, check_rounds
from epsilog.verification.what_if import compute_what_ifs

RUN, LOGS = "run", "logs"


@dataclass(frozen=True, slots=True)
class Need:
    """Evidence without which a rule cannot be checked.

    Attributes:
        part: the part of the evidence, as ``Evidence.has`` reads it.
        missing_evidence: the kind of evidence, as whoever verifies names what is required; "" if it always is.
        message: what a reader is told where it is not here.
        kinds: of which evidence: a run's, logs, or both.
    """

    part: str
    missing_evidence: str
    message: str
    kinds: tuple[str, ...] = (RUN, LOGS)


def of_logs(part: str, lacks: str, message: str) -> Need:
    """Return what a rule needs of logs."""
    return Need(part, lacks, message, (LOGS,))


CUSTODY = Need("custody", "custody", "The curator's records are not here.", (RUN,))
LEDGER = Need("ledger", "ledger", "No ledger was given.", (RUN,))
SOUND = Need("ledger.sound", "ledger", "The ledger does not hold.", (RUN,))
CHARGE = Need("ledger.key", "ledger", "No charge names the plan.", (RUN,))
PADDED = "No record has noise on sums that are truly 0, so what was added is not known: only what was set."
LISTS = of_logs("participation", "clients", "No log names who took part: one client in every round would pass unseen.")
SETTINGS = of_logs(
    "rounds.clip_norm|rounds.noise_stddev", "settings", "No log says which clip norm and which noise were set."
)
NORMS = of_logs("participation.largest_norm", "norms", "No log has norms of contributions.")
SIZES = of_logs("cohort_sizes", "cohorts", "No log says how many took part in a round.")
ATTEMPTS = of_logs("rounds.attempts", "attempts", "No log says how often a round was begun.")
DIVISOR = of_logs("rounds.divisor", "divisor", "No log says what noisy sums were divided by.")
ENROLLMENT = of_logs("logs.enrolled", "enrollment", "No enrollment list was given: N is taken as claimed.")


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked.

    Attributes:
        id: its name, as codes of findings begin.
        check: what it finds in evidence; nothing where there is nothing to check.
        needs: the first that is not here makes the rule "not checked".
        kinds: of which evidence: a run's, logs, or both.
        private: whether it reads a curator's records: then a run's report says how it ended and no more, and the
            owner's attestation is held against it.
        reads_draws: whether it reads hidden draws, of which scheme.
    """

    id: str
    check: Callable[[Evidence], Finding | Iterable[Finding]]
    needs: tuple[Need, ...] = ()
    kinds: tuple[str, ...] = (RUN, LOGS)
    private: bool = False
    reads_draws: Callable[[Scheme], bool] = lambda _: False

    def apply(self, evidence: Evidence) -> Iterator[Finding]:
        """Find what there is to find; without the evidence, that it was not checked."""
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
    """Apply every rule to what a run left behind, or to logs of any other run."""
    runs = evidence.claim.expected_runs
    findings = (
        replace(one, false_alarm_rate=min(1.0, one.false_alarm_rate * runs))  # any of them may fail
        for rule in RULES
        for found in rule.apply(evidence)
        for one in (_apply_owner_attestation(found, evidence) if rule.private else found,)
    )
    return Verification(tuple(findings), compute_what_ifs(evidence), required, evidence=evidence)


def check_private(evidence: Evidence) -> tuple[Finding, ...]:
    """Apply the rules on a curator's records alone, in the order of ``RULES``."""
    return tuple(found for rule in RULES if rule.private for found in rule.apply(evidence))


def publish(outcome: Verification) -> Verification:
    """Return what a report may say of a verification; see ``outcome.redact``."""
    evidence, private = outcome.evidence, {rule.id: rule for rule in RULES if rule.private}
    assert evidence is not None

    def get_highest_rate(check: str) -> float | None:
        if (rule := private.get(check)) is None:
            return None
        runs = evidence.claim.expected_runs
        return min(1.0, evidence.hidden_false_alarm_rate * runs) if rule.reads_draws(evidence.claim.scheme) else 0.0

    return redact(outcome, get_highest_rate)


def _apply_owner_attestation(finding: Finding, evidence: Evidence) -> Finding:
    """Hold a finding against what the owner wrote before the commit: a failure stands, another end contradicts it."""
    if evidence.owner is None:
        return finding
    told = evidence.owner.custody_checks[finding.check]
    if evidence.custody is None and told is Status.FAILED:
        return Finding(f"{finding.check}/attested-failure", Status.FAILED, "The owner's own word is that it failed.")
    if evidence.custody is None or told is get_published_verdict(finding):
        return finding
    message = f"The owner says {told}, and custody.jsonl says {finding.status}: {finding.message}"
    return replace(finding, code=f"{finding.check}/attestation-mismatch", status=Status.FAILED, message=message)
