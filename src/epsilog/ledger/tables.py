"""Read and write the ledger's tables in any SQL database, in one transaction.

``entries`` is the truth. ``balances``, ``charges`` and ``rounds`` are their fold so far, kept so that the time of a
charge does not depend on the length of the history. ``head`` names the last entry, the ledger itself, and its location.
Each statement is a constant text with a ``?`` for each value, which a driver prepares once. Texts must compare by their
bytes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord, RoundState
from epsilog.ledger.entries import GENESIS, ChargeId, Entry
from epsilog.ledger.store import StoredRow, StoredState, StreamedRows, hash_row, parse_row, parse_state
from epsilog.terms import LedgerIntegrityError

FORMAT = 3
HEAD = "SELECT format, count, hash FROM head"

_PAGE_ROWS = 1000  # rows of a walk
_TOGETHER = 8  # rows of one table that one statement writes
_ENTRIES = "SELECT position, scope, document, hash FROM entries"
_BALANCES = "SELECT scope, document FROM balances"
_CHARGES = "SELECT key, scope, document FROM charges"
_CHARGE = f"{_CHARGES} WHERE key = ? AND scope = ?"
_ROUNDS = "SELECT key, scope, number, attempts, output_hash FROM rounds"
_OF_CHARGE = f"{_ROUNDS} WHERE key = ? AND scope = ?"
_UNDER = "(scope = ? OR (scope > ? AND scope < ?))"
_UNDER_WALKED = _UNDER.replace("scope", "scope || ''")  # without the index, which would sort all that it finds
_NEWEST_FIRST = "ORDER BY position DESC LIMIT"
_LAST = f"LEFT JOIN ({_ENTRIES} {_NEWEST_FIRST} 1) last ON TRUE"
HEAD_AND_LAST = f"SELECT head.format, head.count, head.hash, last.* FROM head {_LAST}"  # noqa: S608

_APPEND = "INSERT INTO entries (position, scope, document, hash) VALUES (?, ?, ?, ?)"
_MOVE_HEAD = "UPDATE head SET count = ?, hash = ?"
_PUT_BALANCE = """INSERT INTO balances (scope, document) VALUES (?, ?)
    ON CONFLICT (scope) DO UPDATE SET document = excluded.document"""
_PUT_CHARGE = """INSERT INTO charges (key, scope, document) VALUES (?, ?, ?)
    ON CONFLICT (key, scope) DO UPDATE SET document = excluded.document"""
_PUT_ROUND = """INSERT INTO rounds (key, scope, number, attempts, output_hash) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (key, scope, number) DO UPDATE SET attempts = excluded.attempts, output_hash = excluded.output_hash"""

Head: TypeAlias = tuple[int, str]  # count of entries, and hash of the last
Balances: TypeAlias = "dict[str, Balance | None]"  # by scope; None without a budget


class Unread:
    """What was not read."""


class KnownState(NamedTuple):
    """What a process knows of the state at a head."""

    head: Head
    balances: Balances
    ledger_wide: Entry | Unread | None


def create_head(home: str) -> tuple[str, tuple[object, ...]]:
    """Return the statement and values that insert the head of a new ledger, with its permanent random id."""
    values = 1, FORMAT, 0, GENESIS, uuid.uuid4().hex, home
    return "INSERT INTO head (one, format, count, hash, id, home) VALUES (?, ?, ?, ?, ?, ?)", values


def read_head(found: Iterable[Sequence[Any]]) -> Head:
    """Return the count of entries and the hash of the last entry from the head row."""
    rows = [tuple(row) for row in found]
    if [row[0] for row in rows] != [FORMAT] or [*map(type, rows[0])] != [int, int, str]:
        raise LedgerIntegrityError(f"the head must be one row of format {FORMAT}, got {rows}")
    return rows[0][1], rows[0][2]


def _require_kept(kept: int, count: int) -> None:
    if kept != count:
        raise LedgerIntegrityError(f"the database kept {kept} of {count} rows that were written")


@cache
def _join_writes(statements: tuple[str, ...], counts: tuple[int, ...]) -> str:
    """Return one statement for writes of so many rows each, which are all for different tables; it returns counts."""
    parts = [
        f"w{number} AS ({_repeat_values(statement, count)} RETURNING 1)"
        for number, (statement, count) in enumerate(zip(statements, counts, strict=True))
    ]
    kept = ", ".join(f"(SELECT count(*) FROM w{number})" for number in range(len(parts)))  # noqa: S608
    return f"WITH {', '.join(parts)} SELECT {kept}"


@cache
def _repeat_values(statement: str, count: int) -> str:
    """Return a statement that inserts several rows where another inserts one."""
    if count == 1:
        return statement
    start, row, rest = re.split(r"(?<=VALUES )(\([?, ]*\))", statement, maxsplit=1)
    return start + ", ".join([row] * count) + rest


def _subtree(scope: str) -> tuple[str, str, str]:
    """Return the bounds of a scope and all scopes below it: "0" follows "/"."""
    return scope, f"{scope}/", f"{scope}0"


class Database(Protocol):
    """The database that a transaction belongs to."""

    placeholder: ClassVar[str]  # of a value, in a statement
    streams: ClassVar[bool]  # whether its driver reads a result row by row
    joins_writes: ClassVar[bool]  # whether one statement may write to several tables

    def check(self, connection: Any, /) -> None:
        """Raise if the schema or the pages are damaged or altered."""

    def require_here(self) -> None:
        """Refuse a child after a fork, which must not use the driver."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Convert the errors of the driver that the block raises."""


