"""`epsilog ledger cycles`: what many releases about the same people cost, cycle after cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.app import Json, ledger_app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, open_for_reading
from epsilog.cli.show import console, print_figures, print_notice, print_table


@ledger_app.command("cycles")
def cycles_command(
    scope: Annotated[str, typer.Argument(help="The budget that all of them are charged to, or fall under.")],
    plans: Annotated[
        list[Path] | None,
        typer.Option("--plan", help="A run folder, a plan or a report, which says N, name and period; again for more."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Reads epsilon off a zcdp, gdp or rdp budget, at this delta.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write them as Markdown, to this file.")
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what each release cycle under a budget cost, all up to it, and how much of that is in use.

    A cycle is the period that plans state, else the part of the scope under SCOPE, else one charge.

    What is decommissioned stays spent: only the lifetime counts against the cap.

    Example: epsilog ledger cycles acme/claims --plan runs/claims-q3-1a2b3c4d --plan runs/claims-q4-5e6f7a8b
    """
    from epsilog.ledger import read_cycles
    from epsilog.reports import list_cycle_rows, list_cycle_totals, read_plan_summaries, render_cycles

    with open_for_reading(ledger) as books:
        found = read_cycles(books, scope, plans=read_plan_summaries(plans or ()), delta=delta)
    if output is not None:
        output.write_text(render_cycles(found), encoding="utf-8")
    if as_json:
        return print_json(found.to_json())
    headings = ["cycle", "N", "models", "spent in it", "lifetime", "of that in use"]
    print_table(f"Release cycles of {scope}", headings, list_cycle_rows(found))
    print_figures("Budget", list_cycle_totals(found))
    for says in found.says:
        print_notice(says)
    if output is not None:
        console.print(f"wrote {output}", soft_wrap=True)
    return None
