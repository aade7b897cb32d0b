"""`epsilog study`: what schemes and budgets do to a model, and what attacks get out of it, in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.app import GOES_ON, Json, app, on_stop, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER
from epsilog.cli.show import console, print_notice, print_table


@app.command("study")
def study_command(
    path: Annotated[Path, typer.Argument(help="The study's file (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where studies and runs lie.")] = Path("runs"),
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="Holds the protocol's hash from before the first run.")
    ] = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Measure utility and what attackers get over schemes, budgets and seeds; nobody's privacy is spent.

    A study that was killed goes on behind the last attack that it finished.

    Example: epsilog study examples/studies/schools.toml
    """
    from epsilog import study as studies
    from epsilog.ledger import parse_address

    whole = studies.load_study(path)
    on_stop(GOES_ON)
    document = studies.run_study(
        whole,
        folder=runs,
        ledger=parse_address(ledger),
        tell=(lambda _: None) if as_json else lambda says: console.print(f"{says} ..."),
    )
    if as_json:
        return print_json(document)
    for one in studies.read_tables(document):
        print_table(f"{whole.name}: {one.title}", list(one.headings), [list(row) for row in one.rows])
    for line in document["found"]:
        print_notice(line)
    return None
