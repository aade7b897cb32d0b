"""A ledger in PostgreSQL: one schema of one database, shared by everyone whom the server lets in.

Whoever writes locks the head's row first, so writers follow one another and each builds on what the one before it
committed. A commit is acknowledged once it lies on the server's disk: a server that does not sync is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from epsilog.spend.entries import GENESIS
from epsilog.spend.forks import Owner
from epsilog.spend.postgres import schema
from epsilog.spend.tables import SqlSession, heads
from epsilog.terms import CheckError, EpsilogError, LedgerIntegrityError, StorageError
from epsilog.terms.extras import install_command

PATIENCE = 60  # seconds to wait for another writer, and for one that says nothing more
LEDGER = "epsilog"  # the schema where the address names none
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NO_TABLE, _NO_COLUMN, _LOCK_TIMEOUT = "42P01", "42703", "55P03"
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")  # of libpq
_HERE = "here"  # what a connection knows: the cluster's own number, the database and the schema
_COMPILED = sa.util.LRUCache[Any, Any](500)  # statements as text, for every ledger that this process opens
_THERE = sa.text("SELECT count(*) FROM pg_namespace WHERE nspname = :name")
_BARRED = sa.text("SELECT count(*) FROM pg_namespace WHERE nspname = :name AND NOT has_schema_privilege(oid, 'USAGE')")
_LOCK_HEAD = sa.select(heads.c.home).with_for_update()
_SETTINGS = """SELECT concat(system_identifier, '/', current_database()), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit') FROM pg_control_system()"""


class PostgresStore:
    """A ledger's schema: a ``Store``.

    Args:
        url: as ``postgresql://user@host/database?ledger=name``; further parameters are libpq's own. What it does not
            say, libpq's environment and its password file do.
        read_only: for looking only; then nothing is made where nothing is.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._url, self._ledger = _taken_apart(url)
        self.read_only = read_only
        self._owner = Owner(f"ledger {self.address} was opened before this process was forked: open it again here")
        self._seen = (0, GENESIS)  # the longest history that this process knows
        self._engine: sa.Engine | None = None
        self._open()
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

    def _open(self) -> None:
        self._engine = _engine(
            self._url,
            pool_size=2,
            max_overflow=-1,  # as many as there are threads: who must wait, waits for the head
            pool_pre_ping=True,  # a server that was started again is met by new connections
            execution_options={"compiled_cache": _COMPILED},
        )
        sa.event.listen(self._engine, "connect", self._prepare)
        sa.event.listen(self._engine, "close", lambda connection, _: self._owner.note_closed(connection))

    def _prepare(self, connection: Any, record: Any) -> None:
        """Looks for tables in the ledger's schema alone, and syncs every commit."""
        self._owner.note_opened(connection)
        before, connection.autocommit = connection.autocommit, True
        connection.execute(f'SET search_path TO "{self._ledger}", pg_temp')
        connection.execute(f"SET lock_timeout TO '{PATIENCE}s'")
        cluster, fsync, pages, commits = connection.execute(_SETTINGS).fetchone()
        record.info[_HERE] = f"{cluster}/{self._ledger}"  # a cluster that was put in its place has another number
        if commits in ("off", "local"):
            connection.execute("SET synchronous_commit TO on")
        connection.autocommit = before
        if not self.read_only and (fsync, pages) != ("on", "on"):
            connection.close()
            raise StorageError(f"the server must sync what it writes, got fsync={fsync}, full_page_writes={pages}")

    def _require_entry(self) -> None:
        """A role that may not enter the schema would see none, and make its tables elsewhere."""
        with self._begun() as connection:
            if connection.execute(_BARRED, {"name": self._ledger}).scalar():
                raise StorageError(f"ledger {self.address} is there, and this role may not enter it (USAGE)")

    def _create(self) -> None:
        """Makes schema and tables where there are none, all or nothing."""
        with self._begun(isolation_level="READ COMMITTED") as connection:  # who waited sees what was made meanwhile
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": self._ledger})
            if not connection.execute(_THERE, {"name": self._ledger}).scalar():
                connection.exec_driver_sql(f'CREATE SCHEMA "{self._ledger}"')
            if not schema.parts(connection):
                schema.create(connection, connection.info[_HERE])

    @property
    def address(self) -> str:
        """Its URL, without the password."""
        return _shown(self._url, self._ledger)

    @property
    def engine(self) -> sa.Engine:
        """The connections of this process; a child of a fork is refused."""
        self._owner.require_here()
        if self._engine is None:
            raise StorageError(f"ledger {self.address} is closed")
        return self._engine

    @contextmanager
    def reading(self) -> Iterator[SqlSession]:
        """One consistent view of the schema."""
        with self._begun(isolation_level="REPEATABLE READ", postgresql_readonly=True) as connection:
            yield SqlSession(connection, schema.DIALECT, require=self._owner.require_here)

    @contextmanager
    def writing(self) -> Iterator[SqlSession]:
        """The only writer, of all processes and machines, until the block ends; all of it is kept, or nothing.

        Raises:
            StorageError: the server cannot be reached or written to. Raised at the end, the entries may stand or be
                lost: they were not acknowledged, and a retry with the same key finds out.
        """
        if self.read_only:
            raise StorageError(f"ledger {self.address} is open for reading only")
        with self._begun(isolation_level="READ COMMITTED") as connection:
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout TO '{PATIENCE}s'")
            # what is read after this is what the writer before committed
            made, here = connection.execute(_LOCK_HEAD).scalar(), connection.info[_HERE]
            if made != here:
                raise StorageError(
                    f"ledger {self.address} is a copy: it was made at {made} and lies at {here}, and both could be "
                    "spent. Read it only"
                )
            session = SqlSession(
                connection, schema.DIALECT, translating=self._translating, require=self._owner.require_here
            )
            session.check_continues(self._seen)
            yield session
            self._require_standing(connection)
        if session.known_head is not None:
            self._seen = max(self._seen, session.known_head)

    def _require_standing(self, connection: sa.Connection) -> None:
        """After an error that nobody passed on, COMMIT would be a ROLLBACK, and the server would not say so."""
        raw: Any = connection.connection.driver_connection
        if raw.info.transaction_status is not _driver().pq.TransactionStatus.INTRANS:
            raise StorageError(f"ledger {self.address}: the server has given up what was to be written")

    @contextmanager
    def _begun(self, **options: Any) -> Iterator[sa.Connection]:
        with (
            self._translating(),
            self._owner.using(self.engine.connect().execution_options(**options)) as connection,
            self._owner.using(connection.begin()),
        ):
            yield connection

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self._translated(error.orig) from error
        except _driver().Error as error:
            raise self._translated(error) from error
        except UnicodeDecodeError as error:
            raise LedgerIntegrityError(f"{self.address} holds bytes that are no text: {error}") from error

    def _translated(self, error: BaseException | None) -> Exception:
        state, reason = getattr(error, "sqlstate", None), " ".join(str(error).split())
        if state in (_NO_TABLE, _NO_COLUMN):
            return LedgerIntegrityError(f"{self.address} is not an epsilog ledger: {reason}")
        if state == _LOCK_TIMEOUT:
            return StorageError(f"ledger {self.address} stayed locked for {PATIENCE} s")
        return StorageError(f"ledger {self.address}: {reason}")

    def close(self) -> None:
        """Closes this process's connections; in a child of a fork, nothing."""
        if self._engine is not None and self._owner.is_here:
            engine, self._engine = self._engine, None
            engine.dispose()


