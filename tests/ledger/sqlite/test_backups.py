"""Backups are whole and checked; what is put back says so, and takes nothing of which nobody knows what became."""

import shutil
import threading
from datetime import UTC, datetime

import pytest

from epsilog.ledger import Ledger, Verb, exports, open_ledger, verify_ledger
from epsilog.ledger.backups import copy_ledger, restore_backup
from epsilog.ledger.sqlite import SqliteStore, is_ledger, version
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.terms import CheckError, ConflictError, LedgerIntegrityError, StorageError

ACT = {"actor": "dora", "reason": "the disk is gone"}
HASH = "ab" * 32


@pytest.fixture
def ledger(tmp_path):
    """A ledger with charges in every open state, and one that is done."""
    path = tmp_path / "live" / "budget.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="10")
        books.charge("acme", PureDP(1.0), key="done")
        books.reserve("acme", PureDP(0.5), key="reserved")
        running = books.reserve("acme", PureDP(2.0), key="running", rounds=3)
        running.start()
        running.round_started(1)
        books.override_cost("acme", Gaussian(1.0), key="allowed", amount={"epsilon": "0.25"}, reason="proof")
        books.register_plan("acme", HASH, key="registered")
    return path


@pytest.fixture
def saved(ledger, tmp_path):
    copy_ledger(ledger, tmp_path / "saved.db")
    return tmp_path / "saved.db"


@pytest.fixture
def lost(saved, ledger):
    """The backup of a ledger that is no longer there."""
    shutil.rmtree(ledger.parent)
    return saved


@pytest.fixture
def restored(lost, tmp_path):
    restore_backup(lost, tmp_path / "again.db", **ACT)
    return tmp_path / "again.db"


# --- making one -------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_ledger_as_it_stood_in_one_file_that_nobody_can_charge(ledger, tmp_path):
    to = tmp_path / "saved.db"
    found = copy_ledger(ledger, to)
    assert found == verify_ledger(ledger) == verify_ledger(to)
    assert sorted(tmp_path.iterdir()) == [ledger.parent, to]
    assert is_ledger(to)
    assert to.stat().st_mode & 0o077 == 0
    with pytest.raises(StorageError, match="is a backup of a ledger: read it, or restore it"):
        open_ledger(to)
    with Ledger(SqliteStore(to, read_only=True)) as books, pytest.raises(ConflictError, match="copy of a ledger"):
        books.charge("acme", PureDP(0.1), key="1")
    assert verify_ledger(to) == found
    with open_ledger(ledger) as books:  # the ledger itself goes on
        books.charge("acme", PureDP(0.1), key="1")


@pytest.mark.slow
def test_a_backup_is_consistent_while_others_write(ledger, tmp_path):
    stop, written = threading.Event(), []

    def write():
        with open_ledger(ledger) as books:
            while not stop.is_set():
                soon = datetime(2099, 1, 1, tzinfo=UTC)  # a second entry of the same transaction
                books.reserve("acme", PureDP(1e-9), key=f"k{len(written)}", until=soon)
                written.append(books.head()[0])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = []
        for number in range(5):
            before = len(written)
            while len(written) <= before:
                pass
            least = written[-1]
            counts.append((least, copy_ledger(ledger, tmp_path / f"{number}.db").count))
    finally:
        stop.set()
        writer.join()
    assert all(least <= count for least, count in counts)
    assert all(count % 2 == counts[0][1] % 2 for _, count in counts), "no charge is half there"


@pytest.mark.parametrize("left", ["", ".part", "-wal", "-shm", "-journal"])
def test_a_backup_overwrites_nothing_and_lies_beside_no_log(ledger, tmp_path, left):
    to = tmp_path / "saved.db"
    there = to.with_name(to.name + left)
    there.write_text("mine")
    with pytest.raises(CheckError, match="one that does not exist yet"):
        copy_ledger(ledger, to)
    assert there.read_text() == "mine"


