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
from epsilog.terms import COMMITMENT, CustodyRecord, RecordsError, RoundRecord, RunFile, codec, record_line
from epsilog.terms.disclosed import Commitment, CommitmentKey, Disclosed, Public
from epsilog.verification.books import Books, LedgerWord
from epsilog.verification.canaries import CanaryScores
from epsilog.verification.owner import OwnerWord

R = TypeVar("R", RoundRecord, CustodyRecord)
COMMITTED = (RunFile.PLAN, RunFile.ROUNDS, COMMITMENT, RunFile.OWNER)  # what every commit names
HASHED = (RunFile.PLAN, RunFile.ROUNDS, RunFile.OWNER, RunFile.CANARIES)  # by a plain hash: public, each of them
READ = (*HASHED, RunFile.CUSTODY, RunFile.KEY, RunFile.REPORT, RunFile.PAGE, RunFile.MODEL)
LARGEST = 1 << 29  # bytes of one file; a thousand rounds of a thousand clients are a twentieth of it


@dataclass(frozen=True, slots=True)
class Evidence:
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
    owner: OwnerWord | None
    hashes: Mapping[str, Disclosed] = field(default_factory=dict)
    ledger: LedgerWord | None = None
    canaries: CanaryScores | None = None


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of a run, by name; those that are not there are left out.

    Raises:
        RecordsError: a file that cannot be read, is too large, or is no regular file of its own (a link, a pipe).
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
                raise RecordsError(f"{path} must be a regular file")
            if facts.st_size > LARGEST:
                raise RecordsError(f"{path} must be at most {LARGEST} bytes, got {facts.st_size}")
            return file.read(LARGEST)
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise RecordsError(f"{path} cannot be read: {reason}") from error


def parse_evidence(files: Mapping[str, bytes], books: Books | None) -> Evidence:
    """Reads the documents of a run.

    Args:
        files: contents by name; the plan and the round records must be there.
        books: the ledger that the run was charged to; None leaves its checks out.

    Raises:
        RecordsError: a document that is missing, or cannot be read in one way only; named with its line.
    """
    for name in (RunFile.PLAN, RunFile.ROUNDS):
        if name not in files:
            raise RecordsError(f"{name} cannot be read: No such file or directory")
    plan = _document(RunFile.PLAN, files[RunFile.PLAN], RegisteredPlan)
    custody, owner, canaries = (files.get(name) for name in (RunFile.CUSTODY, RunFile.OWNER, RunFile.CANARIES))
    return Evidence(
        plan=plan,
        records=parse_records(RunFile.ROUNDS, files[RunFile.ROUNDS], RoundRecord),
        custody=None if custody is None else parse_records(RunFile.CUSTODY, custody, CustodyRecord),
        owner=None if owner is None else _document(RunFile.OWNER, owner, OwnerWord),
        hashes=_hashes(files),
        ledger=books.word_on(plan.hash) if books else None,
        canaries=None if canaries is None else _document(RunFile.CANARIES, canaries, CanaryScores),
    )


def _hashes(files: Mapping[str, bytes]) -> dict[str, Disclosed]:
    """What a commit names of these files: plain hashes of public ones, a keyed one of the curator's records."""
    found: dict[str, Disclosed] = {name: Public.of(files[name]) for name in HASHED if name in files}
    if RunFile.CUSTODY in files and RunFile.KEY in files:
        try:
            key = CommitmentKey.parse(files[RunFile.KEY])
        except ValueError as error:
            raise RecordsError(f"{RunFile.KEY} cannot be read: {error}") from None
        found[COMMITMENT] = Commitment.to(files[RunFile.CUSTODY], key)
    return found


def read_evidence(folder: Path, ledger: str | Path | None) -> Evidence:
    """Reads a run's folder and the ledger that it was charged to; see ``read_folder`` and ``parse_evidence``."""
    return parse_evidence(read_folder(folder), Books.read(ledger) if ledger else None)


D = TypeVar("D", RegisteredPlan, OwnerWord, CanaryScores)


def _document(name: str, content: bytes, kind: type[D]) -> D:
    """Reads one document and writes it again: the bytes must be the same."""
    try:
        document = kind.from_json(codec.parse(content))
        same = codec.canonical(document.to_json()) + b"\n" == content
    except codec.UNREADABLE as error:
        raise RecordsError(f"{name} is not a {kind.__name__}: {error}") from error
    if not same:
        raise RecordsError(f"{name} must be canonical JSON of known fields, and is not")
    return document


def parse_records(name: str, content: bytes, kind: type[R]) -> tuple[R, ...]:
    """Reads one JSON Lines file of records, each in its one spelling."""
    lines = content.split(b"\n")
    if lines.pop() != b"":
        raise RecordsError(f"{name}, line {len(lines) + 1}: must end with a newline")
    return tuple(_record(name, number, line, kind) for number, line in enumerate(lines, start=1))


def _record(name: str, number: int, line: bytes, kind: type[R]) -> R:
    try:
        record = codec.from_json(codec.parse(line))
        same = isinstance(record, kind) and record_line(record) == line + b"\n"
    except codec.UNREADABLE as error:
        raise RecordsError(f"{name}, line {number}: {error}") from error
    if not isinstance(record, kind):
        raise RecordsError(f"{name}, line {number}: must be a {kind.__name__}, got {type(record).__name__}")
    if not same:
        raise RecordsError(f"{name}, line {number}: must be canonical JSON of known fields, and is not")
    return record
