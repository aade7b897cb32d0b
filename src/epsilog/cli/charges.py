"""`epsilog ledger fits`, `reserve`, `start`, `commit`, `cancel` and what else spenders do."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.account import read_release
from epsilog.cli.app import REFUSED, Json, ledger_app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, money, to_read, to_write, told_budget
from epsilog.cli.owners import At, Key, read_amounts, tell_charge
from epsilog.cli.show import figures, note, table
from epsilog.terms import CheckError

Where = Annotated[str, typer.Argument(help="Where it is charged; every budget at or above it must bear it.")]
ReleaseFile = Annotated[Path, typer.Option("--release", help="A JSON or TOML file holding the release.")]


@ledger_app.command("fits")
def fits(
    scope: Where,
    release: Annotated[Path | None, typer.Option("--release", help="A JSON or TOML file holding the release.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="What approximate budgets are charged.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Say what a scope can still bear, and how many charges like one release; ends with 3 if not even one fits.

    Example: epsilog ledger fits acme/claims --release release.json --delta 1e-6
    """
    from epsilog.spend import room_in_words

    term = None if release is None else read_release(release)
    with to_read(ledger) as books:
        found, path = books.what_fits(scope, term, delta=delta), books.budgets_above(scope)
    if as_json:
        told = {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}
        print_json({"scope": scope, **told, "budgets": [told_budget(budget) for budget in path]})
    else:
        rows = [[b.scope, *map(money, (b.caps, b.spent, b.reserved, b.available))] for b in path]
        table("Budgets on the path", ["scope", "cap", "spent", "reserved", "available"], rows)
        counts = {"charges like it": found.charges, "repetitions as one plan": found.repetitions}
        told_counts = [(name, str(count)) for name, count in counts.items() if count is not None]
        figures(f"{scope} can bear", [("at most", room_in_words(path)), *told_counts])
        if any(budget.retired is not None for budget in path):
            note("The scope is retired: nothing is charged here any more.")
    if term is not None and found.charges == 0:
        raise typer.Exit(REFUSED)


@ledger_app.command("register")
def register(
    scope: Where,
    plan_hash: Annotated[str, typer.Argument(help="SHA-256 of the plan.")],
    key: Annotated[str, typer.Option("--key", help="Of the charge that will pay for it.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Note a plan before anything is reserved for it: its key in this scope is then for this plan alone.

    Example: epsilog ledger register acme/claims $(sha256sum plan.json | cut -c-64) --key run-17
    """
    with to_write(ledger) as books:
        books.register_plan(scope, plan_hash, key=key)
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("reserve")
def reserve(
    scope: Where,
    key: Annotated[str, typer.Option("--key", help="The same scope, key and request give the same charge.")],
    release: ReleaseFile,
    delta: Annotated[str | None, typer.Option("--delta", help="What approximate budgets are charged.")] = None,
    amount: Annotated[
        list[str] | None, typer.Option("--amount", help="A price of one's own: QUANTITY=NUMBER, once for each.")
    ] = None,
    plan_hash: Annotated[str | None, typer.Option("--plan-hash", help="SHA-256 of the plan.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="The most rounds it may run.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="When anybody may give it back: 2026-05-01T12:00:00+00:00.")
    ] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="It is no release of real data.")] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Promise the price of a release; nothing is spent before its start.

    Example: epsilog ledger reserve acme/claims --key run-17 --release release.json --delta 1e-6
    """
    term = read_release(release)
    with to_write(ledger) as books:
        charge = books.reserve(
            scope,
            term,
            key=key,
            delta=delta,
            amount=read_amounts(amount) if amount else None,
            plan_hash=plan_hash,
            rounds=rounds,
            simulation=simulation,
            until=None if until is None else _moment(until),
        )
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json, replayed=charge.replayed)


@ledger_app.command("start")
def start(key: Key, scope: At = None, ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False) -> None:
    """Spend a reservation, for ever: before data is first touched, and once.

    Example: epsilog ledger start run-17
    """
    from epsilog.spend import commands

    with to_write(ledger) as books:
        books.execute(commands.Start(key=key, scope=scope))
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("commit")
def commit(
    key: Key,
    evidence: Annotated[
        list[Path] | None, typer.Option("--evidence", help="A file whose SHA-256 is kept under its name; or several.")
    ] = None,
    scope: At = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Close a charge that has started, with the hashes of its evidence.

    Example: epsilog ledger commit run-17 --evidence rounds.jsonl
    """
    from epsilog.spend import commands

    with to_write(ledger) as books:
        books.execute(commands.Commit(key=key, scope=scope, evidence=_hashes(evidence or [])))
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("cancel")
def cancel(
    key: Key,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept for ever.")],
    scope: At = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Give one's own reservation back, before its start.

    Example: epsilog ledger cancel run-17 --reason "not needed"
    """
    from epsilog.spend import commands

    with to_write(ledger) as books:
        books.execute(commands.Cancel(key=key, scope=scope, reason=reason))
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("expire")
def expire(key: Key, scope: At = None, ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False) -> None:
    """Give back a reservation whose time is over and that has not started.

    Example: epsilog ledger expire run-17
    """
    with to_write(ledger) as books:
        books.expire(key, scope=scope)
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise CheckError("until", "a time such as 2026-05-01T12:00:00+00:00", repr(text)) from None


def _hashes(files: list[Path]) -> dict[str, str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise CheckError("evidence", "files of different names", ", ".join(names))
    found = {}
    for file in files:
        with file.open("rb") as opened:
            found[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found
