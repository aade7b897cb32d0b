"""A server's writers come to their turn, one after another, and commit together."""

import threading
import time
from contextlib import contextmanager

import pytest

from epsilog.ledger import Ledger, open_ledger, read_ledger
from epsilog.ledger.sqlite import SqliteStore
from epsilog.ledger.sqlite.version import sqlite
from epsilog.ledger.tables import SqlSession
from epsilog.mechanisms import PureDP
from epsilog.server import group_commit
from epsilog.server.group_commit import GroupCommitStore
from epsilog.terms import BudgetExceededError, ConflictError, EpsilogError, StorageError


class Slow:
    """A store that takes one transaction at a time, and notes what was kept; it is its own session."""

    address = "slow"

    def __init__(self):
        self.inside = self.most = self.commits = 0
        self.written, self.kept = [], []
        self.refuses = None  # what a commit raises

    @contextmanager
    def reading(self):
        yield tuple(self.kept)

    @contextmanager
    def writing(self):
        self.inside += 1
        self.intact, self.most, self.written = True, max(self.most, self.inside), []
        try:
            yield self
            if self.refuses is not None:
                raise self.refuses
            self.kept += self.written
            self.commits += 1
        finally:
            self.inside -= 1

    @contextmanager
    def part(self):
        before = len(self.written)
        try:
            yield
        except BaseException:
            del self.written[before:]
            raise

    def close(self):
        self.address = "closed"


def together(shared, acts):
    """Lets some act in threads that have all come to wait behind one who writes nothing; what each raised, or None.

    That one is told what the first of them is.
    """
    found = [None] * len(acts)

    def run(number):
        try:
            acts[number]()
        except (EpsilogError, ArithmeticError) as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    try:
        with shared.writing():
            for number, thread in enumerate(threads):
                thread.start()
                until = time.monotonic() + 30
                while len(shared._waiting) <= number:
                    assert time.monotonic() < until
                    time.sleep(0.001)
        led = None
    except StorageError as error:
        led = error
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert (led is None) is (not acts or not isinstance(found[0], StorageError))
    return found


def writes(shared, *numbers, fails=None):
    def act():
        with shared.writing() as session:
            session.written += numbers
            if fails is not None:
                raise fails

    return act


def test_writers_write_in_the_order_in_which_they_asked_and_commit_once():
    store = Slow()
    shared = GroupCommitStore(store)
    assert together(shared, [writes(shared, number) for number in range(20)]) == [None] * 20
    assert (store.kept, store.most, store.commits, shared.address) == (list(range(20)), 1, 1, "slow")
    assert not shared._is_taken
    with shared.writing() as session:
        session.written.append(20)
        with shared.reading() as view:  # a reader waits for nobody, and sees what lasts
            assert view == tuple(range(20))
    shared.close()
    assert store.address == "closed"


def test_only_so_many_wait_for_one_commit(monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_GROUP", 8)
    store = Slow()
    shared = GroupCommitStore(store)
    together(shared, [writes(shared, number) for number in range(20)])
    assert (store.kept, store.commits) == (list(range(20)), 3)  # with the one that they waited for


def test_one_that_fails_undoes_its_own_part_alone():
    store, mistake = Slow(), ZeroDivisionError("mine")
    shared = GroupCommitStore(store)
    found = together(shared, [writes(shared, 1), writes(shared, 2, 3, fails=mistake), writes(shared, 4)])
    assert found == [None, mistake, None]
    assert (store.kept, store.commits) == ([1, 4], 1)


def test_nobody_is_told_anything_by_a_commit_that_fails():
    store = Slow()
    shared = GroupCommitStore(store)
    store.refuses = OSError("disk full")
    found = together(shared, [writes(shared, 1), writes(shared, 2, fails=ConflictError("no")), writes(shared, 3)])
    assert [type(error) for error in found] == [StorageError] * 3
    assert "disk full" in str(found[2])
    store.refuses = None
    found = together(shared, [writes(shared, 4), writes(shared, 5)])
    assert (found, store.kept) == ([None, None], [4, 5])


@pytest.mark.parametrize(
    ("error", "says"), [(StorageError("the disk is gone"), "the disk is gone"), (MemoryError(), "MemoryError")]
)
def test_a_transaction_that_is_lost_is_lost_for_all_of_its_group(error, says):
    store = Slow()
    shared = GroupCommitStore(store)

    def breaks():
        with shared.writing() as session:
            session.intact = False
            raise error

    def is_told():
        with pytest.raises(StorageError, match=says):
            breaks()

    found = together(shared, [writes(shared, 1), is_told, writes(shared, 2)])
    assert [type(each) for each in found] == [StorageError, type(None), type(None)]
    assert (store.kept, store.commits) == ([2], 1)  # whoever comes after them begins another


class Late(threading.Event):
    """What is set just as whoever waits for it with a limit has given up."""

    def wait(self, timeout=None):
        super().wait()
        return timeout is None


def test_one_who_gives_up_as_it_is_called_leaves_nobody_waiting(monkeypatch):
    store, refused = Slow(), []
    shared = GroupCommitStore(store)
    monkeypatch.setattr(group_commit.threading, "Event", Late)

    def aborts_round():
        with pytest.raises(StorageError, match="busy with those who asked before"), shared.writing():
            pass
        refused.append(True)

    def leads():
        with shared.writing() as session:
            session.written.append(1)
            other.start()
            while not shared._waiting:
                time.sleep(0.001)

    other = threading.Thread(target=aborts_round, daemon=True)
    first = threading.Thread(target=leads, daemon=True)
    first.start()
    for thread in (first, other):
        thread.join(20)
        assert not thread.is_alive()
    assert (refused, store.kept, store.inside, shared._is_taken, shared._group) == ([True], [1], 0, False, None)


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "l.db") as made:
        made.create_budget("acme", kind="pure", epsilon="1")
    shared = GroupCommitStore(SqliteStore(tmp_path / "l.db"))
    with Ledger(shared) as opened:
        yield opened, shared, tmp_path / "l.db"


