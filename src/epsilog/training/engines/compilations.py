"""A cache of compiled programs, so that the first round of a run need not compile again.

Machine code shows the sizes of the data's arrays. So it is stored in a folder of the user that others can neither read
nor write, one for each kind of processor. The same code gives the same bits.
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

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.1,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def enable_compilation_cache() -> Path | None:
    """Make JAX keep what it compiles in ``$XDG_CACHE_HOME/epsilog/jax`` or ``~/.cache/epsilog/jax``.

    Where ``JAX_COMPILATION_CACHE_DIR`` or JAX's own configuration names a folder, that is left as it is.

    Returns:
        The folder that is used by this call; None where another is, or none can be had safely.
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
    """Whether the folder is there, this user's own, and closed to others."""
    with contextlib.suppress(OSError, RuntimeError):  # no home, a full disk, a file in the way
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
        return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return False


def _processor() -> str:
    """A name for this kind of processor: code for one may not run on another that shares the home folder."""
    told = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told = "".join([line for line in lines if line.startswith(("model name", "flags", "Features"))][:2])
    return f"{platform.machine()}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
