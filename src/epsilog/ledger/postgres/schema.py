"""Define the schema of a ledger and compare it with the catalog."""

from __future__ import annotations

from typing import Any

from epsilog.ledger.tables import EARLIER, FORMAT, HEAD, create_head, read_head
from epsilog.terms import LedgerIntegrityError

PLACEHOLDER = "%s"  # of a value, in a statement

# Texts compare by their bytes, and a position may be any that a ledger grows to.
SCHEMA = (
    """CREATE TABLE head (
    one INTEGER CONSTRAINT head_key PRIMARY KEY CONSTRAINT head_one CHECK (one = 1),
    format INTEGER NOT NULL,
    count BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    home TEXT COLLATE "C" NOT NULL
)""",
    """CREATE TABLE entries (
    position BIGINT CONSTRAINT entries_key PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    document TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL
)""",
    """CREATE TABLE balances (
    scope TEXT COLLATE "C" CONSTRAINT balances_key PRIMARY KEY,
    document TEXT COLLATE "C" NOT NULL
)""",
    """CREATE TABLE charges (
    key TEXT COLLATE "C",
    scope TEXT COLLATE "C",
    document TEXT COLLATE "C" NOT NULL,
    CONSTRAINT charges_key PRIMARY KEY (key, scope)
)""",
    """CREATE TABLE rounds (
    key TEXT COLLATE "C",
    scope TEXT COLLATE "C",
    number BIGINT,
    attempts BIGINT NOT NULL,
    output_hash TEXT COLLATE "C",
    CONSTRAINT rounds_key PRIMARY KEY (key, scope, number)
)""",
    "CREATE INDEX entries_scope ON entries (scope)",
    "CREATE INDEX charges_scope ON charges (scope)",
)

_TEXT, _NUMBER, _COUNT = "text C", "integer", "bigint"
_COLUMNS = {
    "head": f"one {_NUMBER}! format {_NUMBER}! count {_COUNT}! hash {_TEXT}! id {_TEXT}! home {_TEXT}!",
    "entries": f"position {_COUNT}! scope {_TEXT}! document {_TEXT}! hash {_TEXT}!",
    "balances": f"scope {_TEXT}! document {_TEXT}!",
    "charges": f"key {_TEXT}! scope {_TEXT}! document {_TEXT}!",
    "rounds": f"key {_TEXT}! scope {_TEXT}! number {_COUNT}! attempts {_COUNT}! output_hash {_TEXT}",
}
_KEYS = {
    "head": "one",
    "entries": "position",
    "balances": "scope",
    "charges": "key, scope",
    "rounds": "key, scope, number",
}
_KEEPS_FORMAT = f"table head: {_COLUMNS['head']}"
PARTS = frozenset(
    {f"table {name}: {columns}" for name, columns in _COLUMNS.items()}
    | {f"constraint {name}_key of {name}: PRIMARY KEY ({key})" for name, key in _KEYS.items()}
    | {"constraint head_one of head: CHECK ((one = 1))"}
    | {f"index {name}_key of {name}: unique btree ({key})" for name, key in _KEYS.items()}
    | {f"index {name}_scope of {name}: btree (scope)" for name in ("entries", "charges")}
)
"""The exact description of a ledger's schema in the catalog."""

# Each of these gives lines of text. Relations say what they are only where that is no plain, logged, unguarded table.
_TABLES = """
SELECT concat('table ', c.relname, ': ', string_agg(concat(a.attname, ' ', format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> 0 THEN concat(' ', l.collname) END, CASE WHEN a.attnotnull THEN '!' END,
        CASE WHEN a.atthasdef OR a.attidentity <> '' THEN ' filled in' END), ' ' ORDER BY a.attnum),
    CASE WHEN c.relkind <> 'r' THEN concat(', of kind ', c.relkind) END,
    CASE WHEN c.relpersistence <> 'p' THEN ', not logged' END,
    CASE WHEN c.relhasrules THEN ', with rules' END,
    CASE WHEN c.relrowsecurity OR c.relforcerowsecurity THEN ', with row security' END,
    CASE WHEN EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) THEN ', inherited' END)
FROM pg_class c
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind NOT IN ('i', 'c')
GROUP BY c.oid, c.relname, c.relkind, c.relpersistence, c.relhasrules, c.relrowsecurity, c.relforcerowsecurity
"""
_CONSTRAINTS = """
SELECT concat('constraint ', n.conname, ' of ', c.relname, ': ', pg_get_constraintdef(n.oid),
    CASE WHEN NOT n.convalidated THEN ', not checked' END)
FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND n.contype <> 'n'
"""
_INDEXES = """
SELECT concat('index ', o.relname, ' of ', c.relname, ': ', CASE WHEN i.indisunique THEN 'unique ' END,
    regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', ''),
    CASE WHEN NOT (i.indisvalid AND i.indisready) THEN ', not valid' END)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class o ON o.oid = i.indexrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
"""
_TRIGGERS = """
SELECT concat('trigger ', t.tgname, ' of ', c.relname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = CAST(current_schema() AS regnamespace)
"""
_CATALOG = " UNION ALL ".join((_TABLES, _CONSTRAINTS, _INDEXES, _TRIGGERS))


def describe_schema(connection: Any) -> set[str]:
    """Return the description of the schema in the catalog, without quotes; empty without one."""
    return {str(line).replace('"', "") for (line,) in connection.execute(_CATALOG)}


def validate_schema(connection: Any) -> None:
    """Raise if the schema is not a ledger's or was altered."""
    found = describe_schema(connection)
    if not any(line.startswith("table head:") for line in found):
        raise LedgerIntegrityError("the schema is not an epsilog ledger")
    if found != PARTS:
        if _KEEPS_FORMAT in found:
            carried = connection.execute("SELECT format FROM head").fetchone()[0]
            if carried in range(FORMAT):
                raise LedgerIntegrityError(EARLIER.format(carried))
        other = ", ".join(sorted(found ^ PARTS)[:3])
        raise LedgerIntegrityError(f"the schema differs from that of a ledger: {other} was added, altered or removed")
    read_head(connection.execute(HEAD))


def create_schema(connection: Any, home: str) -> None:
    """Create the tables in an empty schema."""
    for statement in SCHEMA:
        connection.execute(statement)
    statement, values = create_head(home)
    connection.execute(statement.replace("?", PLACEHOLDER), values)
