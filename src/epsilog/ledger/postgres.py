"""Store a ledger in one schema of a PostgreSQL database.

A writer locks the head's row first, so writers follow one another and each builds on the previous commit. A commit is
acknowledged once it is on the server's disk: a server that does not sync is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from weakref import WeakKeyDictionary

from epsilog.ledger.databases import SqlStore
from epsilog.ledger.tables import HEAD, HEAD_AND_LAST, create_head, read_head
from epsilog.terms import CheckError, EpsilogError, LedgerIntegrityError, StorageError
from epsilog.terms.extras import install_command

PLACEHOLDER = "%s"  # of a value, in a statement

# Columns as the catalog describes them: texts compare by their bytes, "!" is NOT NULL, and a position may be any that a
# ledger grows to.
_TEXT, _NUMBER, _COUNT = "text C", "integer", "bigint"
_COLUMNS = {
    "head": f"one {_NUMBER}! format {_NUMBER}! count {_COUNT}! hash {_TEXT}! id {_TEXT}! home {_TEXT}!",
    "entries": f"position {_COUNT}! scope {_TEXT}! document {_TEXT}! hash {_TEXT}!",
    "balances": f"scope {_TEXT}! document {_TEXT}!",
    "charges": f"key {_TEXT}! scope {_TEXT}! document {_TEXT}!",
    "rounds": f"key {_TEXT}! scope {_TEXT}! number {_COUNT}! attempts {_COUNT}! output_hash {_TEXT}",
}
_KEYS = {
    "head": "one",
    "entries": "position",
    "balances": "scope",
    "charges": "key, scope",
    "rounds": "key, scope, number",
}
_INDEXED = ("entries", "charges")  # by scope
_COLUMN = re.compile(f"(\\w+) ({_TEXT}|{_NUMBER}|{_COUNT})(!?)")
_SPELLED = {_TEXT: 'text COLLATE "C"', _NUMBER: _NUMBER, _COUNT: _COUNT}


def _create_table(name: str) -> str:
    found = _COLUMN.findall(_COLUMNS[name])
    parts = [f"{column} {_SPELLED[kind]}{' NOT NULL' if full else ''}" for column, kind, full in found]
    parts.append(f"CONSTRAINT {name}_key PRIMARY KEY ({_KEYS[name]})")
    if name == "head":
        parts.append("CONSTRAINT head_one CHECK (one = 1)")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


SCHEMA = (*map(_create_table, _COLUMNS), *(f"CREATE INDEX {name}_scope ON {name} (scope)" for name in _INDEXED))
PARTS = frozenset(
    {f"table {name}: {columns}" for name, columns in _COLUMNS.items()}
    | {f"constraint {name}_key of {name}: PRIMARY KEY ({key})" for name, key in _KEYS.items()}
    | {"constraint head_one of head: CHECK ((one = 1))"}
    | {f"index {name}_key of {name}: unique btree ({key})" for name, key in _KEYS.items()}
    | {f"index {name}_scope of {name}: btree (scope)" for name in _INDEXED}
)
"""The exact description of a ledger's schema in the catalog."""

# Each of these gives lines of text. Relations say what they are only where that is no plain, logged, unguarded table.
_TABLES = """
SELECT concat('table ', c.relname, ': ', string_agg(concat(a.attname, ' ', format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> 0 THEN concat(' ', l.collname) END, CASE WHEN a.attnotnull THEN '!' END,
        CASE WHEN a.atthasdef OR a.attidentity <> '' THEN ' filled in' END), ' ' ORDER BY a.attnum),
    CASE WHEN c.relkind <> 'r' THEN concat(', of kind ', c.relkind) END,
    CASE WHEN c.relpersistence <> 'p' THEN ', not logged' END,
    CASE WHEN c.relhasrules THEN ', with rules' END,
    CASE WHEN c.relrowsecurity OR c.relforcerowsecurity THEN ', with row security' END,
    CASE WHEN EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) THEN ', inherited' END)
FROM pg_class c
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind NOT IN ('i', 'c')
GROUP BY c.oid, c.relname, c.relkind, c.relpersistence, c.relhasrules, c.relrowsecurity, c.relforcerowsecurity
"""
_CONSTRAINTS = """
SELECT concat('constraint ', n.conname, ' of ', c.relname, ': ', pg_get_constraintdef(n.oid),
    CASE WHEN NOT n.convalidated THEN ', not checked' END)
FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND n.contype <> 'n'
"""
_INDEXES = """
SELECT concat('index ', o.relname, ' of ', c.relname, ': ', CASE WHEN i.indisunique THEN 'unique ' END,
    regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', ''),
    CASE WHEN NOT (i.indisvalid AND i.indisready) THEN ', not valid' END)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class o ON o.oid = i.indexrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
"""
_TRIGGERS = """
SELECT concat('trigger ', t.tgname, ' of ', c.relname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
"""
_CATALOG = " UNION ALL ".join((_TABLES, _CONSTRAINTS, _INDEXES, _TRIGGERS))