def test_what_does_not_hold_is_no_backup(ledger, tmp_path):
    with version.sqlite.connect(ledger) as raw:
        raw.execute("update balances set document = replace(document, '\"10\"', '\"11\"')")
    raw.close()
    with pytest.raises(LedgerIntegrityError, match="stored balance 'acme'"):
        copy_ledger(ledger, tmp_path / "saved.db")
    assert sorted(tmp_path.iterdir()) == [ledger.parent]
    (tmp_path / "text").write_text("no ledger" * 100)
    with pytest.raises(LedgerIntegrityError, match="not a database"):
        copy_ledger(tmp_path / "text", tmp_path / "saved.db")


# --- putting it back --------------------------------------------------------------------------------------------------


def test_a_restored_ledger_says_so_and_takes_nothing_until_its_owner_accepts(restored, lost):
    before = verify_ledger(lost)
    after = verify_ledger(restored)
    assert (after.count, after.restored, before.restored) == (before.count + 1, (after.count,), ())
    with open_ledger(restored) as books:
        head = books.head()
        running = books.find("running")
        for act in (
            lambda: books.charge("acme", PureDP(0.0), key="new"),
            lambda: books.reserve("acme", PureDP(0.1), key="new"),
            lambda: books.create_budget("new", kind="pure", epsilon="1"),
            lambda: books.set_cap("acme", epsilon="20", **ACT),
            lambda: books.retire("acme", **ACT),
            lambda: books.register_plan("acme", HASH, key="new"),
            lambda: books.override_cost("acme", Gaussian(1.0), key="new", amount={"epsilon": "1"}, reason="so"),
            lambda: books.find("reserved").cancel("no"),
            lambda: books.revoke("reserved", **ACT),
            lambda: books.abandon("running", **ACT),
            lambda: books.decommission("done", **ACT),
            lambda: running.round_released(1, output_hash=HASH),
            running.commit,
        ):
            with pytest.raises(ConflictError, match="restored from a backup"):
                act()
        assert books.head() == head
        books.accept_restored(actor="dora", reason="nothing was charged that day: log of the server")
        (entry,) = books.page(limit=1)
        assert (entry.verb, entry.scope, entry.body["restored"]) == (Verb.RESTORE_ACCEPTED, "", head[0])
        with pytest.raises(ConflictError, match="no restoration of this ledger awaits"):
            books.accept_restored(**ACT)
        books.charge("acme", PureDP(0.1), key="new")
        assert books.verify().restored == (head[0],)


def test_of_what_was_open_in_a_backup_nothing_goes_on_and_nothing_comes_back(restored):
    """It may have started, run and released since; only what is counted as spent is safe."""
    with open_ledger(restored) as books:
        books.accept_restored(**ACT)
        head = books.head()
        waiting, running = books.find("reserved"), books.find("running")
        for act in (
            waiting.start,
            lambda: waiting.cancel("no"),
            lambda: books.revoke("reserved", **ACT),
            lambda: running.round_started(1),
            lambda: running.round_released(1, output_hash=HASH),
            running.commit,
            lambda: books.reserve("acme", Gaussian(1.0), key="allowed", amount={"epsilon": "0.25"}),
            lambda: books.reserve("acme", PureDP(0.1), key="registered", plan_hash=HASH),
        ):
            with pytest.raises(ConflictError, match="was open in the backup"):
                act()
        assert books.head() == head
        for key in ("reserved", "running"):
            books.abandon(key, **ACT)
        assert books.balance("acme").spent == {"epsilon": "3.5"}
        books.decommission("done", **ACT)
        later = books.reserve("acme", PureDP(0.1), key="later")
        later.cancel("what is reserved since goes on as ever")
        books.verify()


def test_an_act_on_a_budget_is_no_act_on_a_charge_whatever_that_is_called(ledger, tmp_path):
    with open_ledger(ledger) as books:
        books.reserve("acme", PureDP(0.1), key="None")
    copy_ledger(ledger, tmp_path / "saved.db")
    ledger.unlink()
    restore_backup(tmp_path / "saved.db", ledger, **ACT)
    with open_ledger(ledger) as books:
        books.accept_restored(**ACT)
        books.set_cap("acme", epsilon="11", **ACT)
        assert books.verify().balances["acme"].caps == {"epsilon": "11"}


