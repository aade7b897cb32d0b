"""`epsilog ledger`: the commands that only read."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import (
    NOT_VERIFIED,
    REFUSED,
    Json,
    echo,
    is_standard,
    ledger_app,
    print_json,
    read_release,
    rename_field,
    write_output,
)
from epsilog.cli.ledger_rows import (
    budget_to_json,
    charges_to_json,
    entry_to_json,
    format_entry,
    format_scope,
    format_sums,
    list_attested,
    list_cells,
    list_pending_cells,
    list_unchecked,
)
from epsilog.cli.show import print_figures, print_notice, print_table, write
from epsilog.terms import CheckError, LedgerIntegrityError, StorageError
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from epsilog.ledger import Entry, Ledger, LedgerVerification, LedgerView

LEDGER_OPTION = typer.Option("--ledger", "-l", help="The ledger: a file, postgresql://...?ledger=NAME or https://HOST.")
LedgerFile = Annotated[str, LEDGER_OPTION]
DEFAULT_LEDGER = "runs/ledger.db"
ChargeScope = Annotated[
    str | None, typer.Option("--scope", help="The charge's scope; required if several scopes have the key.")
]
ScopeFilter = Annotated[str | None, typer.Argument(help="Show only this scope and those under it.")]


def open_for_writing(ledger: str) -> Ledger:
    """Open a ledger that exists."""
    from epsilog.ledger import open_ledger

    return open_ledger(require_ledger(ledger))


def open_for_reading(ledger: str) -> LedgerView:
    """Open a ledger that exists, to read it."""
    from epsilog.ledger import read_ledger

    return read_ledger(require_ledger(ledger))


def require_ledger(ledger: str) -> str | Path:
    """Return the address of a ledger that exists."""
    from epsilog.ledger import ledger_exists, parse_address

    where = parse_address(ledger)
    if isinstance(where, Path):
        return require_ledger_file(where)
    if not ledger_exists(where):
        raise CheckError("ledger", "one that exists", redact_address(ledger))
    return where


def require_ledger_file(ledger: Path) -> Path:
    """Return the path of a ledger that is an existing file."""
    if not ledger.exists():
        raise CheckError("ledger", "a ledger file that exists", f"{ledger}")
    return ledger


def require_file_ledger(ledger: str) -> Path:
    """Return the path of a ledger that must be a file."""
    from epsilog.ledger import parse_address

    where = parse_address(ledger)
    if isinstance(where, Path):
        return where
    raise CheckError("ledger", "a file; a database or a server has its own tools for this", redact_address(ledger))


def redact_address(ledger: str) -> str:
    """Return the address of a ledger without its password."""
    from epsilog.ledger import parse_address
    from epsilog.ledger.factory import redact_password

    where = parse_address(ledger)
    return ledger if isinstance(where, Path) else redact_password(where)


@ledger_app.command("show")
def show_command(
    scope: ScopeFilter = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    lines: Annotated[int, typer.Option(min=1, help="Number of entries to show, the newest.")] = 20,
    as_json: Json = False,
) -> None:
    """Show budgets, balances and entries of a verified ledger.

    Example: epsilog ledger show demo/exams --ledger runs/ledger.db
    """
    with open_for_reading(ledger) as books:
        try:
            verified, trouble = books.verify(), ""
        except LedgerIntegrityError as error:
            verified, trouble = None, str(error)
        balances = [b for b in books.budgets() if scope is None or b.scope == scope or b.scope.startswith(scope + "/")]
        entries, count = _take_last(books.history(scope) if verified else (), lines)
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
                "history": [entry_to_json(entry) for entry in entries],
            }
        )
    else:
        rows = [[format_scope(b), b.kind, *format_sums(b)] for b in balances]
        print_table("Budgets", ["scope", "kind", "cap", "spent", "reserved", "available"], rows)
        several = len({entry.scope for entry in entries}) > 1
        cells = [list_cells(entry, several=several) for entry in entries]
        print_table(f"Entries ({len(entries)} of {count})", ["no", "time (UTC)", "verb", "charge", "detail"], cells)
        for theorem in dict.fromkeys(b.theorem for b in balances):
            print_notice(f"These sums may be compared with a cap because: {theorem}")
        if verified:
            for note in list_attested(verified):
                print_notice(note)
            print_figures("Chain", [("entries", str(verified.count)), ("head", verified.head)])
        else:
            print_notice(f"The ledger does not verify: {trouble}")
    if verified is None:
        raise typer.Exit(NOT_VERIFIED)


@ledger_app.command("headroom")
def headroom_command(
    scope: Annotated[str, typer.Argument(help="Scope to charge; every budget at or above it is charged.")],
    release: Annotated[
        Path | None, typer.Option(help="The release, as a JSON or TOML file; - for standard input.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="Delta that approximate budgets are charged.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show what is available at a scope, and what fits.

    Exit code 3: not even one charge fits.

    Example: epsilog ledger headroom acme/claims --release release.json --delta 1e-6
    """
    from epsilog.ledger.headroom import format_headroom

    term = None if release is None else read_release(release, "release")
    with open_for_reading(ledger) as books:
        found, path = books.get_headroom(scope, term, delta=delta), books.budgets_above(scope)
    if as_json:
        headroom = {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}
        print_json({"scope": scope, **headroom, "budgets": [budget_to_json(budget) for budget in path]})
    else:
        rows = [[b.scope, *format_sums(b)] for b in path]
        print_table("Budgets on the path", ["scope", "cap", "spent", "reserved", "available"], rows)
        counts = {"charges like it": found.charges, "repetitions as one plan": found.repetitions}
        known = [(name, str(count)) for name, count in counts.items() if count is not None]
        print_figures(f"Available at {scope}", [("at most", format_headroom(path)), *known])
        if any(budget.retired is not None for budget in path):
            print_notice("The scope is retired and accepts no further charge.")
    if term is not None and found.charges == 0:
        raise typer.Exit(REFUSED)