def describe_schema(connection: Any) -> set[str]:
    """Return the description of the schema in the catalog, without quotes; empty without one."""
    return {str(line).replace('"', "") for (line,) in connection.execute(_CATALOG)}


def validate_schema(connection: Any) -> None:
    """Raise if the schema is not a ledger's or was altered."""
    found = describe_schema(connection)
    if not any(line.startswith("table head:") for line in found):
        raise LedgerIntegrityError("the schema is not an epsilog ledger")
    if found != PARTS:
        other = ", ".join(sorted(found ^ PARTS)[:3])
        raise LedgerIntegrityError(f"the schema differs from that of a ledger: {other} was added, altered or removed")
    read_head(connection.execute(HEAD))


def create_schema(connection: Any, home: str) -> None:
    """Create the tables in an empty schema."""
    for statement in SCHEMA:
        connection.execute(statement)
    statement, values = create_head(home)
    connection.execute(statement.replace("?", PLACEHOLDER), values)


PATIENCE = 60  # seconds to wait for another writer, and for one that says nothing more
LEDGER = "epsilog"  # the schema where the address names none
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NO_TABLE, _NO_COLUMN, _LOCK_TIMEOUT = "42P01", "42703", "55P03"
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")  # of libpq
_THERE = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
_BARRED = f"{_THERE} AND NOT has_schema_privilege(oid, 'USAGE')"
_SETTINGS = """SELECT concat(system_identifier, '/', current_database()), current_setting('synchronous_commit')
    FROM pg_control_system()"""
_SYNCS = "current_setting('fsync'), current_setting('full_page_writes')"


class PostgresStore(SqlStore):
    """A ledger's schema: a ``Store``."""

    placeholder, begin_read = PLACEHOLDER, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    streams, joins_writes = False, True
    # what is read once the head is locked is what the writer before committed
    begin_create = (
        f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout TO '{PATIENCE}s'"
    )
    begin_write = f"{begin_create}; SELECT home, {_SYNCS} FROM head FOR UPDATE; {HEAD_AND_LAST}"  # noqa: S608 - in one trip

    check = staticmethod(validate_schema)

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._address = Address.of(url)
        super().__init__(
            f"ledger {self.address} was opened before this process was forked: open it again here", read_only=read_only
        )
        self._homes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # cluster, database and schema, by connection
        self._begun: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what a write transaction read first
        try:
            self._require_entry()
            if not read_only:
                self._create()
            with self.reading() as session:
                session.check()
                session.head()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        """Open a connection that uses the ledger's schema alone and syncs every commit."""
        connection = self._address.connect()
        self._owner.note_opened(connection)
        connection.execute(f'SET search_path TO "{self._address.ledger}", pg_temp')
        connection.execute(f"SET lock_timeout TO '{PATIENCE}s'")
        cluster, commits = connection.execute(_SETTINGS).fetchone()
        self._homes[connection] = f"{cluster}/{self._address.ledger}"  # a replaced cluster has another number
        kept = "on" if commits in ("off", "local") else commits
        connection.execute(f"SET synchronous_commit TO {kept}")  # said here, no configuration that is read later counts
        return connection

    def _undo(self, connection: Any, error: BaseException | None = None) -> None:
        """Roll back; after an interrupt close the session, since the driver's own lock may be held forever."""
        if error is not None and not isinstance(error, Exception):
            connection.close()
        elif not connection.closed:
            connection.rollback()

    def _is_lost(self, connection: Any) -> bool:
        """Return whether the server ended the session, as at its restart."""
        return bool(connection.closed)

    def _require_entry(self) -> None:
        """Require USAGE: a role without it sees no schema and would create tables elsewhere."""
        with self._transaction(self.begin_read) as connection:
            if _count(connection, _BARRED, self._address.ledger):
                raise StorageError(f"ledger {self.address} exists, but this role lacks USAGE on it")

    def _create(self) -> None:
        """Create the schema and its tables if necessary, in one transaction."""
        name = self._address.ledger
        with self._transaction(self.begin_create) as connection:  # who waited sees what was made meanwhile
            _require_synced(*connection.execute(f"SELECT {_SYNCS}").fetchone())
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))
            if not _count(connection, _THERE, name):
                connection.execute(f'CREATE SCHEMA "{name}"')
            if not describe_schema(connection):
                create_schema(connection, self._homes[connection])

    @property
    def address(self) -> str:
        """Return the URL without the password."""
        return self._address.address

    def _check_before_write(self, connection: Any) -> None:
        """The head row is locked for the only writer; refuse a copy and a server that does not sync."""
        begun = self._begun[connection]
        begun.nextset()  # of BEGIN, and of its setting
        begun.nextset()
        found = begun.fetchone()
        made, *settings = found or ("an unknown place", "on", "on")
        _require_synced(*settings)
        here = self._homes[connection]
        if made != here:
            raise StorageError(
                f"ledger {self.address} is a copy: it was made at {made} and is at {here}, and both could be "
                "spent. Read it only"
            )

    def _begin(self, connection: Any, begin: str) -> None:
        self._begun[connection] = connection.execute(begin)

    def _read_head_rows(self, connection: Any) -> list[Any]:
        begun = self._begun.pop(connection)
        begun.nextset()
        return begun.fetchall()  # type: ignore[no-any-return]

    def _check_before_commit(self, connection: Any) -> None:
        """Require an open transaction: after a swallowed error, COMMIT silently rolls back."""
        if connection.info.transaction_status is not _driver().pq.TransactionStatus.INTRANS:
            raise StorageError(f"ledger {self.address}: the server rolled the write back")

    def _translate_error(self, error: Exception) -> Exception | None:
        if not isinstance(error, _driver().Error):
            return None
        state, reason = error.sqlstate, " ".join(str(error).split())
        if state in (_NO_TABLE, _NO_COLUMN):
            return LedgerIntegrityError(f"{self.address} is not an epsilog ledger: {reason}")
        if state == _LOCK_TIMEOUT:
            return StorageError(f"ledger {self.address} stayed locked for {PATIENCE} s")
        return StorageError(f"ledger {self.address}: {reason}")


