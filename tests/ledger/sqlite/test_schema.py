"""What a ledger's file is made of, letter by letter; one that is made otherwise is refused."""

import sqlite3

import pytest
from tests.ledger.stores import charge_in_steps

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.sqlite.schema import SCHEMA
from epsilog.ledger.sqlite.version import sqlite
from epsilog.mechanisms import PureDP
from epsilog.terms import LedgerIntegrityError


@pytest.fixture
def books(ledger):
    ledger.create_budget("pure", kind="pure", epsilon="9")
    charge_in_steps(ledger, "pure", PureDP(0.1), key="a")
    return ledger


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM balances WHERE scope = 'x'; END"


@pytest.mark.parametrize(
    "statements",
    [
        [TRIGGER],
        ["DROP INDEX ix_entries_scope"],
        ["DROP INDEX ix_charges_scope", "CREATE INDEX ix_charges_scope ON charges (key)"],
        ["CREATE VIEW seen AS SELECT * FROM entries"],
        ["CREATE TABLE more (x)"],
        ["ANALYZE"],
        ["ALTER TABLE rounds ADD COLUMN more TEXT"],
        ["ALTER TABLE rounds RENAME COLUMN attempts TO tries"],
        ["ALTER TABLE balances RENAME TO hidden", "CREATE VIEW balances AS SELECT * FROM hidden"],
        ["DROP TABLE head", "CREATE TABLE head (one, format, count, hash, id, home)"],
        ["PRAGMA user_version = 4"],
        ["PRAGMA application_id = 1"],
        ["PRAGMA auto_vacuum = 1", "VACUUM"],
    ],
    ids=lambda statements: statements[0][:30],
)
def test_a_file_made_otherwise_is_refused_opened_verified_and_while_it_is_open(books, path, statements):
    with books._store._borrow_connection() as connection:
        for statement in statements:
            connection.execute(statement)
    if not statements[0].startswith("PRAGMA"):
        with pytest.raises(LedgerIntegrityError):
            books.charge("pure", PureDP(0.1), key="b")
    with pytest.raises(LedgerIntegrityError):
        books.verify()
    books.close()
    for opened in (open_ledger, read_ledger, verify_ledger):
        with pytest.raises(LedgerIntegrityError):
            opened(path)


@pytest.mark.parametrize("act", ["INSERT ON entries", "UPDATE ON head", "INSERT ON charges", "UPDATE ON balances"])
def test_what_a_trigger_drops_in_silence_is_not_acknowledged(books, path, act):
    """A trigger that the version of the schema does not tell of, in connections that were opened after it."""
    books._store._close_idle_connections()
    rows = sqlite.connect(path)
    (version,) = rows.execute("PRAGMA schema_version").fetchone()
    rows.execute(f"CREATE TRIGGER t BEFORE {act} BEGIN SELECT RAISE(IGNORE); END")
    rows.execute(f"PRAGMA schema_version = {version}")
    rows.close()
    with pytest.raises(LedgerIntegrityError, match=r"kept 0 of 1 rows"):
        books.charge("pure", PureDP(0.1), key="b")
    with pytest.raises(LedgerIntegrityError, match="'t' than a ledger's"):
        books.verify()


@pytest.mark.parametrize("value", [None, b"\x00", 7, 1.5, "", "null", "[]"])
def test_a_document_that_is_no_text_of_ours_is_refused(books, path, value):
    books.close()
    rows = sqlite3.connect(path)
    rows.execute("PRAGMA writable_schema = 1")
    rows.execute("UPDATE sqlite_master SET sql = replace(sql, 'document TEXT NOT NULL', 'document')")
    rows.commit()
    rows.close()
    rows = sqlite3.connect(path)
    rows.execute("UPDATE entries SET document = ? WHERE position = 4", (value,))
    rows.execute("PRAGMA writable_schema = 1")
    rows.execute("UPDATE sqlite_master SET sql = replace(sql, 'document', 'document TEXT NOT NULL') WHERE name != 'x'")
    rows.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'entries'", (SCHEMA["entries"],))
    for name in ("balances", "charges"):
        rows.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (SCHEMA[name], name))
    rows.commit()
    rows.close()
    for opened in (open_ledger, read_ledger, verify_ledger):
        with pytest.raises(LedgerIntegrityError):
            opened(path)
