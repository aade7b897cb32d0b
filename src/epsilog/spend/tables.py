"""The ledger's tables in any SQL database, and one transaction on them in the ledger's own words.

``entries`` is the truth; ``balances``, ``charges`` and ``rounds`` are what its fold amounts to so far, kept so that a
charge costs the same however long the history is; ``head`` names the last entry, the ledger itself, and where it lies.
What databases say differently is in a ``Dialect``. Texts must compare by their bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Self

import sqlalchemy as sa

from epsilog.spend.balances import Balance
from epsilog.spend.entries import GENESIS, ChargeId, Entry
from epsilog.spend.records import ChargeRecord, RoundState
from epsilog.spend.rows import Row, Stored, Streamed, digest_of, parsed, stored_state
from epsilog.terms import LedgerIntegrityError

FORMAT = 2
EARLIER = f"the ledger is of an earlier format, and this release reads format {FORMAT}"

metadata = sa.MetaData()
heads = sa.Table(
    "head",
    metadata,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("home", sa.Text, nullable=False),
)
entries = sa.Table(
    "entries",
    metadata,
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
balances = sa.Table(
    "balances",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
)
charges = sa.Table(
    "charges",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),  # first: a charge is also looked up by its key alone
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
)
rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("output_hash", sa.Text),
)


def _subtree(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """At ``scope`` or under it: between ``scope/`` and ``scope0``, since "0" follows "/"."""
    return sa.or_(column == sa.bindparam("scope"), _below(column))


def _below(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.and_(column > sa.bindparam("scope") + "/", column < sa.bindparam("scope") + "0")


def _rows(*, scope: bool, start: bool, limit: bool) -> sa.Select[Any]:
    """Entries, oldest first. A limit is met by walking forwards: the index of scopes would sort all that it finds."""
    query = sa.select(entries).order_by(entries.c.position)
    if scope:
        query = query.where(_subtree(entries.c.scope.concat("") if limit else entries.c.scope))
    if start:
        query = query.where(entries.c.position >= sa.bindparam("start"))
    return query.limit(sa.bindparam("limit")) if limit else query


@dataclass(frozen=True, slots=True)
class Walk:
    """A whole table in the order of its key, so many rows at a time.

    Attributes:
        names: the columns of the key.
        first: the first rows.
        further: those after a row, which is told by ``names``.
    """

    names: tuple[str, ...]
    first: sa.Select[Any]
    further: sa.Select[Any]

    @classmethod
    def over(cls, table: sa.Table) -> Self:
        """Builds the statements."""
        key = list(table.primary_key)
        first = sa.select(table).order_by(*key).limit(sa.bindparam("limit"))
        place = sa.tuple_(*(sa.bindparam(column.name, type_=column.type) for column in key))
        return cls(tuple(column.name for column in key), first, first.where(sa.tuple_(*key) > place))


# built once: building a statement costs more than running it
_EVERY, _CHARGES, _ALL_ROUNDS = Walk.over(entries), Walk.over(charges), Walk.over(rounds)
_AT_ONCE = 1000  # rows of a walk
_ROWS = {asked: _rows(scope=asked[0], start=asked[1], limit=asked[2]) for asked in product((False, True), repeat=3)}
HEAD = sa.select(heads.c.format, heads.c.count, heads.c.hash)
_LAST = sa.select(entries).order_by(entries.c.position.desc()).limit(1)
_LATEST = _LAST.where(entries.c.scope == sa.bindparam("scope"))
_ENTRY = sa.select(entries).where(entries.c.position == sa.bindparam("position"))
_PAGE = (
    sa.select(entries)
    .where(entries.c.position < sa.bindparam("before"))
    .order_by(entries.c.position.desc())
    .limit(sa.bindparam("limit"))
)
_PAGE_UNDER = _PAGE.where(_subtree(entries.c.scope.concat("")))  # without the index: walks back from the newest
_BALANCES = sa.select(balances).order_by(balances.c.scope)
_BELOW = _BALANCES.where(_below(balances.c.scope))
_CHARGES_WITH = sa.select(charges).where(charges.c.key == sa.bindparam("key")).order_by(charges.c.scope)
_CHARGE = _CHARGES_WITH.where(charges.c.scope == sa.bindparam("scope"))
_HAS_CHARGES = sa.select(charges.c.key).where(_subtree(charges.c.scope)).limit(1)
_OF_CHARGE = sa.and_(rounds.c.key == sa.bindparam("key"), rounds.c.scope == sa.bindparam("scope"))
_ROUNDS = sa.select(rounds).where(_OF_CHARGE).order_by(rounds.c.number)
_LAST_ROUND = sa.select(rounds).where(_OF_CHARGE).order_by(rounds.c.number.desc()).limit(1)
_ROUND = _ROUNDS.where(rounds.c.number == sa.bindparam("number"))

_APPEND = entries.insert().inline()
_MOVE_HEAD = heads.update().values(count=sa.bindparam("position"), hash=sa.bindparam("digest"))


@cache
def _balances_of(count: int) -> sa.Select[Any]:
    """The balances of so many scopes, which are named by their numbers."""
    return _BALANCES.where(balances.c.scope.in_([sa.bindparam(f"scope{number}") for number in range(count)]))


@cache
def _spelled(statement: sa.ClauseElement, words: sa.Dialect) -> tuple[str, Mapping[str, object]]:
    """A statement as a driver takes it, with its parameters by name, and those that are always the same."""
    compiled = statement.compile(dialect=words)
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one database says in words of its own, as statements that are built once.

    Attributes:
        words: how the database's driver spells statements, with parameters by name.
        page_of_verb: the newest entries of one verb.
        put_balance: inserts a balance, or replaces that of its scope.
        put_charge: inserts a charge, or replaces that of its scope and key.
        put_round: inserts a round, or replaces that of its charge and number.
        check: refuses a database that is damaged, or made otherwise than we make it.
        row: what the database itself calls a row, as text.
    """

    words: sa.Dialect
    page_of_verb: sa.Select[Any]
    put_balance: sa.Insert
    put_charge: sa.Insert
    put_round: sa.Insert
    check: Callable[[sa.Connection], None]
    row: sa.ColumnElement[str]

    @classmethod
    def of(
        cls,
        words: sa.Dialect,
        insert: Callable[[sa.Table], Any],
        *,
        verb_of: Callable[[sa.ColumnElement[str]], sa.ColumnElement[str]],
        check: Callable[[sa.Connection], None],
        row: str,
    ) -> Self:
        """Builds the statements.

        Args:
            words: as above.
            insert: the database's own, which knows ``on_conflict_do_update``.
            verb_of: reads the verb out of a document.
            check: as above.
            row: as SQL.
        """

        def upsert(table: sa.Table) -> sa.Insert:
            statement = insert(table)
            changed = {one.name: statement.excluded[one.name] for one in table.columns if not one.primary_key}
            return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)  # type: ignore[no-any-return]

        of_verb = _PAGE_UNDER.where(verb_of(entries.c.document) == sa.bindparam("verb"))
        return cls(
            words, of_verb, upsert(balances), upsert(charges), upsert(rounds), check, sa.literal_column(row, sa.Text)
        )


