"""One file, one name: what happens to a ledger whose file is linked, moved, removed, replaced or copied."""

import itertools
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import pytest

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.sqlite import is_ledger, ledger_file, version
from epsilog.ledger.tables import SqlSession
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError, LedgerIntegrityError, StorageError

sys.path.insert(0, str(Path(__file__).parent))
import obeying


class Another:
    """Another process with this ledger open as ``l``."""

    def __init__(self, path):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["epsilog.ledger.selftest", "epsilog.ledger.sqlite"])
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=obeying.obey, args=(theirs,))
        self.process.start()
        self.path = path

    def does(self, line):
        self.pipe.send(line.replace("PATH", repr(str(self.path))))
        return self.pipe.recv()

    def opens(self):
        return self.does("l = open_ledger(Path(PATH))")

    def charges(self, key, epsilon=0.6):
        return self.does(f"l.charge('acme', PureDP({epsilon}), key={key!r})")

    def kill(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


@pytest.fixture
def another(path):
    """Opens a budget of 1 in another process."""
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    other = Another(path)
    assert other.opens() == "done"
    yield other
    other.kill()


def keys(path):
    return {key for _, key in verify_ledger(path).charges}


def test_two_hard_links_are_never_spent_twice(another, path):
    assert another.charges("a", 0.3) == "done"
    second = path.with_name("second.db")
    os.link(path, second)
    for opened in (open_ledger, read_ledger):
        with pytest.raises(StorageError, match="2 names"):
            opened(second)
    assert "StorageError" in another.charges("b")
    second.unlink()
    assert another.charges("b") == "done"
    assert another.charges("c").startswith("BudgetExceededError")
    assert keys(path) == {"a", "b"}


def test_a_ledger_renamed_while_it_is_open_is_spent_under_neither_name(another, path):
    assert another.charges("a") == "done"
    moved = path.rename(path.with_name("moved.db"))
    with pytest.raises(StorageError, match="open under another name"):
        open_ledger(moved)
    with pytest.raises(StorageError, match="open under another name"):
        read_ledger(moved)
    assert "does not exist" in another.charges("b", 0.3)
    assert another.does("l.close()") == "done"
    with pytest.raises(LedgerIntegrityError, match=r"moved without .*budget.db-wal"):
        open_ledger(moved)
    ledger_file.make_sidecar_path(path, "-wal").rename(ledger_file.make_sidecar_path(moved, "-wal"))
    with open_ledger(moved) as ledger:
        assert ledger.balance("acme").spent == {"epsilon": "0.6"}
        with pytest.raises(BudgetExceededError):
            ledger.charge("acme", PureDP(0.6), key="c")
    assert keys(moved) == {"a"}


def test_a_ledger_moved_away_from_its_log_is_refused_until_the_log_follows(another, path, tmp_path):
    assert another.charges("a") == "done"
    another.kill()
    assert ledger_file.make_sidecar_path(path, "-wal").stat().st_size
    moved = path.rename(tmp_path / "elsewhere.db")
    for opened in (open_ledger, read_ledger, verify_ledger):
        with pytest.raises(LedgerIntegrityError, match=r"moved without .*budget.db-wal"):
            opened(moved)
    ledger_file.make_sidecar_path(path, "-wal").rename(ledger_file.make_sidecar_path(moved, "-wal"))
    with open_ledger(moved) as ledger:
        assert ledger.balance("acme").spent == {"epsilon": "0.6"}


def test_a_ledger_removed_or_replaced_while_it_is_open_takes_no_charge(another, path):
    assert another.charges("a", 0.1) == "done"
    kept = path.rename(path.with_name("kept.db"))
    assert "does not exist" in another.charges("b")
    shutil.copy(kept, path)
    assert "another file is at its path now" in another.charges("b")
    path.unlink()
    path.symlink_to(kept)
    assert "not a regular file" in another.charges("b")
    path.unlink()
    kept.rename(path)
    assert another.charges("c") == "done"
    assert keys(path) == {"a", "c"}


@pytest.mark.parametrize("suffix", ledger_file.LOGS)
def test_a_log_removed_or_replaced_while_it_is_open_ends_the_charging(another, path, suffix):
    assert another.charges("a", 0.1) == "done"
    log = ledger_file.make_sidecar_path(path, suffix)
    content = log.read_bytes()
    log.unlink()
    assert "is gone" in another.charges("b")
    log.write_bytes(content)
    assert "log was replaced" in another.charges("b")


CUTS = {"all of it": 0, "its header is left": 32, "half of it": 0.5, "one byte": -1}


def cut(file, length):
    size = file.stat().st_size
    os.truncate(file, int(size * length) if 0 < length < 1 else size - 1 if length < 0 else length)


@pytest.fixture
def ahead(monkeypatch):
    monkeypatch.setattr(version, "is_wal_safe", lambda _: True)


@pytest.mark.parametrize("length", CUTS.values(), ids=CUTS)
def test_a_log_that_is_cut_while_it_is_open_takes_no_charge(another, path, length):
    assert another.charges("a", 0.1) == "done"
    with open_ledger(path) as here:
        cut(ledger_file.make_sidecar_path(path, "-wal"), length)
        for number in range(2):
            assert "its log was truncated" in another.charges(f"b{number}", 0.1)
            with pytest.raises(StorageError, match="its log was truncated"):
                here.charge("acme", PureDP(0.1), key=f"c{number}")


@pytest.mark.parametrize("length", CUTS.values(), ids=CUTS)
def test_a_log_that_is_cut_inside_a_transaction_is_not_acknowledged(ahead, path, length):
    ledger = open_ledger(path)
    ledger.create_budget("acme", kind="pure", epsilon="1")
    ledger.charge("acme", PureDP(0.1), key="a")
    whole = SqlSession.put_charge

    def cutting(self, charge):
        whole(self, charge)
        cut(ledger_file.make_sidecar_path(path, "-wal"), length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlSession, "put_charge", cutting)
        with pytest.raises(StorageError, match="its log was truncated"):
            ledger.charge("acme", PureDP(0.1), key="b")
    ledger.close()


@pytest.mark.parametrize("mode", ["TRUNCATE", "RESTART", "FULL", "PASSIVE"])
def test_a_log_that_sqlite_itself_empties_is_no_damage(ahead, path, mode):
    with open_ledger(path) as one, open_ledger(path) as two:
        one.create_budget("acme", kind="pure", epsilon="1")
        for number in range(6):
            (one, two)[number % 2].charge("acme", PureDP(0.01), key=f"k{number}")
            with one._store._borrow_connection() as connection:
                connection.execute(f"PRAGMA wal_checkpoint({mode})")
    assert len(keys(path)) == 6


@pytest.mark.slow
def test_a_log_that_begins_anew_over_and_over_is_no_damage(ahead, path):
    """SQLite moves the log to the file every 256 pages, and overwrites it."""
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
        for number in range(700):
            ledger.charge("acme", PureDP(0.001), key=f"k{number}")
        assert ledger_file.make_sidecar_path(path, "-wal").stat().st_size < 2e6
    assert len(keys(path)) == 700


@pytest.mark.parametrize("safe", [True, False], ids=["WAL", "TRUNCATE"])
def test_a_file_that_is_cut_while_it_is_open_takes_no_charge(path, monkeypatch, safe):
    monkeypatch.setattr(version, "is_wal_safe", lambda _: safe)
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        ledger.charge("acme", PureDP(0.1), key="a")
        os.truncate(path, path.stat().st_size - 4096)
        with pytest.raises((StorageError, LedgerIntegrityError)):
            ledger.charge("acme", PureDP(0.1), key="b")


def test_an_interrupted_charge_leaves_a_ledger_that_charges(path, monkeypatch):
    """A Ctrl-C may come anywhere; and with the last connection goes SQLite's log."""
    monkeypatch.setattr(version, "is_wal_safe", lambda _: True)
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        with monkeypatch.context() as interrupted:
            interrupted.setattr(SqlSession, "append", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge("acme", PureDP(0.1), key="a")
        ledger._store._close_idle_connections()
        ledger.charge("acme", PureDP(0.1), key="b")
    assert keys(path) == {"b"}


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_file_moved_during_a_transaction_is_not_acknowledged(path):
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        with pytest.raises(StorageError, match="does not exist"), ledger._store.writing():
            path.rename(path.with_name("moved.db"))
        path.with_name("moved.db").rename(path)
        ledger.charge("acme", PureDP(0.1), key="a")


def test_a_file_mounted_at_two_places_is_one_that_is_open_under_another_name(another, path):
    assert another.does("ledger_file._name = lambda path: (1 << 61) + 5") == "done"
    assert another.does("l.close()") == "done"
    with open_ledger(path):
        assert "open under another name" in another.opens()
    assert another.opens() == "done"
    with pytest.raises(StorageError, match="open under another name"):
        open_ledger(path)


def test_one_process_cannot_have_it_under_two_names_either(path, monkeypatch):
    before = dict(ledger_file._held)
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        monkeypatch.setattr(ledger_file, "_name", lambda _: (1 << 61) + 5)
        with pytest.raises(StorageError, match="open under another name"):
            open_ledger(path)
        ledger.charge("acme", PureDP(0.1), key="a")
    assert ledger_file._held == before


def test_symbolic_links_and_linked_folders_lead_to_the_one_file(path, tmp_path):
    before = dict(ledger_file._held)
    (tmp_path / "folder").symlink_to(path.parent)
    (tmp_path / "link.db").symlink_to(path)
    with open_ledger(path) as one, open_ledger(tmp_path / "link.db") as two:
        one.create_budget("acme", kind="pure", epsilon="1")
        two.charge("acme", PureDP(0.6), key="a")
        with open_ledger(tmp_path / "folder" / path.name) as three, pytest.raises(BudgetExceededError):
            three.charge("acme", PureDP(0.6), key="b")
    assert ledger_file._held == before
    assert not list(tmp_path.glob("*-wal"))


def test_a_copy_is_read_and_not_spent_while_the_ledger_it_was_copied_from_is_there(path, tmp_path):
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    copy = Path(shutil.copy(path, tmp_path / "copy.db"))
    with pytest.raises(StorageError, match="is a copy of"):
        open_ledger(copy)
    assert verify_ledger(copy).count == 1
    path.unlink()
    with open_ledger(copy) as ledger:
        ledger.charge("acme", PureDP(0.6), key="a")
    shutil.copy(copy, path)  # it went back to where it came from, and the other one stayed
    with pytest.raises(StorageError, match="is a copy of"):
        open_ledger(path)
    copy.unlink()
    with open_ledger(path) as ledger:
        assert ledger.balance("acme").spent == {"epsilon": "0.6"}


def unseen(path, monkeypatch, hidden):
    """As root everything can be seen: a folder, or the file in it, is made to look as if it could not."""
    look, allowed = Path.is_file, os.access

    def is_file(self):
        if hidden == "folder" and self == path:
            raise PermissionError(13, "Permission denied", str(path))
        return look(self)

    monkeypatch.setattr(Path, "is_file", is_file)
    monkeypatch.setattr(os, "access", lambda at, mode: (hidden, at) != ("file", path) and allowed(at, mode))


@pytest.mark.parametrize("hidden", ["folder", "file"])
def test_a_copy_of_a_ledger_that_this_user_may_not_see_is_read_and_not_spent(path, tmp_path, monkeypatch, hidden):
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    copy = Path(shutil.copy(path, tmp_path / "copy.db"))
    unseen(path, monkeypatch, hidden)
    with pytest.raises(StorageError, match="which this user cannot access"):
        open_ledger(copy)
    assert verify_ledger(copy).count == 1


def test_a_folder_that_this_user_may_not_search_is_no_place_to_read(path, monkeypatch):
    unseen(path, monkeypatch, "folder")
    with pytest.raises(StorageError, match="cannot be looked up: Permission denied"):
        read_ledger(path)


@pytest.mark.parametrize("value", ["", "x", "/a\0b", b"/a", 1], ids=repr)
@pytest.mark.parametrize("opened", [open_ledger, verify_ledger])
def test_a_head_that_names_no_place_is_refused(path, value, opened):
    with open_ledger(path) as ledger, ledger._store.writing() as session:
        session._raw.execute("UPDATE head SET home = ?", (value,))
    with pytest.raises(LedgerIntegrityError, match="number and a path" if value != 1 else "number and a path, .*'1'"):
        opened(path)


def test_a_place_that_cannot_be_is_one_where_nobody_may_look(path):
    with open_ledger(path) as ledger, ledger._store.writing() as session:
        session._raw.execute("UPDATE head SET home = ?", ("/" + "9" * 400,))
    with pytest.raises(StorageError, match="cannot access"):
        open_ledger(path)
    assert verify_ledger(path).count == 0


def test_a_ledger_that_moved_leaves_its_place_to_another(path, tmp_path):
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    moved = path.rename(tmp_path / "moved.db")
    with open_ledger(path) as new:
        new.create_budget("other", kind="pure", epsilon="1")
        with open_ledger(moved) as ledger:
            ledger.charge("acme", PureDP(0.6), key="a")
    with open_ledger(moved) as ledger:
        assert [one.scope for one in ledger.budgets()] == ["acme"]


def test_to_look_at_an_open_ledger_frees_no_lock(path, monkeypatch):
    """POSIX locks of a process end when it closes any descriptor of the file, whoever opened that."""
    monkeypatch.setattr(version, "is_wal_safe", lambda _: False)  # then the writer's lock is one on the file itself
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        other = Another(path)
        assert other.does("library.is_wal_safe = lambda _: False; store.PATIENCE = 0.05") == "done"
        assert other.opens() == "done"
        with ledger._store.writing():
            assert is_ledger(path)
            assert "stayed locked" in other.charges("a")
        assert other.charges("a") == "done"
        other.kill()


@pytest.mark.parametrize(
    "url",
    [
        "",
        ":memory:",
        "file:b.db",
        "file:b.db?immutable=1",
        "mysql://host/db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///b.db?mode=memory",
        "sqlite:///b.db?nolock=1",
        "sqlite://b.db",
    ],
)
def test_an_address_that_is_no_plain_file_is_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="url must be"):
        open_ledger(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["b.db", "a?mode=memory", "a#b", "a%20b", ":memory:", "file:b.db?nolock=1", "ü.db"])
def test_a_path_is_taken_by_its_letters(name, tmp_path):
    with open_ledger(tmp_path / name) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    assert is_ledger(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_what_is_no_file_of_ours_is_refused_in_words(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "file" / "b.db", Path("/dev/null")):
        with pytest.raises(StorageError):
            open_ledger(path)


@pytest.mark.skipif(not ledger_file._LOCKS, reason="this system has no such locks")
def test_a_lock_of_any_other_name_is_seen_below_and_above(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    first, last = ledger_file._FIRST + 1, 2 * ledger_file._FIRST - 2
    names = (first, first + 1, (first + last) // 2, last - 1, last)
    for theirs, ours in itertools.product(names, names):
        descriptors = [os.open(file, os.O_RDONLY) for _ in range(2)]
        try:
            ledger_file._take_name(descriptors[0], theirs, file)
            if ours == theirs:
                ledger_file._take_name(descriptors[1], ours, file)
            else:
                with pytest.raises(StorageError, match="open under another name"):
                    ledger_file._take_name(descriptors[1], ours, file)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def test_names_are_bytes_that_every_version_of_us_locks(tmp_path):
    """Two versions that lock elsewhere would not see each other: this range is for ever."""
    names = {ledger_file._name(tmp_path / f"{number}.db") for number in range(50)}
    assert len(names) == 50
    assert all(2**61 < name < 2**62 - 1 for name in names)
    assert ledger_file._name(tmp_path / "." / "0.db") == ledger_file._name(tmp_path / "0.db")
