"""Store a ledger in one SQLite file, shared by threads and processes.

Every connection syncs fully at commit. Write-ahead logging is used only with a library in which it loses nothing; every
other library gets the slower TRUNCATE journal. A transaction that writes is acknowledged only if the file, its log, its
tables and its history are still those that were opened.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from epsilog import durable_io
from epsilog.ledger.databases import SqlStore
from epsilog.ledger.sqlite import schema, version
from epsilog.ledger.sqlite.ledger_file import (
    LedgerFile,
    LogEnd,
    make_sidecar_path,
    refusal_after_fork,
    refuse_orphans,
    translate_disk_errors,
)
from epsilog.ledger.tables import HEAD, SqlSession, read_head
from epsilog.terms import CheckError, ConflictError, EpsilogError, LedgerIntegrityError, StorageError

PATIENCE = 60.0  # seconds to wait for another process
_PRAGMAS = (
    "synchronous=FULL",
    "fullfsync=1",
    "checkpoint_fullfsync=1",
    "cell_size_check=1",
    "trusted_schema=0",
    "wal_autocheckpoint=256",  # pages: a log that is written over costs less than one that grows
)


@cache
def _connection_class(module: Any) -> Any:
    """Return a connection class with weak references, which ``forks`` needs."""
    return type("Connection", (module.Connection,), {})


class SqliteStore(SqlStore):
    """A ledger's file: a ``Store``."""

    application_id = schema.APPLICATION_ID  # of a file that it writes
    placeholder, begin_read, begin_write, streams = "?", "BEGIN", "BEGIN IMMEDIATE", True
    check = staticmethod(schema.validate_file)

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path.resolve()
        super().__init__(refusal_after_fork(self.path), read_only=read_only)
        self._journal = self._choose_journal()
        self._schema: int | None = None
        self._logs: tuple[int, ...] = ()
        if not read_only:
            _make_folder(self.path.parent)
        elif not _is_file(path):
            raise CheckError("ledger", "a file that exists", repr(str(path)))
        self._file = LedgerFile(self.path, create=not read_only)
        try:
            if not read_only:
                self._create()
            with self._transaction("BEGIN") as connection:
                self._schema = self._require_format(connection)
                SqlSession(connection, self, self._longest_head).head()
                if read_only and not schema.is_backup(self.path):  # a backup is complete and cannot be charged
                    self._refuse_moved_without_log(*schema.read_identity(connection))
        except BaseException:
            self.close()
            raise

    def _choose_journal(self) -> str:
        return version.get_version().journal

    def _connect(self) -> Any:
        if not self._owner.has_connections:  # with its last one SQLite took the log away, and this one makes another
            self._logs = ()
        connection = version.sqlite.connect(
            self._uri(),
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            factory=_connection_class(version.sqlite),
        )
        self._owner.note_opened(connection)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if self.read_only:
            connection.execute("PRAGMA query_only=1")
        elif self._journal != "WAL":  # the mode of a connection; write-ahead logging is a mode of the file
            connection.execute(f"PRAGMA journal_mode={self._journal}")
        return connection

    def _uri(self) -> str:
        address = f"{self.path.as_uri()}?mode="
        if not self.read_only:
            return address + "rwc"
        writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if writable:  # so that a crashed writer's journal is played back, and nothing is left behind
            return address + "rw"
        return address + ("ro" if make_sidecar_path(self.path, "-wal").exists() else "ro&immutable=1")

    def _set_journal(self, connection: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:  # SQLite does not wait by itself here
            try:
                mode = schema.read_pragma(connection, f"journal_mode={self._journal}")
            except version.sqlite.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if str(mode).upper() != self._journal:
                raise StorageError(f"journal_mode must be {self._journal} for {self.path}, SQLite chose {mode}")
            return

    def _create(self) -> None:
        """Create the tables if necessary, in one transaction, before a write-ahead log exists."""
        moved = False
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if schema.is_empty_file(connection):
                schema.create_tables(connection, encode_path(self.path), written=self.application_id)
                durable_io.sync_folder(self.path.parent)
            else:
                self._require_format(connection)
                moved = self._move_in(connection)
        with self._borrow_connection() as connection:
            self._set_journal(connection)
            if moved and self._journal == "WAL":  # the file itself records its location before the log has content
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _require_format(self, connection: Any) -> int:
        return schema.require_format(connection, written=self.application_id)

    def _move_in(self, connection: Any) -> bool:
        """Record the new location of a ledger that was moved completely."""
        number, home = schema.read_identity(connection)
        if home == encode_path(self.path):
            return False
        original = self._refuse_moved_without_log(number, home)
        if original is None:
            raise StorageError(
                f"ledger {self.path} came from {home}, which this user cannot access, and both could be spent: open it "
                "as a user with access, or only read the copy"
            )
        if original:
            raise StorageError(
                f"ledger {self.path} is a copy of {home}, and both could be spent: remove one of them, or read the "
                "copy only"
            )
        schema.record_location(connection, encode_path(self.path))
        return True

    def _refuse_moved_without_log(self, number: str, home: str) -> bool | None:
        """Refuse a ledger that was moved without its log."""
        original = self._find_number_at(home)
        if original == "":
            refuse_orphans(self.path, Path(home))
        return None if original is None else original == number

    def _find_number_at(self, home: str) -> str | None:
        """Return the id of the ledger at another path; "" without a ledger, None without read permission."""
        old = Path(home)
        if home == encode_path(self.path) or _is_same_path(old, self.path):
            return "here"
        try:
            there = old.is_file() and not old.samefile(self.path)
        except OSError:
            return None
        if there and not os.access(old, os.R_OK):
            return None
        return _read_number(old) if there else ""

    @property
    def address(self) -> str:
        """Return the path."""
        return str(self.path)

    def copy_to(self, part: Path, *, application_id: int, home: Path | None = None) -> None:
        """Copy a consistent state into one new file without a log, while others may write; ``home`` is its location."""
        part.touch(mode=0o600, exist_ok=False)
        with closing(version.sqlite.connect(part)) as copy:
            copy.isolation_level = None
            with self._transaction("BEGIN") as connection:
                connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            copy.execute(f"PRAGMA application_id={application_id}")
            if home is not None:
                schema.record_location(copy, encode_path(home.resolve()))

    def read_identity(self) -> tuple[str, str]:
        """Return the ledger's id and its recorded path."""
        with self._transaction("BEGIN") as connection:
            return schema.read_identity(connection)

    def original(self) -> str | None:
        """Return the path of the ledger that this is a copy of, if that may still exist."""
        number, home = self.read_identity()
        return home if self._find_number_at(home) in (number, None) else None

    def _refuse_write(self) -> EpsilogError:
        if schema.is_backup(self.path):
            return ConflictError(
                "this is a copy of a ledger, which takes no charge and no change: ask the ledger itself"
            )
        return super()._refuse_write()

    def _check_before_write(self, connection: Any) -> LogEnd | None:
        """Check journal mode, file, log and schema; return the end of the log for ``_check_after_commit``."""
        if self._journal != "WAL" and schema.read_pragma(connection, "journal_mode") == "wal":
            raise StorageError(
                f"ledger {self.path} was switched to write-ahead logging, in which SQLite "
                f"{version.get_version().version} "
                "can lose commits: open it again while no other process has it open"
            )
        logs = self._check_files()
        with translate_disk_errors(self.path):
            self._file.check_size()
            end = self._file.log_end(logs) if logs else None
        if schema.read_pragma(connection, "schema_version") != self._schema:
            self._schema = self._require_format(connection)
        return end

    def _check_after_commit(self, before: LogEnd | None) -> None:
        """Raise if the rows went to another file or log than those at the path now."""
        logs = self._check_files()
        if logs:
            with translate_disk_errors(self.path):
                self._file.check_log(logs, before)

    def _check_files(self) -> tuple[int, ...]:
        """Require that the file and its log are still those that were opened."""
        self._file.check()
        if self._journal != "WAL":
            return ()
        logs = self._file.logs()
        if self._logs and logs != self._logs:
            raise StorageError(f"ledger {self.path} is open, and its log was replaced")
        self._logs = logs
        return logs

    def _translate_error(self, error: Exception) -> Exception | None:
        return _translate_error(error, self.path) if isinstance(error, version.sqlite.Error) else None

    def close(self) -> None:
        """Close the connections of this process; do nothing in a child after a fork."""
        if not (self._open and self._owner.is_here):
            return
        super().close()
        if not self._owner.has_connections:  # else a thread still writes: the name stays taken, which is harmless
            self._file.release()


class CopyStore(SqliteStore):
    """The file of a copy that grows: written by its follower alone, read by others, and never charged."""

    application_id = schema.BACKUP_ID

    def __init__(self, path: Path, *, original: tuple[str, str] | None = None) -> None:
        """Open or create it; ``original`` is the id and the path of its ledger, where that is a file."""
        if _is_file(path) and path.stat().st_size and not schema.is_backup(path):  # before its journal is changed
            raise StorageError(f"{path} is no copy of a ledger: follow into a new file")
        super().__init__(path)
        if original is not None:
            self._record_original(*original)

    def _choose_journal(self) -> str:
        return "TRUNCATE"  # the whole copy is one file

    def _move_in(self, connection: Any) -> bool:  # noqa: ARG002
        return False

    def _record_original(self, number: str, home: str) -> None:
        with self.translate_errors(), self._transaction("BEGIN IMMEDIATE") as connection:
            known, _ = schema.read_identity(connection)
            if known != number and read_head(connection.execute(HEAD))[0]:
                raise StorageError(f"{self.path} is a copy of another ledger than {home}")
            schema.record_identity(connection, number, home)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise StorageError(f"ledger {path} cannot be looked up: {error.strerror}") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"folder {folder} cannot be created: {error.strerror}") from error


