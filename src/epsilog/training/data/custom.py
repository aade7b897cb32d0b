"""Custom data of the user: a file, the meaning of its columns, and the held-out units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check
from epsilog.training.data import frames
from epsilog.training.data.columns import ColumnTable, make_array_table
from epsilog.training.data.dataset import Dataset, TestSet
from epsilog.training.data.schema import CategoryColumn, ClassTarget, DataSchema
from epsilog.training.data.tables import (
    EncodedRows,
    count_unusable_by_field,
    encode_features,
    encode_rows,
    find_unusable_rows,
    require_columns,
)

SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


@dataclass(frozen=True, slots=True)
class CustomData:
    """The place of custom data, and what is public about them.

    Attributes:
        path: a CSV, Parquet or NPZ file, or a folder with one NPY file per column.
        schema: the meaning of its columns.
        row: the word for one row ("visit").
        test: a public test file with the same columns; None for another or no test set.
        test_share: the fraction of units that are held out as test set; None for another or no test set.
        decimal: the decimal separator of numbers in text.
        counts_are_public: whether the numbers of units and clients are public.
        public: whether the whole file is public, and thus the number of unusable rows.
    """

    path: Path
    schema: DataSchema
    row: Annotated[str, check.text()]
    test: Path | None = None
    test_share: Annotated[float | None, check.optional(check.in_open_interval(0, 1))] = None
    decimal: Annotated[str, check.one_of((".", ","))] = "."
    counts_are_public: Annotated[bool, check.boolean()] = False
    public: Annotated[bool, check.boolean()] = False

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.row == self.schema.client:
            raise CheckError("row", "a word for one row, different from that for a client", repr(self.row))
        if self.test is not None and self.test_share is not None:
            raise CheckError("test", "absent where test_share is given", repr(str(self.test)))

    def load(self, unit: str) -> Dataset:
        """Return the data for a privacy unit: the column of the client, or ``row``.

        Raises:
            CheckError: the file, its columns or the test set are invalid. The content of a row is never an error.
        """
        rows = EncodedRows.of(read_table(self.path, self.schema.columns.values(), decimal=self.decimal), self.schema)
        unit_is_client = self._level(unit)
        if self.test_share and not unit_is_client and self.schema.id is None:
            raise CheckError("id", "a column that names each row, by which rows are held out", "nothing")
        held_out = rows.held_out(self.test_share or 0.0, by_client=unit_is_client)
        clients = rows.federation(~held_out)
        test, notes = self._test_set(rows, held_out)
        if self.public:
            notes += self._left_out(rows.table, clients.features, clients.targets, "for training")
        return Dataset(
            name="own data",
            unit=unit,
            unit_is_client=unit_is_client,
            clients=clients,
            names=rows.clients(~held_out),
            test=test,
            classes=self.schema.classes,
            facts=self._facts(unit_is_client=unit_is_client),
            counts_are_public=self.counts_are_public,
            notes=notes,
        )

    def features(self, path: Path) -> NDArray[Any]:
        """Return the features of another file with the same columns, for predictions; shape (n, f), NaN if unusable.

        Raises:
            CheckError: the file or its columns are invalid.
        """
        wanted = {f"features.{name}": name for name in self.schema.features}
        table = read_table(path, wanted.values(), decimal=self.decimal)
        return encode_features(table, self.schema, np.arange(require_columns(table, wanted)))

    def _level(self, unit: str) -> bool:
        """Return whether a unit is a whole client; the data have a word for each of both units."""
        client, row = self.schema.client, self.row
        if unit not in (client, row):
            raise CheckError("privacy_unit", f"{client!r} (a whole client) or {row!r} (one row)", repr(unit))
        return unit == client

    def _test_set(self, rows: EncodedRows, held_out: NDArray[np.bool_]) -> tuple[TestSet | None, tuple[str, ...]]:
        """Return the test set and notes about it; held-out rows are not protected."""
        if self.test is not None:
            return self._test_file(self.test), ()
        if self.test_share is None:
            return None, ()
        found = TestSet(*encode_rows(rows.table, self.schema, np.flatnonzero(held_out)))
        kept = ~find_unusable_rows(*found)
        if not kept.any():
            self._require_sense(rows.table, found)
            raise CheckError("test_share", "enough to hold out a usable row", f"{self.test_share}")
        notes = self._left_out(rows.table, *found, "held out")
        usable = TestSet(found.features[kept], found.targets[kept])
        self._require_classes("test_share", "enough to hold out rows", usable, *notes)
        return usable, notes

    def _require_sense(self, table: ColumnTable, held_out: TestSet) -> None:
        """Refuse a field that makes all held-out rows unusable: its description does not fit its column."""
        rows = len(held_out.targets)
        for field, count in count_unusable_by_field(table, self.schema, *held_out).items():
            if count == rows:
                stated = (
                    self.schema.goal if field == "target" else self.schema.features[field.removeprefix("features.")]
                )
                given = f"{self.schema.learned_columns[field]!r} with none in {rows:,} held-out rows"
                raise CheckError(field, f"a column with {stated.values_are}", given)

    def _require_classes(self, field: str, bound: str, test: TestSet, *notes: str) -> None:
        """Refuse a test set with one class, for which accuracy is meaningless."""
        goal, only = self.schema.goal, test.targets[0]
        if isinstance(goal, CategoryColumn | ClassTarget) and (test.targets == only).all():
            given = "; ".join([f"{goal.describe(int(only))!r} in all of {len(test.targets):,}", *notes])
            raise CheckError(field, f"{bound} of at least two classes", given)

    def _left_out(
        self, table: ColumnTable, features: NDArray[Any], targets: NDArray[Any], which: str
    ) -> tuple[str, ...]:
        """Return a note on the number of unusable rows, and the reasons, for unprotected rows."""
        bad = count_unusable_by_field(table, self.schema, features, targets)
        if not bad:
            return ()
        count = int(find_unusable_rows(features, targets).sum())
        return (f"leaving out {count:,} of {len(targets):,} rows {which} ({_format_counts(bad)})",)

    def _test_file(self, path: Path) -> TestSet:
        """Return the public test file; errors may state its values."""
        try:
            learned = self.schema.learned_columns
            table = read_table(path, learned.values(), decimal=self.decimal)
            found = TestSet(*encode_rows(table, self.schema, np.arange(require_columns(table, learned))))
        except CheckError as error:
            raise CheckError(
                "test", f"a file like the data file: {error.field} {error.requirement}", error.value
            ) from None
        if not len(found.targets):
            raise CheckError("test", "a file with at least one row", "none")
        bad = np.flatnonzero(find_unusable_rows(*found))
        if bad.size:
            why = _format_counts(count_unusable_by_field(table, self.schema, *found))
            given = f"{bad.size} unusable, the first at row {bad[0] + 1} ({why})"
            raise CheckError("test", "a file of usable rows", given)
        self._require_classes("test", "a file with rows", found)
        return found

    def _facts(self, *, unit_is_client: bool) -> dict[str, Any]:
        what = "real numbers" if self.schema.classes is None else f"{self.schema.classes} classes"
        return {
            "source": "data of the owner, from a file that is neither named nor hashed here",
            "row": self.row,
            "counts": "exact" if self.counts_are_public else "declared numbers, at least as large as the true ones",
            "partition": f"natural: a client is a {self.schema.client}",
            "schema": self.schema.to_json(),
            "scaling": "numbers and dates are clipped to a public range and scaled to -1 to 1; categories become "
            f"columns of 0 and 1; targets are {what}. No statistic of the data is used",
            "unusable_rows": "left out: a value is missing, not finite or not listed, and no replacement is stated",
            "test_set": self._format_test_unit(self.schema.client if unit_is_client else self.row),
        }

    def _format_test_unit(self, unit: str) -> str:
        if self.test is not None:
            return "a public file, outside the population"
        if self.test_share is None:
            return "none: no score is released"
        return (
            f"each {unit} with a SHA-256 below {self.test_share:g} of its range; outside the population and not "
            "protected: loss and score on them are released in each round"
        )


def _format_counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{field} in {count:,}" for field, count in rows.items())


def read_table(path: Path, wanted: Collection[str], *, decimal: str = ".") -> ColumnTable:
    """Return the wanted columns that exist; the name of the file states its type."""
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.glob("*.npy"))}
        if not files:
            raise CheckError("path", "a file, or a folder of .npy files, one per column", f"{path.name!r}, without any")
        return _among({name: _map_file(file) for name, file in files.items() if name in wanted}, files)
    if path.suffix.lower() not in SUFFIXES:
        raise CheckError("path", f"a file ending in {', '.join(SUFFIXES)}, or a folder of .npy files", repr(path.name))
    _require_readable(path)
    match path.suffix.lower():
        case ".npz":
            return _read_zip(path, wanted)
        case ".parquet":
            return frames.read_parquet(path, wanted, decimal=decimal)
        case _:
            return frames.read_csv(path, wanted, decimal=decimal)


def read_column_types(path: Path) -> dict[str, str]:
    """Return the names of the columns of a file, each with its type if the file states it; read no row.

    Raises:
        CheckError: as ``read_table``.
    """
    if not path.is_dir() and path.suffix.lower() in (".csv", ".tsv"):
        _require_readable(path)
        return dict.fromkeys(frames.read_csv_header(path), "")
    if path.suffix.lower() == ".parquet":
        _require_readable(path)
        return frames.get_parquet_types(path)
    header = read_table(path, ()).header
    columns = read_table(path, header).columns
    return {name: column.kind for name, column in columns.items()}


def _require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise CheckError("path", "a file that can be read", f"{path.name}: {error.strerror}") from None


def _among(columns: Mapping[str, Any], header: Collection[str]) -> ColumnTable:
    return replace(make_array_table(columns), header=list(header))


def _read_zip(path: Path, wanted: Collection[str]) -> ColumnTable:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return _among({name: stored[name] for name in stored.files if name in wanted}, stored.files)
    except Exception:  # noqa: BLE001 - zipfile and numpy raise many kinds, and some repeat what they read
        raise CheckError("path", "a whole NPZ file of plain arrays, without objects", path.name) from None


def _map_file(path: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # noqa: BLE001 - as above
        raise CheckError("path", "a folder of whole NPY files, without objects", path.name) from None
    return found
