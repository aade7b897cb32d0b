"""`epsilog ledger verify`: work a ledger out again, and the next time go on from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, ledger_app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, charges_to_json, format_charges, shown, to_read
from epsilog.cli.show import figures, note
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.spend import Verified


@ledger_app.command("verify")
def verify(
    ledger: LedgerFile = DEFAULT_LEDGER,
    mark: Annotated[
        Path | None,
        typer.Option(
            "--mark",
            help="Your file of how far you have verified: gone on from if it is there, and written if all holds. Keep "
            "it where the ledger's owner cannot change it.",
        ),
    ] = None,
    only_new: Annotated[
        bool,
        typer.Option(
            "--only-new", help="Do not look at what has not changed since the mark: milliseconds, and it shows less."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Work a ledger out again: every hash, rule, balance and price; or, since a mark, those that are new.

    Exit code 4: it does not hold, and the mark stays. For all else see `epsilog verify`.

    Example: epsilog ledger verify --ledger runs/ledger.db --mark my.mark
    """
    from epsilog.spend import Mark

    if only_new and (mark is None or not mark.exists()):
        raise CheckError("only_new", "given with a --mark that is there", str(mark))
    since = Mark.read(mark) if mark is not None and mark.exists() else None
    with to_read(ledger) as books:
        found = books.verify(since=since, only_new=only_new)
    if mark is not None:
        found.mark.write(mark)
    if as_json:
        return print_json(
            {
                "entries": found.count,
                "head": found.head,
                "since": found.since,
                "looked_back": found.looked_back,
                "charges_told": found.charges_told,
                "priced": found.priced,
                "unpriced": found.unpriced,
                "overridden": charges_to_json(found.overridden),
                "restored": list(found.restored),
                "partitions": list(found.partitions),
                "mark": None if mark is None else str(mark),
            }
        )
    rows = [("entries", str(found.count)), ("head", found.head), ("worked out", _worked_out(found))]
    figures(f"Ledger {shown(ledger)}", rows)
    for said in _said(found):
        note(said)
    return None


def _worked_out(found: Verified) -> str:
    if found.since == found.count:
        return "none: nothing is new"
    return f"{found.since + 1} to {found.count}"


def _said(found: Verified) -> list[str]:
    """What was not worked out, and what its owner has said."""
    said = []
    if found.since and found.looked_back:
        said.append(
            f"Entries 1 to {found.since} are, by their hashes, those that were worked out when the mark was made. "
            "Rules and prices up to there are the mark's word."
        )
    if not found.looked_back:
        said.append(
            f"Not looked at: what lies before entry {found.since}, what is stored of charges that nothing has happened "
            "to since, and the database as such. Without --only-new they are."
        )
    if found.charges_told and found.since and found.looked_back:
        said.append("All that is stored is what the entries amount to.")
    if not found.charges_told:
        said.append("What the server stores of charges is not told, and was not compared with the entries.")
    if found.unpriced:
        said.append(f"Of {found.priced + found.unpriced} charges {found.unpriced} could not be priced again.")
    if found.overridden:
        said.append(f"Priced by the owner's word, not by a proof: {format_charges(found.overridden)}")
    if found.partitions:
        said.append(f"Disjoint blocks by the owner's word, of which one was paid for: {', '.join(found.partitions)}")
    if found.restored:
        said.append(f"Restored from a backup, and what came after that is missing: entries {[*found.restored]}")
    return said