def encode_path(path: Path) -> str:
    """Encode a path for storage; escape names that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _is_same_path(one: Path, other: Path) -> bool:
    """Return whether two paths name the same entry of the same folder."""
    try:
        return one.name == other.name and one.parent.samefile(other.parent)
    except OSError:
        return False


def _read_number(path: Path) -> str:
    """Return the id of the ledger at a path, or ""; the id never changes, so the log is not read."""
    try:
        connection = version.sqlite.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            return str(connection.execute("SELECT id FROM head").fetchone()[0])
        finally:
            connection.close()
    except (version.sqlite.Error, TypeError):
        return ""


def _translate_error(error: Exception, path: Path) -> Exception:
    reason = str(error)
    if "locked" in reason or "busy" in reason:
        return StorageError(f"ledger {path} stayed locked for {PATIENCE:g} s")
    if make_sidecar_path(path, "-wal").exists() and not os.access(path.parent, os.W_OK):
        return StorageError(
            f"ledger {path} has a log and is in a read-only folder ({reason}): copy the file and {path.name}-wal to a "
            "writable folder and read them there"
        )
    if isinstance(error, version.sqlite.ProgrammingError):  # a connection that an interrupt closed: the file is whole
        return StorageError(f"ledger {path}: {reason}")
    if isinstance(error, version.sqlite.OperationalError) and "decode" not in reason and "no such" not in reason:
        return StorageError(f"ledger {path}: {reason}")
    return LedgerIntegrityError(f"{path}: {reason}")
