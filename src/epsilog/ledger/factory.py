"""The store for an address: the only module that knows all stores; it loads a database driver on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from epsilog.ledger import bundles, merkle, replay
from epsilog.ledger.commands.base import Caller
from epsilog.ledger.entries import GENESIS, Entry, hash_entry
from epsilog.ledger.headroom import HERE, CostModel
from epsilog.ledger.ledger import Ledger, get_utc_now
from epsilog.ledger.replay import LedgerVerification
from epsilog.ledger.store import ReadableStore, Store
from epsilog.ledger.view import LedgerView
from epsilog.signing import Note
from epsilog.terms import CheckError, LedgerIntegrityError

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
    read_only: bool = False,
) -> Ledger:
    """Open a ledger in a local file or a database; create it if necessary. Read only, it refuses each command."""
    store = _store(url, read_only=read_only)
    caller = Caller(admit_free=admit_free)
    return Ledger(store if within is None else within(store), clock=clock, cost_model=cost_model, caller=caller)


def read_ledger(url: str | Path, *, token: str | None = None) -> LedgerView:
    """Open a ledger that exists, to look and verify; nothing is ever written to it. See ``open_ledger``."""
    return LedgerView(open_readable(url, token=token))


def open_readable(url: str | Path, *, token: str | None = None) -> ReadableStore:
    """Open the store of a ledger that exists, for reading only."""
    if is_remote_address(url):
        from epsilog.ledger.remote import Connection, RemoteStore

        return RemoteStore(Connection(str(url), token=token))
    return _store(url, read_only=True)


def is_remote_address(url: str | Path) -> bool:
    """Return whether it is another server's ledger that a URL names."""
    return isinstance(url, str) and url.lower().startswith(HTTP)


def is_copy(url: str | Path) -> bool:
    """Return whether an address names a backup or a follower's copy, which is read and never written."""
    if isinstance(url, str) and (url.startswith(POSTGRES) or is_remote_address(url)):
        return False
    from epsilog.ledger.sqlite import is_backup

    path = parse_path(url)
    return path.is_file() and is_backup(path)


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

    return SqliteStore(parse_path(url), read_only=read_only)


def parse_path(url: str | Path) -> Path:
    """Return the file that an address names."""
    if isinstance(url, Path):
        return url
    prefix = "sqlite:///"
    name = url.removeprefix(prefix)
    if name in ("", ":memory:") or _URL.match(name) or "://" in name or "?" in name:
        shown_url = "another, which may hold a password" if {"@", "="} & set(url) else repr(url)
        raise CheckError("url", "a file, 'sqlite:///' and a file, 'postgresql://' or 'https://'", shown_url)
    return Path(name)


def parse_address(text: str) -> str | Path:
    """Return what a person wrote for a ledger, as ``open_ledger`` takes it: a database's URL as it is, else a path.

    No file is named like a URL: a mistyped database URL would charge a separate file.
    """
    if text.startswith(POSTGRES) or is_remote_address(text):
        return text
    return parse_path(text) if _URL.match(text) else Path(text)


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
    return parse_path(url).exists()
