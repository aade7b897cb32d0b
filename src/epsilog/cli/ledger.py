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
from epsilog.cli.show import console, figures, note, plain, table
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


def to_write(ledger: str) -> Ledger:
    """Opens a ledger that exists: only who makes a budget may make a ledger."""
    from epsilog.ledger import open_ledger

    return open_ledger(existing(ledger))


def to_read(ledger: str) -> LedgerView:
    """Opens a ledger that exists, to look at it."""
    from epsilog.ledger import read_ledger

    return read_ledger(existing(ledger))


def existing(ledger: str) -> str | Path:
    """A ledger that is there: only who makes a budget may make a ledger."""
    from epsilog.ledger import is_there, located

    where = located(ledger)
    if isinstance(where, Path):
        return existing_file(where)
    if not is_there(where):
        raise CheckError("ledger", "one that exists", shown(ledger))
    return where


def existing_file(ledger: Path) -> Path:
    """A ledger's path, if there is a file."""
    if not ledger.exists():
        raise CheckError("ledger", "a ledger file that exists", f"{ledger}")
    return ledger


def in_a_file(ledger: str) -> Path:
    """A ledger's path, where nothing but a file will do."""
    from epsilog.ledger import located

    where = located(ledger)
    if isinstance(where, Path):
        return where
    raise CheckError("ledger", "a file: a database or a server has tools of its own for this", shown(ledger))


def shown(ledger: str) -> str:
    """What a ledger is called where people read it: as it was given, and without a password."""
    from epsilog.ledger import located, without_password

    where = located(ledger)
    return ledger if isinstance(where, Path) else without_password(where)


@ledger_app.command("show")
def show(
    scope: SomeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    last: Annotated[int, typer.Option("--last", min=1, help="How many entries to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show budgets, balances and entries, after checking the whole chain.

    Example: epsilog ledger show demo/exams --ledger runs/ledger.db
    """
    with to_read(ledger) as books:
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
                "budgets": [told_budget(budget) for budget in balances],
                "history": [told_entry(entry) for entry in shown],
            }
        )
    else:
        rows = [[_named(b), b.kind, *map(money, (b.caps, b.spent, b.reserved, b.available))] for b in balances]
        table("Budgets", ["scope", "kind", "cap", "spent", "reserved", "available"], rows)
        several = len({entry.scope for entry in shown}) > 1
        lines = [_cells(entry, several=several) for entry in shown]
        table(f"Entries ({len(shown)} of {count})", ["no", "time (UTC)", "verb", "charge", "detail"], lines)
        for theorem in dict.fromkeys(b.theorem for b in balances):
            note(f"These sums may be compared with a cap because: {theorem}")
        if verified and verified.overridden:
            note(f"Priced by the owner's word, not by a proof: {format_charges(verified.overridden)}")
        if verified and verified.partitions:
            note(f"Disjoint blocks by the owner's word, of which one was paid for: {', '.join(verified.partitions)}")
        if verified and verified.restored:
            note(f"Restored from a backup, and what came after that is missing: entries {[*verified.restored]}")
        if verified:
            figures("Chain", [("entries", str(verified.count)), ("head", verified.head)])
        else:
            note(f"The ledger does not hold: {trouble}")
    if verified is None:
        raise typer.Exit(NOT_VERIFIED)


@ledger_app.command("fits")
def fits(
    scope: Annotated[str, typer.Argument(help="Where it is charged; every budget at or above it must bear it.")],
    release: Annotated[Path | None, typer.Option("--release", help="A JSON or TOML file holding the release.")] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="What approximate budgets are charged.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Say what a scope can still bear, and how many charges like one release; ends with 3 if not even one fits.

    Example: epsilog ledger fits acme/claims --release release.json --delta 1e-6
    """
    from epsilog.ledger import room_in_words

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


@ledger_app.command("history")
def history(
    scope: SomeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    after: Annotated[int, typer.Option("--after", min=0, help="Only entries of a higher number.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many; all if blank.")] = None,
    as_json: Json = False,
) -> None:
    """List entries, oldest first, as they are read: a long history needs neither time nor memory to begin.

    Example: epsilog ledger history acme/claims --after 100 --limit 20
    """
    with to_read(ledger) as books:
        told = islice(books.history(scope, after=after), limit)
        if as_json:
            return print_json([told_entry(entry) for entry in told])
        for entry in told:
            echo(_line(entry))
    return None


@ledger_app.command("watch")
def watch(
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
    with to_read(ledger) as books:
        seen, left = books.head()[0] if after is None else after, limit
        while left is None or left > 0:
            count, before = books.head()[0], left
            for entry in islice(books.history(scope, after=seen), left):
                echo(json.dumps(told_entry(entry), ensure_ascii=False) if as_json else _line(entry))
                left = None if left is None else left - 1
            seen = max(seen, count)
            if left == before:
                time.sleep(every)


@ledger_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="What to write: .csv, .jsonl or .parquet.")],
    scope: Annotated[str | None, typer.Option("--scope", help="Only what lies at and under it.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Write entries for other programs; a spreadsheet runs no formula in them.

    Example: epsilog ledger export entries.csv --scope acme/claims
    """
    from epsilog.ledger import export as written

    with to_read(ledger) as books:
        count = written(books.history(scope), file)
    if as_json:
        return print_json({"file": str(file), "entries": count})
    console.print(f"wrote {count} entries to {file}")
    return None


def told_budget(budget: Balance) -> dict[str, Any]:
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


def told_entry(entry: Entry) -> dict[str, Any]:
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


def _named(budget: Balance) -> str:
    kinds = {"simulation": budget.simulation, f"share of {budget.quota}": budget.quota, "retired": budget.retired}
    kinds["partition: cap of each block, paid for above"] = budget.partition
    marks = [name for name, holds in kinds.items() if holds]
    return plain(budget.scope) + (f" ({', '.join(marks)})" if marks else "")


def _cells(entry: Entry, *, several: bool) -> list[str]:
    """An entry in columns; a key belongs to its scope, which is told where there are ``several``."""
    charge = entry.scope if entry.key is None else f"{entry.key} at {entry.scope}" if several else entry.key
    return [str(entry.index), entry.time[:19], entry.verb.value, charge, _detail(entry.body)]


def _line(entry: Entry) -> str:
    """An entry in one line, its columns where those of the line before are."""
    index, at, verb, charge, detail = _cells(entry, several=True)
    costs = "; ".join(money(amount) for amount in entry.amounts.values())
    return f"{index:>7}  {at}  {verb:<16}  " + "  ".join(filter(None, (charge, costs, detail)))


def _newest(entries: Iterable[Entry], last: int) -> tuple[list[Entry], int]:
    """The last of many entries, and how many there are."""
    kept: deque[Entry] = deque(maxlen=min(last, sys.maxsize))
    count = 0
    for entry in entries:
        kept.append(entry)
        count += 1
    return list(kept), count


def money(amounts: Mapping[str, str]) -> str:
    """Amounts in one line."""
    return ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())


def _detail(body: Mapping[str, Any]) -> str:
    if "output_hash" in body:
        return f"round {body['round']} -> {body['output_hash'][:12]}..."
    if "round" in body:
        return f"round {body['round']}"
    caps = money(body["caps"]) if "caps" in body else ""
    caps += f" (for {money(body['promise'])})" if "promise" in body else ""
    plan = f"plan {body['plan_hash'][:12]}..." if "plan_hash" in body else ""
    said = plain(": ".join(filter(None, (body.get("by"), body.get("reason")))))
    return "; ".join(filter(None, (caps, plan, body.get("until"), said)))
