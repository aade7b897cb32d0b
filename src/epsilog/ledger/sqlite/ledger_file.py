"""The file of a ledger: it has one name, and the open file is the one at that path.

SQLite names its log after the *name* of a file. Under a second name (a hard link, a rename while it is open, a file
mounted twice) it would keep a second log, and two processes would spend one budget twice. So every opener takes a
shared lock on one byte of the file, far beyond its end, that represents the name, and checks whether the byte of
another name is locked. Every transaction that writes checks before and after that the file and its log are still in
place.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from epsilog.terms import LedgerIntegrityError, StorageError

_FIRST = 1 << 61  # the bytes that stand for names: from here on, far behind those that SQLite locks
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux
_LOCKS = sys.platform == "linux" and sys.maxsize > 2**32
LOGS = ("-wal", "-shm")  # SQLite's files during write-ahead logging: the log and its index
_INDEX = struct.Struct("=14xHI12x8s8x")  # of the index's header: bytes of a page, frames of the log, and its salt
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes (SQLite's file format, section 4.1)
_READS = 100  # of an index that another process changes meanwhile


@dataclass(slots=True)
class _Held:
    """A file that this process has open: its descriptor, the byte of its name, and how many ledgers share it.

    And of its log and the log's index, with their inodes: closed no sooner than SQLite has closed them, for the reason
    below.
    """

    descriptor: int
    name: int
    owners: int = 0
    logs: tuple[int, ...] = ()
    inodes: tuple[int, ...] = ()
    stale: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Close what is open."""
        for descriptor in (self.descriptor, *self.logs, *self.stale):
            os.close(descriptor)


class LogEnd(NamedTuple):
    """The last frame of a log: where it starts, the salt of the log, and its bytes."""

    start: int
    salt: bytes
    content: bytes


# By device and inode. One descriptor for all, since closing any descriptor of a file frees the locks that SQLite has on
# it in this process.
_held: dict[tuple[int, int], _Held] = {}
_inherited: set[tuple[int, int]] = set()  # what was open when this process was forked: SQLite has its locks wrong here
_guard = threading.Lock()


