"""A ledger that a server keeps, asked over HTTP."""

from epsilog.spend.remote.connection import Connection, Place
from epsilog.spend.remote.ledger import RemoteLedger, RemoteView, is_kept

__all__ = ["Connection", "Place", "RemoteLedger", "RemoteView", "is_kept"]
