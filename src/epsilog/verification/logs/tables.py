"""Files of rows through polars, lazily: the columns that a mapping names, each value checked, none dropped unsaid.

Every value is read as it stands and turned into a number here, so that what is no number is found by its row rather
than turned into nothing.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog import delimited
from epsilog.terms import CheckError, ConfigError
from epsilog.terms.extras import install_command
from epsilog.verification.columns import ReadSummary
from epsilog.verification.files import read_file
from epsilog.verification.logs.mapping import LogFile

if TYPE_CHECKING:
    import polars as pl

MOST_ROUNDS = 10_000_000  # a number of a round that is larger is an accident, and would cost memory
LARGEST = 2**53  # whole numbers from here on are not the same in everybody's file
EARLIEST_YEAR, LATEST_YEAR = 2000, 2099  # another year is a time in another unit
EARLIEST, LATEST = 946_684_800.0, 4_102_444_799.0  # of these years, in seconds since 1970
YEARS = f"{EARLIEST_YEAR} to {LATEST_YEAR}"
_PACKED = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x78\x01",
    b"\x78\x9c",
    b"\x78\xda",
)  # gzip, zstd, zlib: polars unpacks them
_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class LogField:
    """One column that is read.

    Attributes:
        name: the field of the mapping, as errors call it.
        column: the column's name in the file.
        bound: what every value must be, in words.
        parse: makes numbers, or text, of the raw column; null where it is none.
        holds: whether what was read is in bounds.
        blank: whether a value may be missing.
    """

    name: str
    column: str
    bound: str
    parse: Callable[[pl.Expr, Any], pl.Expr]
    holds: Callable[[pl.Expr], pl.Expr]
    blank: bool = False


def make_integer_column(name: str, column: str, low: int, high: int = LARGEST - 1) -> LogField:
    """A column of whole numbers; 3.0 is one."""
    bound = f"a whole number in [{low}, {high}]" if high < LARGEST - 1 else f"a whole number, at least {low}"
    return LogField(name, column, bound, _number, lambda x: (x == x.floor()) & x.is_between(low, high))


def make_positive_column(name: str, column: str) -> LogField:
    """A column of finite numbers above 0."""
    return LogField(name, column, "finite and above 0", _number, lambda x: x.is_finite() & (x > 0))


def make_non_negative_column(name: str, column: str) -> LogField:
    """A column of finite numbers, none below 0."""
    return LogField(name, column, "finite and at least 0", _number, lambda x: x.is_finite() & (x >= 0))


def make_finite_column(name: str, column: str) -> LogField:
    """A column of finite numbers."""
    return LogField(name, column, "finite", _number, lambda x: x.is_finite())


def make_text_column(name: str, column: str) -> LogField:
    """A column of words."""
    bound = "text that is not blank, in one line (an open quote?)"
    return LogField(name, column, bound, _text, lambda x: (x.str.len_bytes() > 0) & ~x.str.contains("\n", literal=True))


def make_time_column(name: str, column: str, unit: str, *, blank: bool = False) -> LogField:
    """A column of points in time, as seconds since 1970."""
    bound = {
        "iso": "a time such as 2026-01-31T10:00:00, without an offset or with Z, in 2000 to 2099",
        "s": f"seconds since 1970, in the years {YEARS}",
        "ms": f"milliseconds since 1970, in the years {YEARS}",
    }[unit]

    def parse(raw: pl.Expr, kind: Any) -> pl.Expr:
        return _iso(raw, kind) if unit == "iso" else _number(raw, kind) / (1000 if unit == "ms" else 1)

    return LogField(name, column, bound, parse, lambda x: x.is_between(EARLIEST, LATEST), blank)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRows:
    """The checked rows of one file.

    Attributes:
        frame: lazily, a column for each field by its name; text, or double.
        summary: what was read.
    """

    frame: pl.LazyFrame
    summary: ReadSummary

    def collect(self, frame: pl.LazyFrame | None = None) -> pl.DataFrame:
        """Computes a frame in pieces, never all rows at once unless all are asked for."""
        return _collect(self.frame if frame is None else frame)


def open_log_file(source: LogFile, base: Path, section: str, fields: Sequence[LogField]) -> CheckedRows:
    """Opens a file and checks every value of the columns that are wanted.

    Raises:
        CheckError: a column that is not there, or is there twice; a value out of its bounds, with its row.
        RecordError: a file that cannot be read.
    """
    frame = _open_log(source, base / source.file, section)
    if source.format == "jsonl":
        _refuse_twice(source, base / source.file, section, {*(field.column for field in fields), *source.where})
    kinds = dict(_schema(frame, section, source.file))
    for column, name in [(f.column, f.name) for f in fields] + [(c, f"{section}.where") for c in source.where]:
        _require(column, name, kinds, source.file)
    numbered, wanted = frame.with_row_index("#row", offset=1), _build_filter(source.where, kinds)
    held = _parse_columns(numbered.filter(wanted), fields, kinds)
    rows = _check_rows(held, fields, section, source.file)
    left_out, like_read = (
        _left_out(_parse_columns(numbered.filter(~wanted), fields, kinds), fields) if source.where else (0, 0)
    )
    named = {*(field.column for field in fields), *source.where}
    unread = tuple(name for name in kinds if name not in named)
    summary = ReadSummary(section, source.file, rows, left_out, unread, like_read, dict(source.where))
    return CheckedRows(held.select(*dict.fromkeys(field.name for field in fields)), summary)


def import_polars() -> Any:
    """The library, imported when first needed."""
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("logs", [f"reading logs needs polars: {install_command('data')}"]) from error
    return pl


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    try:
        return frame.collect(engine="streaming")
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError("file", "one that can be read to its end", str(error).partition("\n")[0]) from None


def _open_log(source: LogFile, path: Path, section: str) -> pl.LazyFrame:
    if not path.is_file():
        raise CheckError(f"{section}.file", "a file that is there", repr(source.file))
    frame: pl.LazyFrame
    if source.format in ("csv", "jsonl"):
        _require_plain(source, path, section)
    match source.format:
        case "json":
            frame = _of_json(source, path, section)
        case "parquet":
            frame = import_polars().scan_parquet(path, glob=False, hive_partitioning=False)
        case "csv":
            separator = _separator(path)
            if not _is_one_way(path, separator):  # a quote in a column that is not read would hide rows of others
                bound = (
                    "CSV with each row in one line, and each quote at the ends of a value or doubled (an open quote?)"
                )
                raise CheckError(f"{section}.file", bound, repr(source.file))
            frame = import_polars().scan_csv(path, infer_schema=False, separator=separator, glob=False)
        case _ if source.at is not None:
            frame = _within(source.at, path, section)
        case _:
            frame = import_polars().scan_ndjson(
                _alone(path), schema=dict.fromkeys(_names(path, section), import_polars().String)
            )
    return frame


def _require_plain(source: LogFile, path: Path, section: str) -> None:
    """Quotes, and names that come twice, are looked for in the file as it lies there."""
    with path.open("rb") as file:
        if file.read(4).startswith(_PACKED):
            raise CheckError(f"{section}.file", "a file that is not compressed (unpack it)", repr(source.file))


def _alone(path: Path) -> str:
    """A name that polars takes for this file, and not for a pattern of others: what is hashed is what is read."""
    return glob.escape(str(path))


def _is_one_way(path: Path, separator: str) -> bool:
    try:
        return delimited.is_one_way(path, separator.encode())
    except (OSError, EOFError) as error:
        raise CheckError("file", "one that can be read to its end", type(error).__name__) from None


def _separator(path: Path) -> str:
    """The most frequent of the usual ones in the header line."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(1 << 20)
    return max(",;\t|", key=header.count)


