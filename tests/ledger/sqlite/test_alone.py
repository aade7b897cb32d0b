"""What is SQLite's own lies in one folder: another database is another folder, and no word elsewhere."""

import ast
import re
from pathlib import Path

import epsilog
from epsilog.ledger.sqlite.schema import SCHEMA

SOURCE = Path(epsilog.__file__).parent
WORDS = re.compile(
    r"\b(?i:pragma|sqlite_master|json_extract|journal_mode|rowid)\b"
    r"|\b(?:WAL|TRUNCATE|IMMEDIATE|SQLite format)\b"
)
KNOWS = {  # what opens or tells a file of its own, and no other
    *("ledger/factory.py", "ledger/selftest.py", "ledger/backups.py", "ledger/diagnostics.py"),
    "ledger/follower.py",
    *("cli/serve.py", "verification/artifacts.py"),
}
SHOWS = {"cli/serve.py": {"WAL", "TRUNCATE"}}  # what a person is told of the machine


def modules(mentions):
    """Every module elsewhere, parsed; of those without a mention only the name."""
    for file in SOURCE.rglob("*.py"):
        name, text = file.relative_to(SOURCE).as_posix(), file.read_text(encoding="utf-8")
        if not name.startswith("ledger/sqlite/"):
            yield name, ast.parse(text if mentions.search(text) else "")


def words(tree):
    """What a module says to a machine: its documentation is for people."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in said:
            yield from WORDS.findall(node.value if isinstance(node.value, str) else node.value.decode("latin-1"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_no_other_module_speaks_to_sqlite():
    spoken = {name: found for name, tree in modules(WORDS) if (found := set(words(tree)))}
    assert spoken == SHOWS


def test_no_other_module_imports_sqlite_or_its_folder():
    names = {name: set(imported(tree)) for name, tree in modules(re.compile("sql"))}
    assert len(names) > 100
    databases = re.compile(r"(pysqlite3|sqlite3|sqlalchemy)\b")
    assert {name for name, found in names.items() if any(map(databases.match, found))} == set()
    folder = {
        name for name, found in names.items() if any(re.match(r"epsilog\.ledger\.sqlite(\.|$)", one) for one in found)
    }
    assert folder <= KNOWS
    assert "ledger/factory.py" in folder


def test_the_words_are_those_that_the_folder_uses():
    """The control: searched in the folder itself, they are found."""
    found = [
        set(words(ast.parse(file.read_text(encoding="utf-8")))) for file in (SOURCE / "ledger/sqlite").glob("*.py")
    ]
    assert {"PRAGMA", "sqlite_master", "journal_mode", "WAL", "IMMEDIATE", "SQLite format"} <= set().union(*found)
    assert not any(WORDS.search(statement) for statement in SCHEMA.values())