def test_a_ledger_may_be_restored_again_and_is_accepted_again(restored, tmp_path):
    with open_ledger(restored) as books:
        books.accept_restored(**ACT)
        books.reserve("acme", PureDP(0.1), key="between")
    copy_ledger(restored, tmp_path / "second.db")
    restored.unlink()
    found = restore_backup(tmp_path / "second.db", restored, **ACT)
    assert len(found.restored) == 2
    with open_ledger(restored) as books:
        with pytest.raises(ConflictError, match="restored from a backup"):
            books.charge("acme", PureDP(0.1), key="new")
        books.accept_restored(**ACT)
        with pytest.raises(ConflictError, match="was open in the backup"):
            books.find("between").start()
        books.verify()


def test_nothing_is_restored_beside_the_ledger_that_was_backed_up(saved, ledger, tmp_path):
    with pytest.raises(StorageError, match=r"may still be at .*both could be spent"):
        restore_backup(saved, tmp_path / "again.db", **ACT)
    with pytest.raises(CheckError, match="does not exist yet"):
        restore_backup(saved, ledger, **ACT)
    assert sorted(tmp_path.iterdir()) == [ledger.parent, saved]


def test_nothing_is_restored_into_the_log_of_the_lost_ledger(saved, ledger, tmp_path):
    ledger.unlink()
    (left := ledger.with_name(f"{ledger.name}-wal")).write_bytes(b"entries of another history")
    with pytest.raises(CheckError, match="nor its log"):
        restore_backup(saved, ledger, **ACT)
    restore_backup(saved, tmp_path / "again.db", **ACT)  # elsewhere the log is in nobody's way
    assert left.exists()
    with open_ledger(tmp_path / "again.db") as books:
        books.accept_restored(**ACT)


def test_what_is_restored_is_a_backup_that_holds(lost, ledger, tmp_path):
    with open_ledger(tmp_path / "other.db"):
        pass
    with pytest.raises(CheckError, match="backup must be a file that `epsilog ledger backup` made"):
        restore_backup(tmp_path / "other.db", tmp_path / "again.db", **ACT)
    content = lost.read_bytes()
    assert content.count(b'"0.5"') > 0
    lost.write_bytes(content.replace(b'"0.5"', b'"0.4"'))
    with pytest.raises(LedgerIntegrityError):
        restore_backup(lost, tmp_path / "again.db", **ACT)
    assert not (tmp_path / "again.db").exists()


@pytest.mark.parametrize("given", [{"actor": ""}, {"reason": " "}])
def test_who_restores_says_who_and_why(lost, tmp_path, given):
    with pytest.raises(CheckError, match="must be"):
        restore_backup(lost, tmp_path / "again.db", **ACT | given)
    assert sorted(tmp_path.iterdir()) == [lost]


def test_whatever_breaks_off_leaves_no_half_of_a_file(lost, tmp_path, monkeypatch):
    monkeypatch.setattr(exports.durable_io, "sync_file", lambda _: 1 / 0)
    for act in (
        lambda: restore_backup(lost, tmp_path / "again.db", **ACT),
        lambda: copy_ledger(lost, tmp_path / "again.db"),
    ):
        with pytest.raises(ZeroDivisionError):
            act()
        assert sorted(tmp_path.iterdir()) == [lost]


def test_a_name_that_was_taken_meanwhile_stays_whose_it_is(saved, tmp_path, monkeypatch):
    to = tmp_path / "again.db"
    monkeypatch.setattr(exports.durable_io, "sync_file", lambda _: to.write_text("mine"))
    with pytest.raises(FileExistsError):
        copy_ledger(saved, to)
    assert to.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.db", "live", "saved.db"]


def test_a_database_of_a_server_is_backed_up_by_its_own_tools_and_its_password_is_not_repeated(tmp_path):
    with pytest.raises(CheckError, match="PostgreSQL is backed up with its own tools") as refused:
        copy_ledger("postgresql://dora:secret@host/db", tmp_path / "saved.db")
    assert "secret" not in str(refused.value)