def first_head(home: str) -> dict[str, object]:
    """The head of a ledger just made; it has a number of its own, for ever."""
    return {"one": 1, "format": FORMAT, "count": 0, "hash": GENESIS, "id": uuid.uuid4().hex, "home": home}


def stored_head(found: Iterable[Sequence[Any]]) -> tuple[int, str]:
    """Count of entries and hash of the last, as the head row has them."""
    rows = [tuple(row) for row in found]
    if [row[0] for row in rows] != [FORMAT] or [*map(type, rows[0])] != [int, int, str]:
        raise LedgerIntegrityError(f"the head must be one row of format {FORMAT}, got {rows}")
    return rows[0][1], rows[0][2]


class SqlSession:
    """One transaction of a database: a ``Session`` in its tables.

    It speaks to the driver itself, in statements that are spelled once: to hand each one through SQLAlchemy costs as
    much as all else that a charge does.
    """

    def __init__(
        self,
        connection: sa.Connection,
        dialect: Dialect,
        *,
        translating: Callable[[], AbstractContextManager[None]] = nullcontext,
        require: Callable[[], None],
    ) -> None:
        raw = connection.connection.driver_connection
        assert raw is not None, "a connection from the pool is open"
        self._connection, self._raw, self._dialect, self._translating = connection, raw, dialect, translating
        self._require = require  # that this process may speak to the driver
        self._head: tuple[int, str] | None = None
        self.whole = True

    @property
    def connection(self) -> sa.Connection:
        """SQLAlchemy's own, in this transaction: for who changes rows behind the ledger's back, to see it found."""
        return self._connection

    @property
    def row(self) -> sa.ColumnElement[str]:
        """What the database itself calls a row."""
        return self._dialect.row

    @contextmanager
    def part(self) -> Iterator[None]:
        """A block whose writes are undone by themselves where it raises; what else is written stays."""
        before = self._head
        with self._translating():
            self._all("SAVEPOINT part")
            try:
                yield
            except BaseException:
                self._head = before
                self._all("ROLLBACK TO SAVEPOINT part", "RELEASE SAVEPOINT part")
                raise
            self._all("RELEASE SAVEPOINT part")

    def _all(self, *statements: str) -> None:
        """Begins or ends a part; one that fails has left no transaction that anybody knows anything about."""
        self._require()
        self.whole = False
        for statement in statements:
            self._raw.execute(statement)
        self.whole = True

    def _asked(self, query: sa.ClauseElement, parameters: Mapping[str, object]) -> Any:
        """A cursor over what a query finds."""
        self._require()
        text, constants = _spelled(query, self._dialect.words)
        return self._raw.execute(text, {**constants, **parameters})

    def _rows(self, query: sa.ClauseElement, **parameters: object) -> list[Any]:
        return self._asked(query, parameters).fetchall()  # type: ignore[no-any-return]

    def _streamed(self, query: sa.ClauseElement, parameters: Mapping[str, object]) -> Iterator[Row]:
        for row in self._asked(query, parameters):
            self._require()
            yield Row(*row)

    def _entries(self, query: sa.ClauseElement, **parameters: object) -> list[Row]:
        return [Row(*row) for row in self._rows(query, **parameters)]

    def head(self) -> tuple[int, str]:
        """Count of entries and hash of the last, once the last entry bears them out."""
        if self._head is None:
            count, head = stored_head(self._rows(HEAD))
            last = self._entries(_LAST)
            position, hashed = (last[0].position, digest_of(last[0])) if last else (0, GENESIS)
            if (position, hashed) != (count, head):
                raise LedgerIntegrityError("the last entry is not the one that the head names", index=position)
            self._head = (count, head)
        return self._head

    @property
    def known_head(self) -> tuple[int, str] | None:
        """The head, if it was asked for or moved."""
        return self._head

    def check_continues(self, seen: tuple[int, str]) -> None:
        """Requires that the history which somebody saw is the beginning of this one."""
        count, head = self.head()
        if count == seen[0]:
            held = head == seen[1]
        else:
            rows = self._entries(_ENTRY, position=seen[0]) if seen[0] else []
            held = seen[0] == 0 or (bool(rows) and digest_of(rows[0]) == seen[1])
        if not held:
            raise LedgerIntegrityError(
                "is not the one that this process has seen: an older or another file was put in its place",
                index=seen[0],
            )

    def entry(self, position: int) -> Entry:
        """The entry at an index that exists."""
        rows = self._entries(_ENTRY, position=position)
        if not rows:
            raise LedgerIntegrityError("is missing", index=position)
        return parsed(rows[0])

    def latest(self, scope: str) -> Entry | None:
        """The last entry of exactly this scope, if there is one; "" is that of the whole ledger."""
        rows = self._entries(_LATEST, scope=scope)
        return parsed(rows[0]) if rows else None

    def rows(self, *, start: int | None = None, scope: str | None = None, limit: int | None = None) -> Iterator[Row]:
        """The entries as they lie there, oldest first."""
        if scope is None and limit is None:
            return (Row(*row) for row in self._walked(_EVERY, None if start is None else (start - 1,)))
        query = _ROWS[scope is not None, start is not None, limit is not None]
        return self._streamed(query, _given(start=start, scope=scope, limit=limit))

    def page(self, *, before: int, limit: int, scope: str | None = None, verb: str | None = None) -> list[Entry]:
        """The newest entries before an index, newest first; ``verb`` needs a scope."""
        query = _PAGE if scope is None else _PAGE_UNDER if verb is None else self._dialect.page_of_verb
        given = _given(before=before, limit=limit, scope=scope, verb=verb)
        return [parsed(row) for row in self._entries(query, **given)]

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:
        """The budgets among some scopes, ancestors first; all for None."""
        named = None if scopes is None else {f"scope{number}": scope for number, scope in enumerate(scopes)}
        rows = self._rows(_BALANCES) if named is None else self._rows(_balances_of(len(named)), **named)
        return [stored_state(Balance.parse, document, scope=scope) for scope, document in rows]

    def below(self, scope: str) -> list[Balance]:
        """The budgets under a scope, ancestors first."""
        rows = self._rows(_BELOW, scope=scope)
        return [stored_state(Balance.parse, document, scope=at) for at, document in rows]

    def charge(self, name: ChargeId) -> ChargeRecord | None:
        """The charge with a key in a scope, if there is one."""
        return next(iter(self._charge_records(_CHARGE, **_named(name))), None)

    def find_charges(self, key: str) -> list[ChargeRecord]:
        """The charges that have a key, each in a scope of its own, by scope."""
        return self._charge_records(_CHARGES_WITH, key=key)

    def _charge_records(self, query: sa.ClauseElement, **parameters: object) -> list[ChargeRecord]:
        rows = self._rows(query, **parameters)
        return [stored_state(ChargeRecord.parse, document, key=key, scope=scope) for key, scope, document in rows]

    def has_charges(self, scope: str) -> bool:
        """Whether any charge was ever made at a scope or under it."""
        return bool(self._rows(_HAS_CHARGES, scope=scope))

    def rounds(self, name: ChargeId) -> list[RoundState]:
        """The rounds of a charge, in order."""
        return self._round_states(_ROUNDS, **_named(name))

    def last_round(self, name: ChargeId) -> RoundState | None:
        """The last round of a charge that began, if any did."""
        return next(iter(self._round_states(_LAST_ROUND, **_named(name))), None)

    def round(self, name: ChargeId, number: int) -> RoundState | None:
        """One round of a charge, if it began."""
        return next(iter(self._round_states(_ROUND, **_named(name), number=number)), None)

    def _round_states(self, query: sa.ClauseElement, **parameters: object) -> list[RoundState]:
        return [RoundState(*state) for _, _, *state in self._rows(query, **parameters)]

    def stored(self) -> Stored:
        """Everything that is kept beside the entries, as it lies there."""
        return Stored(
            stored_head(self._rows(HEAD)),
            dict(self._rows(_BALANCES)),
            Streamed(self._charge_rows),
            Streamed(self._round_rows),
        )

    def _charge_rows(self) -> Iterator[tuple[ChargeId, str]]:
        for key, scope, document in self._walked(_CHARGES):
            yield (scope, key), document

    def _round_rows(self) -> Iterator[tuple[tuple[ChargeId, int], RoundState]]:
        for key, scope, number, *rest in self._walked(_ALL_ROUNDS):
            yield ((scope, key), number), RoundState(number, *rest)

    def _walked(self, walk: Walk, after: Sequence[object] | None = None) -> Iterator[Any]:
        """The rows of a table in the order of its key, some at a time: a driver keeps all that it is asked for."""
        while True:
            place = {} if after is None else dict(zip(walk.names, after, strict=True))
            rows = self._rows(walk.first if after is None else walk.further, limit=_AT_ONCE, **place)
            yield from rows
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1][: len(walk.names)]

    def check(self) -> None:
        """Refuses a database that is damaged, or made otherwise than we make it."""
        self._dialect.check(self._connection)

    def append(self, *rows: Row) -> None:
        """Adds entries after the head, at least one, and moves the head to the last."""
        self._write(_APPEND, [row._asdict() for row in rows])
        self._head = rows[-1].head
        self._write(_MOVE_HEAD, [dict(zip(("position", "digest"), self._head, strict=True))])

    def _write(self, statement: sa.ClauseElement, rows: list[dict[str, Any]]) -> None:
        """Writes rows, all of which the database must have taken: a trigger or a rule drops some in silence."""
        self._require()
        text, _ = _spelled(statement, self._dialect.words)
        cursor = self._raw.cursor()
        cursor.executemany(text, rows)
        if cursor.rowcount != len(rows):
            raise LedgerIntegrityError(f"the database kept {cursor.rowcount} of {len(rows)} rows that were written")

    def put_balances(self, changed: Iterable[Balance]) -> None:
        """Stores balances, at least one."""
        rows = [{"scope": balance.scope, "document": balance.document()} for balance in changed]
        self._write(self._dialect.put_balance, rows)

    def put_charge(self, charge: ChargeRecord) -> None:
        """Stores a charge."""
        row = {"key": charge.key, "scope": charge.scope, "document": charge.document()}
        self._write(self._dialect.put_charge, [row])

    def put_round(self, name: ChargeId, state: RoundState) -> None:
        """Stores a round of a charge."""
        row = {"number": state.number, "attempts": state.attempts, "output_hash": state.output_hash}
        self._write(self._dialect.put_round, [_named(name) | row])


def _named(name: ChargeId) -> dict[str, object]:
    scope, key = name
    return {"scope": scope, "key": key}


def _given(**parameters: object) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if value is not None}