def _names(path: Path, section: str) -> list[str]:
    """The names in the first rows of a JSON Lines file."""
    try:
        return list(import_polars().scan_ndjson(_alone(path), infer_schema_length=1000).collect_schema())
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError(f"{section}.file", "JSON Lines, one object a line", str(error).partition("\n")[0]) from None


def _within(name: str, path: Path, section: str) -> pl.LazyFrame:
    """Rows that stand under one name of every line."""
    library = import_polars()
    frame: pl.LazyFrame = library.scan_ndjson(_alone(path), infer_schema_length=None)
    if not isinstance(_schema(frame, section, path.name).get(name), library.Struct):
        raise CheckError(f"{section}.at", f"a name with an object in every line of {path.name}", repr(name))
    return frame.select(library.col(name).struct.unnest())


def _of_json(source: LogFile, path: Path, section: str) -> pl.LazyFrame:
    """Rows within one JSON document: a list of objects, or an object of objects by key."""
    try:
        found = json.loads(read_file(path), object_pairs_hook=_once)
    except ValueError as error:
        raise CheckError(f"{section}.file", "JSON", str(error)) from None
    for step in source.at.split(".") if source.at else ():
        if not isinstance(found, dict) or step not in found:
            raise CheckError(f"{section}.at", "the way to the rows", f"{source.at!r}, and nothing at {step!r}")
        found = found[step]
    if source.key is not None:
        if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
            raise CheckError(f"{section}.key", "absent where rows are no objects by key", repr(source.key))
        if any(source.key in row for row in found.values()):
            raise CheckError(f"{section}.key", "a name that no row has", repr(source.key))
        found = [{source.key: key, **row} for key, row in found.items()]
    if not isinstance(found, list) or not found or not all(isinstance(row, dict) for row in found):
        raise CheckError(f"{section}.file", "a list of objects, at least one", type(found).__name__)
    names = dict.fromkeys(name for row in found for name in row)
    columns = {name: [_value_to_text(row.get(name)) for row in found] for name in names}
    frame: pl.LazyFrame = import_polars().LazyFrame(columns, schema=dict.fromkeys(names, import_polars().String))
    return frame


