"""One ledger in one file: an SQLite database, durable or nothing, shared by threads and processes.

Every connection syncs fully at commit. Write-ahead logging is used only with a library in which it loses nothing; every
other library gets the slower TRUNCATE journal. A transaction that writes is acknowledged only if the file, its log, its
tables and its history are still those that were opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sqlalchemy as sa

from epsilog import disk
from epsilog.spend.entries import GENESIS
from epsilog.spend.forks import Owner
from epsilog.spend.sqlite import library, schema
from epsilog.spend.sqlite.place import LogEnd, Place, beside, refusal_after_fork, refuse_orphans, telling
from epsilog.spend.tables import SqlSession
from epsilog.terms import CheckError, LedgerIntegrityError, StorageError

PATIENCE = 60.0  # seconds to wait for another process
_COMPILED = sa.util.LRUCache[Any, Any](500)  # statements as text, for every ledger that this process opens


@cache
def _dialect(module: Any) -> sa.Dialect:
    """What is known of a library: one object, since what was compiled for one is not taken by another."""
    engine = sa.create_engine("sqlite://", module=module)
    with engine.connect():  # asks the library for what it can do
        return engine.dialect


class SqliteStore:
    """A ledger's file: a ``Store``."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path.resolve(), read_only
        self._journal = library.in_use().journal
        self._owner = Owner(refusal_after_fork(self.path))
        self._seen = (0, GENESIS)  # the longest history that this process knows
        self._schema: int | None = None
        self._place: Place | None = None
        if not read_only:
            _make_folder(self.path.parent)
        elif not _is_file(path):
            raise CheckError("ledger", "a file that exists", repr(str(path)))
        self._place = Place(self.path, create=not read_only)
        self._open()
        try:
            if not read_only:
                self._create()
            with self._begun("BEGIN") as connection:
                self._schema = schema.check_format(connection)
                SqlSession(connection, schema.DIALECT, require=self._owner.require_here).head()
                if read_only and not schema.is_backup(self.path):  # a backup is whole, and nobody charges it
                    self._refuse_strays(*schema.identity(connection))
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._logs: tuple[int, ...] = ()
        self._engine = sa.create_engine(
            "sqlite://",
            module=library.sqlite,
            creator=self._connect,
            poolclass=sa.pool.QueuePool,
            max_overflow=-1,  # as many as there are threads: who must wait, waits for the file
            isolation_level="AUTOCOMMIT",  # transactions are begun and ended here, by name
            execution_options={"compiled_cache": _COMPILED},
        )
        self._engine.dialect = _dialect(library.sqlite)
        self._connected: WeakSet[object] = WeakSet()  # what the pool knows of each connection, while it is open
        sa.event.listen(self._engine, "connect", self._note_connected)
        sa.event.listen(self._engine, "close", self._note_closed)

    def _note_connected(self, connection: object, record: object) -> None:
        """With its last connection SQLite takes the log away, and the next one makes another."""
        if not self._connected:
            self._logs = ()
        self._connected.add(record)
        self._owner.note_opened(connection)

    def _note_closed(self, connection: object, record: object) -> None:
        self._connected.discard(record)
        self._owner.note_closed(connection)

    def _connect(self) -> Any:
        connection = library.sqlite.connect(self._uri(), uri=True, timeout=PATIENCE, check_same_thread=False)
        connection.isolation_level = None
        pragmas = ["synchronous=FULL", "fullfsync=1", "checkpoint_fullfsync=1", "cell_size_check=1", "trusted_schema=0"]
        if self.read_only:
            pragmas.append("query_only=1")
        elif self._journal != "WAL":  # the mode of a connection; write-ahead logging is a mode of the file
            pragmas.append(f"journal_mode={self._journal}")
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _uri(self) -> str:
        address = f"{self.path.as_uri()}?mode="
        if not self.read_only:
            return address + "rwc"
        writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if writable:  # so that a crashed writer's journal is played back, and nothing is left behind
            return address + "rw"
        return address + ("ro" if beside(self.path, "-wal").exists() else "ro&immutable=1")

    def _set_journal(self, connection: sa.Connection) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:  # SQLite does not wait by itself here
            try:
                mode = connection.exec_driver_sql(f"PRAGMA journal_mode={self._journal}").scalar()
            except sa.exc.OperationalError as error:
                if "locked" not in str(error.orig) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if str(mode).upper() != self._journal:
                raise StorageError(f"journal_mode must be {self._journal} for {self.path}, SQLite chose {mode}")
            return

    def _create(self) -> None:
        """Makes the tables where there are none, all or nothing, before any write-ahead log exists."""
        moved = False
        with self._begun("BEGIN IMMEDIATE") as connection:
            if schema.is_blank(connection):
                schema.create(connection, stored_path(self.path))
                disk.sync_folder(self.path.parent)
            else:
                schema.check_format(connection)
                moved = self._move_in(connection)
        with self._translating(), self._engine.connect() as connection:
            self._set_journal(connection)
            if moved and self._journal == "WAL":  # the file itself says where it lies before anything stands in the log
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _move_in(self, connection: sa.Connection) -> bool:
        """Notes the place of a ledger that was moved, if all of it came along and nothing of it stayed."""
        number, home = schema.identity(connection)
        if home == stored_path(self.path):
            return False
        lives = self._refuse_strays(number, home)
        if lives is None:
            raise StorageError(
                f"ledger {self.path} came from {home}, where this user may not look, and both could be spent: open it "
                "as one who may, or read the copy only"
            )
        if lives:
            raise StorageError(
                f"ledger {self.path} is a copy of {home}, and both could be spent: remove one of them, or read the "
                "copy only"
            )
        schema.move_home(connection, stored_path(self.path))
        return True

    def _refuse_strays(self, number: str, home: str) -> bool | None:
        """Refuses a ledger that was moved without its log.

        Returns:
            Whether the one that it was copied from exists; None if this user may not look.
        """
        old = Path(home)
        if home == stored_path(self.path) or _same_place(old, self.path):
            return False
        try:
            there = old.is_file() and not old.samefile(self.path)
        except OSError:
            return None
        if there and not os.access(old, os.R_OK):
            return None
        lives = _number(old) if there else None
        if lives is None:
            refuse_orphans(self.path, old)
        return lives == number

    @property
    def address(self) -> str:
        """Its path."""
        return str(self.path)

    @property
    def engine(self) -> sa.Engine:
        """The connections of this process; a child of a fork is refused."""
        self._owner.require_here()
        if self._place is None:
            raise StorageError(f"ledger {self.path} is closed")
        return self._engine

    def copy_to(self, other: Any) -> None:
        """Copies the whole file, as it stands at one moment, through an open connection; others may write meanwhile."""
        with self._begun("BEGIN") as connection:
            raw = connection.connection.driver_connection
            assert raw is not None, "a connection from the pool is open"
            raw.backup(other)

    def original(self) -> str | None:
        """Where the ledger lives that this is a copy of, if it is still there or may be."""
        with self._begun("BEGIN") as connection:
            number, home = schema.identity(connection)
        old = Path(home)
        if home == stored_path(self.path) or _same_place(old, self.path):
            return None
        try:
            there = old.is_file() and not old.samefile(self.path)
        except OSError:
            return home
        if there and (not os.access(old, os.R_OK) or _number(old) == number):
            return home
        return None

    @contextmanager
    def reading(self) -> Iterator[SqlSession]:
        """One consistent view of the file."""
        with self._begun("BEGIN") as connection:
            yield SqlSession(connection, schema.DIALECT, require=self._owner.require_here)

    @contextmanager
    def writing(self) -> Iterator[SqlSession]:
        """The only writer, of all processes, until the block ends; all of it is kept, or nothing.

        Raises:
            StorageError: the file cannot be written, or is not where it was opened. Raised at the end, the entries may
                stand or be lost: they were not acknowledged, and a retry with the same key finds out.
        """
        if self.read_only:
            raise StorageError(f"ledger {self.path} is open for reading only")
        with self._begun("BEGIN IMMEDIATE") as connection:
            session = SqlSession(
                connection, schema.DIALECT, translating=self._translating, require=self._owner.require_here
            )
            end = self._check(connection, session)
            yield session
        logs = self._check_place()
        if logs:
            with telling(self.path):
                self._place_here().check_log(logs, end)
        if session.known_head is not None:
            self._seen = max(self._seen, session.known_head)

    def _check(self, connection: sa.Connection, session: SqlSession) -> LogEnd | None:
        """What must hold before anything is written; where the log ends, for ``check_log``."""
        if self._journal != "WAL" and schema.pragma(connection, "journal_mode") == "wal":
            raise StorageError(
                f"ledger {self.path} was switched to write-ahead logging, in which SQLite {library.in_use().version} "
                "can lose commits: open it again while no other process has it open"
            )
        logs = self._check_place()
        with telling(self.path):
            self._place_here().check_size()
            end = self._place_here().log_end(logs) if logs else None
        if schema.pragma(connection, "schema_version") != self._schema:
            self._schema = schema.check_format(connection)
        session.check_continues(self._seen)
        return end

    def _place_here(self) -> Place:
        assert self._place is not None, "a store without a place has no transactions"
        return self._place

    def _check_place(self) -> tuple[int, ...]:
        """The file and its log lie where they were opened: else what is written there is not what others read.

        Returns:
            The inodes of the log and its index; none where SQLite keeps no log.
        """
        self._place_here().check()
        if self._journal != "WAL":
            return ()
        logs = self._place_here().logs()
        if self._logs and logs != self._logs:
            raise StorageError(f"ledger {self.path} is open, and its log was replaced")
        self._logs = logs
        return logs

    @contextmanager
    def _begun(self, begin: str) -> Iterator[sa.Connection]:
        with self._translating(), self._owner.using(self.engine.connect()) as connection:
            raw = connection.connection.driver_connection  # a transaction's own words, past SQLAlchemy's bookkeeping
            assert raw is not None, "a connection from the pool is open"
            raw.execute(begin)
            try:
                yield connection
                self._owner.require_here()
                raw.execute("COMMIT")
            except BaseException:
                if self._owner.is_here:
                    raw.rollback()  # nothing happens where SQLite has rolled back already
                raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise _translated(error.orig, self.path) from error
        except library.sqlite.Error as error:
            raise _translated(error, self.path) from error
        except UnicodeDecodeError as error:
            raise LedgerIntegrityError(f"{self.path} holds bytes that are no text: {error}") from error

    def close(self) -> None:
        """Closes this process's connections; in a child of a fork, nothing."""
        if self._place is None or not self._owner.is_here:
            return
        place, self._place = self._place, None
        busy = self._engine.pool.checkedout()  # type: ignore[attr-defined]
        self._engine.dispose()
        if not busy:  # else another thread still writes: the name stays taken, which harms nobody
            place.release()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise StorageError(f"ledger {path} cannot be looked up: {error.strerror}") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"folder {folder} cannot be made: {error.strerror}") from error


