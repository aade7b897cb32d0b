"""What a run left behind, read and not believed: the plan, the records, the owner's word, and the ledger beside them.

Every document has one spelling, its canonical JSON: a name twice, an unknown field, another order or a stray blank is
refused before anything is compared.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from epsilog.plan import RegisteredPlan
from epsilog.terms import COMMITMENT, CustodyRecord, RecordError, RoundRecord, RunArtifact, codec, record_line
from epsilog.terms.disclosed import Commitment, CommitmentKey, Disclosed, Public
from epsilog.verification.canaries import CanaryScores
from epsilog.verification.ledger_excerpt import LedgerExcerpt, LedgerReader
from epsilog.verification.owner_attestation import OwnerAttestation

R = TypeVar("R", RoundRecord, CustodyRecord)
COMMITTED = (RunArtifact.PLAN, RunArtifact.ROUNDS, COMMITMENT, RunArtifact.OWNER)  # what every commit names
HASHED = (
    RunArtifact.PLAN,
    RunArtifact.ROUNDS,
    RunArtifact.OWNER,
    RunArtifact.CANARIES,
)  # by a plain hash: public, each of them
READ = (*HASHED, RunArtifact.CUSTODY, RunArtifact.KEY, RunArtifact.REPORT, RunArtifact.PAGE, RunArtifact.MODEL)
LARGEST = 1 << 29  # bytes of one file; a thousand rounds of a thousand clients are a twentieth of it


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """Everything a verdict rests on.

    Attributes:
        plan: as registered.
        records: the public round records, in file order.
        custody: the curator's records; None when that file is not here.
        owner: what only the owner can say; None when that file is not here.
        hashes: SHA-256 of each public file that was read, by name, and the commitment to the curator's records where
            their key is here.
        ledger: what the ledger says; None when none was given.
        canaries: their coins and scores; None when that file is not here.
    """

    plan: RegisteredPlan
    records: tuple[RoundRecord, ...]
    custody: tuple[CustodyRecord, ...] | None
    owner: OwnerAttestation | None
    hashes: Mapping[str, Disclosed] = field(default_factory=dict)
    ledger: LedgerExcerpt | None = None
    canaries: CanaryScores | None = None


def read_run_folder(folder: Path) -> dict[str, bytes]:
    """The files of a run, by name; those that are not there are left out.

    Raises:
        RecordError: a file that cannot be read, is too large, or is no regular file of its own (a link, a pipe).
    """
    found: dict[str, bytes] = {}
    for name in READ:
        if os.path.lexists(folder / name):
            found[name] = read_file(folder / name, follow=False)
    return found


def read_file(path: Path, *, follow: bool = True) -> bytes:
    """Reads one regular file of a bearable size; with ``follow`` off, a symbolic link is refused."""
    try:
        if not follow and not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        names = ("O_NONBLOCK", "O_BINARY", *(() if follow else ("O_NOFOLLOW",)))  # no system has all of them
        flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in names)
        with os.fdopen(os.open(path, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise RecordError(f"{path} must be a regular file")
            if facts.st_size > LARGEST:
                raise RecordError(f"{path} must be at most {LARGEST} bytes, got {facts.st_size}")
            return file.read(LARGEST)
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise RecordError(f"{path} cannot be read: {reason}") from error


def parse_evidence(files: Mapping[str, bytes], books: LedgerReader | None) -> RunEvidence:
    """Reads the documents of a run.

    Args:
        files: contents by name; the plan and the round records must be there.
        books: the ledger that the run was charged to; None leaves its checks out.

    Raises:
        RecordError: a document that is missing, or cannot be read in one way only; named with its line.
    """
    for name in (RunArtifact.PLAN, RunArtifact.ROUNDS):
        if name not in files:
            raise RecordError(f"{name} cannot be read: No such file or directory")
    plan = _document(RunArtifact.PLAN, files[RunArtifact.PLAN], RegisteredPlan)
    custody, owner, canaries = (
        files.get(name) for name in (RunArtifact.CUSTODY, RunArtifact.OWNER, RunArtifact.CANARIES)
    )
    return RunEvidence(
        plan=plan,
        records=parse_records(RunArtifact.ROUNDS, files[RunArtifact.ROUNDS], RoundRecord),
        custody=None if custody is None else parse_records(RunArtifact.CUSTODY, custody, CustodyRecord),
        owner=None if owner is None else _document(RunArtifact.OWNER, owner, OwnerAttestation),
        hashes=_hashes(files),
        ledger=books.read_excerpt(plan.hash) if books else None,
        canaries=None if canaries is None else _document(RunArtifact.CANARIES, canaries, CanaryScores),
    )


def _hashes(files: Mapping[str, bytes]) -> dict[str, Disclosed]:
    """What a commit names of these files: plain hashes of public ones, a keyed one of the curator's records."""
    found: dict[str, Disclosed] = {name: Public.of(files[name]) for name in HASHED if name in files}
    if RunArtifact.CUSTODY in files and RunArtifact.KEY in files:
        try:
            key = CommitmentKey.parse(files[RunArtifact.KEY])
        except ValueError as error:
            raise RecordError(f"{RunArtifact.KEY} cannot be read: {error}") from None
        found[COMMITMENT] = Commitment.to(files[RunArtifact.CUSTODY], key)
    return found


def read_evidence(folder: Path, ledger: str | Path | None) -> RunEvidence:
    """Reads a run's folder and the ledger that it was charged to; see ``read_run_folder`` and ``parse_evidence``."""
    return parse_evidence(read_run_folder(folder), LedgerReader.read(ledger) if ledger else None)


D = TypeVar("D", RegisteredPlan, OwnerAttestation, CanaryScores)


def _document(name: str, content: bytes, kind: type[D]) -> D:
    """Reads one document and writes it again: the bytes must be the same."""
    try:
        document = kind.from_json(codec.parse_json(content))
        same = codec.encode_canonical(document.to_json()) + b"\n" == content
    except codec.UNREADABLE as error:
        raise RecordError(f"{name} is not a {kind.__name__}: {error}") from error
    if not same:
        raise RecordError(f"{name} must be canonical JSON of known fields, and is not")
    return document


def parse_records(name: str, content: bytes, kind: type[R]) -> tuple[R, ...]:
    """Reads one JSON Lines file of records, each in its one spelling."""
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
        raise RecordError(f"{name}, line {number}: must be canonical JSON of known fields, and is not")
    return record
