"""`epsilog ledger backup` and `restore`: copies that are whole, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, ledger_app, print_json
from epsilog.cli.ledger import (
    DEFAULT_LEDGER,
    By,
    LedgerFile,
    Reason,
    require_file_ledger,
    require_ledger,
    require_ledger_file,
)
from epsilog.cli.show import print_figures, print_notice

if TYPE_CHECKING:
    from epsilog.ledger import LedgerVerification


@ledger_app.command("backup")
def backup_command(
    file: Annotated[Path, typer.Argument(help="The backup to make; not there yet.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Copy a ledger into one file, as it stands, while others may write to it; and verify the copy.

    Example: epsilog ledger backup /elsewhere/ledger-2026-05-03.db
    """
    from epsilog.ledger import copy_ledger

    _print_verification(f"Backup {file}", file, copy_ledger(require_ledger(ledger), file), as_json=as_json)


@ledger_app.command("restore")
def restore_command(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    by: By,
    reason: Reason,
    ledger: Annotated[str, typer.Option("--ledger", "-l", help="The ledger to make; not there yet.")] = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Make a ledger of a backup, when the ledger itself is lost; it takes nothing until its owner accepts that.

    Example: epsilog ledger restore /elsewhere/ledger-2026-05-03.db --by emil --reason "the disk is gone"
    """
    from epsilog.ledger import restore_backup as put_back

    place = require_file_ledger(ledger)
    found = put_back(require_ledger_file(file), place, by=by, reason=reason)
    _print_verification(f"Ledger {place}", place, found, as_json=as_json)
    if not as_json:
        print_notice("Nothing is charged in it until an owner accepts what may be missing: epsilog ledger accept.")


def _print_verification(title: str, file: Path, found: LedgerVerification, *, as_json: bool) -> None:
    if as_json:
        return print_json({"file": str(file), "entries": found.count, "head": found.head})
    return print_figures(title, [("entries", str(found.count)), ("head", found.head)])