@ledger_app.command("pending")
def pending_command(
    scope: ScopeFilter = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """List the reservations and caps that wait for the approval of owners.

    Example: epsilog ledger pending acme
    """
    with open_for_reading(ledger) as books:
        found = books.list_pending_approvals(scope)
    if as_json:
        print_json([one.to_json() for one in found])
        return
    if found:
        headings = ["scope", "key", "release", "amount", "approved", "reserved by", "until"]
        print_table("Waiting for approval", headings, [list_pending_cells(one) for one in found])
    else:
        print_notice("Nothing waits for approval.")


@ledger_app.command("history")
def history_command(
    scope: ScopeFilter = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    after: Annotated[int, typer.Option(min=0, help="Only entries with a higher number.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of entries; if omitted: all.")] = None,
    as_json: Json = False,
) -> None:
    """List entries, oldest first, as they are read.

    Example: epsilog ledger history acme/claims --after 100 --limit 20
    """
    with open_for_reading(ledger) as books:
        entries = islice(books.history(scope, after=after), limit)
        if as_json:
            return print_json([entry_to_json(entry) for entry in entries])
        for entry in entries:
            echo(format_entry(entry))
    return None


@ledger_app.command("watch")
def watch_command(
    scope: ScopeFilter = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    after: Annotated[
        int | None, typer.Option(min=0, help="Start after this entry; if omitted: after the newest.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many entries; if omitted: never.")] = None,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two reads.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Show entries as they are written, until Ctrl-C.

    Example: epsilog ledger watch acme/claims
    """
    with open_for_reading(ledger) as books:
        seen, left = books.head()[0] if after is None else after, limit
        while left is None or left > 0:
            count, before = books.head()[0], left
            for entry in islice(books.history(scope, after=seen), left):
                echo(json.dumps(entry_to_json(entry), ensure_ascii=False) if as_json else format_entry(entry))
                left = None if left is None else left - 1
            seen = max(seen, count)
            if left == before:
                time.sleep(every)


@ledger_app.command("alert")
def alert_command(
    webhook: Annotated[str, typer.Option(help="Send to this address: https://HOST/PATH, or http:// on this machine.")],
    secret_file: Annotated[Path, typer.Option(help="A file with the secret that signs messages, 16 bytes or more.")],
    at: Annotated[list[int] | None, typer.Option(min=1, max=100, help="A share of 100; repeatable.")] = None,
    scope: Annotated[str | None, typer.Option(help="Only budgets at and under this scope.")] = None,
    state: Annotated[Path, typer.Option(help="The file of alerts that were acknowledged.")] = Path("alerts.json"),
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 10.0,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Tell a web address when a budget has used a share of its cap.

    Spent and reserved amounts count. A message names the budget and the share; it is signed, and sent until it is
    acknowledged.

    Example: epsilog ledger alert --webhook https://hooks.example.org/dp --secret-file hook.secret --at 80 --at 100
    """
    from epsilog.ledger import AlertSender, find_alerts
    from epsilog.ledger.scopes import list_ancestors

    try:
        secret = secret_file.read_bytes().strip()
    except OSError as error:
        raise CheckError("secret_file", "a file that can be read", f"{secret_file} ({error.strerror})") from None
    sender = AlertSender(webhook, secret=secret, state=state)
    with open_for_reading(ledger) as books:
        while True:
            budgets = [one for one in books.budgets() if scope is None or scope in list_ancestors(one.scope)]
            for alert in find_alerts(budgets, percents=at or [80, 100], ledger=redact_address(ledger)):
                try:
                    sent = sender.send(alert, now=int(time.time()))
                except StorageError as error:
                    if once:
                        raise
                    typer.echo(legible(f"epsilog: {error}: it is sent again"), err=True)
                    break
                if sent:
                    told = f"{legible(alert.scope)} has used {alert.percent}% of its cap: sent"
                    echo(json.dumps(alert.to_json()) if as_json else told)
            if once:
                return
            time.sleep(every)


@ledger_app.command("export")
def export_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="New file: .csv, .jsonl or .parquet.")],
    scope: Annotated[str | None, typer.Option(help="Export only this scope and those under it.")] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Write entries as CSV, JSON lines or Parquet.

    Text cannot act as a formula in a spreadsheet.

    Example: epsilog ledger export -o entries.csv --scope acme/claims
    """
    from epsilog.ledger import export_entries

    with open_for_reading(ledger) as books, rename_field("file", "output"):
        count = export_entries(books.history(scope), output)
    print_json({"file": str(output), "entries": count}) if as_json else write(f"wrote {count} entries to {output}")


@ledger_app.command("cycles")
def cycles_command(
    scope: Annotated[str, typer.Argument(help="The budget that all cycles are charged to, or fall under.")],
    plans: Annotated[
        list[Path] | None,
        typer.Option("--plan", help="A run folder, plan or report, for population, name and period; repeatable."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta at which epsilon of a zcdp, gdp or rdp budget is stated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write as Markdown; - for standard output.")
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show the cost of each release cycle under a budget.

    A cycle is the period that plans state, else the part of the scope under SCOPE, else one charge. A decommissioned
    release stays spent: only the lifetime counts against the cap.

    Example: epsilog ledger cycles acme/claims --plan runs/claims-q3-1a2b3c4d --plan runs/claims-q4-5e6f7a8b
    """
    from epsilog.ledger import read_cycles
    from epsilog.reports import list_cycle_rows, list_cycle_totals, read_plan_summaries, render_cycles

    with open_for_reading(ledger) as books:
        found = read_cycles(books, scope, plans=read_plan_summaries(plans or ()), delta=delta)
    if output is not None:
        write_output(render_cycles(found), output, quiet=True)
        if is_standard(output):
            return None
    if as_json:
        return print_json(found.to_json())
    headings = ["cycle", "N", "models", "spent in it", "lifetime", "of that in use"]
    print_table(f"Release cycles of {scope}", headings, list_cycle_rows(found))
    print_figures("Budget", list_cycle_totals(found))
    for sentence in found.notes:
        print_notice(sentence)
    if output is not None:
        write(f"wrote {output}", soft_wrap=True)
    return None


