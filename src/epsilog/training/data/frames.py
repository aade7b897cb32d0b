"""Columns that polars holds: CSV and Parquet files, and frames of other libraries through the Arrow interface.

What polars itself says of a bad file may repeat what stands in it; here an error names the file and never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilog import cells, delimited
from epsilog.terms import CheckError, ConfigError
from epsilog.terms.disclosed import Private
from epsilog.terms.extras import install_command
from epsilog.training.data.columns import ArrayColumn, Column, ColumnTable, NameIndex

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ",;\t|"
LONGEST_HEADER = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PolarsColumn(Private):
    """A column that polars holds; as ``columns.Column`` says."""

    values: pl.Series
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(np.prod(getattr(self.values.dtype, "shape", 1)))

    @property
    def kind(self) -> str:
        """As ``columns.Column`` says."""
        return str(self.values.dtype)

    @property
    def _is_wide(self) -> bool:
        return type(self.values.dtype).__name__ == "Array"

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As ``columns.Column`` says."""
        polars, some = _polars(), self.values.gather(rows)
        inner = getattr(some.dtype, "inner", some.dtype) if self._is_wide else some.dtype
        if some.dtype == polars.String:
            some = some.str.strip_chars().str.replace(self.decimal, ".", literal=True)
        elif not (inner.is_numeric() or inner in (polars.Boolean, polars.Null)):
            raise CheckError("type", "numbers; dates need a range of two dates", str(some.dtype))
        return _doubles(some).reshape(len(rows), self.width)

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As ``columns.Column`` says."""
        polars, some = _polars(), self.values.gather(rows)
        if some.dtype == polars.String:
            some = some.str.strip_chars().str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        elif some.dtype not in (polars.Date, polars.Datetime, polars.Null):
            raise CheckError("type", "dates", str(some.dtype))
        return _doubles(some.cast(polars.Date, strict=False).to_physical()).reshape(len(rows), 1)

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """As ``columns.Column`` says."""
        words, polars = self._words(), _polars()
        found = words.replace_strict(list(names), range(len(names)), default=-1, return_dtype=polars.Int64)
        return np.asarray(found.fill_null(-1).to_numpy())

    def names(self) -> NameIndex:
        """As ``columns.Column`` says."""
        known = self._words().drop_nulls().unique().sort().to_list()
        return NameIndex(known, self.places(known) if known else np.full(len(self), -1))

    def _words(self) -> pl.Series:
        polars, kind = _polars(), self.values.dtype
        named = (polars.String, polars.Categorical, polars.Enum, polars.Boolean, polars.Null)
        if not (kind.is_integer() or kind in named):
            raise CheckError("type", "text or whole numbers", str(kind))
        words = self.values.cast(polars.String).str.strip_chars()
        return words.set(words == "", None)


def read_csv(path: Path, wanted: Collection[str], *, decimal: str) -> ColumnTable:
    """Read the columns that are wanted, all as text.

    A row ends with its line, whatever it holds; one that is too long is cut, one that is too short is blank at its end.

    Raises:
        CheckError: no header line, or a column that it names twice.
    """
    separator, header = _header(path, wanted)
    for name in wanted:
        if header.count(name) > 1:
            raise CheckError(
                "path", f"a file that names each column once, as {name!r}", f"it {header.count(name)} times"
            )
    _polars()
    return _collect_columns(path, partial(delimited.scan_lines, separator=separator), wanted, header, decimal)


def read_parquet(path: Path, wanted: Collection[str], *, decimal: str) -> ColumnTable:
    """Read the columns that are wanted."""
    return _collect_columns(path, _scan_parquet, wanted, list(get_parquet_types(path)), decimal)


def get_parquet_types(path: Path) -> dict[str, str]:
    """The names of a Parquet file's columns, each with its type."""
    polars = _polars()
    try:
        found = _scan_parquet(path).collect_schema()
    except (polars.exceptions.PolarsError, OSError):
        raise CheckError("path", "a whole Parquet file", path.name) from None
    return {name: str(kind) for name, kind in found.items()}


def _scan_parquet(path: Path) -> Any:
    """The one file, whatever its name looks like."""
    return _polars().scan_parquet(path, glob=False, hive_partitioning=False)


