"""`epsilog study`: what schemes and budgets do to a model, and what attacks get out of it, in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.app import Json, app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER
from epsilog.cli.show import console, note, table


@app.command("study")
def study(
    path: Annotated[Path, typer.Argument(help="The study's file (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where studies and runs lie.")] = Path("runs"),
    ledger: Annotated[
        Path, typer.Option("--ledger", "-l", help="Holds the protocol's hash from before the first run.")
    ] = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Measure utility, backdoors and membership over schemes, budgets and seeds; nobody's privacy is spent.

    Example: epsilog study examples/studies/schools.toml
    """
    from epsilog import study as studies

    whole = studies.load(path)
    document = studies.study(
        whole,
        folder=runs,
        ledger=ledger,
        tell=(lambda _: None) if as_json else lambda says: console.print(f"{says} ..."),
    )
    if as_json:
        return print_json(document)
    table(whole.name, list(studies.HEADINGS), studies.rows(document))
    for line in document["found"]:
        note(line)
    return None
