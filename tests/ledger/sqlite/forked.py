"""What the fork tests do, each in an interpreter of its own: no other test's threads are forked along.

Usage: python forked.py FOLDER JOURNAL all|some
"""

import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path

import pytest

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.selftest import run_kill_campaign, run_race_campaign
from epsilog.ledger.sqlite import SqliteStore, version
from epsilog.ledger.store import StoredRow
from epsilog.mechanisms import PureDP
from epsilog.terms import StorageError

MANY = sys.argv[3:] == ["all"]


def truncate_campaigns(folder: Path) -> None:
    """Writers with an old library; forked, since only those see that it is patched."""
    multiprocessing.get_context = lambda _=None: _Forking()
    kills = run_kill_campaign(folder, seed=2, kills=20 if MANY else 6)
    race = run_race_campaign(folder, processes=4, attempts=20 if MANY else 10, cap=30)
    assert kills.passed, kills
    assert race.passed, race
    opened = SqliteStore(folder / "raced.db")
    with opened._borrow_connection() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "truncate"
    opened.close()


class _Forking:
    """The fork context, under the face of the fork server's."""

    Process = staticmethod(multiprocessing.context.ForkProcess)
    Pool = staticmethod(multiprocessing.context.ForkContext().Pool)

    def set_forkserver_preload(self, modules: list[str]) -> None:
        """Nothing to load ahead: a fork has it all."""


ENDINGS = {
    "close": lambda ledger: ledger.close(),
    "exit": lambda _: None,
    "collect": lambda ledger: (ledger.__dict__.clear(), gc.collect()),
    "abrupt": lambda _: os._exit(0),
}


def carried(folder: Path) -> None:
    """A child that inherits a ledger refuses it, and takes nothing away from anybody, however it ends.

    The third process is forked before anything is open, as one that was started by itself.
    """
    ways = list(product((_fork, _fork_by_multiprocessing), ENDINGS, (True, False)))
    for fork, ending, goes_on in ways if MANY else ways[::3]:  # each way of each kind is among these
        path = folder / f"{fork.__name__}-{ending}-{goes_on}.db"
        third, tell_third = _waiting(lambda path=path: _charge_and_die(path))
        ledger = open_ledger(path)
        ledger.create_budget("acme", kind="pure", epsilon="1")
        for number in range(3):
            ledger.charge("acme", PureDP(0.001), key=f"before-{number}")
        half_read = ledger._store.reading()  # a transaction that the child must not end
        half_read.__enter__().head()
        told, tell = os.pipe()
        child = fork(lambda ledger=ledger, path=path, ending=ending, told=told: _inherit(ledger, path, ending, told))
        half_read.__exit__(None, None, None)
        if not goes_on:
            ledger.close()
        os.write(tell_third, b"!")
        assert os.waitstatus_to_exitcode(os.waitpid(third, 0)[1]) == -signal.SIGKILL
        os.write(tell, b"!")
        assert _code(child) == 0, (path.name, "the child did not refuse")
        if goes_on:
            ledger.charge("acme", PureDP(0.001), key="parent")
            ledger.close()
        found = verify_ledger(path)
        expected = {f"before-{number}" for number in range(3)} | {f"third-{number}" for number in range(20)}
        assert {key for _, key in found.charges} == expected | ({"parent"} if goes_on else set()), path.name


def _inherit(ledger, path, ending, told):
    """The child: refused at each verb, and by the same file opened again."""
    attempts = (
        lambda: ledger.charge("acme", PureDP(0.001), key="child"),
        lambda: ledger.balance("acme"),
        ledger.verify,
        lambda: open_ledger(path),
        lambda: read_ledger(path),
    )
    for attempt in attempts:
        with pytest.raises(StorageError, match="forked"):
            attempt()
    number, os.getpid = os.getpid, os.getppid  # as where numbers come again
    with pytest.raises(StorageError, match="forked"):
        ledger.charge("acme", PureDP(0.001), key="child")
    os.getpid = number
    os.read(told, 1)
    ENDINGS[ending](ledger)


def _charge_and_die(path):
    ledger = open_ledger(path)
    for number in range(20):
        ledger.charge("acme", PureDP(0.001), key=f"third-{number}")
    os.kill(os.getpid(), signal.SIGKILL)


def _waiting(work):
    """A process that is forked now, and works once it is told."""
    told, tell = os.pipe()
    return _fork(lambda: (os.read(told, 1), work())), tell


