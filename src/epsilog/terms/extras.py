"""What brings an optional part: a command that works wherever epsilog came from, be it a clone, a wheel or an index."""

from __future__ import annotations

import re
import shlex

__all__ = ["install_command"]

_OF_AN_EXTRA = re.compile(r"""([^;]+?)\s*;.*\bextra == ["']([\w-]+)["']""")


def install_command(*extras: str) -> str:
    """Return the command that installs what extras bring: their packages by name, since epsilog itself is there.

    Args:
        extras: as `pyproject.toml` names them.

    >>> install_command("sign")
    "pip install 'cryptography>=43'"
    """
    found = [match for each in _requirements() if (match := _OF_AN_EXTRA.fullmatch(each))]
    packages = [package for package, extra in (match.groups() for match in found) if extra in extras]
    if {match[2] for match in found}.issuperset(extras):
        return f"pip install {shlex.join(packages)}"
    wanted = shlex.quote(f".[{','.join(extras)}]")
    return f"pip install {wanted} in a clone"  # sources that run without being installed


def _requirements() -> list[str]:
    from importlib import metadata

    try:
        return metadata.requires("epsilog") or []
    except metadata.PackageNotFoundError:
        return []