def stored_path(path: Path) -> str:
    """A path as it is stored; names that are no UTF-8 are spelled out."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _same_place(one: Path, other: Path) -> bool:
    """Whether two paths name the same entry of the same folder, reached in two ways."""
    try:
        return one.name == other.name and one.parent.samefile(other.parent)
    except OSError:
        return False


def _number(path: Path) -> str | None:
    """The number of the ledger at a path, if one is there: it never changes, so its log need not be read."""
    try:
        connection = library.sqlite.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            return str(connection.execute("SELECT id FROM head").fetchone()[0])
        finally:
            connection.close()
    except (library.sqlite.Error, TypeError):
        return None


def _translated(error: BaseException | None, path: Path) -> Exception:
    reason = str(error)
    if "locked" in reason or "busy" in reason:
        return StorageError(f"ledger {path} stayed locked for {PATIENCE:g} s")
    if beside(path, "-wal").exists() and not os.access(path.parent, os.W_OK):
        return StorageError(
            f"ledger {path} has a log beside it and lies where nothing can be written ({reason}): copy the file and "
            f"{path.name}-wal to a folder of your own and read them there"
        )
    if isinstance(error, library.sqlite.ProgrammingError):  # a connection that an interrupt closed: the file is whole
        return StorageError(f"ledger {path}: {reason}")
    if isinstance(error, library.sqlite.OperationalError) and "decode" not in reason and "no such" not in reason:
        return StorageError(f"ledger {path}: {reason}")
    return LedgerIntegrityError(f"{path}: {reason}")
