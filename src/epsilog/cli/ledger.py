"""`epsilog ledger ...`: look at the books; and what only their owner does: make a budget, allow a price."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.account import read_release
from epsilog.cli.app import NOT_VERIFIED, Json, Relation, ledger_app, print_json
from epsilog.cli.show import console, figures, note, table
from epsilog.terms import CheckError, LedgerIntegrityError, NeighboringRelation

if TYPE_CHECKING:
    from epsilog.spend import Entry

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
        raise CheckError("ledger", "a ledger file that exists", f"{ledger}")
    with read_ledger(ledger) as books:
        try:
            verified, trouble = books.verify(), ""
        except LedgerIntegrityError as error:
            verified, trouble = None, str(error)
        balances = [b for b in books.budgets() if scope is None or b.scope == scope or b.scope.startswith(scope + "/")]
        shown, count = _newest(books.history(scope) if verified else (), last)
        if verified and scope is not None and not (balances or count):
            known = ", ".join(repr(b.scope) for b in books.budgets()[:5]) or "none"
            raise CheckError("scope", f"one that this ledger has a budget for (it has {known})", repr(scope))
    if as_json:
        print_json(
            {
                "sound": verified is not None,
                "trouble": trouble,
                "entries": verified.count if verified else None,
                "head": verified.head if verified else None,
                "overridden": list(verified.overridden) if verified else None,
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
        table(f"Entries ({len(shown)} of {count})", ["no", "time (UTC)", "verb", "charge", "detail"], lines)
        for theorem in dict.fromkeys(b.theorem for b in balances):
            note(f"These sums may be compared with a cap because: {theorem}")
        if verified and verified.overridden:
            note(f"Priced by the owner's word, not by a proof: {', '.join(verified.overridden)}")
        if verified:
            figures("Chain", [("entries", str(verified.count)), ("head", verified.head)])
        else:
            note(f"The ledger does not hold: {trouble}")
    if verified is None:
        raise typer.Exit(NOT_VERIFIED)


@ledger_app.command("create")
def create(
    scope: Annotated[str, typer.Argument(help="Names joined by '/'; charges fall under every budget above them.")],
    kind: Annotated[str, typer.Option("--kind", help="pure, approximate, zcdp or gdp.")],
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Cap, a decimal number.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="Cap of an approximate budget.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Cap of a zcdp budget.")] = None,
    mu_squared: Annotated[str | None, typer.Option("--mu-squared", help="Cap of a gdp budget.")] = None,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[
        str | None, typer.Option("--privacy-unit", help="What one neighbour differs in; unsaid if blank.")
    ] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="Takes charges of simulations only.")] = False,
    quota: Annotated[
        bool, typer.Option("--quota", help="A share of the budget above, set aside: others there cannot use it.")
    ] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Make a budget, once: an act of its owner. Makes the ledger too if there is none.

    Example: epsilog ledger create acme/claims --kind approximate --epsilon 3 --delta 1e-5
    """
    from epsilog.spend import open_ledger

    given = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu_squared": mu_squared}
    caps = {quantity: cap for quantity, cap in given.items() if cap is not None}
    with open_ledger(ledger) as books:
        made = books.create_budget(
            scope,
            kind=kind,
            relation=relation,
            privacy_unit=privacy_unit,
            simulation=simulation,
            quota=quota,
            **caps,
        )
    if as_json:
        return print_json({"scope": made.scope, "kind": made.kind, "caps": dict(made.caps), "ledger": str(ledger)})
    console.print(f"{made.scope} in {ledger}: {_money(made.caps)} ({made.kind})")
    return None


@ledger_app.command("override")
def override(
    scope: Annotated[str, typer.Argument(help="Where it will be charged.")],
    key: Annotated[str, typer.Option("--key", help="Of the one charge that is allowed.")],
    release: Annotated[Path, typer.Option("--release", help="A JSON or TOML file holding the release.")],
    amount: Annotated[list[str], typer.Option("--amount", help="QUANTITY=NUMBER, once for each quantity.")],
    reason: Annotated[str, typer.Option("--reason", help="Why this amount is right; kept for ever.")],
    rounds: Annotated[int | None, typer.Option("--rounds", help="The most rounds it may run.")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="It is no release of real data.")] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Allow one charge at a price that the accountant does not prove: an act of the budget's owner.

    Example: epsilog ledger override acme/claims --key v-1 --release r.json --amount epsilon=0.5 --reason "proof 12"
    """
    from epsilog.spend import open_ledger

    if not ledger.exists():
        raise CheckError("ledger", "a ledger file that exists", f"{ledger}")
    if not all("=" in part for part in amount):
        raise CheckError("amount", "QUANTITY=NUMBER", f"{' '.join(amount)}")
    amounts = dict(part.split("=", 1) for part in amount)
    term = read_release(release)
    with open_ledger(ledger) as books:
        books.override_price(scope, term, key=key, amount=amounts, reason=reason, rounds=rounds, simulation=simulation)
    console.print(f"{scope}: one charge {key} may be booked at {', '.join(amount)}")


def _newest(entries: Iterable[Entry], last: int) -> tuple[list[Entry], int]:
    """The last of many entries, and how many there are."""
    kept: deque[Entry] = deque(maxlen=last)
    count = 0
    for entry in entries:
        kept.append(entry)
        count += 1
    return list(kept), count


def _money(amounts: object) -> str:
    return ", ".join(f"{quantity} {amount}" for quantity, amount in dict(amounts).items())  # type: ignore[call-overload]


def _detail(body: object) -> str:
    fields = dict(body)  # type: ignore[call-overload]
    if "output_hash" in fields:
        return f"round {fields['round']} -> {fields['output_hash'][:12]}..."
    if "round" in fields:
        return f"round {fields['round']}"
    return str(fields.get("reason", ""))
