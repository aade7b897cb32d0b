"""What a study has finished so far, one file a cell: a study that was killed goes on behind the last of them.

A cell is one attack on one run (scheme, budget, seed), or a shadow model that several attacks share. It is written
atomically and names what it belongs to; its checksum finds accidents and careless edits, not a forger.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epsilog import durable_io
from epsilog.terms import RecordError, codec

Shelf = Callable[[str, Callable[[], Any]], Any]
"""Gives a cell by its name, and by what computes it where it is not finished."""


class ResultCells:
    """Finished cells by name; in memory alone, or in a folder as well."""

    def __init__(self, folder: Path | None = None, *, bound: str = "") -> None:
        """Opens a folder of cells.

        Args:
            folder: made with the first cell; None keeps nothing beyond this object.
            bound: what all cells must be of: a hash of protocol, data and version.
        """
        self._folder, self._bound = folder, bound
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """What a cell holds: read where it is finished, else computed and kept.

        Raises:
            RecordError: a file that was changed, or that is another study's.
        """
        if name not in self._known:
            file = self._file(name)
            there = file is not None and file.exists()
            self._known[name] = self._read(name) if there else self._write_cell(name, compute())
        return self._known[name]

    def within(self, where: str) -> Shelf:
        """The cells of one scheme and budget."""
        return lambda name, compute: self(f"{where}: {name}", compute)

    def clear(self) -> None:
        """Takes the files away, once the study's own document is written."""
        if self._folder is not None and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, name: str) -> Path | None:
        short = hashlib.sha256(name.encode()).hexdigest()[:24]
        return None if self._folder is None else self._folder / f"{short}.json"

    def _write_cell(self, name: str, found: Any) -> Any:
        content = codec.encode_canonical(found)
        if (file := self._file(name)) is not None:
            head = {"v": 1, "kind": "study-cell", "of": self._bound, "cell": name, "found": found}
            whole = head | {"sha256": codec.hash_canonical(head)}
            durable_io.write_atomically(file, codec.encode_canonical(whole) + b"\n")
        return codec.parse_json(content)  # the same numbers, whether they were written or computed just now

    def _read(self, name: str) -> Any:
        file = self._file(name)
        assert file is not None
        try:
            told = codec.parse_json(file.read_bytes())
            stated = told.pop("sha256")
            whole = codec.hash_canonical(told) == stated
        except (ValueError, AttributeError, KeyError, TypeError):
            whole = False
        if not whole:
            raise RecordError(f"{file}: the cell was changed or is damaged; delete it to measure it again")
        if told.get("of") != self._bound or told.get("cell") != name or told.get("kind") != "study-cell":
            raise RecordError(
                f"{file}: the cell is of another protocol, other data or another version; "
                "delete the folder to measure everything again"
            )
        return told["found"]
