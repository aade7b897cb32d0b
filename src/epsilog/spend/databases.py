"""A ledger in an SQL database: the connections of one process to it, and transactions that end whatever happens.

One block owns a transaction from its begin to its end, and leaves none open. What is known of the history and of the
balances is taken from one transaction to the next, and held against what lies there before anything is built on it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, ClassVar

from epsilog.spend.entries import GENESIS
from epsilog.spend.forks import Owner
from epsilog.spend.tables import Balances, Head, SqlSession
from epsilog.terms import LedgerIntegrityError, StorageError

_IDLE = 5  # connections that are kept for those who come next
_REMEMBERED = 4096  # balances


class SqlStore(ABC):
    """A ``Store``, but for what one database says in words of its own.

    Args:
        refusal: what a child of a fork is told.
        read_only: for looking only.
    """

    mark: ClassVar[str]  # what the driver wants for a value
    to_read: ClassVar[str]  # what begins a transaction
    to_write: ClassVar[str]
    check: ClassVar[staticmethod[[Any], None]]  # refuses a database that is damaged, or made otherwise than we make it

    def __init__(self, refusal: str, *, read_only: bool) -> None:
        self.read_only, self._open = read_only, True
        self._owner, self._idle = Owner(refusal), list[Any]()
        self._lock = threading.Lock()
        self._seen: Head = (0, GENESIS)  # the longest history that this process knows
        self._refused = ""  # why what lies there was found to be another history, once it was
        self._known: tuple[Head, Balances] | None = None  # balances at a head, between two writers

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it is, as ``open_ledger`` takes it."""

    @abstractmethod
    def _connect(self) -> Any:
        """A new connection, which the owner was told of; it begins no transaction by itself."""

    @abstractmethod
    def _translated(self, error: Exception) -> Exception | None:
        """A driver's error in our words; None for any other."""

    @abstractmethod
    def _admit(self, connection: Any) -> Any:
        """Refuses to write where nothing may be written; what it returns, ``_require_kept`` is told."""

    def _undo(self, connection: Any, error: BaseException | None = None) -> None:  # noqa: ARG002
        """Ends the transaction that an error has left open; nothing happens where there is none any more."""
        connection.rollback()

    def _is_alive(self, connection: Any) -> bool:  # noqa: ARG002
        """Whether a connection that lay idle can be used."""
        return True

    def _require_standing(self, connection: Any) -> None:  # noqa: B027 (most have nothing to say)
        """Refuses to commit what the database has given up already."""

    def _require_kept(self, before: Any) -> None:  # noqa: B027
        """Refuses to acknowledge a commit that others may not find."""

    @contextmanager
    def reading(self) -> Iterator[SqlSession]:
        """One consistent view, undisturbed by whoever writes meanwhile."""
        seen = self._seen  # whoever looks does not wait for what others write from here on
        with self._begun(self.to_read) as connection:
            session = self._session(connection, seen)
            yield session
        self._see(session)

    @contextmanager
    def writing(self) -> Iterator[SqlSession]:
        """The only writer, of all processes, until the block ends; all of it is kept, or nothing.

        Raises:
            StorageError: it cannot be written, or is not where it was opened. Raised at the end, the entries may stand
                or be lost: they were not acknowledged, and a retry with the same key finds out.
        """
        if self.read_only:
            raise StorageError(f"ledger {self.address} is open for reading only")
        with self._begun(self.to_write) as connection:
            before = self._admit(connection)
            session = self._session(connection, self._seen)
            self._continue(session)
            yield session
            self._require_standing(connection)
        self._require_kept(before)
        self._see(session)
        known = session.known
        self._known = known if known is not None and len(known[1]) <= _REMEMBERED else None

    def _session(self, connection: Any, seen: Head) -> SqlSession:
        return SqlSession(
            connection,
            seen,
            mark=self.mark,
            require=self._owner.require_here,
            translating=self._translating,
            check=self.check,
        )

    def _continue(self, session: SqlSession) -> None:
        """Goes on from what is known, if the history is still that one; what was once found to be another, stays so."""
        if self._refused:
            raise LedgerIntegrityError(self._refused)
        try:
            session.check_continues()
        except LedgerIntegrityError as error:
            self._refused = str(error)
            raise
        known, self._known = self._known, None  # whoever fails from here on leaves nothing that is known
        if known is not None and known[0] == session.head():
            session.recall(known[1])

    def _see(self, session: SqlSession) -> None:
        """Remembers the longest history that was seen."""
        if (known := session.known) is not None:
            with self._lock:
                self._seen = max(self._seen, known[0], key=itemgetter(0))  # of two as long the first one: it was seen

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Any]:
        """A transaction, committed or undone when the block ends; a child of a fork leaves it to its parent."""
        with self._lent() as connection:
            connection.execute(begin)
            yield connection
            self._owner.require_here()
            connection.execute("COMMIT")

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        """A connection, which is left without a transaction whatever happens, unless a child of a fork leaves it."""
        self._owner.require_here()  # before any lock
        self._require_open()
        with self._translating():
            connection = self._take()
            try:
                self._require_open()  # whoever closes it meanwhile, either finds this connection or is found here
                yield connection
            except BaseException as error:
                if self._owner.is_here:
                    with suppress(Exception):  # of a connection that is lost: what came first is told
                        self._undo(connection, error)
                raise
            finally:
                if self._owner.is_here:
                    self._give_back(connection)

    def _require_open(self) -> None:
        if not self._open:
            raise StorageError(f"ledger {self.address} is closed")

    def _take(self) -> Any:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if self._is_alive(connection):
                return connection
            self._close(connection)
        return self._connect()

    def _give_back(self, connection: Any) -> None:
        """Keeps a connection for the next. All is undone again: a second interrupt may have come before it was."""
        try:
            self._undo(connection)
        except BaseException as error:
            self._close(connection)
            if isinstance(error, Exception):
                return  # what was to be said, was
            raise
        if self._open and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            self._close(connection)
        if not self._open:  # it was closed meanwhile
            self._disconnect()

    def _close(self, connection: Any) -> None:
        connection.close()
        self._owner.note_closed(connection)

    def _disconnect(self) -> None:
        """Closes the connections that nobody uses."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            self._close(connection)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise LedgerIntegrityError(f"{self.address} holds bytes that are no text: {error}") from error
        except Exception as error:
            if (ours := self._translated(error)) is None:
                raise
            raise ours from error

    def close(self) -> None:
        """Closes this process's connections; in a child of a fork, nothing."""
        if self._open and self._owner.is_here:
            self._open = False
            self._disconnect()
