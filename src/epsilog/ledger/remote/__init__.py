"""A ledger that a server keeps, asked over HTTP."""

from epsilog.ledger.remote.connection import Connection, ServerAddress
from epsilog.ledger.remote.store import RemoteStore, remote_ledger_exists

__all__ = ["Connection", "RemoteStore", "ServerAddress", "remote_ledger_exists"]
