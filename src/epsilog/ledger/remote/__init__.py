"""A ledger that a server keeps, asked over HTTP."""

from epsilog.ledger.remote.connection import Connection, Place
from epsilog.ledger.remote.store import RemoteStore, is_kept

__all__ = ["Connection", "Place", "RemoteStore", "is_kept"]
