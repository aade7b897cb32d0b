"""The store for an address: the only module that knows all stores; it loads a database driver on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from epsilog.ledger import bundles, merkle, replay
from epsilog.ledger.commands import Caller
from epsilog.ledger.entries import GENESIS, Entry, hash_entry
from epsilog.ledger.headroom import HERE, CostModel
from epsilog.ledger.ledger import Ledger, get_utc_now
from epsilog.ledger.replay import LedgerVerification
from epsilog.ledger.store import Store
from epsilog.ledger.transitions import ChargeState
from epsilog.ledger.view import LedgerView
from epsilog.signing import Note
from epsilog.terms import CheckError, LedgerIntegrityError

if TYPE_CHECKING:
    from epsilog.ledger.sqlite.diagnostics import Diagnostic

POSTGRES = ("postgresql://", "postgres://")
HTTP = ("http://", "https://")
_URL = re.compile(
    r"\s*(?:[a-z][a-z0-9+.-]*:/|(?:postgres|sqlite|file)[a-z0-9+.-]*:)", re.IGNORECASE
)  # and no file's name


def open_ledger(url: str | Path, *, clock: Callable[[], datetime] = get_utc_now, token: str | None = None) -> Ledger:
    """Open a ledger for charging; create it unless it is on a server.

    Args:
        url: a path, ``sqlite:///relative.db`` or ``sqlite:////absolute.db``. For PostgreSQL (extra ``postgres``):
            ``postgresql://user@host/database?ledger=name`` with the name of a schema (``epsilog`` if blank). For a
            server: ``https://host`` (``http://`` on this machine only).
        clock: returns the time for entries; order never depends on it. A server has its own.
        token: what a server knows the asker by; None takes it from the environment, as ``EPSILOG_TOKEN``.

    Raises:
        LedgerIntegrityError: the file is no ledger, or its last entry is not the one that its head names.

    >>> import tempfile
    >>> from epsilog.mechanisms import PureDP
    >>> with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "budget.db") as ledger:
    ...     _ = ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ...     _ = ledger.charge("acme/claims/anna", PureDP(0.25), key="question-1")
    ...     ledger.balance("acme/claims").available["epsilon"]
    '0.75'
    """
    if is_remote_address(url):
        from epsilog.ledger.remote import Connection, RemoteStore

        if clock is not get_utc_now:
            raise CheckError("clock", "absent: a server has its own clock", repr(clock))
        return Ledger(RemoteStore(Connection(str(url), token=token)))
    return open_local_ledger(url, clock=clock)


def open_local_ledger(
    url: str | Path,
    *,
    clock: Callable[[], datetime] = get_utc_now,
    cost_model: CostModel = HERE,
    within: Callable[[Store], Store] | None = None,
    admit_free: Callable[[str], None] = lambda _: None,
) -> Ledger:
    """Open a ledger in a local file or a database; create it if necessary.

    Args:
        url: as for ``open_ledger``, and no server's.
        clock: returns the time for entries; order never depends on it.
        cost_model: computes costs.
        within: puts the store into another one, which keeps its promises.
        admit_free: as for ``Caller``.
    """
    store = _store(url, read_only=False)
    caller = Caller(admit_free=admit_free)
    return Ledger(store if within is None else within(store), clock=clock, cost_model=cost_model, caller=caller)


def read_ledger(url: str | Path, *, token: str | None = None) -> LedgerView:
    """Open a ledger that exists, to look and verify; nothing is ever written to it. See ``open_ledger``."""
    if is_remote_address(url):
        from epsilog.ledger.remote import Connection, RemoteStore

        return LedgerView(RemoteStore(Connection(str(url), token=token)))
    return LedgerView(_store(url, read_only=True))


def is_remote_address(url: str | Path) -> bool:
    """Return whether it is another server's ledger that a URL names."""
    return isinstance(url, str) and url.lower().startswith(HTTP)


def verify_ledger(url: str | Path) -> LedgerVerification:
    """Check a ledger without writing to it; see ``Ledger.verify``."""
    with read_ledger(url) as ledger:
        return ledger.verify()


