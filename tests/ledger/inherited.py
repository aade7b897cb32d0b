"""A ledger of a server that a child inherits by a fork, in an interpreter without other tests' threads.

Usage: python inherited.py URL
"""

import gc
import multiprocessing
import os
import sys

import pytest

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import StorageError


def inherit(ledger, half_read):
    """The child: each verb is refused, and what it closes or collects says nothing on the parent's connections."""
    verbs = (
        lambda: ledger.charge("acme", PureDP(0.125), key="child"),
        lambda: ledger.balance("acme"),
        ledger.head,
        lambda: next(ledger.documents()),
    )
    for verb in verbs:
        with pytest.raises(StorageError, match="forked"):
            verb()
    half_read.close()
    ledger.close()
    gc.collect()
    with open_ledger(sys.argv[1]) as own:  # a server gives the child a session of its own
        own.charge("acme", PureDP(0.125), key=f"child-{os.getpid()}")


def fork(work, *args):
    child = os.fork()
    if child == 0:
        work(*args)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_by_multiprocessing(work, *args):
    child = multiprocessing.get_context("fork").Process(target=work, args=args)
    child.start()
    child.join()
    return child.exitcode


def session_of(ledger):
    """The number of the server's process for this connection, where the server is PostgreSQL."""
    with ledger._store.reading() as session:
        raw = getattr(session, "_raw", None)
        return None if raw is None else raw.info.backend_pid


if __name__ == "__main__":
    with open_ledger(sys.argv[1]) as ledger:
        for number, way in enumerate((fork, fork_by_multiprocessing)):
            before = session_of(ledger)
            half_read = ledger.documents()
            next(half_read)
            assert way(inherit, ledger, half_read) == 0
            half_read.close()
            assert session_of(ledger) == before, "the child ended the parent's session"
            ledger.charge("acme", PureDP(0.125), key=f"parent-{number}")
