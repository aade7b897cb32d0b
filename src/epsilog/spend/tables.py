"""The ledger's tables, and one transaction on them that reads and writes rows as the ledger's own words.

``entries`` is the truth; ``balances``, ``charges`` and ``rounds`` are what its fold amounts to so far, kept so that a
charge costs the same however long the history is; ``head`` names the last entry, the ledger itself, and where it lies.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from epsilog.spend.entries import APPLICATION_ID, GENESIS, Entry, digest
from epsilog.spend.folds import Balance, ChargeRecord, RoundState
from epsilog.spend.rows import Row, Stored, digest_of, parsed, stored_state
from epsilog.terms import LedgerIntegrityError

FORMAT = 1

metadata = sa.MetaData()
heads = sa.Table(
    "head",
    metadata,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("home", sa.Text, nullable=False),
)
entries = sa.Table(
    "entries",
    metadata,
    sa.Column("position", sa.Integer, primary_key=True),
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
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)
rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("output_hash", sa.Text),
)

# What the file is made of, letter by letter: SQLite keeps these words, and a ledger with others is refused.
SCHEMA = {
    "head": """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL,
    id TEXT NOT NULL,
    home TEXT NOT NULL
)""",
    "entries": """CREATE TABLE entries (
    position INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    document TEXT NOT NULL,
    hash TEXT NOT NULL
)""",
    "balances": """CREATE TABLE balances (
    scope TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL
)""",
    "charges": """CREATE TABLE charges (
    key TEXT NOT NULL PRIMARY KEY,
    scope TEXT NOT NULL,
    document TEXT NOT NULL
)""",
    "rounds": """CREATE TABLE rounds (
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    output_hash TEXT,
    PRIMARY KEY (key, number)
)""",
    "ix_entries_scope": "CREATE INDEX ix_entries_scope ON entries (scope)",
    "ix_charges_scope": "CREATE INDEX ix_charges_scope ON charges (scope)",
}
_AUTOMATIC = {f"sqlite_autoindex_{table}_1": None for table in ("balances", "charges", "rounds")}
_SETTINGS = {"application_id": APPLICATION_ID, "user_version": FORMAT, "encoding": "UTF-8", "auto_vacuum": 0}


def _subtree(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """At ``scope`` or under it: between ``scope/`` and ``scope0``, since "0" follows "/"."""
    below = sa.and_(column > sa.bindparam("scope") + "/", column < sa.bindparam("scope") + "0")
    return sa.or_(column == sa.bindparam("scope"), below)


def _upsert(table: sa.Table) -> sa.Insert:
    statement = upsert(table)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)


# built once: building a statement costs more than running it
_HEAD = sa.select(heads.c.format, heads.c.count, heads.c.hash)
_IDENTITY = sa.select(heads.c.id, heads.c.home)
_LAST = sa.select(entries).order_by(entries.c.position.desc()).limit(1)
_ALL = sa.select(entries).order_by(entries.c.position)
_ENTRY = sa.select(entries).where(entries.c.position == sa.bindparam("position"))
_HISTORY = _ALL.where(_subtree(entries.c.scope))
_PAGE = (
    sa.select(entries)
    .where(entries.c.position < sa.bindparam("before"))
    .order_by(entries.c.position.desc())
    .limit(sa.bindparam("limit"))
)
_PAGE_UNDER = _PAGE.where(_subtree(entries.c.scope.concat("")))  # without the index: walks back from the newest
_PAGE_OF_VERB = _PAGE_UNDER.where(sa.func.json_extract(entries.c.document, "$.verb") == sa.bindparam("verb"))
_BALANCES = sa.select(balances).order_by(balances.c.scope)
_SOME_BALANCES = _BALANCES.where(balances.c.scope.in_(sa.bindparam("scopes", expanding=True)))
_CHARGE = sa.select(charges.c.document).where(charges.c.key == sa.bindparam("key"))
_HAS_CHARGES = sa.select(charges.c.key).where(_subtree(charges.c.scope)).limit(1)
_ROUNDS = sa.select(rounds).where(rounds.c.key == sa.bindparam("key")).order_by(rounds.c.number)
_LAST_ROUND = sa.select(rounds).where(rounds.c.key == sa.bindparam("key")).order_by(rounds.c.number.desc()).limit(1)
_ROUND = _ROUNDS.where(rounds.c.number == sa.bindparam("number"))
_APPEND = entries.insert()
_MOVE_HEAD = heads.update().values(count=sa.bindparam("position"), hash=sa.bindparam("digest"))
_PUT_BALANCE, _PUT_CHARGE, _PUT_ROUND = _upsert(balances), _upsert(charges), _upsert(rounds)


class Session:
    """One transaction: reads and writes rows, as terms of the ledger."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._head: tuple[int, str] | None = None

    def _rows(self, query: sa.Executable, **parameters: object) -> Sequence[Any]:
        return self._connection.execute(query, parameters).all()

    def pragma(self, name: str) -> Any:
        """A setting of the file; ``schema_version`` changes with every table, index, trigger or view."""
        raw = self._connection.connection.driver_connection
        assert raw is not None, "a connection from the pool is open"
        return raw.execute(f"PRAGMA {name}").fetchone()[0]

    def check_format(self) -> int:
        """Refuses a file that is not a ledger, or is made otherwise than we make it; returns the schema's version."""
        version = int(self.pragma("schema_version"))
        made = {str(row[0]): row[1] for row in self._connection.exec_driver_sql("SELECT name, sql FROM sqlite_master")}
        if self.pragma("application_id") != APPLICATION_ID or "head" not in made:
            raise LedgerIntegrityError("the file is not an epsilog ledger")
        if self.pragma("user_version") in range(FORMAT):
            raise LedgerIntegrityError(f"the ledger is of an earlier format, and this release reads format {FORMAT}")
        for name, value in _SETTINGS.items():
            if (found := self.pragma(name)) != value:
                raise LedgerIntegrityError(f"{name} of the file must be {value}, got {found!r}")
        expected = SCHEMA | _AUTOMATIC
        for name in sorted(made.keys() | expected.keys()):
            if made.get(name, "nothing") != expected.get(name, "nothing"):
                raise LedgerIntegrityError(f"the file holds another {name!r} than a ledger's: it was added or altered")
        self.stored_head()
        return version

    def create(self, home: str) -> None:
        """Makes the tables in a file that has none."""
        for name in ("application_id", "user_version"):
            self._connection.exec_driver_sql(f"PRAGMA {name}={_SETTINGS[name]}")
        for statement in SCHEMA.values():
            self._connection.exec_driver_sql(statement)
        born = {"one": 1, "format": FORMAT, "count": 0, "hash": GENESIS, "id": uuid.uuid4().hex, "home": home}
        self._connection.execute(heads.insert(), born)

    def is_blank(self) -> bool:
        """Whether the file holds nothing at all yet."""
        objects = self._connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
        return not (objects or self.pragma("application_id") or self.pragma("user_version"))

    def identity(self) -> tuple[str, str]:
        """The ledger's own number, and where it lay when it was last opened at a new place."""
        ((number, home),) = self._rows(_IDENTITY)
        return str(number), str(home)

    def move_home(self, home: str) -> None:
        """Notes where the ledger lies now."""
        self._connection.execute(heads.update().values(home=home))

    def stored_head(self) -> tuple[int, str]:
        """Count of entries and hash of the last, as the head row has them."""
        rows = [tuple(row) for row in self._rows(_HEAD)]
        if [row[0] for row in rows] != [FORMAT] or [*map(type, rows[0])] != [int, int, str]:
            raise LedgerIntegrityError(f"the head must be one row of format {FORMAT}, got {rows}")
        return rows[0][1], rows[0][2]

    def head(self) -> tuple[int, str]:
        """Count of entries and hash of the last, once the last entry bears them out."""
        if self._head is None:
            count, head = self.stored_head()
            last = self._rows(_LAST)
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
            row = self._rows(_ENTRY, position=seen[0]) if seen[0] else ()
            held = seen[0] == 0 or (bool(row) and digest_of(row[0]) == seen[1])
        if not held:
            raise LedgerIntegrityError(
                "is not the one that this process has seen: an older or another file was put in its place",
                index=seen[0],
            )

    def entry(self, position: int) -> Entry:
        """The entry at an index that exists."""
        rows = self._rows(_ENTRY, position=position)
        if not rows:
            raise LedgerIntegrityError("is missing", index=position)
        return parsed(rows[0])

    def rows(self) -> Iterator[Row]:
        """All entries, in order, as they lie there."""
        return (Row(*row) for row in self._connection.execute(_ALL))

    def history(self, scope: str | None) -> list[Entry]:
        """The entries at and under a scope, in order; all for None."""
        rows = self._rows(_ALL) if scope is None else self._rows(_HISTORY, scope=scope)
        return [parsed(row) for row in rows]

    def page(self, *, before: int, limit: int, scope: str | None, verb: str | None) -> list[Entry]:
        """The newest entries before an index, newest first; ``verb`` needs a scope."""
        query = _PAGE if scope is None else _PAGE_UNDER if verb is None else _PAGE_OF_VERB
        given = {"before": before, "limit": limit, "scope": scope, "verb": verb}
        return [parsed(row) for row in self._rows(query, **{k: v for k, v in given.items() if v is not None})]

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:
        """The budgets among some scopes, ancestors first; all for None."""
        rows = self._rows(_BALANCES) if scopes is None else self._rows(_SOME_BALANCES, scopes=list(scopes))
        return [stored_state(Balance.parse, row.document, scope=row.scope) for row in rows]

    def charge(self, key: str) -> ChargeRecord | None:
        """The charge with a key, if there is one."""
        rows = self._rows(_CHARGE, key=key)
        return stored_state(ChargeRecord.parse, rows[0].document, key=key) if rows else None

    def has_charges(self, scope: str) -> bool:
        """Whether any charge was ever made at a scope or under it."""
        return bool(self._rows(_HAS_CHARGES, scope=scope))

    def rounds(self, key: str) -> list[RoundState]:
        """The rounds of a charge, in order."""
        return [RoundState(row.number, row.attempts, row.output_hash) for row in self._rows(_ROUNDS, key=key)]

    def last_round(self, key: str) -> RoundState | None:
        """The last round of a charge that began, if any did."""
        rows = self._rows(_LAST_ROUND, key=key)
        return RoundState(rows[0].number, rows[0].attempts, rows[0].output_hash) if rows else None

    def round(self, key: str, number: int) -> RoundState | None:
        """One round of a charge, if it began."""
        rows = self._rows(_ROUND, key=key, number=number)
        return RoundState(rows[0].number, rows[0].attempts, rows[0].output_hash) if rows else None

    def stored(self) -> Stored:
        """Everything that is kept beside the entries, as it lies there."""
        return Stored(
            self.stored_head(),
            {row.scope: row.document for row in self._rows(sa.select(balances))},
            {row.key: (row.scope, row.document) for row in self._rows(sa.select(charges))},
            {(row.key, row.number): RoundState(*row[1:]) for row in self._rows(sa.select(rounds))},
        )

    def check(self) -> None:
        """Refuses a file that is damaged or made otherwise than we make it, by SQLite's own check of its pages."""
        self.check_format()
        pages = str(self._connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar())
        if pages != "ok":
            raise LedgerIntegrityError(f"SQLite finds the file damaged: {pages}")

    def append(self, entry: Entry) -> None:
        """Adds an entry after the head and moves the head to it."""
        document = entry.document()
        hashed = digest(document)
        row = {"position": entry.index, "scope": entry.scope, "document": document, "hash": hashed}
        self._connection.execute(_APPEND, row)
        self._connection.execute(_MOVE_HEAD, {"position": entry.index, "digest": hashed})
        self._head = (entry.index, hashed)

    def put_balances(self, changed: Iterable[Balance]) -> None:
        """Stores balances, at least one."""
        rows = [{"scope": balance.scope, "document": balance.document()} for balance in changed]
        self._connection.execute(_PUT_BALANCE, rows)

    def put_charge(self, charge: ChargeRecord) -> None:
        """Stores a charge."""
        row = {"key": charge.key, "scope": charge.scope, "document": charge.document()}
        self._connection.execute(_PUT_CHARGE, row)

    def put_round(self, key: str, state: RoundState) -> None:
        """Stores a round of a charge."""
        row = {"number": state.number, "attempts": state.attempts, "output_hash": state.output_hash}
        self._connection.execute(_PUT_ROUND, {"key": key} | row)
