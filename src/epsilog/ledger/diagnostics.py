"""Diagnose a ledger in place: who may write to it, its disk, its clock, its log.

Nothing here changes the file, and nothing is mended.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from epsilog.ledger.factory import read_ledger, verify_ledger
from epsilog.ledger.ledger import get_utc_now
from epsilog.ledger.sqlite.ledger_file import LOGS, make_sidecar_path
from epsilog.ledger.transitions import ChargeState
from epsilog.terms import LedgerIntegrityError, StorageError

# Where locks and syncs are promises of another machine, or of a program.
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs"})
VOLATILE = frozenset({"tmpfs", "ramfs"})
_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What was found of one thing that a ledger relies on."""

    about: str
    well: bool | None  # whether it is as it should be; None if unknown
    message: str


def diagnose_ledger(path: Path, *, clock: Callable[[], datetime] = get_utc_now) -> tuple[Diagnostic, ...]:
    """Check a ledger file in place: names, rights, disk, log, clock, and the whole chain."""
    remarks = [*_names(path), *_rights(path), _disk(path), _log(path)]
    try:
        remarks += [_clock(path, clock()), Diagnostic("chain", True, _verify(path))]
    except (LedgerIntegrityError, StorageError) as error:
        remarks.append(Diagnostic("chain", False, str(error)))
    return tuple(remarks)


def _verify(path: Path) -> str:
    """Return what a check of a ledger found that its owner should know."""
    found = verify_ledger(path)
    states = Counter(charge.state for charge in found.charges.values())
    running, waiting = states[ChargeState.STARTED], states[ChargeState.RESERVED]
    restored = f"; restored from a backup at entries {[*found.restored]}" if found.restored else ""
    return f"{found.count} entries hold; {running} charges run, {waiting} are only reserved{restored}"


def _names(path: Path) -> Iterator[Diagnostic]:
    links = path.stat().st_nlink
    message = "one name" if links == 1 else f"{links} names (hard links): two of them could be spent, so it is refused"
    yield Diagnostic("names", links == 1, message)
    if path.is_symlink():
        yield Diagnostic("link", True, f"a symbolic link to {path.resolve()}; its log is there")


def _rights(path: Path) -> Iterator[Diagnostic]:
    for what, place in (("file", path.resolve()), ("folder", path.resolve().parent)):
        found = place.stat()
        sticky = what == "folder" and found.st_mode & stat.S_ISVTX
        others = bool(found.st_mode & stat.S_IWOTH) and not sticky
        group = bool(found.st_mode & stat.S_IWGRP)
        who = "anyone on this machine" if others else "its group" if group else "its owner alone"
        yield Diagnostic(f"{what} rights", not others, f"{who} may write to it ({stat.filemode(found.st_mode)})")
        if not os.access(place, os.W_OK):
            yield Diagnostic(f"{what} access", None, "you may not write to it: it can be read here, and not charged")


def _disk(path: Path) -> Diagnostic:
    kind = get_file_system(path.resolve())
    if kind is None:
        return Diagnostic("disk", None, "this machine does not report its kind; keep a ledger on a local disk")
    if kind in NETWORK or kind.startswith("fuse"):
        return Diagnostic("disk", False, f"{kind}: locks and syncs may not be what they say; keep it on a local disk")
    if kind in VOLATILE:
        return Diagnostic("disk", False, f"{kind}: its contents are lost when the machine stops")
    return Diagnostic("disk", True, kind)


def get_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kind of file system of a path; None if the machine does not report it."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kinds: dict[Path, str] = {}
    for line in lines:  # of two mounted at one place, the later is seen
        before, _, after = line.partition(" - ")
        at = before.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        kinds[Path(at)] = after.split(" ")[0]
    return next((kinds[place] for place in (path, *path.parents) if place in kinds), None)


def _log(path: Path) -> Diagnostic:
    left = [name for suffix in (*LOGS, "-journal") if (name := make_sidecar_path(path.resolve(), suffix)).exists()]
    if not left:
        return Diagnostic("log", True, "none: the file is complete without one")
    names = ", ".join(name.name for name in left)
    return Diagnostic(
        "log", True, f"{names}: a process has it open, or was killed; copy the file with them, or by `backup`"
    )


def _clock(path: Path, now: datetime) -> Diagnostic:
    with read_ledger(path) as ledger:
        last = next(iter(ledger.page(limit=1)), None)
    if last is None:
        return Diagnostic("clock", True, "no entry yet")
    behind = datetime.fromisoformat(last.time) - now
    at = now.astimezone(UTC).isoformat(timespec="seconds")
    if behind.total_seconds() > 0:
        return Diagnostic("clock", False, f"it is {at} here, and the last entry says {last.time}: {behind} behind")
    return Diagnostic("clock", True, f"it is {at} here, after the last entry")
