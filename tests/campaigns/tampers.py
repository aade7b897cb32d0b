"""Rows that are changed behind a ledger's back: each change must be found when the ledger is verified.

In a transaction of its own, some row of some table is flipped in one bit, copied from another, swapped with it, deleted
or made up; the ledger is worked out again, must be refused, and the change is undone. What the database itself refuses
is not counted.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epsilog.ledger import tables
from epsilog.ledger.factory import open_local_ledger
from epsilog.ledger.store import Store
from epsilog.ledger.view import check_by_replay
from epsilog.mechanisms import GaussianDP, PureDP
from epsilog.terms import EpsilogError, LedgerIntegrityError, check

__all__ = ["TamperReport", "tamper_campaign"]

_HASH = "ab" * 32
_WAYS = {"flip": 3, "swap": 1, "copy": 1, "delete": 1, "insert": 1}
_WEIGHTS = {"entries": 6, "balances": 3, "charges": 3, "rounds": 1, "head": 1}
BOUND = {  # by the proof; the ledger's own number and its place are checked where it is opened
    "head": ("format", "count", "hash"),
    "entries": ("position", "scope", "document", "hash"),
    "balances": ("scope", "document"),
    "charges": ("key", "scope", "document"),
    "rounds": ("key", "scope", "number", "attempts", "output_hash"),
}


@dataclass(frozen=True, slots=True)
class TamperReport:
    """What a campaign of changed rows found."""

    changes: int  # that a database let through
    found: int  # of these, how many a verification refused
    ways: dict[str, int] = field(default_factory=dict)  # how many there were of each
    missed: tuple[tuple[str, str, str], ...] = ()  # the first ten that passed, as way, table and column

    @property
    def passed(self) -> bool:
        """Whether every change was found; and whether there was any."""
        return self.found == self.changes > 0


def tamper_campaign(folder: Path, *, seed: int, changes: int = 10_000, url: str | None = None) -> TamperReport:
    """Changes rows of a new ledger, one at a time, and verifies it after each."""
    changes = check.integer(1)(changes=changes)
    rng, ways, missed = random.Random(seed), Counter[str](), list[tuple[str, str, str]]()  # noqa: S311 no secrets here
    passed = 0
    store = furnished(folder / "tampered.db" if url is None else url)
    try:
        while ways.total() < changes:
            tampering, found = tampered(store, rng)
            if found is None:
                continue
            ways[tampering[0]] += 1
            if not found:
                passed += 1
                missed = [*missed, tampering][:10]
        with store.reading() as session:
            check_by_replay(session)  # which was never the worse for it
    finally:
        store.close()
    return TamperReport(changes, changes - passed, dict(ways), tuple(missed))


def furnished(url: str | Path) -> Store:
    """A ledger with some of everything, open."""
    stores: list[Store] = []

    def kept(store: Store) -> Store:
        stores.append(store)
        return store

    act = {"actor": "dora", "reason": "agreed"}
    ledger = open_local_ledger(url, within=kept)
    ledger.create_budget("acme", kind="rdp", epsilon="9", delta="1e-5", orders=(8, 16))
    ledger.create_budget("acme/claims", kind="pure", epsilon="9")
    ledger.create_budget("acme/claims/share", kind="pure", epsilon="1", quota=True)
    for number in range(6):
        ledger.charge("acme/claims/anna", PureDP(0.25), key=f"q-{number}")
    ledger.reserve("acme", GaussianDP(0.1), key="c").cancel("not needed")
    ledger.charge("acme/claims", PureDP(0.125), key="q-0")  # a key of its own, in its scope
    run = ledger.reserve("acme/claims/share", PureDP(0.5), key="run", rounds=3, plan_hash=_HASH)
    run.start()
    run.round_started(1)
    run.round_released(1, output_hash=_HASH)
    run.round_started(2)
    ledger.set_cap("acme/claims", epsilon="8", **act)
    ledger.retire("acme/claims/share", **act)
    return stores[0]


def tampered(store: Store, rng: random.Random) -> tuple[tuple[str, str, str], bool | None]:
    """One change, undone again: its way, table and column, and whether it was found; None where there was no change."""
    how = rng.choices(list(_WAYS), list(_WAYS.values()))[0]
    found: bool | None = None
    told = (how, "", "")
    try:
        with store.writing() as session:
            assert isinstance(session, tables.SqlSession), "a store of this machine has tables"
            tampering = _Tampering(session, rng)
            told = (how, tampering.table, tampering.column)
            if getattr(tampering, how)():
                found = False
                try:
                    check_by_replay(session)
                except LedgerIntegrityError:
                    found = True
            raise _UndoneError
    except _UndoneError:
        return told, found
    except EpsilogError:
        if found is None:  # the database did not let it through
            return told, None
        raise


class _UndoneError(Exception):
    """Takes a transaction back."""


class _Tampering:
    """A table, a row of it and a column, as chance has them, and what can be done to them."""

    def __init__(self, session: tables.SqlSession, rng: random.Random) -> None:
        self._session, self._rng = session, rng
        self.table = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        self._name = (
            "rowid" if session._store.placeholder == "?" else "CAST(ctid AS TEXT)"
        )  # what the database itself calls a row
        cursor = self._asked(f"SELECT {self._name} AS row_name, {self.table}.* FROM {self.table}")  # noqa: S608
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        self._rows = sorted(rows, key=lambda row: [str(row[one]) for one in BOUND[self.table]])
        self._row, self.column = rng.choice(self._rows), rng.choice(BOUND[self.table])

    def _asked(self, sql: str, *values: object) -> Any:
        return self._session._execute(sql, values)

    def _put(self, row: Any, value: object) -> bool:
        if value == row[self.column]:
            return False
        change = f"UPDATE {self.table} SET {self.column} = ? WHERE {self._name} = ?"  # noqa: S608
        return bool(self._asked(change, value, row["row_name"]).rowcount == 1)

    def flip(self) -> bool:
        value = self._row[self.column]
        if isinstance(value, int):
            return self._put(self._row, value ^ (1 << self._rng.randrange(40)))
        if not value:
            return False
        raw = bytearray(str(value).encode())
        raw[self._rng.randrange(len(raw))] ^= 1 << self._rng.randrange(7)
        return self._put(self._row, raw.decode())

    def swap(self) -> bool:
        other = self._rng.choice(self._rows)
        return self._put(self._row, other[self.column]) and self._put(other, self._row[self.column])

    def copy(self) -> bool:
        return self._put(self._row, self._rng.choice(self._rows)[self.column])

    def delete(self) -> bool:
        gone = f"DELETE FROM {self.table} WHERE {self._name} = ?"  # noqa: S608
        return bool(self._asked(gone, self._row["row_name"]).rowcount == 1)

    def insert(self) -> bool:
        first = BOUND[self.table][0]
        largest = max(row[first] for row in self._rows)
        values = {name: value for name, value in self._row.items() if name != "row_name"}
        values[first] = largest + 1 if isinstance(largest, int) else f"{largest}x"
        marks = ", ".join("?" * len(values))
        self._asked(f"INSERT INTO {self.table} ({', '.join(values)}) VALUES ({marks})", *values.values())  # noqa: S608
        return True
