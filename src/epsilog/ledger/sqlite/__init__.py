"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.ledger.sqlite.schema import is_ledger
from epsilog.ledger.sqlite.store import SqliteStore
from epsilog.ledger.sqlite.version import get_version

__all__ = ["SqliteStore", "get_version", "is_ledger"]