def test_charges_that_commit_together_meet_the_cap_and_keep_one_chain(ledger):
    books, shared, path = ledger
    acts = [lambda key=f"k{number % 9}": books.charge("acme", PureDP(0.125), key=key) for number in range(18)]
    found = together(shared, acts)
    assert [type(error) for error in found[8::9]] == [BudgetExceededError, BudgetExceededError]
    assert found.count(None) == 16  # eight charges, and each of them once more
    with read_ledger(path) as after:
        assert after.verify().balances["acme"].available == {"epsilon": "0"}
        assert after.head()[0] == 1 + 8


def test_what_the_database_refuses_is_said_as_the_store_says_it(ledger, monkeypatch):
    books, shared, path = ledger
    real, count = SqlSession.append, iter(range(100))

    def sometimes(self, *rows):
        real(self, *rows)
        if next(count) == 1:
            raise sqlite.OperationalError("disk I/O error")

    monkeypatch.setattr(SqlSession, "append", sometimes)
    acts = [lambda key=key: books.charge("acme", PureDP(0.25), key=key) for key in "abc"]
    found = together(shared, acts)
    assert (found[0], found[2]) == (None, None)
    assert isinstance(found[1], StorageError)
    with read_ledger(path) as after:
        assert {key for _, key in after.verify().charges} == {"a", "c"}


def test_a_rollback_by_the_database_itself_loses_the_group_and_nothing_else(ledger):
    books, shared, path = ledger
    books.charge("acme", PureDP(0.25), key="before")
    acts = [lambda key=key: books.charge("acme", PureDP(0.125), key=key) for key in "abc"]

    def lost():
        with shared.writing() as session:
            session._raw.execute("ROLLBACK")  # as SQLite does when the disk is full
            raise sqlite.OperationalError("database or disk is full")

    found = together(shared, [acts[0], lost, acts[1], acts[2]])
    assert isinstance(found[0], StorageError)
    assert isinstance(found[1], StorageError)
    assert found[2:] == [None, None]
    with read_ledger(path) as after:
        assert {key for _, key in after.verify().charges} == {"before", "b", "c"}


def test_a_part_that_cannot_begin_ends_the_transaction_for_all_of_its_group(ledger):
    books, shared, path = ledger

    class Fails:
        def __init__(self, raw):
            self.raw = raw

        def __getattr__(self, name):
            return getattr(self.raw, name)

        def execute(self, text, *parameters):
            if text.startswith("SAVEPOINT"):
                self.raw.execute("ROLLBACK")  # as SQLite does when there is no memory left
                raise sqlite.OperationalError("out of memory")
            return self.raw.execute(text, *parameters)

    def last():
        with shared.writing() as session:
            session._raw = Fails(session._raw)

    acts = [lambda key=key: books.charge("acme", PureDP(0.125), key=key) for key in "abcd"]
    found = together(shared, [acts[0], last, acts[1], acts[2], acts[3]])
    assert [type(error) for error in found] == [StorageError, StorageError, StorageError, type(None), type(None)]
    with read_ledger(path) as after:
        assert {key for _, key in after.verify().charges} == {"c", "d"}


def test_an_interrupt_while_all_is_committed_leaves_the_turn_to_the_next():
    store = Slow()
    shared = GroupCommitStore(store)
    store.refuses = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), shared.writing():
        pass
    store.refuses = None
    writes(shared, 1)()
    assert (store.kept, shared._is_taken) == ([1], False)


def test_who_waits_too_long_or_is_interrupted_goes_without_a_turn(monkeypatch):
    monkeypatch.setattr(group_commit, "TIMEOUT_SECONDS", 0.01)
    store = Slow()
    shared = GroupCommitStore(store)
    with shared.writing():
        with pytest.raises(StorageError, match="busy"):
            writes(shared, 1)()
        monkeypatch.setattr(group_commit.threading.Event, "wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writes(shared, 2)()
        monkeypatch.undo()
        assert not shared._waiting
    writes(shared, 3)()
    assert (store.kept, shared._is_taken) == ([3], False)
