"""The ledger's file: an SQLite database, durable or nothing, shared by threads and processes.

Every connection syncs fully at commit. Write-ahead logging is used only with a library in which it loses nothing; every
other library gets the slower TRUNCATE journal.
"""

from __future__ import annotations

import os
import sqlite3 as standard_sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from epsilog.spend.rows import Session
from epsilog.terms import LedgerIntegrityError

try:
    from pysqlite3 import dbapi2 as sqlite
except ImportError:  # the standard library's SQLite, which may be too old for write-ahead logging
    sqlite = standard_sqlite3

PATIENCE = 60.0  # seconds to wait for another process


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Whether write-ahead logging keeps every commit in this version of SQLite.

    Up to 3.51.2 a checkpoint and a commit at the same instant could lose commits; fixed in 3.51.3, 3.50.7 and 3.44.6.

    >>> wal_is_safe((3, 40, 1)), wal_is_safe((3, 50, 7)), wal_is_safe((3, 51, 2)), wal_is_safe((3, 53, 0))
    (False, True, False, True)
    """
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def library() -> tuple[str, str]:
    """The SQLite version in use and the journal mode that it is trusted with."""
    return sqlite.sqlite_version, "WAL" if wal_is_safe(sqlite.sqlite_version_info) else "TRUNCATE"


class Store:
    """A ledger's file, shared by threads and processes."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path.resolve(), read_only
        self._journal = library()[1]
        self._inherited: list[sa.Engine] = []  # never closed: closing another process's connection may harm its file
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            raise ValueError(f"ledger must be a file that exists, got {str(path)!r}")
        self._open()
        try:
            if not read_only:
                self._create()
            with self.reading() as session:
                session.check_format()
                session.head()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._process = os.getpid()
        self._engine = sa.create_engine(
            "sqlite://",
            module=sqlite,
            creator=self._connect,
            poolclass=sa.pool.QueuePool,
            isolation_level="AUTOCOMMIT",  # transactions are begun and ended here, by name
        )

    def _connect(self) -> Any:
        connection = sqlite.connect(self._address(), uri=True, timeout=PATIENCE, check_same_thread=False)
        connection.isolation_level = None
        pragmas = ["synchronous=FULL", "fullfsync=1", "checkpoint_fullfsync=1", "cell_size_check=1", "trusted_schema=0"]
        if self.read_only:
            pragmas.append("query_only=1")
        elif self._journal != "WAL":  # the mode of a connection; write-ahead logging is a mode of the file
            pragmas.append(f"journal_mode={self._journal}")
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _address(self) -> str:
        address = f"{self.path.as_uri()}?mode="
        if not self.read_only:
            return address + "rwc"
        writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if writable:  # so that a crashed writer's journal is played back, and nothing is left behind
            return address + "rw"
        return address + ("ro" if self.path.with_name(self.path.name + "-wal").exists() else "ro&immutable=1")

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
                raise OSError(f"journal_mode must be {self._journal} for {self.path}, SQLite chose {mode}")
            return

    def _create(self) -> None:
        """Makes the tables where there are none, all or nothing, before any write-ahead log exists."""
        with self.writing() as session:
            if session.is_blank():
                session.create()
                _sync_folder(self.path.parent)
            else:
                session.check_format()
        with self._translating(), self._engine.connect() as connection:
            self._set_journal(connection)

    @property
    def engine(self) -> sa.Engine:
        """The connections of this process; a forked child gets its own."""
        if self._process != os.getpid():
            self._inherited.append(self._engine)
            self._open()
        return self._engine

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view of the file."""
        with self._transaction("BEGIN") as connection:
            yield Session(connection)

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """The only writer, of all processes, until the block ends; all of it is kept, or nothing."""
        if self.read_only:
            raise PermissionError(f"ledger {self.path} is open for reading only")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if self._journal != "WAL" and connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
                raise OSError(
                    f"ledger {self.path} was switched to write-ahead logging, in which SQLite {sqlite.sqlite_version} "
                    "can lose commits: open it again while no other process has it open"
                )
            yield Session(connection)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sa.Connection]:
        with self._translating(), self.engine.connect() as connection:
            connection.exec_driver_sql(begin)
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                connection.connection.rollback()  # nothing happens where SQLite has rolled back already
                raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise _translated(error, self.path) from error
        except UnicodeDecodeError as error:
            raise LedgerIntegrityError(f"{self.path} holds bytes that are no text: {error}") from error

    def close(self) -> None:
        """Closes this process's connections."""
        self._engine.dispose()


def _translated(error: sa.exc.DBAPIError, path: Path) -> Exception:
    reason = str(error.orig)
    if "locked" in reason or "busy" in reason:
        return TimeoutError(f"ledger {path} stayed locked for {PATIENCE:g} s")
    if isinstance(error, sa.exc.OperationalError) and "decode" not in reason and "no such" not in reason:
        return OSError(f"ledger {path}: {reason}")
    return LedgerIntegrityError(f"{path}: {reason}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
