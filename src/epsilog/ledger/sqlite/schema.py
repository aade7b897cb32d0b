"""Define the schema of a ledger's file, and read its format, id and location."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsilog.ledger.sqlite.ledger_file import read_first_bytes
from epsilog.ledger.tables import FORMAT, HEAD, create_head, read_head
from epsilog.terms import LedgerIntegrityError, StorageError

APPLICATION_ID = 0x65707367  # "epsg", in the header of the file
BACKUP_ID = 0x65707362  # "epsb": a backup or a follower's copy, which is read and restored, and never charged

# What the file is made of, letter by letter: SQLite keeps these words, and a ledger with others is refused.
SCHEMA = {
    "head": """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL,
    id TEXT NOT NULL,
    home TEXT NOT NULL
)""",
    "entries": """CREATE TABLE entries (
    position INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    document TEXT NOT NULL,
    hash TEXT NOT NULL
)""",
    "balances": """CREATE TABLE balances (
    scope TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL
)""",
    "charges": """CREATE TABLE charges (
    key TEXT NOT NULL,
    scope TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (key, scope)
)""",
    "rounds": """CREATE TABLE rounds (
    key TEXT NOT NULL,
    scope TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    output_hash TEXT,
    PRIMARY KEY (key, scope, number)
)""",
    "ix_entries_scope": "CREATE INDEX ix_entries_scope ON entries (scope)",
    "ix_charges_scope": "CREATE INDEX ix_charges_scope ON charges (scope)",
}
_AUTOMATIC = {f"sqlite_autoindex_{table}_1": None for table in ("balances", "charges", "rounds")}
_SETTINGS = {"user_version": FORMAT, "encoding": "UTF-8", "auto_vacuum": 0}


def read_pragma(connection: Any, name: str) -> Any:
    """Read a PRAGMA; ``schema_version`` changes with every table, index, trigger or view."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def require_format(connection: Any, *, written: int = APPLICATION_ID) -> int:
    """Raise if the file is not a ledger or its schema was altered; return the version of the schema.

    A connection that writes needs a file with the application id ``written``.
    """
    version, carried = int(read_pragma(connection, "schema_version")), read_pragma(connection, "application_id")
    made = {str(row[0]): row[1] for row in connection.execute("SELECT name, sql FROM sqlite_master")}
    if carried not in (APPLICATION_ID, BACKUP_ID) or "head" not in made:
        raise LedgerIntegrityError("the file is not an epsilog ledger")
    if carried != written and not read_pragma(connection, "query_only"):
        if carried == BACKUP_ID:
            raise StorageError("the file is a backup of a ledger: read it, or restore it (`epsilog ledger restore`)")
        raise StorageError("the file is no copy of a ledger")
    for name, value in _SETTINGS.items():
        if (found := read_pragma(connection, name)) != value:
            raise LedgerIntegrityError(f"{name} of the file must be {value}, got {found!r}")
    expected = SCHEMA | _AUTOMATIC
    for name in sorted(made.keys() | expected.keys()):
        if made.get(name, "nothing") != expected.get(name, "nothing"):
            raise LedgerIntegrityError(f"the file holds another {name!r} than a ledger's: it was added or altered")
    read_head(connection.execute(HEAD))
    return version


def validate_file(connection: Any) -> None:
    """Raise if the format, a page or an index is damaged."""
    require_format(connection)
    pages = str(read_pragma(connection, "integrity_check(1)"))
    if pages != "ok":
        raise LedgerIntegrityError(f"SQLite finds the file damaged: {pages}")


def create_tables(connection: Any, home: str, *, written: int = APPLICATION_ID) -> None:
    """Create the tables in an empty file, with an application id."""
    for name, value in (("application_id", written), ("user_version", FORMAT)):
        connection.execute(f"PRAGMA {name}={value}")
    for statement in SCHEMA.values():
        connection.execute(statement)
    connection.execute(*create_head(home))


def is_empty_file(connection: Any) -> bool:
    """Return whether the file is empty."""
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not (objects or read_pragma(connection, "application_id") or read_pragma(connection, "user_version"))


def read_identity(connection: Any) -> tuple[str, str]:
    """Return the ledger's id and its recorded path."""
    ((number, home),) = connection.execute("SELECT id, home FROM head")
    if not (isinstance(number, str) and isinstance(home, str) and Path(home).is_absolute() and "\0" not in home):
        raise LedgerIntegrityError(f"the head must hold the ledger's number and a path, got {number!r}, {home!r:.80}")
    return number, home


def record_location(connection: Any, home: str) -> None:
    """Record the path of the ledger."""
    connection.execute("UPDATE head SET home = ?", (home,))


def record_identity(connection: Any, number: str, home: str) -> None:
    """Record the id and the path of the ledger that a file is a copy of."""
    connection.execute("UPDATE head SET id = ?, home = ?", (number, home))


def is_ledger(path: Path) -> bool:
    """Return whether the file has the application id of a ledger or a backup."""
    return _read_version(path) in (APPLICATION_ID, BACKUP_ID)


def is_backup(path: Path) -> bool:
    """Return whether the file has the application id of a backup."""
    return _read_version(path) == BACKUP_ID


def _read_version(path: Path) -> int | None:
    header = read_first_bytes(path, 100)
    return int.from_bytes(header[68:72], "big") if header.startswith(b"SQLite format 3\0") else None
