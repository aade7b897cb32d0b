"""Backups of a ledger: made during writes, verified before use, and restored once.

A backup has another application id than a ledger, so it cannot be charged by mistake. A restored backup is a ledger
again, with its original id, and its first new entry records the restore.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from epsilog import durable_io
from epsilog.ledger.sqlite import schema, version
from epsilog.ledger.sqlite.ledger_file import LOGS, make_sidecar_path
from epsilog.ledger.sqlite.store import SqliteStore, encode_path
from epsilog.terms import CheckError, StorageError

_LEFT = (*LOGS, "-journal")  # what SQLite would take for the log of a file of that name


def copy_ledger(ledger: Path, to: Path, *, check: Callable[[Path], None]) -> None:
    """Copy a ledger as of one moment.

    Args:
        ledger: its file.
        to: the backup's file, which must not exist.
        check: refuses what does not hold; called on the copy before it gets its name.
    """
    with _appearing(to) as part:
        with closing(SqliteStore(ledger, read_only=True)) as source:
            _copy(source, part, application_id=schema.BACKUP_ID)
        check(part)


def restore_copy(backup: Path, to: Path, *, check: Callable[[Path], None], mark: Callable[[Path], None]) -> None:
    """Make a ledger of a backup.

    Args:
        backup: its file.
        to: the ledger's file; neither it nor its log may exist.
        check: refuses what does not hold; called on the backup and on the ledger.
        mark: notes in the ledger that it was restored; called before it gets its name.

    Raises:
        StorageError: the original ledger still exists, or may exist; or a log of another ledger is in the way.
    """
    if not schema.is_backup(backup):
        raise CheckError("backup", "a file that `epsilog ledger backup` made", repr(str(backup)))
    check(backup)
    with _appearing(to) as part:
        with closing(SqliteStore(backup, read_only=True)) as source:
            original = source.original()
            if original is not None:
                raise StorageError(
                    f"the ledger that was backed up may still be at {original}, and both could be spent: remove it "
                    "there first, or go on with that one"
                )
            _copy(source, part, application_id=schema.APPLICATION_ID, home=part)
        mark(part)
        check(part)


@contextmanager
def _appearing(to: Path) -> Iterator[Path]:
    """A temporary file that is renamed to its final place if the block succeeds, and removed otherwise."""
    part = to.with_name(f"{to.name}.part")
    for name in (to, part, *(make_sidecar_path(to, suffix) for suffix in _LEFT)):
        if os.path.lexists(name):
            raise CheckError("file", "one that does not exist yet, nor its log", repr(str(name)))
    try:
        yield part
        if any(name.exists() and name.stat().st_size for name in (make_sidecar_path(part, suffix) for suffix in _LEFT)):
            raise StorageError(f"{part} was not closed: its log still holds entries")
        durable_io.sync_file(part)
        os.link(part, to)  # unlike a rename, refuses a name that was taken meanwhile
    finally:
        for name in (part, *(make_sidecar_path(part, suffix) for suffix in _LEFT)):
            name.unlink(missing_ok=True)
    durable_io.sync_folder(to.parent)


def _copy(source: SqliteStore, part: Path, *, application_id: int, home: Path | None = None) -> None:
    """Write one file without a log, whatever the journal of the ledger; ``home`` is its recorded location."""
    part.touch(mode=0o600, exist_ok=False)
    with closing(version.sqlite.connect(part)) as copy:
        copy.isolation_level = None
        source.copy_to(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute(f"PRAGMA application_id={application_id}")
        if home is not None:
            copy.execute("UPDATE head SET home = ?", (encode_path(home.resolve()),))
