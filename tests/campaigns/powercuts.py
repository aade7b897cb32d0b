"""Simulated power cuts: all that a writer does to its disk is recorded, cut at random moments, and the rest is judged.

A writer charges under ``strace``, which notes its writes, syncs, truncations and removals in their order, and each step
that the ledger confirmed. A cut keeps what was synced. Of what came since, anything may be there: a write may be lost,
or done, or torn between sectors, whatever became of those before and after it; a file that was made or removed is there
or not, until its folder was synced. The ledger that is left must open, hold, and have every step that was confirmed.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epsilog.ledger import open_ledger
from epsilog.ledger.selftest import exceeds_a_cap, find_last_steps, list_lost_charges, write_steps
from epsilog.terms import EpsilogError, check

__all__ = ["CutReport", "power_cut_campaign"]

_SECTOR = 512  # bytes that a disk writes whole
_SEEN = ("openat", "pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink")
_UNSEEN = (
    "pwritev",
    "pwritev2",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "fallocate",
    "truncate",
    "unlinkat",
)
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_OPEN_FILE = re.compile(r"\d+<((?:\\x[0-9a-f]{2})*)>")
_ACKS = "confirmed"
_LEDGER = "cut.db"


@dataclass(frozen=True, slots=True)
class CutReport:
    """What a campaign of power cuts found."""

    cuts: int  # moments at which the power was cut
    confirmed: int  # steps that the ledger had confirmed before, over all cuts
    lost: int  # confirmed steps that the ledger does not have afterwards, over all cuts
    broken: int  # cuts after which the ledger does not open, or does not hold
    overspent: int  # cuts after which more stands against the cap than it bears

    @property
    def passed(self) -> bool:
        """Whether nothing confirmed was lost, and every ledger holds; and whether anything was tried at all."""
        return self.lost == self.broken == self.overspent == 0 and self.confirmed > 0


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the writer did."""

    what: str  # ``made``, ``written``, ``resized``, ``synced``, ``removed`` or ``confirmed``
    name: str  # of the file, without its folder; "" is the folder itself. Of what is confirmed: key and step
    at: int = 0  # where it was written to, or the size that it was given
    data: bytes = b""  # what was written