def _fork(work):
    """A child that ends as an interpreter does, with all that Python clears at its exit."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 (a child must not go on as its parent)
            traceback.print_exc()
            os._exit(1)
        sys.exit(0)
    return child


def _fork_by_multiprocessing(work):
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    return child


def _code(child):
    if isinstance(child, int):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    child.join()
    return child.exitcode


def inside(folder: Path) -> None:
    """A child that is forked inside a transaction neither commits nor undoes it, and its parent's commit stands."""
    ledger = open_ledger(folder / "budget.db")
    ledger.create_budget("acme", kind="pure", epsilon="1")
    for ending in (None, ValueError("out of the block")):
        before = ledger.head()[0]
        expected = (StorageError, "forked") if ending is None else (ValueError, "out of the block")
        with _raising_in_child(*expected), ledger._store.writing() as session:
            body = {"actor": "a", "reason": "b"}
            place = before + 1, session.head()[1], "2026-01-01T00:00:00+00:00"
            entry = Entry(*place, Verb.SCOPE_RETIRED, "acme", None, body=body)
            session.append(StoredRow.of(entry))
            child = os.fork()
            if child == 0 and ending:
                raise ending
        assert child, "the child was told of a commit"
        assert _code(child) == 0
        assert ledger.head()[0] == before + 1
    ledger.close()
    with open_ledger(folder / "budget.db") as again:
        assert again.head()[0] == 3


@contextmanager
def _raising_in_child(kind, words):
    """Nothing for the process that comes in; a child that is forked inside ends with the error that is expected."""
    parent = os.getpid()
    try:
        yield
    except kind as error:
        if os.getpid() == parent or words not in str(error):
            raise
        sys.exit(0)


def under_load(folder: Path) -> None:
    """Children that are forked while threads charge are refused at once: no lock of a thread that is not there."""
    ledger, over = open_ledger(folder / "budget.db"), threading.Event()
    ledger.create_budget("acme", kind="pure", epsilon="100")
    ledger.charge("acme", PureDP(0.001), key="first")  # imports what is imported late: a fork inside dlopen may hang

    def charge(name):
        for number in count():
            if over.is_set():
                return
            ledger.charge("acme", PureDP(0.001), key=f"{name}-{number}")

    def inherit():
        signal.alarm(20)
        for verb in (lambda: ledger.balance("acme"), lambda: ledger.charge("acme", PureDP(0.001), key="child")):
            with pytest.raises(StorageError, match="forked"):
                verb()
        ledger.close()

    threads = [threading.Thread(target=charge, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    codes = [_code(_fork(inherit)) for _ in range(20 if MANY else 2)]
    over.set()
    for thread in threads:
        thread.join()
    assert set(codes) == {0}, codes
    ledger.verify()


def after_closing(folder: Path) -> None:
    """What was closed before the fork is opened again in the child."""
    with open_ledger(folder / "budget.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")

    def work():
        with open_ledger(folder / "budget.db") as ledger:
            ledger.charge("acme", PureDP(0.25), key="child")

    assert _code(_fork(work)) == 0
    assert verify_ledger(folder / "budget.db").charges.keys() == {("acme", "child")}


def full_disk(folder: Path) -> None:
    """With no room left nothing is acknowledged, everything before stays, and it goes on once there is room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    room, kept = resource.getrlimit(resource.RLIMIT_FSIZE), set()
    with open_ledger(folder / "budget.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")

        def refusals(phase: str) -> int:
            refused = 0
            for number in range(40):
                try:
                    ledger.charge("acme", PureDP(0.001), key=f"{phase}-{number}")
                    kept.add(("acme", f"{phase}-{number}"))
                except StorageError:
                    refused += 1
            assert ledger.verify().charges.keys() == kept
            return refused

        assert refusals("before") == 0
        with ledger._store._borrow_connection() as connection:  # so that the log grows, where there is one
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        largest = max(file.stat().st_size for file in folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 30_000, room[1]))
        assert 0 < refusals("full") < 40
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
        assert refusals("after") == 0
    assert verify_ledger(folder / "budget.db").charges.keys() == kept


WORKS = {  # by journal; what does not depend on it is done once
    "WAL": (after_closing, inside, carried, full_disk, under_load),
    "TRUNCATE": (inside, carried, full_disk, truncate_campaigns),
}

if __name__ == "__main__":
    safe = sys.argv[2] == "WAL"
    version.is_wal_safe = lambda _: safe
    for work in WORKS[sys.argv[2]]:
        place = Path(sys.argv[1]) / work.__name__
        place.mkdir()
        work(place)