def convert_table(frame: Any) -> ColumnTable:
    """Take a table of another library: columns by name, a frame of pandas, or one that speaks Arrow (polars, pyarrow).

    Raises:
        CheckError: something that is no table.
    """
    if isinstance(frame, Mapping):
        return ColumnTable({name: _column(name, values) for name, values in frame.items()}, list(frame))
    if _of(frame, "pandas"):  # speaks Arrow as well, but only through pyarrow
        columns = {str(name): frame[name] for name in frame.columns}
        return ColumnTable({name: _column(name, values) for name, values in columns.items()}, list(columns))
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "collect"):
        raise CheckError("table", "arrays by name, or a frame of polars, pandas or Arrow", f"a {type(frame).__name__}")
    polars = _polars()
    if isinstance(frame, polars.LazyFrame):
        try:
            frame = frame.collect()
        except Exception:  # noqa: BLE001 - what polars says may repeat a value
            raise CheckError("table", "a lazy frame that can be collected", "one that cannot") from None
    try:
        held = frame if isinstance(frame, polars.DataFrame) else cells.from_arrow(frame)
    except TypeError:
        raise CheckError("table", "of types that polars knows", "another") from None
    return ColumnTable({name: PolarsColumn(held[name]) for name in held.columns}, held.columns)


def _column(name: str, values: Any) -> Column:
    """A column as its library types it; cells without a type of their own are taken as they are, each by itself."""
    if _of(values, "polars"):
        return PolarsColumn(values)
    if isinstance(values, np.ma.MaskedArray):
        return ArrayColumn(np.ma.filled(values.astype(object), None))
    if _of(values, "pandas") and not isinstance(values.dtype, np.dtype):
        return ArrayColumn(cells.objects(values))
    if not cells.is_series(values):
        raise CheckError(name, "an array with a row for each example", f"a {type(values).__name__}")
    return ArrayColumn(np.asarray(values) if hasattr(values, "dtype") else cells.objects(values))


def _of(value: Any, library: str) -> bool:
    return type(value).__module__.partition(".")[0] == library


def read_csv_header(path: Path) -> list[str]:
    """The names of a CSV file's columns."""
    return _header(path, ())[1]


def _header(path: Path, wanted: Collection[str]) -> tuple[str, list[str]]:
    """The separator of a CSV file and the names of its columns: the header line is public, the rows are not."""
    line = delimited.header_line(path, LONGEST_HEADER)
    read = {
        each: [name.decode(errors="replace") for name in delimited.split_line(line, each.encode())]
        for each in SEPARATORS
    }
    whole = [each for each in SEPARATORS if wanted and set(wanted) <= set(read[each])]
    separator = whole[0] if whole else max(SEPARATORS, key=lambda each: len(read[each]))
    header = read[separator]
    if not any(name.strip() for name in header):
        raise CheckError("path", "a file with a header line", f"none in {path.name}")
    if any(sign in "".join(header) for sign in ("\ufffd", "\0", "\r")):
        raise CheckError("path", "a CSV file in UTF-8, whose lines end in a line feed", path.name)
    return separator, header


def _collect_columns(
    path: Path, scan: Callable[[Path], Any], wanted: Collection[str], header: list[str], decimal: str
) -> ColumnTable:
    try:
        held = scan(path).select([name for name in header if name in wanted]).collect()
    except (_polars().exceptions.PolarsError, OSError):
        raise CheckError("path", "a file that can be read to its end (is it cut short?)", path.name) from None
    return ColumnTable({name: PolarsColumn(held[name], decimal) for name in held.columns}, header)


def _doubles(values: pl.Series) -> NDArray[np.float64]:
    """Numbers, NaN where there is none."""
    polars, shape = _polars(), getattr(values.dtype, "shape", None)
    kind = polars.Float64 if shape is None else polars.Array(polars.Float64, shape)
    return np.asarray(values.cast(kind, strict=False).to_numpy(), dtype=np.float64)


def _polars() -> Any:
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("data", [f"CSV, Parquet and Arrow need polars: {install_command('data')}"]) from error
    return pl
