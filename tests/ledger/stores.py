"""The stores that every contract test is run on, and the smallest one there is: an oracle for those that last."""

from __future__ import annotations

import threading
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from tests.ledger.postgres.server import binaries, server

from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.entries import GENESIS
from epsilog.ledger.postgres import PostgresStore
from epsilog.ledger.sqlite import SqliteStore
from epsilog.ledger.sqlite.version import sqlite
from epsilog.ledger.store import StoredState, hash_row, parse_row, parse_state
from epsilog.terms import LedgerIntegrityError, StorageError


def charge_in_steps(ledger, scope, release, *, key):
    """The entries of a run: reserved, started and committed."""
    charge = ledger.reserve(scope, release, key=key)
    charge.start()
    charge.commit()
    return charge


@dataclass(frozen=True)
class State:
    """What a memory holds; a new one takes its place when a transaction ends well."""

    rows: tuple = ()
    stored: StoredState = field(default_factory=lambda: StoredState((0, GENESIS), {}, {}, {}))


class Memory:
    """What stores in memory share, as others share a file."""

    def __init__(self):
        self.state, self.lock = State(), threading.Lock()


class MemorySession:
    intact = True

    def __init__(self, state):
        self.state = state

    @contextmanager
    def part(self):
        before = self.state
        try:
            yield
        except BaseException:
            self.state = before
            raise

    def check(self):
        pass

    def head(self):
        rows, head = self.state.rows, self.state.stored.head
        if head != ((rows[-1].position, hash_row(rows[-1])) if rows else (0, GENESIS)):
            raise LedgerIntegrityError("the last entry is not the one that the head states", index=len(rows))
        return head

    def rows(self, *, start=None, scope=None, limit=None):
        chosen = [row for row in self.state.rows if start is None or row.position >= start]
        return iter([row for row in chosen if scope is None or _under(row.scope, scope)][:limit])

    def page(self, *, before, limit, scope=None, verb=None):
        entries = [parse_row(row) for row in self.rows(scope=scope) if row.position < before]
        return [entry for entry in reversed(entries) if verb is None or entry.verb == verb][:limit]

    def entry(self, position):
        if not 1 <= position <= len(self.state.rows):
            raise LedgerIntegrityError("is missing", index=position)
        return parse_row(self.state.rows[position - 1])

    def latest(self, scope):
        rows = [row for row in self.state.rows if row.scope == scope]
        return parse_row(rows[-1]) if rows else None

    def read_stored_state(self):
        return self.state.stored

    def balances(self, scopes):
        found = self.state.stored.balances
        chosen = sorted(found) if scopes is None else sorted(found.keys() & set(scopes))
        return [parse_state(Balance.parse, found[scope], scope=scope) for scope in chosen]

    def below(self, scope):
        return [balance for balance in self.balances(None) if balance.scope.startswith(f"{scope}/")]

    def charge(self, name):
        scope, key = name
        found = self.state.stored.charges.get(name)
        return None if found is None else parse_state(ChargeRecord.parse, found, scope=scope, key=key)

    def find_charges(self, key):
        return [self.charge(name) for name in sorted(self.state.stored.charges) if name[1] == key]

    def has_charges(self, scope):
        return any(_under(at, scope) for at, _ in self.state.stored.charges)

    def rounds(self, name):
        return [state for (of, _), state in sorted(self.state.stored.rounds.items()) if of == name]

    def round(self, name, number):
        return self.state.stored.rounds.get((name, number))

    def last_round(self, name):
        return next(iter(self.rounds(name)[::-1]), None)

    def append(self, *rows):
        self._store(head=rows[-1].head)
        self.state = replace(self.state, rows=(*self.state.rows, *rows))

    def put_balances(self, changed):
        new = {balance.scope: balance.document() for balance in changed}
        self._store(balances={**self.state.stored.balances, **new})

    def put_charge(self, charge):
        self._store(charges={**self.state.stored.charges, charge.id: charge.document()})

    def put_round(self, name, state):
        self._store(rounds={**self.state.stored.rounds, (name, state.number): state})

    def _store(self, **changed):
        self.state = replace(self.state, stored=replace(self.state.stored, **changed))


