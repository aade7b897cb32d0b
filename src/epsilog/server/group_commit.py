"""Writers of one process in order of arrival, with one commit for all who waited while the disk was busy.

A busy database is asked again after a while by each thread that writes, and among many threads some wait for seconds.
Here each writer calls the next, which continues the open transaction. Each writes a part that is kept or undone by
itself; the last one commits. Every writer is answered after that commit, refusals included: a refusal may depend on
another part of the same group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from epsilog.ledger.store import Store, WriteTransaction
from epsilog.terms import StorageError

TIMEOUT_SECONDS = 60.0  # for earlier writers, which may wait for another process
MAX_GROUP = 64  # writers that share a commit: the first of them waits for the last


class _SharedTransaction:
    """Writers that share a transaction."""

    def __init__(self, store: Store) -> None:
        self._transaction = store.writing()
        self.session = self._transaction.__enter__()
        self.size, self._over, self._trouble = 0, threading.Event(), ""

    @contextmanager
    def part(self) -> Iterator[WriteTransaction]:
        """The part of one writer."""
        self.size += 1
        with self.session.part():
            yield self.session

    def end(self, error: BaseException | None) -> None:
        """Commit; or undo everything after an error that broke the transaction."""
        if error is not None:
            self._trouble = str(error) or repr(error)  # some have no text: out of memory, an interrupt
        try:
            self._transaction.__exit__(None if error is None else type(error), error, None)
        except BaseException as trouble:
            self._trouble = str(trouble) or repr(trouble)
            if not isinstance(trouble, Exception):
                raise
        finally:
            self._over.set()

    def wait(self) -> None:
        """Return once everything is on disk, or refuse if it was not kept or that is unknown."""
        self._over.wait()
        if self._trouble:
            raise StorageError(f"what was written together with others may not have been kept: {self._trouble}")


class GroupCommitStore:
    """A store with writers in order of arrival, which commit together."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock, self._is_taken = store, threading.Lock(), False
        self._waiting: deque[threading.Event] = deque()
        self._group: _SharedTransaction | None = None  # of the current writer

    @property
    def address(self) -> str:
        """That of the store."""
        return self._store.address

    def reading(self) -> AbstractContextManager[WriteTransaction]:
        """One consistent view; readers do not wait, and see committed entries only."""
        return self._store.reading()

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """The only writer, after all earlier ones; its part is on disk when the block has ended."""
        self._wait()
        try:
            group = self._group = self._group or _SharedTransaction(self._store)
        except BaseException:
            self._call_next()
            raise
        broken: BaseException | None = None
        try:
            with group.part() as session:
                yield session
        except BaseException as error:
            broken = None if group.session.intact else error
            raise
        finally:
            self._pass_on(group, broken)
            group.wait()

    def close(self) -> None:
        """Close the store; waiting writers get its error."""
        self._store.close()

    def _wait(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            called = threading.Event()
            self._waiting.append(called)
        try:
            if called.wait(TIMEOUT_SECONDS):
                return
        except BaseException:  # an interrupt
            self._leave(called)
            raise
        self._leave(called)
        raise StorageError(f"ledger {self.address} was busy with those who asked before, for {TIMEOUT_SECONDS:g} s")

    def _leave(self, called: threading.Event) -> None:
        """Stop waiting; a writer that was called already passes the turn on, with the transaction that may be open."""
        with self._lock:
            if called in self._waiting:
                self._waiting.remove(called)
                return
        if self._group is None:
            self._call_next()
        else:
            self._pass_on(self._group, None)

    def _pass_on(self, group: _SharedTransaction, broken: BaseException | None) -> None:
        """Let the next writer continue the transaction, or end it if none waits."""
        with self._lock:  # the next writer is called under the same lock, so it cannot leave in between
            if broken is None and self._waiting and group.size < MAX_GROUP:
                return self._waiting.popleft().set()
            self._group = None
        try:
            group.end(broken)
        finally:
            self._call_next()

    def _call_next(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the turn stays taken
            else:
                self._is_taken = False
