"""A copy that follows its ledger: each new entry is verified before it is copied.

The copy is a file of entries and of the state that they amount to, as the rules compute it. It is read, verified and
restored like a backup, and never charged. Its holder need not trust whoever keeps the ledger: a ledger that loses or
changes an entry that was copied is refused for ever.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from epsilog.ledger import scopes
from epsilog.ledger.entries import ChargeId, Entry
from epsilog.ledger.factory import POSTGRES, is_remote_address, open_readable, parse_path
from epsilog.ledger.replay import RECHECK_SECONDS, LedgerReplay
from epsilog.ledger.sqlite import CopyStore, SqliteStore
from epsilog.ledger.store import ReadableStore, StoredRow, WriteTransaction, parse_row
from epsilog.ledger.view import check_by_replay
from epsilog.terms import CheckError, LedgerIntegrityError, StorageError

_MAX_ROWS = 2000  # of one transaction


@dataclass(frozen=True, slots=True)
class CopiedEntries:
    """What a copy has after an update.

    Attributes:
        count: all entries of the copy.
        head: hash of the last.
        added: entries that this update copied.
        rechecked: charges whose cost was recomputed, of all that the follower has read.
        unchecked: charges whose cost was not: no proven lower bound, or no time was left yet.
    """

    count: int
    head: str
    added: int
    rechecked: int
    unchecked: int


class LedgerFollower:
    """Keeps one copy of a ledger up to date. Use it as a context manager, or ``close`` it.

    Args:
        url: the ledger, as for ``read_ledger``; a server's token must cover the whole ledger.
        copy: the file; made if there is none. One that exists is verified whole before it grows.
        token: as for ``read_ledger``.

    Raises:
        LedgerIntegrityError: the copy itself does not hold.
        StorageError: the file is a ledger, a copy of another one, or cannot be used.

    >>> import tempfile
    >>> from epsilog.ledger import open_ledger, read_ledger
    >>> from epsilog.mechanisms import PureDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger, copy = Path(folder) / "budget.db", Path(folder) / "copy.db"
    ...     with open_ledger(ledger) as owned, LedgerFollower(ledger, copy) as follower:
    ...         _ = owned.create_budget("acme", kind="pure", epsilon="1")
    ...         _ = owned.charge("acme/anna", PureDP(0.25), key="question-1")
    ...         follower.update().added, read_ledger(copy).balance("acme").available["epsilon"]
    (2, '0.75')
    """

    def __init__(self, url: str | Path, copy: Path, *, token: str | None = None) -> None:
        self._open_source = partial(open_readable, url, token=token)  # for each update: a file may be replaced
        self._copy = CopyStore(copy, original=_read_original(url))
        self._failed = False  # whether the replay may be ahead of the file
        try:
            self._replay = _replay_copy(copy)
        except BaseException:
            self._copy.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the copy for this process."""
        self._copy.close()

    def update(self, *, seconds: float = RECHECK_SECONDS) -> CopiedEntries:
        """Verify and copy all entries that the copy lacks, and then recompute the costs of charges.

        Args:
            seconds: after which no further cost is recomputed; the next update goes on.

        Raises:
            LedgerIntegrityError: an entry breaks a rule, a charge costs more than it says, or the ledger has no longer
                what was copied. The copy has the entries before the first that breaks a rule.
            StorageError: the ledger cannot be read, or the copy cannot be written; try again.
        """
        if self._failed:
            self._replay, self._failed = _replay_copy(self._copy.path), False
        replay, before = self._replay, self._replay.count
        try:
            source = self._open_source()
        except CheckError as error:
            raise StorageError(f"the ledger cannot be opened: {error}") from error
        with closing(source):
            self._copy_from(source)
        rechecked, unchecked = replay.costs.judge(time.monotonic() + seconds)
        return CopiedEntries(replay.count, replay.head, replay.count - before, rechecked, unchecked)

    def _copy_from(self, source: ReadableStore) -> None:
        replay = self._replay
        with source.reading() as session:
            count, head = session.head()
        _require_copied(replay, count, head)
        while replay.count < count:
            limit = min(_MAX_ROWS, count - replay.count)
            with source.reading() as session:
                rows = list(session.rows(start=replay.count + 1, limit=limit))
            if not rows:
                raise LedgerIntegrityError("is missing", index=replay.count + 1)
            self._append(rows)
        _require_copied(replay, count, head)

    def _append(self, rows: list[StoredRow]) -> None:
        """Verify rows, and write those that hold in one transaction."""
        replay, start = self._replay, (self._replay.count, self._replay.head)
        self._failed = True
        changed, problem = _Changes(), None
        for row in rows:
            try:
                entry = parse_row(row, replay.parse)
                known = len(replay.rounds.get(entry.charge_id, ())) if entry.charge_id else 0
                replay.read(row)
            except LedgerIntegrityError as error:
                problem = error
                break
            changed.note(entry, known)
        if replay.count > start[0]:
            with self._copy.writing() as session:
                if session.head() != start:
                    raise StorageError(f"another process writes to the copy {self._copy.path}")
                session.append(*rows[: replay.count - start[0]])
                changed.write(replay, session)
        if problem is not None:  # the replay may have taken in a part of that entry
            raise problem
        self._failed = False


class _Changes:
    """What entries change: budgets, charges, and rounds from the last one that each charge had before."""

    def __init__(self) -> None:
        self._scopes: set[str] = set()
        self._rounds: dict[ChargeId, int] = {}

    def note(self, entry: Entry, known: int) -> None:
        """Take in an entry, before which its charge had a number of rounds."""
        if entry.scope:
            self._scopes.update(scopes.list_ancestors(entry.scope))
        if entry.charge_id is not None:
            self._rounds.setdefault(entry.charge_id, known)

    def write(self, replay: LedgerReplay, session: WriteTransaction) -> None:
        """Write the state after the entries."""
        if there := self._scopes & replay.balances.keys():
            session.put_balances(replay.balances[scope] for scope in sorted(there))
        for name, known in self._rounds.items():
            session.put_charge(replay.charges[name])
            for state in replay.rounds.get(name, [])[max(0, known - 1) :]:
                session.put_round(name, state)


def _replay_copy(copy: Path) -> LedgerReplay:
    """Verify a copy, and return what it amounts to."""
    with closing(SqliteStore(copy, read_only=True)) as stored, stored.reading() as session:
        return check_by_replay(session)


def _require_copied(replay: LedgerReplay, count: int, head: str) -> None:
    """Require that a ledger with a head has all that was read of it."""
    if count < replay.count:
        problem = f"was copied, but the ledger has only {count} entries now: truncated, or restored from a backup"
        raise LedgerIntegrityError(problem, index=replay.count)
    if count == replay.count and head != replay.head:
        raise LedgerIntegrityError("was copied, and is another one in the ledger now", index=replay.count)


def _read_original(url: str | Path) -> tuple[str, str] | None:
    """Return the id and the path of a ledger in a file."""
    if isinstance(url, str) and (url.startswith(POSTGRES) or is_remote_address(url)):
        return None
    with closing(SqliteStore(parse_path(url), read_only=True)) as store:
        return store.read_identity()
