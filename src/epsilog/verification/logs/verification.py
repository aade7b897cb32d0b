"""From a mapping file to a verdict: read, check, price."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilog.terms import LOG_EVIDENCE_KINDS, Finding, Interval, Status
from epsilog.verification.claim import check_claim, compute_certified_interval
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.logs.checks import check_logs, get_cohort_sizes
from epsilog.verification.logs.claims import Claim, read_claim
from epsilog.verification.logs.mapping import LogMapping, read_mapping
from epsilog.verification.logs.reading import read_logs
from epsilog.verification.logs.tables import ReadSummary
from epsilog.verification.logs.what_if import compute_log_what_ifs
from epsilog.verification.outcome import Reconciliation
from epsilog.verification.plans import check_plan
from epsilog.verification.playbook import Playbook

REQUIRED = tuple(name for name in LOG_EVIDENCE_KINDS if name not in ("enrolment", "attempts"))
PERSONAL = ("log", "population", "clipping", "norms", "divisor", "custody", "participation")  # count or measure people
CONSTANT = ("clipping/holds", "divisor/holds")  # one number, that was set
NAMING = ("rounds/not-in-the-log", "rounds/out-of-order")  # rounds in which somebody was, or nobody


@dataclass(frozen=True, slots=True)
class LogVerification:
    """What the logs of a run say of its claim.

    Attributes:
        mapping: which columns were read as what.
        claim: what they were held against.
        outcome: all findings, and what deviations would cost.
        unamplified: epsilon, whatever the sampler was; its upper end may be claimed.
        files: SHA-256 of the mapping and of each file that it names, as they were once the checks were done.
        cohorts: how many took part, round by round; None where no log says.
        playbook: steps that the mapping names; None for none.
        told: what was read of each file, and what was left out.
    """

    mapping: LogMapping
    claim: Claim
    outcome: Reconciliation
    unamplified: Interval
    files: Mapping[str, str]
    cohorts: tuple[int, ...] | None = None
    playbook: Playbook | None = None
    told: tuple[ReadSummary, ...] = ()

    @property
    def verdict(self) -> Status:
        """The worst of all findings."""
        return self.outcome.verdict

    @property
    def published(self) -> Reconciliation:
        """What a report may say: no figure that counts or measures people, and no price that a check has refuted.

        Cohort sizes are functions of the data that no noise hides; what rests on them is told of public logs alone.
        """
        failed = any(finding.verdict is Status.FAILED for finding in self.outcome.findings)
        told = () if failed else self.outcome.what_ifs
        told = tuple(one for one in told if self.mapping.public or not one.private)
        return Reconciliation(tuple(map(self._public, self.outcome.findings)), told, REQUIRED)

    def _public(self, finding: Finding) -> Finding:
        """How a check on people ended; another check's finding as it is."""
        counting = {"delta"} if self.mapping.enrolment is not None else set()
        counting |= {"rounds"} if self.mapping.rounds is None else set()  # who was there says which rounds there were
        ended = {one.check: one for one in self.outcome.findings}
        counting |= {"noise"} if _clips_vary(ended["clipping"]) else set()  # it is told in units of what was clipped to
        counting |= {"attempts", "noise"} if ended["rounds"].code in NAMING else set()  # of as many rounds as are there
        unseen = finding.verdict is Status.NOT_CHECKED
        if finding.code in CONSTANT or (unseen and not finding.numbers):
            return finding
        if not unseen and finding.check not in {*PERSONAL, *counting} and finding.code not in NAMING:
            return finding
        told = get_published_verdict(finding)
        code = finding.code if told is finding.verdict else f"{finding.check}/holds"
        says = f"Checked on logs that are no part of this report: {told}."
        return Finding(code, told, says, lacks=finding.lacks, false_alarm=finding.false_alarm)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.outcome.to_json(self.playbook) | {"required": sorted(self.outcome.required)}


def _clips_vary(found: Finding) -> bool:
    """Whether sums were clipped otherwise than was claimed: perhaps to what clients sent."""
    return found.code not in CONSTANT and found.verdict is not Status.NOT_CHECKED


def verify_logs(path: Path, *, required: Collection[str] = REQUIRED) -> LogVerification:
    """Reconciles the logs that a mapping file names with the claim that it states.

    Args:
        path: the mapping file; paths within it are relative to it.
        required: evidence (see ``LOG_EVIDENCE_KINDS``) without which nothing is verified.

    Raises:
        ConfigError: a mapping that does not say what it must.
        CheckError: a column or a value that is not what the mapping says.
    """
    mapping = read_mapping(path)
    claim = read_claim(mapping, path.parent)
    logs = read_logs(mapping, path.parent, claim.units)
    planned = () if claim.plan is None else (check_plan(claim.plan),)
    guarantee = claim.guarantee
    again = compute_certified_interval(claim.scheme.release(), guarantee.delta, guarantee.relation)
    claimed = (check_claim(guarantee.epsilon, again), *planned)
    findings = (*claimed, *check_logs(logs, claim, mapping.false_alarm, public=mapping.public))
    outcome = Reconciliation(findings, compute_log_what_ifs(logs, claim), required)
    files = {path.name: path} | {name: path.parent / name for name in mapping.files}
    hashes = {name: _hash_file(at) for name, at in files.items()}
    sizes = get_cohort_sizes(logs)
    cohorts = None if sizes is None else tuple(sizes.tolist())
    known, steps = bound_any_log_sampler(claim), _find_playbook(mapping, path)
    return LogVerification(mapping, claim, outcome, known, hashes, cohorts, steps, logs.told)


def read_playbook(path: Path) -> Playbook | None:
    """The playbook that a mapping file names; None for none."""
    return _find_playbook(read_mapping(path), path)


def _find_playbook(mapping: LogMapping, path: Path) -> Playbook | None:
    return None if mapping.playbook is None else Playbook.read(path.parent / mapping.playbook)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bound_any_log_sampler(claim: Claim) -> Interval:
    """Epsilon if everybody may have taken part in every round, once in each: what a rejected sampler leaves."""
    return compute_certified_interval(claim.scheme.in_every_round(), claim.guarantee.delta, claim.guarantee.relation)
