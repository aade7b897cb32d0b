"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.ledger.sqlite.library import in_use
from epsilog.ledger.sqlite.schema import is_ledger
from epsilog.ledger.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "in_use", "is_ledger"]
