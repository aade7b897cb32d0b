"""What the fork tests do, each in an interpreter of its own: no other test's threads are forked along.

Usage: python forked.py NAME FOLDER [ARGUMENTS]
"""

import multiprocessing
import os
import resource
import signal
import sys
from pathlib import Path

from epsilog.spend import open_ledger, verify_file
from epsilog.spend.selftest import kill_campaign, race_campaign
from epsilog.spend.sqlite import SqliteStore, library
from epsilog.terms import PureDP, StorageError


def truncate_campaigns(folder: Path) -> None:
    """Writers with an old library; forked, since only those see that it is patched."""
    library.wal_is_safe = lambda _: False
    multiprocessing.get_context = lambda _=None: _Forking()
    kills = kill_campaign(folder, seed=2, kills=20)
    race = race_campaign(folder, processes=4, attempts=20, cap=30)
    assert kills.passed, kills
    assert race.passed, race
    opened = SqliteStore(folder / "raced.db")
    with opened.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "truncate"
    opened.close()


class _Forking:
    """The fork context, under the face of the fork server's."""

    Process = staticmethod(multiprocessing.context.ForkProcess)

    def set_forkserver_preload(self, modules: list[str]) -> None:
        """Nothing to load ahead: a fork has it all."""


def own_connections(folder: Path) -> None:
    """A child charges through connections of its own, and the parent's still work after it."""
    with open_ledger(folder / "budget.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        parent = ledger._store.engine
        child = os.fork()
        if child == 0:
            code = 2
            try:
                ledger.charge("acme", PureDP(0.25), key="child")
                code = 0 if ledger._store.engine is not parent else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ledger.charge("acme", PureDP(0.25), key="parent")
        assert ledger._store.engine is parent
        assert set(ledger.verify().charges) == {"child", "parent"}


def full_disk(folder: Path, journal: str) -> None:
    """With no room left nothing is acknowledged, everything before stays, and it goes on once there is room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    library.wal_is_safe = lambda _: journal == "WAL"
    room, kept = resource.getrlimit(resource.RLIMIT_FSIZE), set()
    with open_ledger(folder / "budget.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")

        def refusals(phase: str) -> int:
            refused = 0
            for number in range(40):
                try:
                    ledger.charge("acme", PureDP(0.001), key=f"{phase}-{number}")
                    kept.add(f"{phase}-{number}")
                except StorageError:
                    refused += 1
            assert ledger.verify().charges.keys() == kept
            return refused

        assert refusals("before") == 0
        largest = max(file.stat().st_size for file in folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 30_000, room[1]))
        assert 0 < refusals("full") < 40
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
        assert refusals("after") == 0
    assert verify_file(folder / "budget.db").charges.keys() == kept


if __name__ == "__main__":
    known = {work.__name__: work for work in (truncate_campaigns, own_connections, full_disk)}
    known[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
