"""Digits: 1,797 handwritten digits of 8 by 8 pixels, as scikit-learn ships them (Alpaydin & Kaynak 1998).

Who wrote which is not in the set, so clients are made: a public permutation deals 1,500 digits out to 100 clients.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np

from epsilog.terms import ProgrammeError, check
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.federation import Federation

SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"  # of the file, unpacked
UNITS = ("client", "digit")
CLIENTS, EACH = 100, 15  # the other 297 are the test set


def load(unit: str, cache: Path) -> Dataset:  # noqa: ARG001 - the file is read where it lies
    """Loads the data for a privacy unit: "client" or "digit"."""
    unit = check.one_of(UNITS)(privacy_unit=unit)
    table = np.loadtxt(io.BytesIO(_pinned()), delimiter=",", dtype=np.float32)
    dealt = np.random.Generator(np.random.Philox(key=0)).permutation(len(table))
    features, targets = table[dealt, :-1] / np.float32(16), table[dealt, -1].astype(np.int64)
    most = CLIENTS * EACH
    return Dataset(
        name="digits",
        unit=unit,
        unit_is_client=unit == "client",
        clients=Federation(features[:most], targets[:most], np.full(CLIENTS, EACH)),
        test=TestSet(features[most:], targets[most:]),
        classes=10,
        facts=_facts(),
        counts_are_public=True,
    )


def _pinned() -> bytes:
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise ProgrammeError(
            "digits", ["data: the package scikit-learn is missing; install it: pip install scikit-learn"]
        )
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise ProgrammeError("digits", [f"data: {path.name} cannot be read: {error}"]) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise ProgrammeError("digits", [f"{path.name}: SHA-256 must be {SHA256}, got {found}"])
    return content


def _facts() -> dict[str, Any]:
    return {
        "source": "Optical Recognition of Handwritten Digits (UCI), test part, as shipped by scikit-learn",
        "licence": "scikit-learn BSD-3-Clause, data CC BY 4.0; not redistributed",
        "data_sha256": SHA256,
        "partition": f"made: a public permutation (Philox, key 0) deals digits to {CLIENTS} clients, {EACH} each",
        "test_set": "the 297 digits that are left; public",
        "scaling": "pixels (0 to 16) / 16",
    }
