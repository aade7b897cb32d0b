"""A ledger that a server keeps, asked over HTTP."""

from epsilog.ledger.remote.connection import Connection as Connection, ServerAddress as ServerAddress
from epsilog.ledger.remote.store import RemoteStore as RemoteStore, remote_ledger_exists as remote_ledger_exists

__all__ = []
