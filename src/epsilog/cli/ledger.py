"""`epsilog ledger show`, `history`, `watch` and `export`: look at the books, and take them along."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.account import read_release
from epsilog.cli.app import NOT_VERIFIED, REFUSED, Json, echo, ledger_app, print_json
from epsilog.cli.show import console, escape_control_characters, print_figures, print_notice, print_table
from epsilog.terms import CheckError, LedgerIntegrityError

if TYPE_CHECKING:
    from epsilog.ledger import Balance, Entry, Ledger, LedgerView

LedgerFile = Annotated[
    str, typer.Option("--ledger", "-l", help="The ledger: a file, postgresql://...?ledger=NAME, or https://HOST.")
]
DEFAULT_LEDGER = "runs/ledger.db"
By = Annotated[str, typer.Option("--by", help="Who decides; kept for ever.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept for ever.")]
At = Annotated[str | None, typer.Option("--scope", help="The charge's scope; required if several scopes have the key.")]
SomeScope = Annotated[str | None, typer.Argument(help="Only what lies at and under this scope.")]


def open_for_writing(ledger: str) -> Ledger:
    """Opens a ledger that exists: only who makes a budget may make a ledger."""
    from epsilog.ledger import open_ledger

    return open_ledger(require_ledger(ledger))


def open_for_reading(ledger: str) -> LedgerView:
    """Opens a ledger that exists, to look at it."""
    from epsilog.ledger import read_ledger

    return read_ledger(require_ledger(ledger))


def require_ledger(ledger: str) -> str | Path:
    """A ledger that is there: only who makes a budget may make a ledger."""
    from epsilog.ledger import ledger_exists, parse_address

    where = parse_address(ledger)
    if isinstance(where, Path):
        return require_ledger_file(where)
    if not ledger_exists(where):
        raise CheckError("ledger", "one that exists", redact_address(ledger))
    return where


def require_ledger_file(ledger: Path) -> Path:
    """A ledger's path, if there is a file."""
    if not ledger.exists():
        raise CheckError("ledger", "a ledger file that exists", f"{ledger}")
    return ledger


def require_file_ledger(ledger: str) -> Path:
    """A ledger's path, where nothing but a file will do."""
    from epsilog.ledger import parse_address

    where = parse_address(ledger)
    if isinstance(where, Path):
        return where
    raise CheckError("ledger", "a file: a database or a server has tools of its own for this", redact_address(ledger))


def redact_address(ledger: str) -> str:
    """What a ledger is called where people read it: as it was given, and without a password."""
    from epsilog.ledger import parse_address, redact_password

    where = parse_address(ledger)
    return ledger if isinstance(where, Path) else redact_password(where)


