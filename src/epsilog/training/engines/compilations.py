"""A cache of compiled programs, so that the first round of a run need not compile again.

Machine code shows the shapes of the data. It is therefore stored in a folder that only the user can read and write, one
for each kind of processor. Equal code gives equal bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
from pathlib import Path
from typing import Any

SETTINGS = {"jax_persistent_cache_min_compile_time_secs": 0.1, "jax_persistent_cache_min_entry_size_bytes": -1}


def enable_compilation_cache() -> Path | None:
    """Make JAX cache compiled code in ``$XDG_CACHE_HOME/epsilog/jax`` or ``~/.cache/epsilog/jax``.

    A folder from ``JAX_COMPILATION_CACHE_DIR`` or the configuration of JAX stays in use.

    Returns:
        The folder; None if another one stays in use, or if no safe folder is available.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "epsilog" / "jax" / _processor()
    if not _made_safely(folder):
        return None
    settings = {"jax_compilation_cache_dir": str(folder), **SETTINGS}
    if "jax" not in sys.modules:  # it reads these when it is imported
        for name, value in settings.items():
            os.environ.setdefault(name.upper(), str(value))
        return folder
    import jax

    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None:
        return None
    for name, value in settings.items():
        config.update(name, value)
    return folder


def _made_safely(folder: Path) -> bool:
    """Create the folder if needed; return whether this user owns it and no other can use it."""
    with contextlib.suppress(OSError, RuntimeError):  # no home, full disk, or a file of that name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
        return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return False


def _processor() -> str:
    """Return a name for the kind of processor, since code for one kind may not run on another."""
    facts = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        facts = "".join([line for line in lines if line.startswith(("model name", "flags", "Features"))][:2])
    return f"{platform.machine()}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
