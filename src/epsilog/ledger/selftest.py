"""Try to break a ledger on the disk where it will live: kill writers at random moments, and race for a budget.

A kill ends a process and leaves the page cache: it does not stand for a power cut.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from epsilog.ledger.balances import Balance
from epsilog.ledger.entries import Verb
from epsilog.ledger.factory import open_ledger, verify_ledger
from epsilog.ledger.ledger import Ledger
from epsilog.ledger.view import LedgerView
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError

__all__ = ["KillReport", "RaceReport", "run_kill_campaign", "run_race_campaign"]

SCOPE = "selftest/campaign"
STEPS = ("reserved", "started", "round-released", "committed")  # in the order in which a writer acknowledges them


@dataclass(frozen=True, slots=True)
class KillReport:
    """What a kill campaign found.

    Attributes:
        kills: processes killed.
        acknowledged: steps that a writer saw confirmed before it died.
        lost: acknowledged steps that the ledger does not have.
        unacknowledged: steps that the ledger has and no writer saw confirmed.
        doubled: charges that a retry with the same key made again.
        entries: entries of the ledger, all verified.
    """

    kills: int
    acknowledged: int
    lost: int
    unacknowledged: int
    doubled: int
    entries: int

    @property
    def passed(self) -> bool:
        """Whether nothing confirmed was lost and nothing was charged twice; and whether it tried anything at all."""
        return self.lost == 0 and self.doubled == 0 and self.acknowledged > 0


@dataclass(frozen=True, slots=True)
class RaceReport:
    """What a race found.

    Attributes:
        attempts: charges attempted by all processes.
        cap: charges that the budget covers.
        accepted: charges that were accepted.
        refused: charges that the budget refused.
        entries: entries of the ledger, all verified.
    """

    attempts: int
    cap: int
    accepted: int
    refused: int
    entries: int

    @property
    def passed(self) -> bool:
        """Return whether exactly the cap was accepted, and everything else refused."""
        return self.accepted == min(self.cap, self.attempts)


def run_kill_campaign(
    folder: Path, *, seed: int, kills: int = 40, writers: int = 2, url: str | None = None
) -> KillReport:
    """Let writers charge side by side, kill them at random moments, and compare the ledger with what they saw.

    Args:
        folder: an empty folder, on the disk to be tried.
        seed: picks the moments; they are not exactly repeatable, since the machine has a say.
        kills: how many processes to kill, at least.
        writers: how many run at the same time.
        url: a new ledger, as ``open_ledger`` takes it; a file in the folder for None.
    """
    path = folder / "killed.db" if url is None else url
    moments, starts = random.Random(seed), -(-kills // writers)  # noqa: S311 no secrets here
    with open_ledger(path) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1000000")
    for life in range(starts):
        _kill_writers(path, [folder / f"writer-{writer}-life-{life}.acks" for writer in range(writers)], moments)
    lines = [line for notes in folder.glob("*.acks") for line in notes.read_text().splitlines(keepends=True)]
    seen = [(key, step) for line in lines if line.endswith("\n") for key, step in [line.split()]]
    with open_ledger(path) as ledger:
        count, found, acknowledged = ledger.verify().count, find_last_steps(ledger), _furthest(seen)
        unacknowledged = sum(acknowledged.get(key, -1) < step for key, step in found.items())
        return KillReport(
            starts * writers,
            len(seen),
            list_lost_charges(found, seen),
            unacknowledged,
            list_duplicates(ledger),
            entries=count,
        )


def _kill_writers(path: str | Path, notes: list[Path], moments: random.Random) -> None:
    """Start a writer for each file of notes, and kill each; a writer that ended by itself tried nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["epsilog.ledger.selftest", "epsilog.ledger.sqlite"])
    writers = [context.Process(target=write_steps, args=(path, note, note.stem)) for note in notes]

    try:
        with _defer_interrupts():  # an interrupted start would leave an unknown process
            for writer in writers:
                writer.start()
        for writer, note in zip(writers, notes, strict=True):
            if moments.random() < 0.75:  # the rest may die while they open the file
                while writer.is_alive() and not (note.exists() and note.stat().st_size):
                    time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.05))
            writer.kill()
            writer.join()
            if writer.exitcode != -signal.SIGKILL:
                raise RuntimeError(f"a writer ended by itself, with {writer.exitcode}")
    finally:
        for writer in writers:
            if writer.pid is not None:  # else its start failed
                writer.kill()
                writer.join()


