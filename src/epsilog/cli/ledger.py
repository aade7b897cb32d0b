"""`epsilog ledger ...`: look at the books."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.app import NOT_VERIFIED, Json, ledger_app, print_json
from epsilog.cli.show import figures, note, table
from epsilog.terms import LedgerIntegrityError

LedgerFile = Annotated[Path, typer.Option("--ledger", "-l", help="The SQLite ledger.")]
DEFAULT_LEDGER = Path("runs/ledger.db")


@ledger_app.command("show")
def show(
    scope: Annotated[str | None, typer.Argument(help="Only what lies at and under this scope.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    last: Annotated[int, typer.Option("--last", min=1, help="How many entries to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show budgets, balances and entries, after checking the whole chain.

    Example: epsilog ledger show demo/exams --ledger runs/ledger.db
    """
    from epsilog.spend import read_ledger

    if not ledger.exists():
        raise ValueError(f"ledger must be a ledger file that exists, got {ledger}")
    with read_ledger(ledger) as books:
        try:
            verified, trouble = books.verify(), ""
        except LedgerIntegrityError as error:
            verified, trouble = None, str(error)
        balances = [b for b in books.budgets() if scope is None or b.scope == scope or b.scope.startswith(scope + "/")]
        entries = books.history(scope) if verified else []
    shown = entries[-last:]
    if as_json:
        print_json(
            {
                "sound": verified is not None,
                "trouble": trouble,
                "entries": verified.count if verified else None,
                "head": verified.head if verified else None,
                "budgets": [
                    {
                        "scope": b.scope,
                        "kind": b.kind,
                        "relation": b.relation.value,
                        "privacy_unit": b.privacy_unit,
                        "simulation": b.simulation,
                        "caps": dict(b.caps),
                        "reserved": dict(b.reserved),
                        "spent": dict(b.spent),
                        "available": dict(b.available),
                        "theorem": b.theorem,
                    }
                    for b in balances
                ],
                "history": [
                    {
                        "index": e.index,
                        "time": e.time,
                        "verb": e.verb.value,
                        "scope": e.scope,
                        "key": e.key,
                        "amounts": {kind: dict(amount) for kind, amount in e.amounts.items()},
                        "body": dict(e.body),
                    }
                    for e in shown
                ],
            }
        )
    else:
        rows = [
            [
                b.scope + (" (simulation)" if b.simulation else ""),
                b.kind,
                *map(_money, (b.caps, b.spent, b.reserved, b.available)),
            ]
            for b in balances
        ]
        table("Budgets", ["scope", "kind", "cap", "spent", "reserved", "available"], rows)
        lines = [[str(e.index), e.time[:19], e.verb.value, e.key or e.scope, _detail(e.body)] for e in shown]
        table(f"Entries ({len(shown)} of {len(entries)})", ["no", "time (UTC)", "verb", "charge", "detail"], lines)
        for theorem in dict.fromkeys(b.theorem for b in balances):
            note(f"These sums may be compared with a cap because: {theorem}")
        if verified:
            figures("Chain", [("entries", str(verified.count)), ("head", verified.head)])
        else:
            note(f"The ledger does not hold: {trouble}")
    if verified is None:
        raise typer.Exit(NOT_VERIFIED)


def _money(amounts: object) -> str:
    return ", ".join(f"{quantity} {amount}" for quantity, amount in dict(amounts).items())  # type: ignore[call-overload]


def _detail(body: object) -> str:
    fields = dict(body)  # type: ignore[call-overload]
    if "output_hash" in fields:
        return f"round {fields['round']} -> {fields['output_hash'][:12]}..."
    if "round" in fields:
        return f"round {fields['round']}"
    return str(fields.get("reason", ""))
