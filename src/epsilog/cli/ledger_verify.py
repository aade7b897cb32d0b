"""`epsilog ledger verify`: work a ledger out again, and hold it against a signed checkpoint that was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, ledger_app, print_json
from epsilog.cli.ledger import (
    DEFAULT_LEDGER,
    LedgerFile,
    charges_to_json,
    format_charges,
    open_for_reading,
    redact_address,
)
from epsilog.cli.show import print_figures, print_notice
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.ledger import LedgerVerification


@ledger_app.command("verify")
def verify(
    ledger: LedgerFile = DEFAULT_LEDGER,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            help="A signed checkpoint that you kept: the ledger must begin with its entries. What they charged is not "
            "priced again, on the word of who signed it.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="Whose signature it must bear: the public line NAME+ID+KEY, or a file of it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Work a ledger out again: every hash, rule, balance and price.

    Exit code 4: it does not hold. For all else see `epsilog verify`.

    Example: epsilog ledger verify --ledger runs/ledger.db --since checkpoint.txt --key privacy.pub
    """
    from epsilog.cli.proving import verifier_key
    from epsilog.verification import read_checkpoint

    if since is None and key:
        raise CheckError("key", "absent without --since", "given")
    kept = None if since is None else read_checkpoint(since)
    with open_for_reading(ledger) as books:
        found = books.verify(since=kept, keys=[verifier_key(one) for one in key or ()])
    if as_json:
        return print_json(
            {
                "entries": found.count,
                "head": found.head,
                "since": found.since,
                "charges_told": found.charges_told,
                "priced": found.priced,
                "unpriced": found.unpriced,
                "overridden": charges_to_json(found.overridden),
                "restored": list(found.restored),
                "partitions": list(found.partitions),
            }
        )
    print_figures(f"Ledger {redact_address(ledger)}", [("entries", str(found.count)), ("head", found.head)])
    for said in _list_notes(found):
        print_notice(said)
    return None


def _list_notes(found: LedgerVerification) -> list[str]:
    """What was not worked out, and what its owner has said."""
    said = []
    if found.since:
        said.append(
            f"It begins with the {found.since} entries of the checkpoint. Not looked at: the prices of what they "
            "charged, which are its signer's word. Every hash, rule and balance was worked out again."
        )
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