@dataclass(frozen=True, slots=True)
class VerifiedEntries:
    """All that a sound ledger holds, word for word.

    Attributes:
        verified: what it amounts to.
        entries: all of them, in order.
        heads: the hash of each.
        leaves: the leaf hash of each, in the tree of checkpoints.
        note: the checkpoint that came with them; None for a ledger's own file.
    """

    verified: LedgerVerification
    entries: tuple[Entry, ...]
    heads: tuple[str, ...]
    leaves: tuple[bytes, ...]
    note: Note | None = None

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the canonical JSON of each entry."""
        return tuple(entry.document() for entry in self.entries)


def iterate_verified_documents(ledger: LedgerView) -> Iterator[str]:
    """Verify a ledger, and then reads the canonical JSON of its entries, one after another.

    Raises:
        LedgerIntegrityError: with the index of the first entry that does not hold; before anything is read.
    """
    for _, document in _proven(ledger, ledger.verify()):
        yield document


def read_verified_entries(url: str | Path | BinaryIO) -> VerifiedEntries:
    """Verify a ledger or a bundle, recognized by content, and read every entry.

    Args:
        url: a ledger's file or URL, a bundle's file, or a bundle that is open already.

    Raises:
        LedgerIntegrityError: with the index of the first entry that does not hold.
    """
    if isinstance(url, Path) and bundles.is_bundle(url):
        with url.open("rb") as file:
            return _of_bundle(file)
    if not isinstance(url, str | Path):
        return _of_bundle(url)
    with read_ledger(url) as ledger:
        verified = ledger.verify()
        every = [
            (entry, hash_entry(document), merkle.hash_leaf(document.encode()))
            for entry, document in _proven(ledger, verified)
        ]
    entries, heads, leaves = zip(*every, strict=True) if every else ((), (), ())
    return VerifiedEntries(verified, entries, heads, leaves)


def _proven(ledger: LedgerView, verified: LedgerVerification) -> Iterator[tuple[Entry, str]]:
    """Yield the entries that were verified, and none that a writer has added since."""
    last = GENESIS
    for entry, document in islice(ledger.documents(), verified.count):
        last = hash_entry(document)
        yield entry, document
    if last != verified.head:
        raise LedgerIntegrityError("the ledger was changed while it was read")


def _of_bundle(file: BinaryIO) -> VerifiedEntries:
    bundle = bundles.Bundle.over(file)
    verified = replay.recheck_costs(replay.replay_entries(bundle.rows(), parse=bundle.parse))
    return VerifiedEntries(verified, tuple(bundle.entries), tuple(bundle.heads), tuple(bundle.leaves), bundle.note)


def _store(url: str | Path, *, read_only: bool) -> Store:
    if isinstance(url, str) and url.startswith(POSTGRES):
        from epsilog.ledger.postgres import PostgresStore

        return PostgresStore(url, read_only=read_only)
    from epsilog.ledger.sqlite import SqliteStore

    return SqliteStore(_path(url), read_only=read_only)


def _path(url: str | Path) -> Path:
    if isinstance(url, Path):
        return url
    prefix = "sqlite:///"
    name = url.removeprefix(prefix)
    if name in ("", ":memory:") or _URL.match(name) or "://" in name or "?" in name:
        shown_url = "another, which may hold a password" if {"@", "="} & set(url) else repr(url)
        raise CheckError("url", "a file, 'sqlite:///' and a file, 'postgresql://' or 'https://'", shown_url)
    return Path(name)


def copy_ledger(url: str | Path, to: Path) -> LedgerVerification:
    """Copy a ledger into a file while others may write to it; what is not whole and sound is no backup.

    Args:
        url: the ledger.
        to: the backup's file, which must not exist. It can be read and verified, and never charged.

    Returns:
        What the backup amounts to; its ``head``, kept elsewhere, shows later whether the backup is the same.

    Raises:
        LedgerIntegrityError: the ledger does not hold; no backup was made.
    """
    from epsilog.ledger.sqlite import backups

    if isinstance(url, str) and url.startswith(POSTGRES):
        raise CheckError("url", "a file: PostgreSQL is backed up with its own tools", redact_password(url))
    if is_remote_address(url):
        raise CheckError("url", "a file: a server's ledger is backed up on the server", redact_password(str(url)))
    found: list[LedgerVerification] = []
    backups.copy_ledger(_path(url), to, check=lambda copy: found.append(verify_ledger(copy)))
    return found[0]


def restore_backup(
    backup: Path, to: Path, *, actor: str, reason: str, clock: Callable[[], datetime] = get_utc_now
) -> LedgerVerification:
    """Make a ledger of a backup, when the ledger itself is lost. It takes nothing until its owner has accepted that.

    Args:
        backup: what ``copy_ledger`` made.
        to: the ledger's file, which must not exist.
        actor: who puts it back.
        reason: why, in words; kept for ever.
        clock: as for ``open_ledger``.

    Raises:
        LedgerIntegrityError: the backup does not hold.
        StorageError: the ledger that was backed up is still there, or may be.
    """
    from epsilog.ledger.sqlite import SqliteStore, backups

    found: list[LedgerVerification] = []

    def mark(copy: Path) -> None:
        with Ledger(SqliteStore(copy), clock=clock) as ledger:
            ledger.mark_restored(actor=actor, reason=reason)

    backups.restore_copy(backup, to, check=lambda copy: found.append(verify_ledger(copy)), mark=mark)
    return found[-1]


def diagnose_ledger(path: Path, *, clock: Callable[[], datetime] = get_utc_now) -> tuple[Diagnostic, ...]:
    """Check a ledger file in place: names, rights, disk, log, clock, and the whole chain.

    Args:
        path: the file, which exists.
        clock: returns the time.

    Returns:
        One remark on each: what it is about, whether it is well (None: not known), and what was found in words.
    """
    from epsilog.ledger.sqlite import diagnostics

    return diagnostics.diagnose_file(path, now=clock(), verify=_diagnose)


def _diagnose(path: Path) -> str:
    """Return what a check of a ledger found that its owner should know."""
    found = verify_ledger(path)
    started = sum(charge.state is ChargeState.STARTED for charge in found.charges.values())
    waiting = sum(charge.state is ChargeState.RESERVED for charge in found.charges.values())
    restored = f"; restored from a backup at entries {[*found.restored]}" if found.restored else ""
    return f"{found.count} entries hold; {started} charges run, {waiting} are only reserved{restored}"


def parse_address(text: str) -> str | Path:
    """Return what a person wrote for a ledger, as ``open_ledger`` takes it: a database's URL as it is, else a path.

    No file is named like a URL: a mistyped database URL would charge a separate file.
    """
    if text.startswith(POSTGRES) or is_remote_address(text):
        return text
    return _path(text) if _URL.match(text) else Path(text)


def redact_password(url: str) -> str:
    """A database's URL as people may read it; it opens the same ledger where the password is known otherwise."""
    if is_remote_address(url):
        from epsilog.ledger.remote import ServerAddress

        return ServerAddress.of(url).url  # it holds none
    from epsilog.ledger.postgres import redact_url

    return redact_url(url)


def ledger_exists(url: str | Path) -> bool:
    """Return whether there is a ledger: its file, its tables in a database, or a server that keeps one.

    Raises:
        StorageError: the database or the server cannot be asked.
    """
    if is_remote_address(url):
        from epsilog.ledger.remote import Connection, remote_ledger_exists

        return remote_ledger_exists(Connection(str(url)))
    if isinstance(url, str) and url.startswith(POSTGRES):
        from epsilog.ledger.postgres import schema_exists

        return schema_exists(url)
    return _path(url).exists()


def is_ledger_file(path: Path) -> bool:
    """Recognize a ledger file by its content."""
    from epsilog.ledger import sqlite

    return sqlite.is_ledger(path)


def get_sqlite_version() -> tuple[str, str, str]:
    """The version of the SQLite that ledgers here use, the journal mode it is trusted with, and what it comes with."""
    from epsilog.ledger import sqlite

    return sqlite.get_version()
