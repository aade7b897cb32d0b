"""`epsilog ledger backup`, `restore` and `follow`: the copies of a ledger."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, echo, ledger_app, print_json, require_file, require_new
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, print_verification, require_file_ledger, require_ledger
from epsilog.cli.show import print_notice
from epsilog.terms import CheckError, StorageError
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from epsilog.ledger import LedgerVerification
    from epsilog.ledger.follower import CopiedEntries


@ledger_app.command("backup")
def backup_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="New file, the backup.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Copy a ledger into one file, and verify the copy.

    Example: epsilog ledger backup -o /elsewhere/ledger-2026-05-03.db
    """
    from epsilog.ledger.backups import copy_ledger

    require_file(output)
    require_new(output)
    _print_copy(f"Backup {output}", output, copy_ledger(require_ledger(ledger), output), as_json=as_json)


@ledger_app.command("restore")
def restore_command(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    actor: Annotated[str, typer.Option(help="Who decides; stored permanently.")],
    reason: Annotated[str, typer.Option(help="Why; stored permanently.")],
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="The ledger file to make; must not exist.")
    ] = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Make a ledger from a backup.

    Example: epsilog ledger restore /elsewhere/ledger-2026-05-03.db --actor emil --reason "the disk is gone"
    """
    from epsilog.ledger.backups import restore_backup

    place = require_file_ledger(ledger)
    if not file.exists():
        raise CheckError("file", "a backup that exists", f"{file}")
    found = restore_backup(file, place, actor=actor, reason=reason)
    _print_copy(f"Ledger {place}", place, found, as_json=as_json)
    if not as_json:
        print_notice("It accepts no charge until its owner accepts what may be missing: epsilog ledger accept-restore.")


def _print_copy(title: str, file: Path, found: LedgerVerification, *, as_json: bool) -> None:
    if as_json:
        return print_json({"file": str(file), "entries": found.count, "head": found.head})
    return print_verification(title, found)


@ledger_app.command("follow")
def follow_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the copy; made if it does not exist.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    once: Annotated[bool, typer.Option("--once", help="Copy what is missing, and end.")] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two reads.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Keep a verified copy of a ledger, until Ctrl-C.

    Each entry is verified before it is copied. Exit code 4: an entry breaks a rule, or the ledger has lost or changed
    an entry that was copied. The copy can be read, verified, served and restored, but not charged.

    Example: epsilog ledger follow -o /elsewhere/copy.db
    """
    from epsilog.ledger.follower import LedgerFollower

    require_file(output)
    told = -1
    with LedgerFollower(require_ledger(ledger), output) as follower:
        while True:
            try:
                found = follower.update()
            except StorageError as error:
                if once:
                    raise
                typer.echo(legible(f"epsilog: {error}: it is tried again"), err=True)
            else:
                if found.count != told:
                    echo(_describe_copy(found, as_json=as_json))
                told = found.count
            if once:
                return
            time.sleep(every)


def _describe_copy(found: CopiedEntries, *, as_json: bool) -> str:
    if as_json:
        document = {"entries": found.count, "added": found.added, "head": found.head}
        return json.dumps(document | {"priced": found.rechecked, "unpriced": found.unchecked})
    return f"{found.count} entries verified, {found.added} of them new; head {found.head}"