def everything(session):
    """All rows of a session, and what is stored beside them, read at once."""
    stored = session.read_stored_state()
    beside = {name: dict(getattr(stored, name).items()) for name in ("balances", "charges", "rounds")}
    return list(session.rows()), replace(stored, **beside)


def _under(scope, top):
    return scope == top or scope.startswith(f"{top}/")


class MemoryStore:
    def __init__(self, memory, *, read_only=False):
        self.memory, self.read_only, self.address = memory, read_only, "memory"

    @contextmanager
    def reading(self):
        yield MemorySession(self._opened().state)

    @contextmanager
    def writing(self):
        if self.read_only:
            raise StorageError("ledger memory is open for reading only")
        with self._opened().lock:
            session = MemorySession(self.memory.state)
            yield session
            self.memory.state = session.state

    def _opened(self):
        if self.memory is None:
            raise StorageError("ledger memory is closed")
        return self.memory

    def close(self):
        self.memory = None


class InMemory:
    """Opens stores in one memory, and edits what lies there behind their backs."""

    def __init__(self, _):
        self.memory = Memory()

    def open(self, *, read_only=False):
        return MemoryStore(self.memory, read_only=read_only)

    def edit(self, table, name, **columns):
        state = self.memory.state
        if table == "entries":
            rows = [row._replace(**columns) if row.position == name else row for row in state.rows]
            self.memory.state = replace(state, rows=tuple(rows))
            return
        stored = state.stored
        if table == "head":
            new = (columns.get("count", stored.head[0]), columns.get("hash", stored.head[1]))
        elif table == "balances":
            new = {**stored.balances, name: columns["document"]}
        else:
            new = {**stored.charges, name: columns["document"]}
        self.memory.state = replace(state, stored=replace(stored, **{table: new}))


NAMES = {"head": ["one"], "entries": ["position"], "balances": ["scope"], "charges": ["scope", "key"]}


def changing(table, name, columns, mark):
    """The words that change a row, and what they take; the row is named by the key of its table."""
    changes, names = (f"{one} = {mark}" for one in columns), (f"{one} = {mark}" for one in NAMES[table])
    values = (*columns.values(), *(name if isinstance(name, tuple) else [name]))
    return f"UPDATE {table} SET {', '.join(changes)} WHERE {' AND '.join(names)}", values  # noqa: S608


class InFile:
    """Opens stores in one SQLite file, and edits it behind their backs."""

    def __init__(self, folder):
        self.path = folder / "budget.db"

    def open(self, *, read_only=False):
        return SqliteStore(self.path, read_only=read_only)

    def edit(self, table, name, **columns):
        with closing(sqlite.connect(self.path)) as connection, connection:
            assert connection.execute(*changing(table, name, columns, "?")).rowcount == 1


class InDatabase:
    """Opens stores in one schema of a PostgreSQL server, and edits it behind their backs."""

    def __init__(self, _):
        self.name = f"l{uuid.uuid4().hex}"
        self.url = server().url(self.name)

    def open(self, *, read_only=False):
        return PostgresStore(self.url, read_only=read_only)

    def run(self, sql, *values):
        import psycopg

        with psycopg.connect(self.url.partition("&ledger=")[0], options=f"-csearch_path={self.name}") as connection:
            return connection.execute(sql, values).rowcount

    def edit(self, table, name, **columns):
        sql, values = changing(table, name, columns, "%s")
        assert self.run(sql, *values) == 1


STORES = {"sqlite": InFile, "memory": InMemory, "postgres": InDatabase}
AVAILABLE = {
    name: place for name, place in STORES.items() if name != "postgres" or (binaries() and find_spec("psycopg"))
}
