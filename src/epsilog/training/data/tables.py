"""Arrays from a table and its schema: rows in the order of clients, scaled by public constants, some held out.

A hash of the name of a unit decides whether it is held out. One unit more or less therefore changes nothing for others,
as the guarantee requires.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError
from epsilog.terms.disclosed import Private
from epsilog.training.data.columns import Column, ColumnTable, NameIndex
from epsilog.training.data.schema import (
    CategoryColumn,
    ClassTarget,
    DataSchema,
    Feature,
    RangeColumn,
    Target,
    UnscaledColumn,
)
from epsilog.training.federation import Federation

Places = NDArray[np.int64]
BLOCK = 1 << 20  # numbers in one block
SHOWN = 20  # column names in a message
IN_MEMORY = 1 << 28  # bytes; larger features are memory-mapped from an unnamed file


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedRows(Private):
    """A table that fits its schema."""

    table: ColumnTable
    schema: DataSchema
    owners: NameIndex

    @classmethod
    def of(cls, table: ColumnTable, schema: DataSchema) -> EncodedRows:
        """Return a table after a check against its schema; names, types and the existence of rows are public."""
        count = require_columns(table, schema.columns)
        if not count:
            raise CheckError("path", "data with at least one row", "none")
        encode_rows(table, schema, np.zeros(0, dtype=np.int64))
        with _asked_by("client"):
            return cls(table, schema, table.columns[schema.client].names())

    def held_out(self, share: float, *, by_client: bool) -> NDArray[np.bool_]:
        """Return a mask of the rows of held-out units: those with a small SHA-256 of their names; shape (rows,)."""
        units = self.owners
        if share and not by_client:
            with _asked_by("id"):
                units = self.table.columns[self.schema.id or ""].names()
        chosen = np.array([*(is_held_out(name, share) for name in units.known), False])
        return np.asarray(chosen[units.places]) & (self.owners.places >= 0)

    def clients(self, kept: NDArray[np.bool_]) -> tuple[str, ...]:
        """Return the names of clients with kept rows, in the order of their positions."""
        places = self.owners.places
        return tuple(self.owners.known[place] for place in np.unique(places[kept & (places >= 0)]))

    def federation(self, kept: NDArray[np.bool_]) -> Federation:
        """Return the kept rows in the order of client names; a client without rows has no position."""
        places = self.owners.places
        rows = np.flatnonzero(kept & (places >= 0))
        rows = rows[np.argsort(places[rows], kind="stable")]
        sizes = np.bincount(places[rows])
        sizes = sizes[sizes > 0] if rows.size else np.zeros(1, dtype=np.int64)
        return Federation(*encode_rows(self.table, self.schema, rows), sizes)


def require_columns(table: ColumnTable, columns: Mapping[str, str]) -> int:
    """Return the number of rows; require that all columns (by field) exist and have this length."""
    for field, name in columns.items():
        if name not in table.columns:
            known = ", ".join(map(repr, table.header[:SHOWN])) + (", ..." if len(table.header) > SHOWN else "")
            raise CheckError(field, f"one of the columns {known}", repr(name))
    counts = {name: len(table.columns[name]) for name in columns.values()}
    if len(set(counts.values())) > 1:
        raise CheckError(
            "columns", "of one length", f"{len(set(counts.values()))} lengths in {', '.join(map(repr, counts))}"
        )
    return next(iter(counts.values()))


def encode_rows(table: ColumnTable, schema: DataSchema, rows: Places) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return features (n, f) as float32 and targets (n,) of rows; NaN or class -1 in an unusable row."""
    features = encode_features(table, schema, rows)
    with _asked_by("target"):
        return features, _targets(table.columns[schema.target], schema.goal, rows)


def encode_features(table: ColumnTable, schema: DataSchema, rows: Places) -> NDArray[Any]:
    """Return features (n, f) of rows as float32; NaN in an unusable row."""
    parts = [_part(name, table.columns[name], feature) for name, feature in schema.features.items()]
    features = _allocate(len(rows), sum(part.width for part in parts))
    for block in _blocks(features):
        start = 0
        for part in parts:
            end = start + part.width
            with np.errstate(over="ignore"):  # a warning would disclose a value
                features[block, start:end] = part.encoded(rows[block])
            start = end
    return features