@contextlib.contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Defer an interrupt until the block ends; outside the main thread there is nothing to defer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        raise KeyboardInterrupt


def write_steps(path: str | Path, acks: Path, name: str, charges: int | None = None) -> None:
    """Charge until refused, and write down each step after the ledger has confirmed it.

    Args:
        path: of the ledger.
        acks: what it writes to.
        name: which its keys begin with.
        charges: how many it tries; None for as long as the process that started it lives.
    """
    descriptor, parent = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND), multiprocessing.parent_process()

    def confirm(key: str, step: str) -> None:
        os.write(descriptor, f"{key} {step}\n".encode())

    with open_ledger(path) as ledger, contextlib.suppress(BudgetExceededError):
        for number in itertools.count() if charges is None else range(charges):
            if parent is not None and not parent.is_alive():
                return
            write_one(ledger, number, name, confirm)


def write_one(ledger: Ledger, number: int, name: str, confirm: Callable[[str, str], object]) -> None:
    """Charge once, at once or in all of ``STEPS``, and report each step after the ledger has confirmed it.

    Args:
        ledger: which is charged.
        number: of the charge; even ones take every step.
        name: which the key begins with.
        confirm: takes key and step.
    """
    key = f"{name}-{number}"
    if number % 2:
        ledger.charge(SCOPE, PureDP(0.001), key=key)
        confirm(key, "committed")
        return
    charge = ledger.reserve(SCOPE, PureDP(0.001), key=key, rounds=1)
    confirm(key, "reserved")
    charge.start()
    confirm(key, "started")
    charge.round_started(1)
    charge.round_released(1, output_hash=sha256(key.encode()).hexdigest())
    confirm(key, "round-released")
    charge.commit({"model": sha256(key.encode()).hexdigest()})
    confirm(key, "committed")


def find_last_steps(ledger: LedgerView) -> dict[str, int]:
    """Return the last of the steps that each charge of a campaign has taken."""
    steps = ((entry.key, "committed" if entry.verb is Verb.CHARGED else entry.verb) for entry in ledger.history())
    return _furthest((key, step) for key, step in steps if key is not None)


def _furthest(steps: Iterable[tuple[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, step in steps:
        if step in STEPS:
            found[key] = max(found.get(key, -1), STEPS.index(step))
    return found


def list_lost_charges(found: Mapping[str, int], confirmed: Iterable[tuple[str, str]]) -> int:
    """Count the charges of which a ledger has less than was confirmed."""
    return sum(found.get(key, -1) < step for key, step in _furthest(confirmed).items())


def list_duplicates(ledger: Ledger) -> int:
    """Count the charges that a retry of all that are there makes a second time."""
    before = ledger.verify().charges
    for charge in before.values():
        ledger.reserve(SCOPE, PureDP(0.001), key=charge.key, rounds=charge.rounds)
    return len(ledger.verify().charges) - len(before)


def exceeds_a_cap(balances: Iterable[Balance]) -> bool:
    """Return whether a sum exceeds its cap."""
    return any(
        balance.total_reserved.units[name] > cap for balance in balances for name, cap in balance.caps.units.items()
    )


def run_race_campaign(
    folder: Path, *, processes: int = 8, attempts: int = 50, cap: int = 200, url: str | None = None
) -> RaceReport:
    """Let processes charge at the same time against a budget that does not cover them all.

    Args:
        folder: an empty folder, on the disk to be tried.
        processes: how many take part.
        attempts: charges that each attempts.
        cap: charges that the budget covers.
        url: as in ``run_kill_campaign``.
    """
    path = folder / "raced.db" if url is None else url
    with open_ledger(path) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon=f"{cap}e-3")
    with multiprocessing.get_context("forkserver").Pool(processes) as pool:
        accepted = sum(pool.starmap(_race, [(path, name, attempts) for name in range(processes)], chunksize=1))
    verified = verify_ledger(path)
    if len(verified.charges) != accepted:
        raise RuntimeError(f"{len(verified.charges)} charges for {accepted} that were accepted")
    return RaceReport(processes * attempts, cap, accepted, processes * attempts - accepted, verified.count)


def _race(path: str | Path, name: int, attempts: int) -> int:
    """Return how many of the attempts were accepted; all others were refused."""
    accepted = 0
    with open_ledger(path) as ledger:
        for number in range(attempts):
            with contextlib.suppress(BudgetExceededError):
                ledger.charge(SCOPE, PureDP(0.001), key=f"runner-{name}-{number}")
                accepted += 1
    return accepted
