"""Read audited files, up to a maximum size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from epsilog.terms import RecordError

MAX_BYTES = 1 << 29  # per file; a thousand rounds of a thousand clients take a twentieth of it


def read_file(path: Path, *, follow: bool = True) -> bytes:
    """Read one regular file of at most ``MAX_BYTES``; without ``follow``, refuse a symbolic link."""
    try:
        if not follow and not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        names = ("O_NONBLOCK", "O_BINARY", *(() if follow else ("O_NOFOLLOW",)))  # no system has all of them
        flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in names)
        with os.fdopen(os.open(path, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise RecordError(f"{path} must be a regular file")
            if facts.st_size > MAX_BYTES:
                raise RecordError(f"{path} must be at most {MAX_BYTES} bytes, got {facts.st_size}")
            return file.read(MAX_BYTES)
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise RecordError(f"{path} cannot be read: {reason}") from error
