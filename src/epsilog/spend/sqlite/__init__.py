"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.spend.sqlite.library import in_use
from epsilog.spend.sqlite.schema import is_ledger
from epsilog.spend.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "in_use", "is_ledger"]
