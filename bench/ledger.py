"""What a ledger costs: a durable charge beside a raw write and fsync, a history's first page, the whole proof.

    python bench/ledger.py [--charges 1000] [--entries 100000]
    python bench/ledger.py --proof [--entries 1000000]
    python bench/ledger.py --database postgresql://...?ledger=NAME [--charges 1000]

CPU seconds of this process; walls only as ratios, side by side in one run. The long history is rounds of one charge,
written in one transaction. ``--proof`` only verifies charges of eight releases at 50 scopes under three budgets.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from epsilog.ledger import Ledger, LedgerVerification, Verb, open_ledger, read_ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.entries import Entry
from epsilog.ledger.ledger import get_utc_now
from epsilog.ledger.store import StoredRow
from epsilog.mechanisms import PureDP


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return time.process_time() - cpu, time.perf_counter() - wall


def charges(ledger: Ledger, count: int, name: str, step: float = 0.0) -> None:
    for number in range(count):
        ledger.charge("acme/claims/anna", PureDP(0.001 + step * number), key=f"{name}-{number}")


def batches(ledger: Ledger, count: int, name: str, size: int = 100) -> None:
    release = PureDP(0.001)
    for first in range(0, count, size):
        keys = [f"{name}-{number}" for number in range(first, first + size)]
        ledger.charge_many([ChargeAtOnce("acme/claims/anna", release, key=key) for key in keys])


def raw(path: Path, count: int) -> None:
    """As many durable writes of as many bytes as a charge's entry and what is stored beside it have, in one file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(count):
        os.write(descriptor, b"x" * 1536)
        os.fsync(descriptor)
    os.close(descriptor)


def rounds(ledger: Ledger, count: int) -> None:
    """A long history: rounds of one charge."""
    run = ledger.reserve("acme", PureDP(0.001), key="run")
    run.start()
    with ledger._store.writing() as session:
        for number in range(1, count // 2 + 1):
            for verb, body in (
                (Verb.ROUND_STARTED, {"round": number}),
                (Verb.ROUND_RELEASED, {"round": number, "output_hash": "ab" * 32}),
            ):
                count, head = session.head()
                session.append(
                    StoredRow.of(Entry(count + 1, head, get_utc_now().isoformat(), verb, "acme", "run", body=body))
                )


def proofs(path: Path) -> Iterator[tuple[str, str]]:
    """The whole proof of a ledger."""
    with read_ledger(path) as ledger:
        ledger.verify()  # loads the accountant
        whole: list[LedgerVerification] = []
        cpu, _ = timed(lambda: whole.append(ledger.verify()))
        yield f"verify {whole[0].count:,} entries of charges", f"{cpu:.2f} s CPU"


def spread_proof(folder: Path, entries: int) -> Iterator[tuple[str, str]]:
    """The proof of charges at 50 scopes, and what the resident set grows by."""
    path = folder / "spread.db"
    with open_ledger(path) as ledger:
        for scope in ("acme", "acme/claims", *(f"acme/claims/{number}" for number in range(50))):
            ledger.create_budget(scope, kind="pure", epsilon="1000000")
        for first in range(0, entries, 1000):
            asked = [
                ChargeAtOnce(f"acme/claims/{n % 50}/x", PureDP((n // 50 % 8 + 1) / 1000), key=uuid.uuid4().hex)
                for n in range(first, first + 1000)
            ]
            ledger.charge_many(asked)
            if first == 0:
                ledger.verify()  # loads the accountant
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield from proofs(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    yield "growth of the highest resident set", f"{grown / 1024:.0f} MB"


def database(url: str, count: int) -> Iterator[tuple[str, str]]:
    """Charges in a database: this process's CPU, and the wall time beside an insert with its commit."""
    import psycopg

    def insert() -> None:
        for number in range(count):
            connection.execute("INSERT INTO epsilog_bench VALUES (%s, %s)", (number, "x" * 1536))
            connection.commit()

    with open_ledger(url) as ledger, psycopg.connect(re.sub("[?&]ledger=[^&]*", "", url)) as connection:
        for scope in ("acme", "acme/claims"):
            ledger.create_budget(scope, kind="pure", epsilon="1000000")
        connection.execute("CREATE TABLE IF NOT EXISTS epsilog_bench (number integer, text text)")
        connection.commit()
        charges(ledger, 20, "warm")
        for name, step in (("release seen before", 0.0), ("release never seen", 1e-9)):
            cpu, wall = timed(lambda name=name, step=step: charges(ledger, count, name, step))
            _, raw_wall = timed(insert)
            figure = f"{1e3 * cpu / count:.2f} ms CPU of the client, {1e3 * wall / count:.2f} ms wall"
            yield f"charge under two budgets, {name}", f"{figure} ({wall / raw_wall:.1f} times an insert and commit)"
        cpu, wall = timed(lambda: batches(ledger, 10 * count, "batch"))
        yield (
            "charge in a batch of 100",
            f"{1e2 * cpu / count:.3f} ms CPU of the client, {1e2 * wall / count:.3f} ms wall",
        )


def rows(folder: Path, count: int, entries: int) -> Iterator[tuple[str, str]]:
    with open_ledger(folder / "budget.db") as ledger:
        for scope in ("acme", "acme/claims"):
            ledger.create_budget(scope, kind="pure", epsilon="1000000")
        charges(ledger, 20, "warm")
        cpu, wall = timed(lambda: charges(ledger, count, "k"))
        _, written = timed(lambda: raw(folder / "raw", count))
        yield "durable charge under two budgets, release seen before", f"{1e3 * cpu / count:.2f} ms CPU"
        yield "charges a second over raw write+fsync", f"{written / wall:.3f}"
        cpu, _ = timed(lambda: charges(ledger, count, "new", 1e-9))
        yield "durable charge, release never seen", f"{1e3 * cpu / count:.2f} ms CPU"
        cpu, _ = timed(lambda: batches(ledger, 10 * count, "batch"))
        yield "charge in a batch of 100", f"{1e2 * cpu / count:.3f} ms CPU"
    with open_ledger(folder / "many.db") as ledger:
        for scope in ("acme", "acme/claims"):
            ledger.create_budget(scope, kind="pure", epsilon="1000000")
        batches(ledger, entries, "k", 1000)
    yield from proofs(folder / "many.db")
    with open_ledger(folder / "long.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1000000")
        rounds(ledger, entries)
        for scope in (None, "acme"):
            _, wall = timed(lambda scope=scope: list(islice(ledger.history(scope), 50)))
            yield f"first page of {entries:,} entries{' under a scope' if scope else ''}", f"{1e3 * wall:.1f} ms"
        cpu, _ = timed(lambda: sum(1 for _ in ledger.history()))
        yield f"all {entries:,} entries", f"{cpu:.2f} s CPU"
    yield "highest resident set", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--charges", type=int, default=1000)
    asked.add_argument("--entries", type=int, default=100_000)
    asked.add_argument("--proof", action="store_true")
    asked.add_argument("--database", help="measure charges in this database only")
    given = asked.parse_args()
    print("| what | figure |\n| --- | --- |")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        place = Path(folder)
        found = spread_proof(place, given.entries) if given.proof else rows(place, given.charges, given.entries)
        if given.database:
            found = database(given.database, given.charges)
        for what, figure in found:
            print(f"| {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
