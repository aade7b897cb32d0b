"""From a mapping file to a verdict: read, check, price."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilog.terms import LOG_EVIDENCE, Verdict
from epsilog.verify.logs.checks import check_logs
from epsilog.verify.logs.claims import Claim, read_claim
from epsilog.verify.logs.mapping import read_mapping
from epsilog.verify.logs.pricing import what_ifs
from epsilog.verify.logs.reading import read_logs
from epsilog.verify.reconciliation import Reconciliation, certified, check_claim, check_plan

REQUIRED = tuple(name for name in LOG_EVIDENCE if name not in ("enrolment", "attempts"))


@dataclass(frozen=True, slots=True)
class LogExamination:
    """What the logs of a run say of its claim.

    Attributes:
        claim: what they were held against.
        outcome: all findings, and what deviations would cost.
        unamplified: epsilon, certified from above, whatever the sampler was.
        files: SHA-256 of the mapping and of each file that it names, as they were once the checks were done.
    """

    claim: Claim
    outcome: Reconciliation
    unamplified: float
    files: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return self.outcome.verdict

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.outcome.to_json() | {"required": sorted(self.outcome.required)}


def examine_logs(path: Path, *, required: Collection[str] = REQUIRED) -> LogExamination:
    """Reconciles the logs that a mapping file names with the claim that it states.

    Args:
        path: the mapping file; paths within it are relative to it.
        required: evidence (see ``LOG_EVIDENCE``) without which nothing is verified.

    Raises:
        ProgrammeError: a mapping that does not say what it must.
        CheckError: a column or a value that is not what the mapping says.
    """
    mapping = read_mapping(path)
    claim = read_claim(mapping, path.parent)
    logs = read_logs(mapping, path.parent, claim.units)
    planned = () if claim.plan is None else (check_plan(claim.plan),)
    claimed = (check_claim(claim.guarantee, claim.scheme), *planned)
    findings = (*claimed, *check_logs(logs, claim, mapping.false_alarm))
    outcome = Reconciliation(findings, what_ifs(logs, claim), required)
    files = {path.name: path} | {name: path.parent / name for name in mapping.files}
    return LogExamination(claim, outcome, whatever_the_sampler(claim), {n: _hashed(at) for n, at in files.items()})


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def whatever_the_sampler(claim: Claim) -> float:
    """Epsilon if everybody may have taken part in every round, once in each: what a rejected sampler leaves."""
    scheme, guarantee = claim.scheme, claim.guarantee
    return max(
        certified(release, guarantee.delta, guarantee.relation).upper
        for release in (scheme.unamplified(), scheme.in_every_round())
    )
