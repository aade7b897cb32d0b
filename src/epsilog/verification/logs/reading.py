"""Read the claim and the logs that a mapping file names, convert units, and verify them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from epsilog.plan import RegisteredPlan
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError, Guarantee, RecordError, codec
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.columns import LogData, LogSource, LogUnits, ReadSummary
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.files import read_file
from epsilog.verification.logs.lists import read_lists
from epsilog.verification.logs.mapping import LogMapping, PlannedClaim, StatedClaim, read_mapping
from epsilog.verification.logs.rounds import read_enrollment, read_padding, read_rounds
from epsilog.verification.outcome import REQUIRED_LOGS, Verification
from epsilog.verification.playbook import Playbook
from epsilog.verification.rules import verify_evidence


def read_claim(mapping: LogMapping, base: Path) -> Claim:
    """Read the claim of a mapping.

    Raises:
        CheckError: the claim is inconsistent, or no theorem bounds it.
        RecordError: the plan cannot be read.
    """
    if isinstance(mapping.claim, PlannedClaim):
        return _read_planned_claim(base / mapping.claim.plan)
    try:
        return _read_stated_claim(mapping.claim)
    except CheckError as error:
        raise error.under("claim") from None


def _read_planned_claim(path: Path) -> Claim:
    try:
        plan = RegisteredPlan.from_json(codec.parse_json(read_file(path)))
    except codec.UNREADABLE as error:
        raise RecordError(f"{path.name} is not a plan: {error}") from error
    scheme = plan.scheme
    if plan.trials is not None:
        bound = "of one run: logs of the best of several trials do not cover the others"
        raise CheckError("claim.plan", bound, "trials")
    if not isinstance(scheme, ClientLevelCentral):  # elsewhere noise is not drawn independently for each sum
        bound = f"of a fixed clip norm, with independent noise for each round's sum ({ClientLevelCentral.kind})"
        raise CheckError("claim.plan", bound, repr(scheme.kind))
    return Claim.from_plan(plan, scheme.expected_cohort)


def _read_stated_claim(stated: StatedClaim) -> Claim:
    scheme = ClientLevelCentral(
        stated.population,
        stated.sampling_probability,
        stated.rounds,
        stated.clip_norm,
        stated.noise_multiplier,
        sampling=stated.sampling,
        cohort_size=stated.cohort_size,
        cycle_length=stated.cycle_length,
    )
    if stated.relation not in scheme.relations:
        supported = " or ".join(relation.value for relation in scheme.relations)
        raise CheckError("relation", f"{supported} for sampling = {stated.sampling!r}", repr(stated.relation.value))
    epsilon = stated.epsilon
    if epsilon is None:
        epsilon = compute_certified_interval(scheme.release(), stated.delta, stated.relation).upper
        if not math.isfinite(epsilon):
            raise CheckError("noise_multiplier", "so large that epsilon is finite", repr(stated.noise_multiplier))
    guarantee = Guarantee(epsilon, stated.delta, stated.relation, stated.privacy_unit, stated.population)
    return Claim(guarantee, scheme, stated.divisor)


def verify_logs(path: Path, *, required: Collection[str] = REQUIRED_LOGS) -> Verification:
    """Verify the logs of a mapping file against its claim.

    Args:
        path: the mapping file; paths in it are relative to it.
        required: evidence (see ``LOG_EVIDENCE_KINDS``); its absence makes the status "not checked".

    Raises:
        ConfigError: the mapping is invalid.
        CheckError: a column or a value does not fit the mapping.
    """
    mapping = read_mapping(path)
    claim = read_claim(mapping, path.parent)
    logs = read_logs(mapping, path.parent, claim.units)
    found = verify_evidence(
        Evidence(claim, logs=logs, public=mapping.public, false_alarm_rate=mapping.false_alarm_rate), required=required
    )
    files = {path.name: path} | {name: path.parent / name for name in mapping.files}
    source = LogSource(
        mapping.identity.model_dump(exclude_none=True),
        mapping.reporting,
        {name: _hash_file(at) for name, at in files.items()},
        mapping.logs,
        mapping.salt,
        _read_named_playbook(mapping, path),
    )
    assert found.evidence is not None
    return replace(found, evidence=replace(found.evidence, logs=replace(logs, source=source)))


def read_playbook(path: Path) -> Playbook | None:
    """Read the playbook that a mapping file names; None for none."""
    return _read_named_playbook(read_mapping(path), path)


def _read_named_playbook(mapping: LogMapping, path: Path) -> Playbook | None:
    return None if mapping.playbook is None else Playbook.read(path.parent / mapping.playbook)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_logs(mapping: LogMapping, base: Path, units: LogUnits) -> LogData:
    """Read every file that a mapping names; paths are relative to ``base``.

    Raises:
        CheckError: a column or a value does not fit the mapping.
    """
    summaries: list[ReadSummary] = []
    enrolled = rounds = padding = lists = None
    digits, copies = 17, 0
    if mapping.enrollment is not None:
        enrolled = read_enrollment(mapping.enrollment, base, summaries)
    if mapping.rounds is not None:
        rounds, padding, digits = read_rounds(mapping.rounds, base, units, summaries)
    if mapping.padding is not None:
        padding, digits, copies = read_padding(mapping.padding, base, units, rounds, summaries)
    if mapping.participation is not None:
        lists = read_lists(mapping.participation, base, summaries, enrolled, rounds, population=units.population)
    return LogData(rounds, lists, padding, enrolled, tuple(summaries), digits, copies)
