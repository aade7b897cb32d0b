"""Faults of a disk: each of a writer's calls fails in turn, once or from then on, and what is left is judged.

A writer takes its steps under ``strace``, which answers one call in the disk's place: with EIO, or ENOSPC for a write.
A disk that is full in the midst of a write is a limit on how large a file may become. After each error the writer goes
on with its next step, as a server would. Afterwards, without faults, the ledger must open, hold, and have every step
that was confirmed; and who asks again with the same keys is charged no second time.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import random
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import epsilog.ledger.sqlite  # noqa: F401 a writer that is watched reads no module
from epsilog.ledger import Ledger, open_ledger
from epsilog.ledger.selftest import (
    SCOPE,
    STEPS,
    exceeds_a_cap,
    find_last_steps,
    list_duplicates,
    list_lost_charges,
    write_one,
)
from epsilog.mechanisms import PureDP
from epsilog.terms import EpsilogError, check

__all__ = ["FaultReport", "fault_campaign"]

_LEDGER = "faulty.db"
_CAP = 7  # charges that the budget bears
_TRIES = 9  # charges that a writer tries
_READS, _WRITES = ("pread64",), ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink")
_ANSWERS = dict.fromkeys(_READS, ("error=EIO",)) | dict.fromkeys(_WRITES, ("error=EIO", "error=ENOSPC"))
_FULLER = 1000  # bytes: by so much later a disk is full in the next run; pages and frames are not multiples of it
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1
_PATIENCE = 120.0  # seconds for a writer that waits for nobody
_CALLED = re.compile(r"\d+ +(\w+)\(")
_SHORT = re.compile(r"\d+ +pwrite64\(.*, (\d+), \d+\) += (-?\d+)")


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What a campaign of faults found."""

    runs: int  # writers that met a fault
    possible: int  # faults that there are: each call of a writer, with each error, once and from then on
    confirmed: int  # steps that the ledger confirmed, over all runs
    lost: int  # confirmed steps that the ledger does not have afterwards
    broken: int  # runs after which the ledger does not open, or does not hold
    doubled: int  # charges that a retry with the same key made again
    overspent: int  # runs after which more stands against the cap than it bears
    untold: int  # errors that a writer met and that are not the ledger's own

    @property
    def passed(self) -> bool:
        """Whether every promise was kept; and whether anything was tried at all."""
        kept = self.lost == self.broken == self.doubled == self.overspent == self.untold == 0
        return kept and min(self.runs, self.confirmed) > 0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    call: str  # that is not made; "" for a disk that is full
    answer: str  # what the writer is told instead
    at: int  # the how manyeth such call, from 1; of a full disk, how many bytes a file may have
    ever_after: bool = False  # whether all that follow are answered so too

    @property
    def options(self) -> list[str]:
        """As ``strace`` takes it."""
        if not self.call:
            return ["-e", f"trace={','.join(_ANSWERS)}"]
        when = f"when={self.at}{'+' if self.ever_after else ''}"
        return ["-e", f"trace={self.call}", "-e", f"inject={self.call}:{self.answer}:{when}"]


@dataclass(frozen=True, slots=True)
class Met:
    """What became of one writer."""

    calls: Counter[str]  # how often it made each call
    fault: bool  # whether it met its fault
    confirmed: tuple[tuple[str, str], ...]  # keys and steps, in their order
    untold: tuple[str, ...]  # errors that are not the ledger's own


def fault_campaign(folder: Path, *, seed: int, runs: int | None = None) -> FaultReport:
    """Lets writers meet the faults of a disk, one each, and judges what they leave."""
    some = None if runs is None else check.integer(1)(runs=runs)
    found = FaultReport(0, 0, 0, 0, 0, 0, 0, 0)
    place = prepared(folder)
    every = possible(place)
    chosen = every if some is None else random.Random(seed).sample(every, min(some, len(every)))  # noqa: S311
    for fault in chosen:
        found = _added(found, judged(place, met(place, fault)))
    return replace(found, possible=len(every))


def prepared(folder: Path) -> Path:
    """A folder for the ledgers of a campaign: each begins as the one that is made here, where that was made."""
    place = folder.resolve()
    (place / "disk").mkdir()
    with open_ledger(place / "disk" / _LEDGER) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon=f"{_CAP}e-3")
        ledger.charge(SCOPE, PureDP(0.001), key="before")
    shutil.copytree(place / "disk", place / "start")
    return place


def possible(place: Path) -> list[Fault]:
    """Every fault that a writer can meet, who makes the calls that one makes who meets none."""
    calls = met(place, None).calls
    largest = max(file.stat().st_size for file in (place / "disk").iterdir())
    each = [
        Fault(call, answer, at, ever_after)
        for call, answers in _ANSWERS.items()
        for answer in answers
        for at in range(1, calls[call] + 1)
        for ever_after in (False, True)
    ]
    return [*each, *(Fault("", "", size) for size in range(_FULLER, largest, _FULLER))]