@dataclass(slots=True)
class _File:
    """A file on a disk that may lose power: what is safe, and what came since."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[Event] = field(default_factory=list)


class Disk:
    """A folder as the power may leave it."""

    def __init__(self) -> None:
        self._safe: dict[str, _File] = {}  # the names as the folder was synced
        self._now: dict[str, _File] = {}
        self._between: dict[str, list[_File | None]] = {}  # what each name stood for since

    def do(self, event: Event) -> None:
        """Takes in the next event."""
        if event.what == "made" and event.name not in self._now:
            self._name(event.name, _File())
        elif event.what == "removed":
            self._name(event.name, None)
        elif event.what in ("written", "resized"):
            self._now[event.name].since.append(event)
        elif event.what == "synced" and event.name:
            file = self._now[event.name]
            for done in file.since:
                _apply(file.safe, done)
            file.since.clear()
        elif event.what == "synced":
            self._safe, self._between = dict(self._now), {}

    def _name(self, name: str, file: _File | None) -> None:
        self._between.setdefault(name, []).append(file)
        if file is None:
            self._now.pop(name, None)
        else:
            self._now[name] = file

    def cut(self, rng: random.Random) -> dict[str, bytes]:
        """What is there after a power cut at this moment, as chance has it."""
        kept = rng.choice((0.0, 0.5, 0.5, 1.0))  # of what was not synced
        torn = rng.random() < 0.5
        found = {}
        for name in sorted(self._safe.keys() | self._now.keys() | self._between.keys()):
            was, now = self._safe.get(name), self._now.get(name)
            file = {0.0: was, 1.0: now}.get(kept, rng.choice([was, *self._between.get(name, [])]))
            if file is not None:
                found[name] = _left(file, rng, kept, torn=torn)
        return found


def _left(file: _File, rng: random.Random, kept: float, *, torn: bool) -> bytes:
    """What a cut leaves of a file."""
    content = bytearray(file.safe)
    for event in file.since:
        if kept < 1 and torn and event.what == "written":
            sectors = range(0, len(event.data), _SECTOR)
            for start in (start for start in sectors if rng.random() < kept):
                part = event.data[start : start + _SECTOR]
                _apply(content, Event("written", event.name, event.at + start, part))
        elif rng.random() < kept:
            _apply(content, event)
    return bytes(content)


def _apply(content: bytearray, event: Event) -> None:
    end = event.at + len(event.data)
    if event.what == "resized":
        del content[end:]
    content.extend(bytes(max(end - len(content), 0)))
    content[event.at : end] = event.data


def power_cut_campaign(folder: Path, *, seed: int, cuts: int = 1000, charges: int = 60) -> CutReport:
    """Records a writer, cuts its power at random moments, and opens what each cut leaves."""
    cuts, charges = check.integer(1)(cuts=cuts), check.integer(10)(charges=charges)
    folder = folder.resolve()
    place = folder / "disk"
    place.mkdir()
    events = recorded(place, folder / "trace", charges=charges)
    return judged(events, place, seed=seed, cuts=cuts)


def recorded(place: Path, trace: Path, *, charges: int) -> list[Event]:
    """What a writer does to an empty folder."""
    calls = f"trace={','.join((*_SEEN, *(f'?{name}' for name in _UNSEEN)))}"
    strace = ["strace", "-f", "-xx", "-y", "-s", "16777216", "-e", calls, "-e", "signal=none", "-o", str(trace)]
    writer = [sys.executable, __file__, str(place), str(charges)]
    try:
        done = subprocess.run([*strace, *writer], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EpsilogError("simulated power cuts need strace, and there is none here") from error
    if done.returncode:
        raise EpsilogError(f"a writer under strace ended with {done.returncode}: {done.stderr[-1000:]}")
    with trace.open(encoding="ascii") as lines:
        return list(parsed(lines, place))


def parsed(lines: Iterable[str], place: Path) -> Iterator[Event]:
    """The events in a trace that are of one folder."""
    inside = _escaped(str(place))
    for line in lines:
        if inside not in line:
            continue
        found = _LINE.match(line)
        if found is None or (found[1] in _UNSEEN and int(found[3]) >= 0):
            raise EpsilogError(f"power cuts are not simulated for {line[:200]!r}")
        if int(found[3]) >= 0:
            yield from _event(found[1], found[2], place)


def _event(call: str, given: str, place: Path) -> Iterator[Event]:
    file, text = _OPEN_FILE.match(given), _TEXT.search(given)
    path = Path((_bytes(file[1]) if file else _bytes(text[1]) if text else b"").decode())
    if place not in (path, path.parent):
        return
    name, last = "" if path == place else path.name, given.rsplit(",", 1)[-1]
    match call:
        case "openat" if "O_CREAT" in given:
            yield Event("made", name)
        case "write" if name == _ACKS and text:
            yield from (Event("confirmed", line) for line in _bytes(text[1]).decode().splitlines())
        case "pwrite64" if text:
            yield Event("written", name, int(last), _bytes(text[1]))
        case "ftruncate":
            yield Event("resized", name, int(last))
        case "fsync" | "fdatasync":
            yield Event("synced", name)
        case "unlink":
            yield Event("removed", name)
        case "write":
            raise EpsilogError(f"power cuts are not simulated for a plain write to {name!r}")


def _escaped(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def judged(events: Sequence[Event], place: Path, *, seed: int, cuts: int) -> CutReport:
    """Cuts the power at random moments, and opens what is left where the ledger lay."""
    rng = random.Random(seed)  # noqa: S311 no secrets here
    first = next((index for index, event in enumerate(events) if event.what == "confirmed"), 0)
    moments = sorted(rng.randint(0 if rng.random() < 0.1 else first, len(events)) for _ in range(cuts))
    disk, seen, done = Disk(), list[tuple[str, str]](), 0
    confirmed = lost = broken = overspent = 0
    for moment in moments:
        for event in events[done:moment]:
            if event.what == "confirmed":
                key, step = event.name.split()
                seen.append((key, step))
            else:
                disk.do(event)
        done = moment
        _lay_out(place, disk.cut(rng))
        found = _opened(place / _LEDGER)
        confirmed += len({key for key, _ in seen})
        broken += found is None
        if found is not None:
            lost += list_lost_charges(found[0], seen)
            overspent += found[1]
    return CutReport(cuts, confirmed, lost, broken, overspent)


def _lay_out(place: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        if name != _ACKS and not name.endswith("-shm"):  # which SQLite makes again
            (place / name).write_bytes(content)


def _opened(path: Path) -> tuple[dict[str, int], bool] | None:
    """How far each charge of a ledger is, and whether it is overspent; None if it does not open or hold."""
    try:
        with open_ledger(path) as ledger:
            return find_last_steps(ledger), exceeds_a_cap(ledger.verify().balances.values())
    except (EpsilogError, OSError):
        return None


def _write(place: Path, charges: int) -> None:
    """The writer that is recorded."""
    path = place / _LEDGER
    with open_ledger(path) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon=f"{charges * 9 // 10}e-3")
    write_steps(path, place / _ACKS, "writer", charges=charges)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]))
