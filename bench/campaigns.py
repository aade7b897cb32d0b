"""Campaigns against a ledger beside those of ``epsilog selftest``: rows that are changed, and a server that is killed.

    python bench/campaigns.py [tampers] [--count 10000]
    python bench/campaigns.py server [--kills 50]      # PostgreSQL's binaries must be installed

Each prints what it counted, and ends with 1 if anything was missed, lost or made twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from epsilog.spend import open_ledger
from epsilog.spend.selftest import STEPS, reached
from epsilog.spend.sqlite import SqliteStore
from epsilog.spend.view import refolded
from epsilog.terms import EpsilogError, GaussianDP, LedgerIntegrityError, PureDP

HASH = "ab" * 32
WEIGHTS = {"entries": 6, "balances": 3, "charges": 3, "rounds": 1, "head": 1}
COLUMNS = {  # that are bound by the proof; the head's own number and place are checked where a ledger is opened
    "head": ("format", "count", "hash"),
    "entries": ("position", "scope", "document", "hash"),
    "balances": ("scope", "document"),
    "charges": ("key", "scope", "document"),
    "rounds": ("key", "number", "attempts", "output_hash"),
}


def furnished(path: Path) -> SqliteStore:
    """A ledger with some of everything."""
    act = {"by": "dora", "reason": "agreed"}
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="rdp", epsilon="9", delta="1e-5", orders=(8, 16))
        ledger.create_budget("acme/claims", kind="pure", epsilon="9")
        ledger.create_budget("acme/claims/share", kind="pure", epsilon="1", quota=True)
        for number in range(6):
            ledger.charge("acme/claims/anna", PureDP(0.25), key=f"q-{number}")
        ledger.reserve("acme", GaussianDP(0.1), key="c").cancel("not needed")
        run = ledger.reserve("acme/claims/share", PureDP(0.5), key="run", rounds=3, plan_hash=HASH)
        run.start()
        run.round_started(1)
        run.round_released(1, output_hash=HASH)
        run.round_started(2)
        ledger.change_cap("acme/claims", epsilon="8", **act)
        ledger.retire("acme/claims/share", **act)
    return SqliteStore(path)


class Tampering:
    """One change of one row, or of two, as chance has it."""

    def __init__(self, connection: sa.Connection, rng: random.Random) -> None:
        self.run, self.rng = connection.exec_driver_sql, rng
        self.table = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        self.names = list(self.run(f"SELECT name FROM pragma_table_info('{self.table}')").scalars())  # noqa: S608
        self.rows = self.run(f"SELECT rowid, * FROM {self.table}").all()  # noqa: S608
        self.row, self.column = rng.choice(self.rows), rng.choice(COLUMNS[self.table])

    def value(self, row: sa.Row) -> object:
        return row[1 + self.names.index(self.column)]

    def put(self, row: sa.Row, value: object) -> bool:
        if value == self.value(row):
            return False
        marked = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        sql = f"UPDATE {self.table} SET {self.column} = {marked} WHERE rowid = ?"  # noqa: S608
        return self.run(sql, (value, row[0])).rowcount == 1

    def flip(self) -> bool:
        value = self.value(self.row)
        if isinstance(value, int):
            return self.put(self.row, value ^ (1 << self.rng.randrange(40)))
        if not value:
            return False
        raw = bytearray(str(value).encode())
        raw[self.rng.randrange(len(raw))] ^= 1 << self.rng.randrange(7)
        return self.put(self.row, bytes(raw))

    def swap(self) -> bool:
        other = self.rng.choice(self.rows)
        return self.put(self.row, self.value(other)) and self.put(other, self.value(self.row))

    def copy(self) -> bool:
        return self.put(self.row, self.value(self.rng.choice(self.rows)))

    def delete(self) -> bool:
        return self.run(f"DELETE FROM {self.table} WHERE rowid = ?", (self.row[0],)).rowcount == 1  # noqa: S608

    def insert(self) -> bool:
        values, first = list(self.row[1:]), self.names.index(COLUMNS[self.table][0])
        largest = max(row[1 + first] for row in self.rows)
        values[first] = largest + 1 if isinstance(largest, int) else f"{largest}x"
        marks = ", ".join("?" * len(values))
        return self.run(f"INSERT INTO {self.table} VALUES ({marks})", tuple(values)).rowcount == 1  # noqa: S608


class UndoneError(Exception):
    """Takes a transaction back."""


def tampers(count: int) -> bool:
    """Changes that the proof must refuse, each undone again; what SQLite itself refuses is not counted."""
    rng, found = random.Random(1), Counter()  # noqa: S311
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        store = furnished(Path(folder) / "budget.db")
        while found.total() < count:
            how = rng.choice(("flip", "flip", "flip", "swap", "copy", "delete", "insert"))
            with contextlib.suppress(UndoneError), store.writing() as session:
                tampering = Tampering(session._connection, rng)
                if _done(getattr(tampering, how)):
                    found[how] += 1
                    try:
                        refolded(session)
                        missed.append((how, tampering.table, tampering.column, tampering.row[0]))
                    except LedgerIntegrityError:
                        pass
                raise UndoneError
        with store.reading() as session:
            refolded(session)  # which was never the worse for it
        store.close()
    print(f"{found.total()} changes, {found.total() - len(missed)} found: {dict(found)}; missed {missed[:10]}")
    return not missed


def _done(change: Callable[[], bool]) -> bool:
    """Whether SQLite lets a change through that its own keys do not forbid."""
    try:
        return change()
    except sa.exc.IntegrityError:
        return False


class Writer(threading.Thread):
    """Charges until the server is gone, and notes what was confirmed."""

    def __init__(self, url: str, name: str, seen: dict[str, int]) -> None:
        super().__init__(name=name)
        self.url, self.seen, self.trouble = url, seen, None

    def run(self) -> None:
        try:
            with open_ledger(self.url) as ledger:
                for number in range(10**6):
                    self.charge(ledger, f"{self.name}-{number}")
        except EpsilogError:
            pass
        except Exception as error:  # noqa: BLE001 it is told
            self.trouble = error

    def charge(self, ledger, key: str) -> None:
        hashed = sha256(key.encode()).hexdigest()
        charge = ledger.reserve("selftest/campaign", PureDP(0.001), key=key, rounds=1)
        self.seen[key] = STEPS.index("reserved")
        charge.start()
        self.seen[key] = STEPS.index("started")
        charge.round_started(1)
        charge.round_released(1, output_hash=hashed)
        self.seen[key] = STEPS.index("round-released")
        charge.commit({"model": hashed})
        self.seen[key] = STEPS.index("committed")


def killed(server) -> None:
    """Kills a postmaster, waits for its children, and starts the server again."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    while any(_runs(child) for child in children):
        time.sleep(0.02)
    for left in (server.data / "postmaster.pid", *server.folder.glob(".s.PGSQL*.lock")):
        left.unlink(missing_ok=True)  # where nobody reaps it, a dead postmaster looks like one that runs
    server.start()


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def server(kills: int) -> bool:
    """Two writers at a time, whose server is killed under them."""
    from spend.postgres.server import Server

    rng, place, seen = random.Random(1), Server(), dict[str, int]()  # noqa: S311
    url, troubles = place.url("killed"), []
    with open_ledger(url) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1000000")
    for kill in range(kills):
        known = len(seen)
        writers = [Writer(url, f"writer-{number}-life-{kill}", seen) for number in range(2)]
        for writer in writers:
            writer.start()
        while len(seen) == known and any(writer.is_alive() for writer in writers):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        killed(place)
        for writer in writers:
            writer.join()
        troubles += [repr(writer.trouble) for writer in writers if writer.trouble is not None]
    with open_ledger(url) as ledger:
        count, found = ledger.verify().count, reached(ledger)
        lost = sum(found.get(key, -1) < step for key, step in seen.items())
        for key in found:
            ledger.reserve("selftest/campaign", PureDP(0.001), key=key, rounds=1)
        doubled = len(ledger.verify().charges) - len(found)
    ahead = sum(seen.get(key, -1) < step for key, step in found.items())
    print(f"{kills} kills, {len(seen)} charges confirmed, {count} entries: {lost} lost, {doubled} made twice,")
    print(f"{ahead} further on than anybody saw; other errors: {troubles[:5]}")
    return not lost and not doubled and not troubles and bool(seen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", nargs="?", choices=("tampers", "server"), default="tampers")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    sys.exit(0 if (tampers(asked.count) if asked.campaign == "tampers" else server(asked.kills)) else 1)