def find_unusable_rows(features: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of unusable rows; shape (n,)."""
    return np.asarray(_no_target(targets) | ~np.isfinite(features).all(axis=1))


def _no_target(targets: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(targets < 0 if targets.dtype.kind == "i" else ~np.isfinite(targets))


def count_unusable_by_field(
    table: ColumnTable, schema: DataSchema, features: NDArray[Any], targets: NDArray[Any]
) -> dict[str, int]:
    """Return the number of unusable rows by the field that makes them so; omit fields without such rows.

    Only for unprotected rows: counts of protected rows would be a release.
    """
    found, start = {"target": int(_no_target(targets).sum())}, 0
    for name, feature in schema.features.items():
        end = start + (len(feature.names) if isinstance(feature, CategoryColumn) else table.columns[name].width)
        wrong = (~np.isfinite(features[block, start:end]).all(axis=1) for block in _blocks(features))
        found[f"features.{name}"] = sum(int(each.sum()) for each in wrong)
        start = end
    return {field: count for field, count in found.items() if count}


def is_held_out(name: str, share: float) -> bool:
    """Return whether a unit is held out, by a public rule on its name.

    >>> [name for name in "abcdefgh" if is_held_out(name, 0.25)]
    ['a', 'c', 'h']
    """
    digest = hashlib.sha256(f"epsilog/held-out/{name}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureEncoder:
    """An encoder of a feature for blocks of rows."""

    width: int
    encoded: Callable[[Places], NDArray[np.float64]]


def _part(name: str, column: Column, feature: Feature) -> _FeatureEncoder:
    with _asked_by(f"features.{name}"):
        if not isinstance(feature, CategoryColumn):
            _scale_column(column, feature, np.zeros(0, dtype=np.int64))  # checks the type without a row
            return _FeatureEncoder(column.width, partial(_scale_column, column, feature))
        codes = column.places(feature.names)
        codes = np.where(codes < 0, feature.substitute, codes)
        return _FeatureEncoder(len(feature.names), lambda rows: _one_hot(codes[rows], len(feature.names)))


def _scale_column(column: Column, feature: RangeColumn | UnscaledColumn, rows: Places) -> NDArray[np.float64]:
    """Return rows of numbers or dates, scaled by their range; shape (n, width)."""
    if isinstance(feature, UnscaledColumn):
        return column.numbers(rows)
    found = column.days(rows) if feature.is_dates else column.numbers(rows)
    low, high = feature.bounds
    within = np.clip(np.where(np.isfinite(found), found, feature.substitute), low, high)
    return 2.0 * ((within - low) / (high - low)) - 1.0


def _one_hot(codes: Places, count: int) -> NDArray[np.float64]:
    return np.where(codes[:, None] < 0, np.nan, np.arange(count) == codes[:, None])


def _targets(column: Column, goal: Target, rows: Places) -> NDArray[Any]:
    """Return targets of rows: class numbers or -1, or real numbers or NaN; shape (n,)."""
    if isinstance(goal, CategoryColumn):
        return column.places(goal.names)[rows]
    if column.width != 1:
        raise CheckError("type", "one number in a row", f"{column.width}")
    if not isinstance(goal, ClassTarget):
        with np.errstate(over="ignore"):  # as above
            return _scale_column(column, goal, rows)[:, 0].astype(np.float32)
    found = column.numbers(rows)[:, 0]
    named = np.isin(found, np.arange(goal.count))
    return np.where(named, found, -1).astype(np.int64)


def _allocate(rows: int, width: int) -> NDArray[np.float32]:
    """Return an array to fill; a large one is mapped from an unnamed file that is deleted after use."""
    if rows * width * 4 <= IN_MEMORY:
        return np.zeros((rows, width), dtype=np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(rows, width))


def _blocks(features: NDArray[Any]) -> Iterator[slice]:
    step = max(1, BLOCK // features.shape[1])
    return (slice(first, first + step) for first in range(0, len(features), step))


@contextlib.contextmanager
def _asked_by(field: str) -> Iterator[None]:
    """Replace ``type`` in an error by the field that requires the column."""
    try:
        yield
    except CheckError as error:
        if error.field != "type":
            raise
        raise CheckError(field, f"a column of {error.bound}", error.value) from None
