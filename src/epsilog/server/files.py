"""Built files by their addresses."""

from __future__ import annotations

from pathlib import Path


def find_static_file(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder or below it; None where there is none, or can be none of such a name."""
    try:
        file = (folder / name).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):  # too long, or with a NUL
        return None
