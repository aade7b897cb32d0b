"""Backups of a ledger's file: made during writes, verified before use, and restored once.

A backup has another application id than a ledger, so it cannot be charged by mistake. A restored backup is a ledger
again, with its original id, and its first new entry records the restore.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from epsilog.ledger.exports import appearing
from epsilog.ledger.factory import POSTGRES, is_remote_address, parse_path, redact_password, verify_ledger
from epsilog.ledger.ledger import Ledger, get_utc_now
from epsilog.ledger.replay import LedgerVerification
from epsilog.ledger.sqlite import SqliteStore, schema
from epsilog.ledger.sqlite.ledger_file import LOGS
from epsilog.terms import CheckError, StorageError


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
    if isinstance(url, str) and url.startswith(POSTGRES):
        raise CheckError("url", "a file: PostgreSQL is backed up with its own tools", redact_password(url))
    if is_remote_address(url):
        raise CheckError("url", "a file: a server's ledger is backed up on the server", redact_password(str(url)))
    with appearing(to, *LOGS, "-journal") as part:
        with closing(SqliteStore(parse_path(url), read_only=True)) as source:
            source.copy_to(part, application_id=schema.BACKUP_ID)
        return verify_ledger(part)


def restore_backup(
    backup: Path, to: Path, *, actor: str, reason: str, clock: Callable[[], datetime] = get_utc_now
) -> LedgerVerification:
    """Make a ledger of a backup, when the ledger itself is lost. It takes nothing until its owner has accepted that.

    Args:
        backup: what ``copy_ledger`` made.
        to: the ledger's file; neither it nor its log may exist.
        actor: who puts it back.
        reason: why, in words; kept for ever.
        clock: as for ``open_ledger``.

    Raises:
        LedgerIntegrityError: the backup does not hold.
        StorageError: the ledger that was backed up is still there, or may be; or a log of another is in the way.
    """
    if not schema.is_backup(backup):
        raise CheckError("backup", "a file that `epsilog ledger backup` made", repr(str(backup)))
    verify_ledger(backup)
    with appearing(to, *LOGS, "-journal") as part:
        with closing(SqliteStore(backup, read_only=True)) as source:
            original = source.original()
            if original is not None:
                raise StorageError(
                    f"the ledger that was backed up may still be at {original}, and both could be spent: remove it "
                    "there first, or go on with that one"
                )
            source.copy_to(part, application_id=schema.APPLICATION_ID, home=part)
        with Ledger(SqliteStore(part), clock=clock) as ledger:
            ledger.mark_restored(actor=actor, reason=reason)
        return verify_ledger(part)
