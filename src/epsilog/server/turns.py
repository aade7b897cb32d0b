"""Writers of one process in turn, and one commit for all who waited while the disk was busy.

A database that is busy is asked again after a while, by whoever happens to ask: among many threads some wait for
seconds. Here the next is called by the one before, and finds that one's transaction still open: what each writes is a
part of it that is kept or undone by itself, and the last of them commits. Nobody is told anything before that commit
has lasted, whoever was refused included: the refusal may rest on what another of the group wrote.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from epsilog.ledger.store import Store, WriteTransaction
from epsilog.terms import StorageError

PATIENCE = 60.0  # seconds to wait for those who asked before: they in turn may wait for another process
MOST = 64  # writers that share a commit: the first of them waits for the last


class _Group:
    """Writers who share a transaction."""

    def __init__(self, store: Store) -> None:
        self._transaction = store.writing()
        self.session = self._transaction.__enter__()
        self.size, self._over, self._trouble = 0, threading.Event(), ""

    @contextmanager
    def part(self) -> Iterator[WriteTransaction]:
        """What one of them writes."""
        self.size += 1
        with self.session.part():
            yield self.session

    def end(self, error: BaseException | None) -> None:
        """Commits, or after an error that leaves no transaction to go on with, undoes all of it."""
        if error is not None:
            self._trouble = str(error) or repr(error)  # some say nothing: out of memory, an interrupt
        try:
            self._transaction.__exit__(None if error is None else type(error), error, None)
        except BaseException as trouble:
            self._trouble = str(trouble) or repr(trouble)
            if not isinstance(trouble, Exception):
                raise
        finally:
            self._over.set()

    def wait(self) -> None:
        """Returns once all of it lasts.

        Raises:
            StorageError: it was not kept, or nobody knows.
        """
        self._over.wait()
        if self._trouble:
            raise StorageError(f"what was written together with others may not have been kept: {self._trouble}")


class GroupCommitStore:
    """A store whose writers come to their turn in the order in which they asked, and commit together."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock, self._taken = store, threading.Lock(), False
        self._waiting: deque[threading.Event] = deque()
        self._group: _Group | None = None  # of whoever has the turn

    @property
    def address(self) -> str:
        """That of the store."""
        return self._store.address

    def reading(self) -> AbstractContextManager[WriteTransaction]:
        """One consistent view; readers wait for nobody, and see nothing that does not last."""
        return self._store.reading()

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """The only writer, once those who asked before have written; what it writes lasts when the block has ended."""
        self._wait()
        try:
            group = self._group = self._group or _Group(self._store)
        except BaseException:
            self._call_the_next()
            raise
        broken: BaseException | None = None
        try:
            with group.part() as session:
                yield session
        except BaseException as error:
            broken = None if group.session.whole else error
            raise
        finally:
            self._pass_on(group, broken)
            group.wait()

    def close(self) -> None:
        """Closes the store; those who wait are told by it."""
        self._store.close()

    def _wait(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            called = threading.Event()
            self._waiting.append(called)
        try:
            if called.wait(PATIENCE):
                return
        except BaseException:  # an interrupt
            self._leave(called)
            raise
        self._leave(called)
        raise StorageError(f"ledger {self.address} was busy with those who asked before, for {PATIENCE:g} s")

    def _leave(self, called: threading.Event) -> None:
        """Waits no longer; whose turn it is already, passes it on, with the transaction that may be open."""
        with self._lock:
            if called in self._waiting:
                self._waiting.remove(called)
                return
        if self._group is None:
            self._call_the_next()
        else:
            self._pass_on(self._group, None)

    def _pass_on(self, group: _Group, broken: BaseException | None) -> None:
        """Lets the next one write into the same transaction, or ends it where nobody waits."""
        with self._lock:  # whoever is counted on is called in the same breath: nobody leaves in between
            if broken is None and self._waiting and group.size < MOST:
                return self._waiting.popleft().set()
            self._group = None
        try:
            group.end(broken)
        finally:
            self._call_the_next()

    def _call_the_next(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the turn stays taken
            else:
                self._taken = False
