"""A ledger in one file: everything that is SQLite's own, from the words of its tables to the locks on its file."""

from epsilog.ledger.sqlite.schema import is_backup as is_backup, is_ledger as is_ledger
from epsilog.ledger.sqlite.store import CopyStore as CopyStore, SqliteStore as SqliteStore
from epsilog.ledger.sqlite.version import get_version as get_version

__all__ = []
