"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.ledger.sqlite.schema import is_backup, is_ledger
from epsilog.ledger.sqlite.store import CopyStore, SqliteStore
from epsilog.ledger.sqlite.version import get_version

__all__ = ["CopyStore", "SqliteStore", "get_version", "is_backup", "is_ledger"]
