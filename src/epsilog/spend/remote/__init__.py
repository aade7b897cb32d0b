"""A ledger that a server keeps, asked over HTTP."""

from epsilog.spend.remote.connection import Connection, Place
from epsilog.spend.remote.store import RemoteStore, is_kept

__all__ = ["Connection", "Place", "RemoteStore", "is_kept"]