@ledger_app.command("verify")
def verify_ledger_command(
    ledger: LedgerFile = DEFAULT_LEDGER,
    since: Annotated[
        Path | None,
        typer.Option(
            help="A signed checkpoint that you kept: the ledger must begin with its entries. Its signer attests "
            "their costs."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="A key that must have signed it: a public line NAME+ID+KEY, or its file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every hash, rule, balance and cost of a ledger.

    Exit code 4: the ledger does not verify. `epsilog verify` checks everything else.

    Example: epsilog ledger verify --ledger runs/ledger.db --since checkpoint.txt --key privacy.pub
    """
    from epsilog.cli.verify import read_verifier_key
    from epsilog.verification import read_checkpoint

    if since is None and key:
        raise CheckError("key", "absent without --since", "given")
    kept = None if since is None else read_checkpoint(since)
    with open_for_reading(ledger) as books:
        found = books.verify(since=kept, keys=[read_verifier_key(one) for one in key or ()])
    if as_json:
        return print_json(
            {
                "entries": found.count,
                "head": found.head,
                "since": found.since,
                "charges_told": found.charges_compared,
                "priced": found.rechecked,
                "unpriced": found.unchecked,
                "overridden": charges_to_json(found.overridden),
                "restored": list(found.restored),
                "partitions": list(found.partitions),
            }
        )
    print_verification(f"Ledger {redact_address(ledger)}", found)
    for note in (*list_unchecked(found), *list_attested(found)):
        print_notice(note)
    return None


def print_verification(title: str, found: LedgerVerification) -> None:
    """Print how many entries there are, and the hash of the last."""
    print_figures(title, [("entries", str(found.count)), ("head", found.head)])


def _take_last(entries: Iterable[Entry], lines: int) -> tuple[list[Entry], int]:
    """Return the last of many entries, and how many there are."""
    kept: deque[Entry] = deque(maxlen=min(lines, sys.maxsize))
    count = 0
    for entry in entries:
        kept.append(entry)
        count += 1
    return list(kept), count
