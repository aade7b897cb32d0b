"""Store a ledger in an SQL database: connections, transactions, and checks before and after each write.

One block owns a transaction from BEGIN to COMMIT or ROLLBACK and never leaves it open. The store keeps the longest
history that it has seen and the state after the last transaction, and validates both in every write transaction.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, ClassVar

from epsilog.ledger.entries import GENESIS
from epsilog.ledger.forks import Owner
from epsilog.ledger.tables import Head, KnownState, SqlSession
from epsilog.terms import EpsilogError, LedgerIntegrityError, StorageError

_MAX_IDLE = 5  # open connections that no transaction uses
_MAX_BALANCES = 4096  # in the cache


class SqlStore(ABC):
    """Implement ``Store`` for an SQL database; a subclass adds what differs between databases."""

    placeholder: ClassVar[str]  # of a value, in a statement
    streams: ClassVar[bool]  # whether its driver reads a result row by row
    joins_writes: ClassVar[bool] = False  # whether one statement may write to several tables
    begin_read: ClassVar[str]  # statements that begin a transaction
    begin_write: ClassVar[str]
    check: ClassVar[staticmethod[[Any], None]]  # raises if the schema or the pages are damaged or altered

    def __init__(self, refusal: str, *, read_only: bool) -> None:
        self.read_only, self._open = read_only, True
        self._owner, self._idle_connections = Owner(refusal), list[Any]()
        self._lock = threading.Lock()
        self._longest_head: Head = (0, GENESIS)  # of the longest history that this process has seen
        self._refusal = ""  # the message, once another history was found
        self._known_state: KnownState | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """Return the address that ``open_ledger`` takes."""

    @abstractmethod
    def _connect(self) -> Any:
        """Open a connection in autocommit mode and register it with the owner."""

    @abstractmethod
    def _translate_error(self, error: Exception) -> Exception | None:
        """Convert an error of the driver; return None for any other error."""

    def _refuse_write(self) -> EpsilogError:
        """Return the refusal of a write where the ledger is open for reading."""
        return StorageError(f"ledger {self.address} is open for reading only")

    @abstractmethod
    def _check_before_write(self, connection: Any) -> Any:
        """Raise if the ledger must not be written; return the argument of ``_check_after_commit``."""

    def _begin(self, connection: Any, begin: str) -> None:
        """Begin a transaction."""
        connection.execute(begin)

    def _read_head_rows(self, connection: Any) -> list[Any] | None:  # noqa: ARG002
        """Return the rows of the head, if a write transaction began with reading them."""
        return None

    def _undo(self, connection: Any, error: BaseException | None = None) -> None:  # noqa: ARG002
        """Roll back the open transaction, if there is one."""
        connection.rollback()

    def _is_lost(self, connection: Any) -> bool:  # noqa: ARG002
        """Return whether a connection no longer works, so that a transaction begins on another one."""
        return False

    def _check_before_commit(self, connection: Any) -> None:  # noqa: B027 (optional)
        """Raise if the database has already aborted the transaction."""

    def _check_after_commit(self, before: Any) -> None:  # noqa: B027 (optional)
        """Raise if other processes may not find the committed rows."""

    @contextmanager
    def reading(self) -> Iterator[SqlSession]:
        """Open one consistent view that concurrent writers do not change."""
        seen = self._longest_head  # before BEGIN: the view may lack what is committed later
        with self._transaction(self.begin_read) as connection:
            session = SqlSession(connection, self, seen)
            yield session
        self._remember_head(session)

    @contextmanager
    def writing(self) -> Iterator[SqlSession]:
        """Open the only write transaction of all processes; it commits as a whole or not at all."""
        if self.read_only:
            raise self._refuse_write()
        with self._transaction(self.begin_write) as connection:
            before = self._check_before_write(connection)
            session = SqlSession(connection, self, self._longest_head, self._read_head_rows(connection))
            self._check_history(session)
            yield session
            self._check_before_commit(connection)
            session.write_moved()
        self._check_after_commit(before)
        self._remember_head(session)
        known = session.state
        self._known_state = known if known is not None and len(known.balances) <= _MAX_BALANCES else None

    def _check_history(self, session: SqlSession) -> None:
        """Require the history that was seen, and use what is known if the head is still that.

        After one refusal every later transaction is refused.
        """
        if self._refusal:
            raise LedgerIntegrityError(self._refusal)
        try:
            session.check_continues()
        except LedgerIntegrityError as error:
            self._refusal = str(error)
            raise
        known, self._known_state = self._known_state, None  # a failure from here on leaves nothing known
        if known is not None and known.head == session.head():
            session.use_state(known)

    def _remember_head(self, session: SqlSession) -> None:
        """Keep the head of the longest history."""
        if (known := session.state) is not None:
            with self._lock:
                # of two histories of one length the first was seen
                self._longest_head = max(self._longest_head, known.head, key=itemgetter(0))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Any]:
        """Run a block in a transaction: commit at the end, or roll back; a child after a fork does neither."""
        with self._borrow_connection(begin) as connection:
            yield connection
            self.require_here()
            connection.execute("COMMIT")

    @contextmanager
    def _borrow_connection(self, begin: str = "") -> Iterator[Any]:
        """Lend a connection, in a transaction if one is to begin, and leave none open, except in a child of a fork."""
        self.require_here()  # before any lock
        self._require_open()
        with self.translate_errors():
            connection = self._acquire()
            try:
                self._require_open()  # again: ``close`` may have missed this connection
                if begin:
                    try:
                        self._begin(connection, begin)
                    except Exception:
                        if not self._is_lost(connection):
                            raise
                        self._close(connection)
                        connection = self._connect()
                        self._begin(connection, begin)
                yield connection
            except BaseException as error:
                if self._owner.is_here:
                    with suppress(Exception):  # of a lost connection; the first error counts
                        self._undo(connection, error)
                raise
            finally:
                if self._owner.is_here:
                    self._release(connection)

    def require_here(self) -> None:
        """Refuse a child after a fork, which must not use the driver."""
        self._owner.require_here()

    def _require_open(self) -> None:
        if not self._open:
            raise StorageError(f"ledger {self.address} is closed")

    def _acquire(self) -> Any:
        with suppress(IndexError):  # there is none
            return self._idle_connections.pop()
        return self._connect()

    def _release(self, connection: Any) -> None:
        """Keep a connection for the next transaction; an interrupt may have stopped the first rollback."""
        try:
            self._undo(connection)
        except BaseException as error:
            self._close(connection)
            if isinstance(error, Exception):
                return  # the commit or the first error counts
            raise
        if self._open and len(self._idle_connections) < _MAX_IDLE:
            self._idle_connections.append(connection)
        else:
            self._close(connection)
        if not self._open:  # ``close`` was called meanwhile
            self._close_idle_connections()

    def _close(self, connection: Any) -> None:
        connection.close()
        self._owner.note_closed(connection)

    def _close_idle_connections(self) -> None:
        """Close the connections that no transaction uses."""
        while self._idle_connections:
            try:
                connection = self._idle_connections.pop()
            except IndexError:
                return
            self._close(connection)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Convert the errors of the driver that the block raises."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise LedgerIntegrityError(f"{self.address} holds bytes that are not text: {error}") from error
        except Exception as error:
            if (ours := self._translate_error(error)) is None:
                raise
            raise ours from error

    def close(self) -> None:
        """Close the connections of this process; do nothing in a child after a fork."""
        if self._open and self._owner.is_here:
            self._open = False
            self._close_idle_connections()
