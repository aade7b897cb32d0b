"""Which SQLite is in use, and what it can be trusted with."""

from __future__ import annotations

import sqlite3 as standard_sqlite3
from typing import NamedTuple

try:
    from pysqlite3 import dbapi2 as sqlite
except ImportError:  # the standard library's SQLite, which may be too old for write-ahead logging
    sqlite = standard_sqlite3

__all__ = ["get_version", "is_wal_safe", "sqlite"]


def is_wal_safe(version: tuple[int, ...]) -> bool:
    """Return whether write-ahead logging keeps every commit in this version of SQLite.

    Up to 3.51.2 a checkpoint and a commit at the same instant could lose commits; fixed in 3.51.3, 3.50.7 and 3.44.6.

    >>> is_wal_safe((3, 40, 1)), is_wal_safe((3, 50, 7)), is_wal_safe((3, 51, 2)), is_wal_safe((3, 53, 0))
    (False, True, False, True)
    """
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


class SqliteVersion(NamedTuple):
    """The SQLite that ledgers use."""

    version: str
    journal: str  # the journal mode that it is trusted with
    package: str  # what it comes with, ``pysqlite3`` or ``Python``


def get_version() -> SqliteVersion:
    """Return the SQLite in use."""
    journal = "WAL" if is_wal_safe(sqlite.sqlite_version_info) else "TRUNCATE"
    return SqliteVersion(sqlite.sqlite_version, journal, "Python" if sqlite is standard_sqlite3 else "pysqlite3")
