"""Columns in polars: CSV and Parquet files, and frames of other libraries through the Arrow interface.

Errors of polars may show values of a file. Errors of this module name the file and never a value.
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
    """A column in polars; see ``columns.Column``."""

    values: pl.Series
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Return the number of numbers in a row."""
        return int(np.prod(getattr(self.values.dtype, "shape", 1)))

    @property
    def kind(self) -> str:
        """Return the type, as polars names it."""
        return str(self.values.dtype)

    @property
    def _is_wide(self) -> bool:
        return type(self.values.dtype).__name__ == "Array"

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers, as ``columns.Column`` specifies."""
        polars, some = _polars(), self.values.gather(rows)
        inner = getattr(some.dtype, "inner", some.dtype) if self._is_wide else some.dtype
        if some.dtype == polars.String:
            some = some.str.strip_chars().str.replace(self.decimal, ".", literal=True)
        elif not (inner.is_numeric() or inner in (polars.Boolean, polars.Null)):
            raise CheckError("type", "numbers; dates need a range of two dates", str(some.dtype))
        return _doubles(some).reshape(len(rows), self.width)

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return days, as ``columns.Column`` specifies."""
        polars, some = _polars(), self.values.gather(rows)
        if some.dtype == polars.String:
            some = some.str.strip_chars().str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
        elif some.dtype not in (polars.Date, polars.Datetime, polars.Null):
            raise CheckError("type", "dates", str(some.dtype))
        return _doubles(some.cast(polars.Date, strict=False).to_physical()).reshape(len(rows), 1)

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return positions, as ``columns.Column`` specifies."""
        words, polars = self._words(), _polars()
        found = words.replace_strict(list(names), range(len(names)), default=-1, return_dtype=polars.Int64)
        return np.asarray(found.fill_null(-1).to_numpy())

    def names(self) -> NameIndex:
        """Return names, as ``columns.Column`` specifies."""
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
    """Return the wanted columns, all as text.

    A row ends with its line. Extra values are dropped, and missing ones are blank.

    Raises:
        CheckError: there is no header line, or it names a wanted column twice.
    """
    separator, header = _header(path, wanted)
    for name in wanted:
        if header.count(name) > 1:
            raise CheckError("path", f"a file with one column {name!r}", f"{header.count(name)} of them")
    _polars()
    return _collect_columns(path, partial(delimited.scan_lines, separator=separator), wanted, header, decimal)


def read_parquet(path: Path, wanted: Collection[str], *, decimal: str) -> ColumnTable:
    """Return the wanted columns."""
    return _collect_columns(path, _scan_parquet, wanted, list(get_parquet_types(path)), decimal)


def get_parquet_types(path: Path) -> dict[str, str]:
    """Return the names of the columns of a Parquet file, each with its type."""
    polars = _polars()
    try:
        found = _scan_parquet(path).collect_schema()
    except (polars.exceptions.PolarsError, OSError):
        raise CheckError("path", "a whole Parquet file", path.name) from None
    return {name: str(kind) for name, kind in found.items()}


def _scan_parquet(path: Path) -> Any:
    """Return a scan of one file, without patterns in its name."""
    return _polars().scan_parquet(path, glob=False, hive_partitioning=False)


def convert_table(frame: Any) -> ColumnTable:
    """Return a table from columns by name, a frame of pandas, or one with the Arrow interface (polars, pyarrow)."""
    if isinstance(frame, Mapping):
        return ColumnTable({name: _column(name, values) for name, values in frame.items()}, list(frame))
    if _of(frame, "pandas"):  # its Arrow interface requires pyarrow
        columns = {str(name): frame[name] for name in frame.columns}
        return ColumnTable({name: _column(name, values) for name, values in columns.items()}, list(columns))
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "collect"):
        raise CheckError("table", "arrays by name, or a frame of polars, pandas or Arrow", f"a {type(frame).__name__}")
    polars = _polars()
    if isinstance(frame, polars.LazyFrame):
        try:
            frame = frame.collect()
        except Exception:  # noqa: BLE001 - an error of polars may show a value
            raise CheckError("table", "a lazy frame that can be collected", "one that cannot") from None
    try:
        held = frame if isinstance(frame, polars.DataFrame) else cells.from_arrow(frame)
    except TypeError:
        raise CheckError("table", "of types that polars knows", "another") from None
    return ColumnTable({name: PolarsColumn(held[name]) for name in held.columns}, held.columns)


def _column(name: str, values: Any) -> Column:
    """Return a column with the type of its library; cells of type object are read one by one."""
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
    """Return the names of the columns of a CSV file."""
    return _header(path, ())[1]


def _header(path: Path, wanted: Collection[str]) -> tuple[str, list[str]]:
    """Return the separator and the column names of a CSV file; the header line is public, the rows are not."""
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
        raise CheckError("path", "a CSV file in UTF-8 with lines that end in a line feed", path.name)
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
    """Return numbers, or NaN."""
    polars, shape = _polars(), getattr(values.dtype, "shape", None)
    kind = polars.Float64 if shape is None else polars.Array(polars.Float64, shape)
    return np.asarray(values.cast(kind, strict=False).to_numpy(), dtype=np.float64)


def _polars() -> Any:
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("data", [f"CSV, Parquet and Arrow need polars: {install_command('data')}"]) from error
    return pl