def met(place: Path, fault: Fault | None) -> Met:
    """Lets a writer meet a fault, on a copy of the prepared ledger."""
    disk, trace = place / "disk", place / "trace"
    shutil.rmtree(disk, ignore_errors=True)
    shutil.copytree(place / "start", disk)
    ours, theirs = multiprocessing.Pipe()
    largest = fault.at if fault is not None and not fault.call else 0
    with _writer(disk / _LEDGER, theirs, largest) as writer, ours:
        ours.recv()  # it waits to be watched
        with _watched(writer.pid, trace, Fault("", "", 0) if fault is None else fault):
            ours.send("go")
            told = list(_told(ours))
    lines = trace.read_text(encoding="ascii", errors="replace").splitlines()
    calls = Counter(found[1] for line in lines if (found := _CALLED.match(line)))
    cut_short = any(int(found[2]) < int(found[1]) for line in lines if (found := _SHORT.match(line)))
    answered = any(line.endswith("(INJECTED)") for line in lines)
    confirmed = tuple((key, step) for key, step in told if step in STEPS)
    untold = tuple(what for key, what in told if not key)
    return Met(calls, answered or cut_short, confirmed, untold)


@contextmanager
def _writer(path: Path, theirs: Connection, largest: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes; one that ends otherwise than it should has tried nothing."""
    command = [sys.executable, __file__, str(path), str(theirs.fileno()), str(largest)]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as writer:
        theirs.close()
        try:
            yield writer
        except BaseException:
            writer.kill()
            raise
    if writer.returncode:
        raise RuntimeError(f"a writer of the campaign ended with {writer.returncode}")


def _told(ours: Connection) -> Iterator[tuple[str, str]]:
    """What a writer tells until it hangs up."""
    while True:
        if not ours.poll(_PATIENCE):
            raise EpsilogError(f"a writer on a disk with a fault said nothing for {_PATIENCE:g} seconds")
        try:
            yield ours.recv()
        except EOFError:
            return


@contextmanager
def _watched(pid: int, trace: Path, fault: Fault) -> Iterator[None]:
    """A process under ``strace``, until that has seen it end."""
    command = ["strace", "-f", "-s", "0", "-e", "signal=none", *fault.options, "-o", str(trace), "-p", str(pid)]
    try:
        strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise EpsilogError("simulated faults need strace, and there is none here") from error
    with strace:
        said = strace.stderr.readline() if strace.stderr is not None else ""
        if "attached" not in said:
            raise EpsilogError(f"strace may not watch a process here: {said.strip()}")
        yield


def _write(path: Path, told: Connection, largest: int) -> None:
    """The writer: takes its steps, goes on after each error, and tells what was confirmed."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)  # where only parents may watch
    told.send("here")
    told.recv()
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    for step in _steps(path, told):
        try:
            step()
        except EpsilogError:
            pass
        except Exception as error:  # noqa: BLE001 it is told, and fails the campaign
            told.send(("", f"{type(error).__name__}: {error}"))
    told.close()


def _steps(path: Path, told: Connection) -> Iterator[Callable[[], object]]:
    """What a writer does, one thing at a time; what follows from what failed is left out."""
    opened: list[Ledger] = []
    for _ in range(3):
        if not opened:
            yield lambda: opened.append(open_ledger(path))
    if not opened:
        return
    (ledger,) = opened
    for number in range(_TRIES):
        yield partial(write_one, ledger, number, f"writer-{number}", lambda key, step: told.send((key, step)))
    yield ledger.close


def judged(place: Path, writer: Met) -> FaultReport:
    """What a writer has left, opened without faults."""
    lost = doubled = 0
    broken = overspent = False
    try:
        with open_ledger(place / "disk" / _LEDGER) as ledger:
            verified = ledger.verify()
            overspent = exceeds_a_cap(verified.balances.values())
            lost = list_lost_charges(find_last_steps(ledger), writer.confirmed)
            doubled = list_duplicates(ledger)
    except (EpsilogError, OSError):
        broken = True
    confirmed, untold = len(writer.confirmed), len(writer.untold)
    return FaultReport(int(writer.fault), 0, confirmed, lost, int(broken), doubled, int(overspent), untold)


def _added(one: FaultReport, other: FaultReport) -> FaultReport:
    return FaultReport(*(a + b for a, b in zip(astuple(one), astuple(other), strict=True)))


if __name__ == "__main__":
    _write(Path(sys.argv[1]), Connection(int(sys.argv[2])), int(sys.argv[3]))
