"""What is written stays written: files and names that a power cut after the call no longer takes away.

A file's bytes and its name are two things: the bytes are synced with the file, the name with the folder that holds it.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file whose bytes last; its name lasts once the folder is synced too."""
    _put(path, "wb", content)


def append_durably(path: Path, content: bytes) -> None:
    """Adds bytes that last at the end of a file, made if need be; see ``write_durably`` for its name."""
    _put(path, "ab", content)


def _put(path: Path, mode: str, content: bytes) -> None:
    with path.open(mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Makes the bytes of a file last, whoever wrote them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes every name that was made, changed or removed in a folder last; as its file system does, on Windows."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(file: Path, content: bytes, *, private: bool = False) -> None:
    """Replaces a file so that a kill or a power cut leaves the old one or the new one, never half of it.

    Args:
        file: what is replaced; where it is a link, the link.
        content: all of it.
        private: its owner alone may read it, from the first byte on.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    waiting = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    if private:
        waiting.unlink(missing_ok=True)  # left by a kill, or put there by somebody else
        os.close(os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    write_durably(waiting, content)
    waiting.replace(file)
    sync_folder(file.parent)


def level_times(folder: Path, *, to: Path) -> None:
    """Gives a folder and everything in it the time of one of its files: copies of it tell no other."""
    when = to.stat().st_mtime_ns
    for path in (*folder.rglob("*"), folder):
        os.utime(path, ns=(when, when), follow_symlinks=False)
