"""An open ledger belongs to the process that opened it: a child of a fork refuses it, and closes none of it.

A fork copies what SQLite knows of its locks, but not the locks. A child that used an inherited connection, or opened
the same file again, would write under locks that it does not hold. Closing does not help: SQLite's closing code removes
a log by its name, which may be another process's by then, and libpq's ends the session that the parent still uses. So
the child takes one reference to each connection and never releases it. Then no closing code runs in it, also at exit.
``docs/boundaries.md`` has the rule in full.
"""

from __future__ import annotations

import ctypes
import os
from weakref import WeakSet

from epsilog.terms import StorageError

_process, _forks = os.getpid(), 0  # of this process; how many forks lie between it and the first one
_owners: WeakSet[Owner] = WeakSet()


class Owner:
    """Identify the process that opened a ledger, and hold its open connections."""

    def __init__(self, refusal: str) -> None:
        self._refusal, self._forks = refusal, _count_forks()
        self._connections: WeakSet[object] = WeakSet()  # weak: a connection lost by an interrupt is closed
        _owners.add(self)

    @property
    def is_here(self) -> bool:
        """Return whether this is the process that opened it."""
        return self._forks == _count_forks()

    def require_here(self) -> None:
        """Refuse every other process before any lock: another thread may have held it at the fork."""
        if self._forks != _count_forks():
            raise StorageError(self._refusal)

    def note_opened(self, connection: object) -> None:
        """Register a connection of the driver that a child must not close."""
        self._connections.add(connection)

    def note_closed(self, connection: object) -> None:
        """Unregister a connection that its own process closed."""
        self._connections.discard(connection)

    @property
    def has_connections(self) -> bool:
        """Return whether any connection is open."""
        return bool(self._connections)

    def keep_connections(self) -> None:
        """Take references that are never released."""
        for connection in self._connections:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _count_forks() -> int:
    if _process != os.getpid():  # a fork that did not call Python's hooks
        _note_fork()
    return _forks


def _note_fork() -> None:
    global _process, _forks
    _process, _forks = os.getpid(), _forks + 1
    for owner in _owners:
        owner.keep_connections()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is nothing to note
    os.register_at_fork(after_in_child=_note_fork)
