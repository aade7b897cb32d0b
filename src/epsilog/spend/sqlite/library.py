"""Which SQLite is in use, and what it can be trusted with."""

from __future__ import annotations

import sqlite3 as standard_sqlite3

try:
    from pysqlite3 import dbapi2 as sqlite
except ImportError:  # the standard library's SQLite, which may be too old for write-ahead logging
    sqlite = standard_sqlite3

__all__ = ["in_use", "sqlite", "wal_is_safe"]


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Whether write-ahead logging keeps every commit in this version of SQLite.

    Up to 3.51.2 a checkpoint and a commit at the same instant could lose commits; fixed in 3.51.3, 3.50.7 and 3.44.6.

    >>> wal_is_safe((3, 40, 1)), wal_is_safe((3, 50, 7)), wal_is_safe((3, 51, 2)), wal_is_safe((3, 53, 0))
    (False, True, False, True)
    """
    return version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)


def in_use() -> tuple[str, str]:
    """The SQLite version in use and the journal mode that it is trusted with."""
    return sqlite.sqlite_version, "WAL" if wal_is_safe(sqlite.sqlite_version_info) else "TRUNCATE"
