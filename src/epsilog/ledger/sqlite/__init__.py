"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.ledger.sqlite.library import get_version
from epsilog.ledger.sqlite.schema import is_ledger
from epsilog.ledger.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "get_version", "is_ledger"]
