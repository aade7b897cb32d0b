"""Write files durably: after the call returns, a power cut loses neither bytes nor names.

The bytes are synced with the file, and the name with its folder.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and sync its bytes; ``sync_folder`` makes its name durable."""
    _write(path, "wb", content)


def append_durably(path: Path, content: bytes) -> None:
    """Append to a file, created if absent, and sync its bytes; ``sync_folder`` makes its name durable."""
    _write(path, "ab", content)


def _write(path: Path, mode: str, content: bytes) -> None:
    with path.open(mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Sync the bytes of a file, of any writer."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the names that were created, changed or removed in a folder; do nothing on Windows."""
    if os.name == "nt":  # cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(file: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file so that a kill or a power cut leaves the old one or the new one, never a part.

    Args:
        file: the file; a link itself is replaced.
        content: the whole content.
        private: whether only the owner may read it, from the first byte on.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    if private:
        temporary.unlink(missing_ok=True)  # of a killed process, or of another user
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    write_durably(temporary, content)
    temporary.replace(file)
    sync_folder(file.parent)


def level_times(folder: Path, *, to: Path) -> None:
    """Give a folder and everything in it the time of one file, so that copies reveal no other time."""
    when = to.stat().st_mtime_ns
    for path in (*folder.rglob("*"), folder):
        os.utime(path, ns=(when, when), follow_symlinks=False)
