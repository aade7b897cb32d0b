"""The file under the ledger: journal modes, old libraries, threads, forks, two ledgers on one file."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.extent import ALL

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.sqlite import SqliteStore, get_version, store, version
from epsilog.ledger.sqlite.version import is_wal_safe
from epsilog.mechanisms import PureDP
from epsilog.terms import LedgerIntegrityError, StorageError


@pytest.fixture
def old_library(monkeypatch):
    """The standard library's SQLite, as if it could lose commits with write-ahead logging."""
    monkeypatch.setattr(version, "sqlite", sqlite3)
    monkeypatch.setattr(version, "is_wal_safe", lambda _: False)


def read_pragma(path, name):
    opened = SqliteStore(path)
    with opened._borrow_connection() as connection:
        value = connection.execute(f"PRAGMA {name}").fetchone()[0]
    opened.close()
    return value


@pytest.mark.parametrize("number", [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 0), (3, 51, 2)])
def test_versions_that_can_lose_commits_get_no_write_ahead_log(number):
    assert not is_wal_safe(number)


@pytest.mark.parametrize("number", [(3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 53, 4), (4, 0, 0)])
def test_fixed_versions_get_it(number):
    assert is_wal_safe(number)


def test_every_connection_syncs_fully(path, ledger):
    assert read_pragma(path, "synchronous") == 2
    assert read_pragma(path, "journal_mode").upper() == get_version().journal


def test_an_old_library_gets_the_truncate_journal(old_library, path):
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        ledger.charge("acme", PureDP(0.5), key="q-1")
    assert get_version() == (sqlite3.sqlite_version, "TRUNCATE", "Python")
    assert read_pragma(path, "journal_mode") == "truncate"
    assert read_pragma(path, "synchronous") == 2
    assert verify_ledger(path).count == 2


def test_libraries_may_take_turns_on_one_file(path, monkeypatch):
    for number, safe in enumerate([True, False, True, False]):
        monkeypatch.setattr(version, "is_wal_safe", lambda _, safe=safe: safe)
        with open_ledger(path) as ledger:
            ledger.create_budget("acme", kind="pure", epsilon="1")
            ledger.charge("acme", PureDP(0.1), key=f"q-{number}")
        assert read_pragma(path, "journal_mode") == ("wal" if safe else "truncate")
    assert verify_ledger(path).balances["acme"].committed == {"epsilon": "0.4"}


def test_an_old_library_does_not_write_once_another_has_switched_the_mode(old_library, path, monkeypatch):
    with open_ledger(path) as old:
        old.create_budget("acme", kind="pure", epsilon="1")
        monkeypatch.setattr(version, "is_wal_safe", lambda _: True)
        open_ledger(path).close()
        with pytest.raises(StorageError, match="write-ahead logging"):
            old.charge("acme", PureDP(0.5), key="q-1")
        assert old.find("q-1") is None


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("journal", ["WAL", "TRUNCATE"])
def test_a_fork_and_a_full_disk_take_nothing_away_in_either_journal(tmp_path, journal):
    """Each in a folder of its own, one after another in one interpreter; see ``forked.WORKS``."""
    script = Path(__file__).with_name("forked.py")
    command = [sys.executable, script, tmp_path, journal, "all" if ALL else "some"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_relative_path_stays_the_same_file_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_ledger("sqlite:///budget.db") as ledger:
        ledger._store._close_idle_connections()  # so that the next verb opens the file anew
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        ledger.create_budget("acme", kind="pure", epsilon="1")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert verify_ledger(tmp_path / "budget.db").count == 1


def test_a_file_that_cannot_be_written_is_read_as_it_is(path, ledger, monkeypatch):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    ledger.close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert verify_ledger(path).count == 1
    with read_ledger(path) as reader:
        assert reader.verify().count == 1
        assert list(path.parent.iterdir()) == [path]  # not even while it is read
    assert list(path.parent.iterdir()) == [path]


def test_a_locked_ledger_is_a_timeout_and_writes_nothing(path, ledger, monkeypatch):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with open_ledger(path) as other:
        with ledger._store.writing(), pytest.raises(StorageError, match="stayed locked"):
            other.charge("acme", PureDP(0.25), key="q-1")
        assert other.find("q-1") is None
        other.charge("acme", PureDP(0.25), key="q-1")
    assert len(ledger.verify().charges) == 1


def test_a_connection_that_an_interrupt_closed_is_no_damage(ledger):
    def close_and_ask():
        with ledger._store.reading() as session:
            session._raw.close()
            session.head()

    with pytest.raises(StorageError, match="closed database"):
        close_and_ask()
    ledger.create_budget("acme", kind="pure", epsilon="1")
    assert ledger.verify().count == 1


def test_a_later_format_is_refused(path, ledger):
    with ledger._store.writing() as session:
        session._raw.execute("UPDATE head SET format = 4")
    ledger.close()
    for opened in (open_ledger, read_ledger):
        with pytest.raises(LedgerIntegrityError, match="format 3"):
            opened(path)


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0" + b"\0" * 84], ids=["empty", "header only"])
def test_a_cut_file_is_never_read_as_a_ledger(path, ledger, damage):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    ledger.close()
    path.write_bytes(damage)
    with pytest.raises(LedgerIntegrityError):
        verify_ledger(path)


def test_a_log_on_media_that_cannot_be_written_is_refused_in_words(ledger, path, monkeypatch):
    """As root every file can be written: the folder is made to look as if it could not."""
    ledger.close()
    path.with_name(path.name + "-wal").write_bytes(b"\0" * 100)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(SqliteStore, "_uri", lambda self: f"{self.path.as_uri()}?mode=ro&vfs=none")
    with pytest.raises(StorageError, match=r"copy the file and budget.db-wal"):
        read_ledger(path)