@ledger_app.command("show")
def show_command(
    scope: SomeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    last: Annotated[int, typer.Option("--last", min=1, help="How many entries to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show budgets, balances and entries, after checking the whole chain.

    Example: epsilog ledger show demo/exams --ledger runs/ledger.db
    """
    with open_for_reading(ledger) as books:
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
                "overridden": charges_to_json(verified.overridden) if verified else None,
                "restored": list(verified.restored) if verified else None,
                "partitions": list(verified.partitions) if verified else None,
                "budgets": [budget_to_json(budget) for budget in balances],
                "history": [entry_to_json(entry) for entry in shown],
            }
        )
    else:
        rows = [
            [_format_budget(b), b.kind, *map(format_amounts, (b.caps, b.spent, b.reserved, b.available))]
            for b in balances
        ]
        print_table("Budgets", ["scope", "kind", "cap", "spent", "reserved", "available"], rows)
        several = len({entry.scope for entry in shown}) > 1
        lines = [_cells(entry, several=several) for entry in shown]
        print_table(f"Entries ({len(shown)} of {count})", ["no", "time (UTC)", "verb", "charge", "detail"], lines)
        for theorem in dict.fromkeys(b.theorem for b in balances):
            print_notice(f"These sums may be compared with a cap because: {theorem}")
        if verified and verified.overridden:
            print_notice(f"Priced by the owner's word, not by a proof: {format_charges(verified.overridden)}")
        if verified and verified.partitions:
            print_notice(
                f"Disjoint blocks by the owner's word, of which one was paid for: {', '.join(verified.partitions)}"
            )
        if verified and verified.restored:
            print_notice(f"Restored from a backup, and what came after that is missing: entries {[*verified.restored]}")
        if verified:
            print_figures("Chain", [("entries", str(verified.count)), ("head", verified.head)])
        else:
            print_notice(f"The ledger does not hold: {trouble}")
    if verified is None:
        raise typer.Exit(NOT_VERIFIED)


@ledger_app.command("fits")
def headroom_command(
    scope: Annotated[str, typer.Argument(help="Where it is charged; every budget at or above it must bear it.")],
    release: Annotated[Path | None, typer.Option("--release", help="A JSON or TOML file holding the release.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="What approximate budgets are charged.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Say what a scope can still bear, and how many charges like one release; ends with 3 if not even one fits.

    Example: epsilog ledger fits acme/claims --release release.json --delta 1e-6
    """
    from epsilog.ledger import format_headroom

    term = None if release is None else read_release(release)
    with open_for_reading(ledger) as books:
        found, path = books.what_fits(scope, term, delta=delta), books.budgets_above(scope)
    if as_json:
        told = {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}
        print_json({"scope": scope, **told, "budgets": [budget_to_json(budget) for budget in path]})
    else:
        rows = [[b.scope, *map(format_amounts, (b.caps, b.spent, b.reserved, b.available))] for b in path]
        print_table("Budgets on the path", ["scope", "cap", "spent", "reserved", "available"], rows)
        counts = {"charges like it": found.charges, "repetitions as one plan": found.repetitions}
        told_counts = [(name, str(count)) for name, count in counts.items() if count is not None]
        print_figures(f"{scope} can bear", [("at most", format_headroom(path)), *told_counts])
        if any(budget.retired is not None for budget in path):
            print_notice("The scope is retired: nothing is charged here any more.")
    if term is not None and found.charges == 0:
        raise typer.Exit(REFUSED)


@ledger_app.command("history")
def history_command(
    scope: SomeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    after: Annotated[int, typer.Option("--after", min=0, help="Only entries of a higher number.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many; all if blank.")] = None,
    as_json: Json = False,
) -> None:
    """List entries, oldest first, as they are read: a long history needs neither time nor memory to begin.

    Example: epsilog ledger history acme/claims --after 100 --limit 20
    """
    with open_for_reading(ledger) as books:
        told = islice(books.history(scope, after=after), limit)
        if as_json:
            return print_json([entry_to_json(entry) for entry in told])
        for entry in told:
            echo(_line(entry))
    return None


@ledger_app.command("watch")
def watch_command(
    scope: SomeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Begin after this entry; after the newest if blank.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many; never if blank.")] = None,
    every: Annotated[float, typer.Option("--every", min=0.05, help="Seconds between two looks.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line.")] = False,
) -> None:
    """Show entries as they are written, until Ctrl-C.

    Example: epsilog ledger watch acme/claims
    """
    with open_for_reading(ledger) as books:
        seen, left = books.head()[0] if after is None else after, limit
        while left is None or left > 0:
            count, before = books.head()[0], left
            for entry in islice(books.history(scope, after=seen), left):
                echo(json.dumps(entry_to_json(entry), ensure_ascii=False) if as_json else _line(entry))
                left = None if left is None else left - 1
            seen = max(seen, count)
            if left == before:
                time.sleep(every)


@ledger_app.command("export")
def export_command(
    file: Annotated[Path, typer.Argument(help="What to write: .csv, .jsonl or .parquet.")],
    scope: Annotated[str | None, typer.Option("--scope", help="Only what lies at and under it.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Write entries for other programs; a spreadsheet runs no formula in them.

    Example: epsilog ledger export entries.csv --scope acme/claims
    """
    from epsilog.ledger import export_entries as written

    with open_for_reading(ledger) as books:
        count = written(books.history(scope), file)
    if as_json:
        return print_json({"file": str(file), "entries": count})
    console.print(f"wrote {count} entries to {file}")
    return None


def budget_to_json(budget: Balance) -> dict[str, Any]:
    """A budget as plain JSON values."""
    sums = ("caps", "reserved", "spent", "active", "available", "set_aside")
    told = {name: None if (sum_ := getattr(budget, name)) is None else dict(sum_) for name in sums}
    return {
        "scope": budget.scope,
        "kind": budget.kind,
        "relation": budget.relation.value,
        "privacy_unit": budget.privacy_unit,
        "simulation": budget.simulation,
        "quota": budget.quota,
        "retired": budget.retired,
        "partition": budget.partition,
        "promise": budget.promise and dict(budget.promise),
        **told,
        "theorem": budget.theorem,
    }


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as plain JSON values."""
    return {
        "index": entry.index,
        "time": entry.time,
        "verb": entry.verb.value,
        "scope": entry.scope,
        "key": entry.key,
        "amounts": {kind: dict(amount) for kind, amount in entry.amounts.items()},
        "body": dict(entry.body),
    }


def charges_to_json(charges: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the scope and key of each charge as plain JSON values."""
    return [{"scope": scope, "key": key} for scope, key in charges]


def format_charges(charges: Iterable[tuple[str, str]]) -> str:
    """Return the key and scope of each charge in one line of text."""
    return ", ".join(f"{key} at {scope}" for scope, key in charges)


def _format_budget(budget: Balance) -> str:
    kinds = {"simulation": budget.simulation, f"share of {budget.quota}": budget.quota, "retired": budget.retired}
    kinds["partition: cap of each block, paid for above"] = budget.partition
    marks = [name for name, holds in kinds.items() if holds]
    return escape_control_characters(budget.scope) + (f" ({', '.join(marks)})" if marks else "")


def _cells(entry: Entry, *, several: bool) -> list[str]:
    """An entry in columns; a key belongs to its scope, which is told where there are ``several``."""
    charge = entry.scope if entry.key is None else f"{entry.key} at {entry.scope}" if several else entry.key
    return [str(entry.index), entry.time[:19], entry.verb.value, charge, _detail(entry.body)]


def _line(entry: Entry) -> str:
    """An entry in one line, its columns where those of the line before are."""
    index, at, verb, charge, detail = _cells(entry, several=True)
    costs = "; ".join(format_amounts(amount) for amount in entry.amounts.values())
    return f"{index:>7}  {at}  {verb:<16}  " + "  ".join(filter(None, (charge, costs, detail)))


def _newest(entries: Iterable[Entry], last: int) -> tuple[list[Entry], int]:
    """The last of many entries, and how many there are."""
    kept: deque[Entry] = deque(maxlen=min(last, sys.maxsize))
    count = 0
    for entry in entries:
        kept.append(entry)
        count += 1
    return list(kept), count


def format_amounts(amounts: Mapping[str, str]) -> str:
    """Amounts in one line."""
    return ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())


def _detail(body: Mapping[str, Any]) -> str:
    if "output_hash" in body:
        return f"round {body['round']} -> {body['output_hash'][:12]}..."
    if "round" in body:
        return f"round {body['round']}"
    caps = format_amounts(body["caps"]) if "caps" in body else ""
    caps += f" (for {format_amounts(body['promise'])})" if "promise" in body else ""
    plan = f"plan {body['plan_hash'][:12]}..." if "plan_hash" in body else ""
    said = escape_control_characters(": ".join(filter(None, (body.get("by"), body.get("reason")))))
    return "; ".join(filter(None, (caps, plan, body.get("until"), said)))