def _note_fork() -> None:
    """A lock that another thread held at the fork would stay locked in the child; the names are the parent's."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()
    _inherited.update(_held)
    for held in _held.values():
        held.close()
    _held.clear()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is nothing to note
    os.register_at_fork(after_in_child=_note_fork)


def refusal_after_fork(path: Path) -> str:
    """Return the state of an open ledger that a forked child inherits."""
    return (
        f"ledger {path} was open when this process was forked, and SQLite cannot be carried over a fork: close it "
        "before the fork, or start this process by spawn or forkserver"
    )


class LedgerFile:
    """A ledger's file and its only name, from opening to closing."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path, self._logs = path, [str(make_sidecar_path(path, suffix)) for suffix in LOGS]
        self._size = 0  # of the file, when it was last looked at before a write
        with _guard:
            if create and not os.path.lexists(path):
                _make(path)
            self._inode = _lone(path)
            if self._inode in _inherited:
                raise StorageError(refusal_after_fork(path))
            held = _held.get(self._inode)
            if held is None:
                held = _held[self._inode] = _hold(path, self._inode)
            elif held.name != _name(path):
                raise _under_another_name(path)
            held.owners += 1

    def check(self) -> None:
        """Require that the open file is at its path, under that name alone."""
        if _lone(self.path) != self._inode:
            raise StorageError(f"ledger {self.path} is open, and another file is at its path now")

    def check_size(self) -> None:
        """Require that the file is as long as it was, before something is written to it: a ledger's never shrinks."""
        size = os.fstat(_held[self._inode].descriptor).st_size
        if size < self._size:
            raise StorageError(f"ledger {self.path} is open, and was truncated from {self._size} to {size} bytes")
        self._size = size

    def logs(self) -> tuple[int, ...]:
        """Return the files of SQLite's log; they stay the same while the ledger is open."""
        try:
            return tuple(os.lstat(log).st_ino for log in self._logs)
        except OSError as error:
            raise StorageError(f"ledger {self.path} is open, and its log {error.filename} is gone") from error

    def log_end(self, inodes: tuple[int, ...]) -> LogEnd | None:
        """Return the end of SQLite's log by its index; None if it is empty. Refuse a log that is shorter.

        SQLite does not look at the length itself: it would write behind the end, and acknowledge what no other process
        and no later one finds.
        """
        log, index = self._log_files(inodes)
        for _ in range(_READS):
            header = self._read(index, _INDEX.size, 0)
            size = os.fstat(log).st_size
            if header == self._read(index, _INDEX.size, 0):
                break
        else:
            raise StorageError(f"ledger {self.path}: its log changes too fast to be looked at")
        page, frames, salt = _INDEX.unpack(header)
        if not frames:
            return None
        frame = _FRAME_HEADER + (65536 if page == 1 else page)
        start = _LOG_HEADER + (frames - 1) * frame
        if size < start + frame:
            raise self._cut()
        return LogEnd(start, salt, self._read(log, frame, start))

    def check_log(self, inodes: tuple[int, ...], end: LogEnd | None) -> None:
        """Require that the former end of the log is still there, after more was written behind it."""
        now = self.log_end(inodes)
        if end is None or now is None or now.salt != end.salt:
            return  # all of it was moved to the file, and another log begun
        log, _ = self._log_files(inodes)
        if self._read(log, len(end.content), end.start) != end.content:
            raise self._cut()

    def _read(self, descriptor: int, count: int, start: int) -> bytes:
        try:
            return os.pread(descriptor, count, start)
        except OSError as error:
            raise StorageError(f"ledger {self.path}: its log cannot be read: {error.strerror}") from error

    def _log_files(self, inodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the log and its index, open: a descriptor of the index that is closed frees SQLite's locks on it."""
        held = _held[self._inode]
        if held.inodes != inodes:
            with _guard:
                try:
                    opened = tuple(os.open(log, os.O_RDONLY) for log in self._logs)
                    held.stale, held.logs = [*held.stale, *held.logs], opened  # each is closed once
                    held.inodes = tuple(os.fstat(log).st_ino for log in held.logs)
                except OSError as error:
                    raise StorageError(f"ledger {self.path}: its log cannot be opened: {error.strerror}") from error
        if held.inodes != inodes:
            raise StorageError(f"ledger {self.path} is open, and its log was replaced")
        return held.logs

    def _cut(self) -> StorageError:
        return StorageError(
            f"ledger {self.path} is open, and its log was truncated: acknowledged entries may be lost. Close it "
            "everywhere, and compare the rest with a kept head or checkpoint"
        )

    def release(self) -> None:
        """Give the name back, once SQLite has closed the file."""
        with _guard:
            held = _held[self._inode]
            held.owners -= 1
            if held.owners == 0:
                del _held[self._inode]
                held.close()


@contextmanager
def translate_disk_errors(path: Path) -> Iterator[None]:
    """A block that looks at a ledger's files; what a disk does not give is a ``StorageError``."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, struct.error) as error:
        raise StorageError(f"ledger {path}: its log cannot be read ({error})") from error


def make_sidecar_path(path: Path, suffix: str) -> Path:
    """Return the file that SQLite keeps next to a database."""
    return path.with_name(path.name + suffix)


def read_first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, read without freeing the locks of a ledger that this process has open."""
    with _guard:
        found = path.stat()
        held = _held.get((found.st_dev, found.st_ino))
        if held is not None:
            return os.pread(held.descriptor, count, 0)
        with path.open("rb") as file:
            return file.read(count)


def _make(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return  # another process was faster
    except OSError as error:
        raise StorageError(f"ledger {path} cannot be created: {error.strerror}") from error


def _lone(path: Path) -> tuple[int, int]:
    """Device and inode of a plain file that has one name."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise StorageError(f"ledger {path} does not exist: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"ledger {path} is not a regular file")
    if found.st_nlink != 1:
        raise StorageError(
            f"ledger {path} has {found.st_nlink} names (hard links), and two names could be spent twice: keep one"
        )
    return found.st_dev, found.st_ino


def _hold(path: Path, inode: tuple[int, int]) -> _Held:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"ledger {path} cannot be opened: {error.strerror}") from error
    try:
        found, name = os.fstat(descriptor), _name(path)
        if (found.st_dev, found.st_ino) != inode:
            raise StorageError(f"ledger {path} was replaced while it was opened")
        _take_name(descriptor, name, path)
    except BaseException:
        os.close(descriptor)
        raise
    return _Held(descriptor, name)


def _name(path: Path) -> int:
    """The byte that stands for a name: where its folder really is, however it was reached, and how it is called there.

    Two names share a byte once in 2^60.
    """
    folder = path.parent.stat()
    text = f"{folder.st_dev}/{folder.st_ino}/".encode() + os.fsencode(path.name)
    return _FIRST + 1 + int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % (_FIRST - 2)


def _take_name(descriptor: int, name: int, path: Path) -> None:
    """Lock the byte of a name, for as long as the descriptor is open, and looks for other names."""
    if not _LOCKS:
        return
    try:
        import fcntl
    except ImportError:  # not Unix: each transaction still checks the location of the file
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, name, 1, 0))
        for start, length in ((_FIRST, name - _FIRST), (name + 1, 2 * _FIRST - name - 1)):
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            if _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK:
                raise _under_another_name(path)
    except StorageError:
        raise
    except OSError:  # a file system without such locks: each transaction still checks the location of the file
        return


def _under_another_name(path: Path) -> StorageError:
    return StorageError(
        f"ledger {path} is open under another name (it was renamed, or is mounted twice): close it there first"
    )


def refuse_orphans(path: Path, home: Path) -> None:
    """Refuse a ledger that was moved away from the log in which its last entries may stand."""
    for suffix in ("-wal", "-journal"):
        left = make_sidecar_path(home, suffix)
        try:
            size = left.stat().st_size
        except OSError:
            continue
        if size:
            raise LedgerIntegrityError(
                f"{path} was moved without {left}, which may hold its last entries: move that to "
                f"{make_sidecar_path(path, suffix)}"
            )