def _driver() -> Any:
    """Import psycopg, which the extra installs."""
    try:
        import psycopg
    except ImportError as error:
        message = f"PostgreSQL needs the extra `postgres`: {install_command('postgres')} ({error})"
        raise EpsilogError(message) from error
    return psycopg


def _require_synced(fsync: str, pages: str) -> None:
    if (fsync, pages) != ("on", "on"):
        raise StorageError(f"the server must sync what it writes, got fsync={fsync}, full_page_writes={pages}")


def _count(connection: Any, query: str, *values: object) -> int:
    (found,) = connection.execute(query, values).fetchone()
    return int(found)


class Address(NamedTuple):
    """Locate a ledger."""

    parameters: Mapping[str, str]  # the parameters of the connection, named as in libpq
    ledger: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse ``postgresql://user:password@host:port/database?ledger=name`` and libpq's parameters."""
        try:
            parts = urlsplit(url)
            given = {"host": parts.hostname, "port": parts.port and str(parts.port), "dbname": parts.path[1:]}
            given |= {"user": parts.username, "password": parts.password}
            parameters = {name: unquote(value) for name, value in given.items() if value}
            asked = parse_qsl(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            raise _no_address() from None
        parameters |= {name: value for name, value in asked if name != "ledger"}
        _, _, rest = url.partition(parts.netloc)
        # of a password with a bare @ / ? or #, one end would be the name of something else
        if parts.netloc.count("@") > 1 or set(rest) & set("@#") or "\0" in "".join(parameters.values()):
            raise _no_address()
        ledgers = [value for name, value in asked if name == "ledger"] or [LEDGER]
        if len(ledgers) > 1 or not _NAME.fullmatch(ledgers[0]) or ledgers[0].startswith("pg_"):
            raise CheckError("ledger", "a name of at most 63 lower-case letters, digits and underscores", repr(ledgers))
        return cls(parameters, ledgers[0])

    @property
    def address(self) -> str:
        """Return the URL without any password."""
        public = {name: value for name, value in self.parameters.items() if name not in _SECRETS}
        user, name, host = public.pop("user", ""), public.pop("dbname", ""), public.get("host", "")
        where = f"{quote(user, safe='')}@" if user else ""
        if "/" not in host:  # a folder comes after it, with its port
            public.pop("host", None)
            where += (f"[{host}]" if ":" in host else host) + (f":{public.pop('port')}" if "port" in public else "")
        asked = urlencode(public | {"ledger": self.ledger}, safe="/", quote_via=quote)
        return f"postgresql://{where}/{quote(name)}?{asked}"

    def connect(self) -> Any:
        """Open a connection in UTF-8, whatever the role or the address says."""
        return _driver().connect(**{**self.parameters, "client_encoding": "utf8"}, autocommit=True)


def _no_address() -> CheckError:
    return CheckError("url", "postgresql://user@host/database?ledger=name, percent-encoded", "something else")


def redact_url(url: str) -> str:
    """Return the URL without the password."""
    return Address.of(url).address


def schema_exists(url: str) -> bool:
    """Return whether the schema exists, whatever it contains."""
    address, driver = Address.of(url), _driver()
    try:
        with address.connect() as connection:
            return bool(_count(connection, _THERE, address.ledger))
    except driver.Error as error:
        raise StorageError(f"ledger {address.address}: {' '.join(str(error).split())}") from error