class _TwiceError(ValueError):
    """An object has a name twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are each there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(f"an object with {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _refuse_twice(source: LogFile, path: Path, section: str, names: set[str]) -> None:
    """Refuses a line of JSON that has a name twice; lines in which no wanted name comes again are not parsed."""
    wanted = [json.dumps(name, ensure_ascii=False).encode() for name in (*names, *([source.at] if source.at else ()))]
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if b"\\" in line or any(line.count(name) > 1 for name in wanted):
                _parsed_once(line, number, section)


def _parsed_once(line: bytes, number: int, section: str) -> None:
    try:
        json.loads(line, object_pairs_hook=_once)
    except _TwiceError as error:
        raise CheckError(f"{section}.file", "each name once in a line", f"{error} in line {number}") from None
    except (ValueError, RecursionError):
        return  # what is no JSON is found when values are read


def _value_to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _schema(frame: pl.LazyFrame, section: str, file: str) -> Mapping[str, Any]:
    try:
        return frame.collect_schema()
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError(f"{section}.file", f"a whole file, as {file} is not", str(error).partition("\n")[0]) from None


def _require(column: str, name: str, kinds: Mapping[str, Any], file: str) -> None:
    if column not in kinds:
        raise CheckError(name, f"a column of {file} ({', '.join(kinds)})", repr(column))
    if f"{column}_duplicated_0" in kinds:
        raise CheckError(name, f"a column that {file} has once", repr(column))


def _build_filter(where: Mapping[str, str], kinds: Mapping[str, Any]) -> pl.Expr:
    """Whether a row has the values of a filter."""
    library = import_polars()
    tests = [_text(library.col(column), kinds[column]).eq_missing(value) for column, value in where.items()]
    wanted: pl.Expr = library.all_horizontal(*tests) if tests else library.lit(value=True)
    return wanted


def _parse_columns(frame: pl.LazyFrame, fields: Sequence[LogField], kinds: Mapping[str, Any]) -> pl.LazyFrame:
    """Each row's number, its columns as they stand, and what they were read as."""
    raw = [import_polars().col(field.column).alias(f"raw {i}") for i, field in enumerate(fields)]
    parsed = [field.parse(import_polars().col(field.column), kinds[field.column]).alias(field.name) for field in fields]
    return frame.select("#row", *raw, *parsed)


def _left_out(held: pl.LazyFrame, fields: Sequence[LogField]) -> tuple[int, int]:
    """How many rows a filter leaves out, and how many of them could have been read."""
    bad = import_polars().any_horizontal(*(_bad(i, field) for i, field in enumerate(fields)))
    counted = _collect(held.select(import_polars().len().alias("#"), (~bad).sum().alias("like")))
    return int(counted["#"].item()), int(counted["like"].item())


def _check_rows(held: pl.LazyFrame, fields: Sequence[LogField], section: str, file: str) -> int:
    """Counts the rows, and refuses the first value that is out of its bounds."""
    bad = [_bad(i, field) for i, field in enumerate(fields)]
    counted = _collect(
        held.select(import_polars().len().alias("#"), *(b.sum().alias(f"b{i}") for i, b in enumerate(bad)))
    )
    if counted["#"].item() == 0:
        raise CheckError(f"{section}.file", "a file with rows", f"none in {file}")
    for i, field in enumerate(fields):
        if counted[f"b{i}"].item():
            first = _collect(held.filter(bad[i]).select("#row", f"raw {i}").head(1))
            value = first[f"raw {i}"].item()
            shown = "nothing" if value is None else repr(value)[:60]
            raise CheckError(
                f"{field.name} ({file}, column {field.column})", field.bound, f"{shown} in row {first['#row'].item()}"
            )
    return int(counted["#"].item())


def _bad(place: int, field: LogField) -> pl.Expr:
    """Whether a value is out of its bounds; one that is missing where it must not be is."""
    raw, value = import_polars().col(f"raw {place}"), import_polars().col(field.name)
    wrong: pl.Expr = value.is_null() | ~field.holds(value).fill_null(value=False)
    return wrong & raw.is_not_null() if field.blank else wrong


def _number(raw: pl.Expr, kind: Any) -> pl.Expr:
    double = import_polars().Float64
    if kind == import_polars().String:
        return raw.str.strip_chars().cast(double, strict=False)
    if kind.is_numeric():
        return raw.cast(double, strict=False)
    none: pl.Expr = import_polars().when(raw.is_null()).then(None).otherwise(math.nan).cast(double)
    return none


def _text(raw: pl.Expr, kind: Any) -> pl.Expr:
    word = import_polars().String
    if kind == import_polars().List:
        return raw.cast(import_polars().List(word), strict=False).list.join(" ")
    return raw.str.strip_chars() if kind == word else raw.cast(word, strict=False)


def _iso(raw: pl.Expr, kind: Any) -> pl.Expr:
    library = import_polars()
    if kind in (library.Date, library.Datetime):
        return raw.dt.epoch("us").cast(library.Float64) / 1e6
    if kind != library.String:
        return _number(raw, library.Boolean())
    plain = raw.str.strip_chars().str.strip_suffix("Z").str.replace("T", " ", literal=True)
    days = plain.str.to_date("%Y-%m-%d", strict=False).cast(library.Datetime("us"))
    tried = (plain.str.to_datetime(form, strict=False, time_unit="us") for form in _FORMATS)
    seconds: pl.Expr = library.coalesce(*tried, days).dt.epoch("us") / 1e6
    return seconds