def _driver() -> Any:
    """Psycopg, which is there where the extra is."""
    try:
        import psycopg
    except ImportError as error:
        message = f"PostgreSQL needs the extra `postgres`: {install_command('postgres')} ({error})"
        raise EpsilogError(message) from error
    return psycopg


def _engine(url: sa.URL, **options: Any) -> sa.Engine:
    _driver()
    encoding = {"client_encoding": "utf8"}  # whatever a role or an address says
    return sa.create_engine(url, connect_args=encoding, **options)


def _taken_apart(url: str) -> tuple[sa.URL, str]:
    """The database's own URL, and the ledger's schema in it."""
    try:
        found = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise _no_address() from None
    if "@" in f"{found.host}{found.database}" or "\0" in f"{found.password}{found}" or "plugin" in found.query:
        raise _no_address()  # of a password with a bare @, one end would be a host's name
    name = found.query.get("ledger", LEDGER)
    if not (isinstance(name, str) and _NAME.fullmatch(name)) or name.startswith("pg_"):
        raise CheckError("ledger", "a name of at most 63 lower-case letters, digits and underscores", repr(name))
    return found.difference_update_query(["ledger"]).set(drivername="postgresql+psycopg"), name


def _no_address() -> CheckError:
    return CheckError("url", "postgresql://user@host/database?ledger=name, percent-encoded", "something else")


def address_of(url: str) -> str:
    """The same URL, without the password."""
    return _shown(*_taken_apart(url))


def _shown(url: sa.URL, ledger: str) -> str:
    query = {name: said for name, said in url.query.items() if name not in _SECRETS} | {"ledger": ledger}
    shown = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    return shown.render_as_string()


def is_made(url: str) -> bool:
    """Whether a schema of that name is there, whatever is in it."""
    address, name = _taken_apart(url)
    engine = _engine(address, poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            return bool(connection.execute(_THERE, {"name": name}).scalar())
    except sa.exc.DBAPIError as error:
        raise StorageError(f"ledger {address_of(url)}: {' '.join(str(error.orig).split())}") from error
