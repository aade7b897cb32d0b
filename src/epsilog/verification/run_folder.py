"""Read a run folder: the plan, the records, the owner attestation, and the ledger's excerpt.

Every document must be canonical JSON: a repeated name, an unknown field, another order or a stray blank is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from epsilog.plan import RegisteredPlan
from epsilog.terms import COMMITMENT, CustodyRecord, RecordError, RoundRecord, RunArtifact, codec, record_line
from epsilog.terms.disclosed import Commitment, CommitmentKey, Disclosed, Public
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.files import read_file
from epsilog.verification.ledger_excerpt import LedgerReader
from epsilog.verification.owner_attestation import CanaryScores, OwnerAttestation

R = TypeVar("R", RoundRecord, CustodyRecord)
COMMITTED = (RunArtifact.PLAN, RunArtifact.ROUNDS, COMMITMENT, RunArtifact.OWNER)  # every commit names these
# Public files with a plain hash.
HASHED = (*COMMITTED[:2], RunArtifact.OWNER, RunArtifact.CANARIES, RunArtifact.CERTIFICATE)
READ = (*HASHED, RunArtifact.CUSTODY, RunArtifact.KEY, RunArtifact.REPORT, RunArtifact.PAGE, RunArtifact.MODEL)


def read_run_folder(folder: Path) -> dict[str, bytes]:
    """Return the existing files of a run, by name.

    Raises:
        RecordError: a file cannot be read, is too large, or is not a regular file (but a link or a pipe).
    """
    found: dict[str, bytes] = {}
    for name in READ:
        if os.path.lexists(folder / name):
            found[name] = read_file(folder / name, follow=False)
    return found


def parse_evidence(files: Mapping[str, bytes], ledger: LedgerReader | None) -> Evidence:
    """Read the documents of a run.

    Args:
        files: contents by name; the plan and the round records are required.
        ledger: the ledger of the run's charge; None omits its checks.

    Raises:
        RecordError: a document is missing or invalid; the message names its line.
    """
    for name in (RunArtifact.PLAN, RunArtifact.ROUNDS):
        if name not in files:
            raise RecordError(f"{name} cannot be read: No such file or directory")
    plan = _document(RunArtifact.PLAN, files[RunArtifact.PLAN], RegisteredPlan)
    custody, owner, canaries = (
        files.get(name) for name in (RunArtifact.CUSTODY, RunArtifact.OWNER, RunArtifact.CANARIES)
    )
    return Evidence(
        claim=Claim.from_plan(plan),
        records=parse_records(RunArtifact.ROUNDS, files[RunArtifact.ROUNDS], RoundRecord),
        custody=None if custody is None else parse_records(RunArtifact.CUSTODY, custody, CustodyRecord),
        owner=None if owner is None else _document(RunArtifact.OWNER, owner, OwnerAttestation),
        hashes=_hashes(files),
        ledger=ledger.read_excerpt(plan.hash) if ledger else None,
        canaries=None if canaries is None else _document(RunArtifact.CANARIES, canaries, CanaryScores),
        certificate=files.get(RunArtifact.CERTIFICATE),
    )


def _hashes(files: Mapping[str, bytes]) -> dict[str, Disclosed]:
    """Return the hashes that a commit names: plain ones of public files, a keyed one of the curator's records."""
    found: dict[str, Disclosed] = {name: Public.of(files[name]) for name in HASHED if name in files}
    if RunArtifact.CUSTODY in files and RunArtifact.KEY in files:
        try:
            key = CommitmentKey.parse(files[RunArtifact.KEY])
        except ValueError as error:
            raise RecordError(f"{RunArtifact.KEY} cannot be read: {error}") from None
        found[COMMITMENT] = Commitment.to(files[RunArtifact.CUSTODY], key)
    return found


def read_evidence(folder: Path, ledger: str | Path | None) -> Evidence:
    """Read a run folder and the ledger of its charge; see ``read_run_folder`` and ``parse_evidence``."""
    return parse_evidence(read_run_folder(folder), LedgerReader.read(ledger) if ledger else None)


D = TypeVar("D", RegisteredPlan, OwnerAttestation, CanaryScores)


def _document(name: str, content: bytes, kind: type[D]) -> D:
    """Parse one document; its canonical form must equal the given bytes."""
    try:
        document = kind.from_json(codec.parse_json(content))
        same = codec.encode_canonical(document.to_json()) + b"\n" == content
    except codec.UNREADABLE as error:
        raise RecordError(f"{name} is not a {kind.__name__}: {error}") from error
    if not same:
        raise RecordError(f"{name} must be canonical JSON of known fields")
    return document


def parse_records(name: str, content: bytes, kind: type[R]) -> tuple[R, ...]:
    """Parse a JSON Lines file of canonical records."""
    lines = content.split(b"\n")
    if lines.pop() != b"":
        raise RecordError(f"{name}, line {len(lines) + 1}: must end with a newline")
    return tuple(_record(name, number, line, kind) for number, line in enumerate(lines, start=1))


def _record(name: str, number: int, line: bytes, kind: type[R]) -> R:
    try:
        record = codec.from_json(codec.parse_json(line))
        same = isinstance(record, kind) and record_line(record) == line + b"\n"
    except codec.UNREADABLE as error:
        raise RecordError(f"{name}, line {number}: {error}") from error
    if not isinstance(record, kind):
        raise RecordError(f"{name}, line {number}: must be a {kind.__name__}, got {type(record).__name__}")
    if not same:
        raise RecordError(f"{name}, line {number}: must be canonical JSON of known fields")
    return record