class SqlSession:
    """Implement ``store.Session`` (see its docstrings) in one transaction of a database."""

    def __init__(self, raw: Any, store: Database, seen: Head, head_rows: list[Any] | None = None) -> None:
        self._head_rows = head_rows  # what ``HEAD_AND_LAST`` gave already
        self._raw, self._store, self._longest_head = raw, store, seen
        self._head: Head | None = None
        self._balances: Balances = {}
        self._ledger_wide: Entry | Unread | None = Unread()  # the last entry of the whole ledger, if any
        self._moved_head = False  # what a batch writes to a table is written at once, before that table is read
        self._moved_balances: dict[str, Balance] = {}
        self._new_rows: list[StoredRow] = []
        self._new_charges: dict[ChargeId, ChargeRecord] = {}
        self.intact = True

    @contextmanager
    def part(self) -> Iterator[None]:  # noqa: D102
        before = self._head, self._moved_head, dict(self._moved_balances)
        rows, charges = list(self._new_rows), dict(self._new_charges)
        with self._store.translate_errors():
            self._all("SAVEPOINT part")
            try:
                yield
            except BaseException:
                self._head, self._moved_head, self._moved_balances = before
                self._balances, self._ledger_wide = dict(self._moved_balances), Unread()
                self._new_rows, self._new_charges = rows, charges
                self._all("ROLLBACK TO SAVEPOINT part", "RELEASE SAVEPOINT part")
                raise
            self._all("RELEASE SAVEPOINT part")

    def _all(self, *statements: str) -> None:
        """Begin or end a savepoint; after a failure the state of the transaction is unknown."""
        self._store.require_here()
        self.intact = False
        for statement in statements:
            self._raw.execute(statement)
        self.intact = True

    def _execute(self, query: str, values: Sequence[object]) -> Any:
        """Run a query and return its cursor."""
        self._store.require_here()
        return self._raw.execute(self._spell(query), values)

    def _spell(self, statement: str) -> str:
        mark = self._store.placeholder
        return statement if mark == "?" else statement.replace("?", mark)

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._execute(query, values).fetchall()  # type: ignore[no-any-return]

    def _entries(self, query: str, *values: object) -> list[StoredRow]:
        self.write_moved()
        return [StoredRow(*row) for row in self._rows(f"{_ENTRIES} {query}", *values)]

    def head(self) -> Head:  # noqa: D102
        if self._head is None:
            found = self._rows(HEAD_AND_LAST) if self._head_rows is None else self._head_rows
            head = read_head(row[:3] for row in found)
            last = StoredRow(*found[0][3:])
            computed = (0, GENESIS) if last.position is None else (last.position, hash_row(last))
            if computed != head:
                raise LedgerIntegrityError("the last entry is not the one that the head states", index=computed[0])
            self._head = head
        return self._head

    def check_continues(self) -> None:
        """Require that this history begins with the one that this process has seen."""
        (count, head), seen = self.head(), self._longest_head
        if count == seen[0]:
            held = head == seen[1]
        else:
            rows = self._entries("WHERE position = ?", seen[0]) if seen[0] else []
            held = seen[0] == 0 or (bool(rows) and hash_row(rows[0]) == seen[1])
        if not held:
            raise LedgerIntegrityError(
                "is not the one that this process has seen: an older or another file replaced it",
                index=seen[0],
            )

    def entry(self, position: int) -> Entry:  # noqa: D102
        rows = self._entries("WHERE position = ?", position)
        if not rows:
            raise LedgerIntegrityError("is missing", index=position)
        return parse_row(rows[0])

    def latest(self, scope: str) -> Entry | None:  # noqa: D102
        if scope == "" and not isinstance(self._ledger_wide, Unread):
            return self._ledger_wide
        rows = self._entries(f"WHERE scope = ? {_NEWEST_FIRST} 1", scope)
        found = parse_row(rows[0]) if rows else None
        if scope == "":
            self._ledger_wide = found
        return found

    def rows(  # noqa: D102
        self, *, start: int | None = None, scope: str | None = None, limit: int | None = None
    ) -> Iterator[StoredRow]:
        if scope is None and limit is None:
            self.write_moved()
            return (
                StoredRow(*row) for row in self._scan(_ENTRIES, "position", None if start is None else (start - 1,))
            )
        where: list[str] = []
        values: list[object] = []
        if scope is not None:
            where.append(_UNDER if limit is None else _UNDER_WALKED)
            values += _subtree(scope)
        if start is not None:
            where.append("position >= ?")
            values.append(start)
        query = f"WHERE {' AND '.join(where)} " if where else ""
        query += "ORDER BY position"
        if limit is not None:
            query += " LIMIT ?"
            values.append(limit)
        return self._stream(f"{_ENTRIES} {query}", values)

    def _stream(self, query: str, values: Sequence[object]) -> Iterator[StoredRow]:
        self.write_moved()
        for row in self._execute(query, values):
            self._store.require_here()
            yield StoredRow(*row)

    def page(self, *, before: int, limit: int, scope: str | None = None, verb: str | None = None) -> list[Entry]:  # noqa: D102
        query = "WHERE position < ?"
        values: list[object] = [before]
        if scope is not None:
            query += f" AND {_UNDER_WALKED}"
            values += _subtree(scope)
        if verb is not None:  # the last name of a canonical document; no database need read JSON
            query += " AND document LIKE ?"
            values.append(f'%"verb":"{verb}"}}')
        return [parse_row(row) for row in self._entries(f"{query} {_NEWEST_FIRST} ?", *values, limit)]

    def use_state(self, known: KnownState) -> None:
        """Use what is known of the state at this head; the rest is read on demand."""
        self._balances, self._ledger_wide = known.balances, known.ledger_wide

    @property
    def state(self) -> KnownState | None:
        """Return the head and what was read or written at it; None before the head is read."""
        return None if self._head is None else KnownState(self._head, self._balances, self._ledger_wide)

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:  # noqa: D102
        if scopes is None:
            return self._stored_balances("")
        asked = sorted(set(scopes))
        if unknown := [scope for scope in asked if scope not in self._balances]:
            found = self._stored_balances(f"WHERE scope IN ({', '.join('?' * len(unknown))})", *unknown)
            self._balances |= dict.fromkeys(unknown) | {one.scope: one for one in found}
        return [there for scope in asked if (there := self._balances[scope]) is not None]

    def below(self, scope: str) -> list[Balance]:  # noqa: D102
        return self._stored_balances("WHERE scope > ? AND scope < ?", *_subtree(scope)[1:])

    def _stored_balances(self, where: str, *values: object) -> list[Balance]:
        self.write_moved()
        rows = self._rows(f"{_BALANCES} {where} ORDER BY scope", *values)
        return [parse_state(Balance.parse, document, scope=scope) for scope, document in rows]

    def charge(self, name: ChargeId) -> ChargeRecord | None:  # noqa: D102
        if (new := self._new_charges.get(name)) is not None:
            return new
        scope, key = name
        found = self._rows(_CHARGE, key, scope)
        return self._parse_charge(*found[0]) if found else None

    def find_charges(self, key: str) -> list[ChargeRecord]:  # noqa: D102
        self.write_moved()
        return self._charge_records("WHERE key = ? ORDER BY scope", key)

    def _charge_records(self, query: str, *values: object) -> list[ChargeRecord]:
        return [self._parse_charge(*row) for row in self._rows(f"{_CHARGES} {query}", *values)]

    def _parse_charge(self, key: str, scope: str, document: str) -> ChargeRecord:
        return parse_state(ChargeRecord.parse, document, key=key, scope=scope)

    def has_charges(self, scope: str) -> bool:  # noqa: D102
        self.write_moved()
        return bool(self._rows(f"{_CHARGES} WHERE {_UNDER} LIMIT 1", *_subtree(scope)))

    def rounds(self, name: ChargeId) -> list[RoundState]:  # noqa: D102
        return self._round_states("ORDER BY number", name)

    def last_round(self, name: ChargeId) -> RoundState | None:  # noqa: D102
        return next(iter(self._round_states("ORDER BY number DESC LIMIT 1", name)), None)

    def round(self, name: ChargeId, number: int) -> RoundState | None:  # noqa: D102
        return next(iter(self._round_states("AND number = ?", name, number)), None)

    def _round_states(self, query: str, name: ChargeId, *values: object) -> list[RoundState]:
        scope, key = name
        return [RoundState(*state) for _, _, *state in self._rows(f"{_OF_CHARGE} {query}", key, scope, *values)]

    def read_stored_state(self) -> StoredState:  # noqa: D102
        self.write_moved()
        return StoredState(
            read_head(self._rows(HEAD)),
            dict(self._rows(_BALANCES)),
            StreamedRows(self._charge_rows, self._stream_charges if self._store.streams else None),
            StreamedRows(self._round_rows),
        )

    def _charge_rows(self) -> Iterator[tuple[ChargeId, str]]:
        for key, scope, document in self._scan(_CHARGES, "key, scope"):
            yield (scope, key), document

    def _stream_charges(self) -> Iterator[tuple[ChargeId, str]]:
        for key, scope, document in self._execute(_CHARGES, ()):
            self._store.require_here()
            yield (scope, key), document

    def _round_rows(self) -> Iterator[tuple[tuple[ChargeId, int], RoundState]]:
        for key, scope, number, *rest in self._scan(_ROUNDS, "key, scope, number"):
            yield ((scope, key), number), RoundState(number, *rest)

    def _scan(self, query: str, key: str, after: Sequence[object] | None = None) -> Iterator[Any]:
        """Iterate over a table in key order, page by page: a driver holds a whole result in memory."""
        names, order = key.count(",") + 1, f"ORDER BY {key} LIMIT {_PAGE_ROWS}"
        further = f"{query} WHERE ({key}) > ({', '.join('?' * names)}) {order}"
        while True:
            rows = self._rows(f"{query} {order}") if after is None else self._rows(further, *after)
            yield from rows
            if len(rows) < _PAGE_ROWS:
                return
            after = rows[-1][:names]

    def check(self) -> None:
        """Raise if the database is damaged, altered, or holds another history than the one that was seen."""
        self._store.check(self._raw)
        self.check_continues()

    def append(self, *rows: StoredRow) -> None:  # noqa: D102
        self._new_rows += rows
        self._head, self._moved_head = rows[-1].head, True
        if any(row.scope == "" for row in rows):
            self._ledger_wide = Unread()

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Write rows and require that the database kept all: triggers and rules can drop rows silently."""
        self._store.require_here()
        if len(rows) == 1:
            cursor = self._raw.execute(self._spell(statement), rows[0])
        else:
            cursor = self._raw.cursor()
            cursor.executemany(self._spell(statement), rows)
        _require_kept(cursor.rowcount, len(rows))

    def put_balances(self, changed: Iterable[Balance]) -> None:  # noqa: D102
        moved = {balance.scope: balance for balance in changed}
        self._moved_balances |= moved
        self._balances |= moved

    def write_moved(self) -> None:
        """Write what changed, before it is read from its table and at the end."""
        writes: list[tuple[str, Sequence[Sequence[object]]]] = []
        if self._new_rows:
            writes.append((_APPEND, self._new_rows))
            self._new_rows = []
        if self._new_charges:
            writes.append((_PUT_CHARGE, [(one.key, one.scope, one.document()) for one in self._new_charges.values()]))
            self._new_charges = {}
        if self._moved_head:
            writes.append((_MOVE_HEAD, [self.head()]))
            self._moved_head = False
        if self._moved_balances:
            moved = [(scope, balance.document()) for scope, balance in self._moved_balances.items()]
            writes.append((_PUT_BALANCE, moved))
            self._moved_balances = {}
        if self._store.joins_writes and len(writes) > 1 and all(len(rows) <= _TOGETHER for _, rows in writes):
            self._write_together(writes)
            return
        for statement, rows in writes:
            self._write(statement, rows)

    def _write_together(self, writes: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        """Write to several tables by one statement, which takes one trip to the server; as ``_write`` does."""
        counts = [len(rows) for _, rows in writes]
        joined = _join_writes(tuple(statement for statement, _ in writes), tuple(counts))
        (found,) = self._rows(joined, *(value for _, rows in writes for row in rows for value in row))
        for kept, count in zip(found, counts, strict=True):
            _require_kept(kept, count)

    def put_charge(self, charge: ChargeRecord) -> None:  # noqa: D102
        self._new_charges[charge.id] = charge

    def put_round(self, name: ChargeId, state: RoundState) -> None:  # noqa: D102
        scope, key = name
        self._write(_PUT_ROUND, [(key, scope, state.number, state.attempts, state.output_hash)])
