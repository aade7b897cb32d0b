"""Read the mapped columns of log files lazily with polars, and check every value.

Values are read as text and converted here, so that an invalid number is reported with its row instead of becoming null.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilog import delimited
from epsilog.terms import CheckError, ConfigError
from epsilog.terms.extras import install_command
from epsilog.verification.columns import ReadSummary
from epsilog.verification.files import read_file
from epsilog.verification.logs.mapping import LogFile, Norms, TimeColumn
from epsilog.verification.sampler_tests import Ids, Numbers

if TYPE_CHECKING:
    import polars as pl


MOST_ROUNDS = 10_000_000  # a larger round number is an error, and would cost memory
LARGEST = 2**53  # doubles do not represent all larger integers
EARLIEST_YEAR, LATEST_YEAR = 2000, 2099  # another year means a wrong unit
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
    """A column to read.

    Attributes:
        name: the field of the mapping, for errors.
        column: the column's name in the file.
        bound: a description of valid values.
        parse: converts the raw column to numbers or text; null for invalid values.
        holds: whether a parsed value is valid.
        blank: whether a value may be missing.
    """

    name: str
    column: str
    bound: str
    parse: Callable[[pl.Expr, Any], pl.Expr]
    holds: Callable[[pl.Expr], pl.Expr]
    blank: bool = False


def make_integer_column(name: str, column: str, low: int, high: int = LARGEST - 1) -> LogField:
    """Return a field of integers; 3.0 is valid."""
    bound = f"a whole number in [{low}, {high}]" if high < LARGEST - 1 else f"a whole number, at least {low}"
    return LogField(name, column, bound, _number, lambda x: (x == x.floor()) & x.is_between(low, high))


def make_positive_column(name: str, column: str) -> LogField:
    """Return a field of finite positive numbers."""
    return LogField(name, column, "finite and above 0", _number, lambda x: x.is_finite() & (x > 0))


def make_non_negative_column(name: str, column: str) -> LogField:
    """Return a field of finite nonnegative numbers."""
    return LogField(name, column, "finite and at least 0", _number, lambda x: x.is_finite() & (x >= 0))


def make_finite_column(name: str, column: str) -> LogField:
    """Return a field of finite numbers."""
    return LogField(name, column, "finite", _number, lambda x: x.is_finite())


def make_text_column(name: str, column: str) -> LogField:
    """Return a field of text."""
    bound = "text that is not blank, in one line (an open quote?)"
    return LogField(name, column, bound, _text, lambda x: (x.str.len_bytes() > 0) & ~x.str.contains("\n", literal=True))


def make_time_column(name: str, column: str, unit: str, *, blank: bool = False) -> LogField:
    """Return a field of times, as seconds since 1970."""
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
        frame: a lazy frame with one column per field, of text or doubles.
        summary: the rows and columns read.
    """

    frame: pl.LazyFrame
    summary: ReadSummary

    def collect(self, frame: pl.LazyFrame | None = None) -> pl.DataFrame:
        """Compute a frame in chunks."""
        return _collect(self.frame if frame is None else frame)


def open_log_file(source: LogFile, base: Path, section: str, fields: Sequence[LogField]) -> CheckedRows:
    """Open a file and check every value of the given fields.

    Raises:
        CheckError: a missing or duplicate column; an invalid value, with its row.
        RecordError: the file cannot be read.
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
    """Import polars on first use."""
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("logs", [f"reading logs needs polars: {install_command('data')}"]) from error
    return pl


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    try:
        return frame.collect(engine="streaming")
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError("file", "readable to its end", str(error).partition("\n")[0]) from None


def _open_log(source: LogFile, path: Path, section: str) -> pl.LazyFrame:
    if not path.is_file():
        raise CheckError(f"{section}.file", "an existing file", repr(source.file))
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
            if not _is_one_way(path, separator):  # a quote in an unread column could hide other rows
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
    """Refuse compressed files: the checks for quotes and repeated names read the raw bytes."""
    with path.open("rb") as file:
        if file.read(4).startswith(_PACKED):
            raise CheckError(f"{section}.file", "a file that is not compressed (unpack it)", repr(source.file))


def _alone(path: Path) -> str:
    """Escape a path, so that polars reads the hashed file and not the matches of a pattern."""
    return glob.escape(str(path))


def _is_one_way(path: Path, separator: str) -> bool:
    try:
        return delimited.is_one_way(path, separator.encode())
    except (OSError, EOFError) as error:
        raise CheckError("file", "readable to its end", type(error).__name__) from None


def _separator(path: Path) -> str:
    """Return the most frequent of the usual separators in the header line."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(1 << 20)
    return max(",;\t|", key=header.count)


def _names(path: Path, section: str) -> list[str]:
    """Return the names in the first rows of a JSON Lines file."""
    try:
        return list(import_polars().scan_ndjson(_alone(path), infer_schema_length=1000).collect_schema())
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError(f"{section}.file", "JSON Lines, one object a line", str(error).partition("\n")[0]) from None


def _within(name: str, path: Path, section: str) -> pl.LazyFrame:
    """Return the rows under one name of every line."""
    library = import_polars()
    frame: pl.LazyFrame = library.scan_ndjson(_alone(path), infer_schema_length=None)
    if not isinstance(_schema(frame, section, path.name).get(name), library.Struct):
        raise CheckError(f"{section}.at", f"a name with an object in every line of {path.name}", repr(name))
    return frame.select(library.col(name).struct.unnest())


def _of_json(source: LogFile, path: Path, section: str) -> pl.LazyFrame:
    """Return the rows of one JSON document: a list of objects, or an object of objects by key."""
    try:
        found = json.loads(read_file(path), object_pairs_hook=_once)
    except ValueError as error:
        raise CheckError(f"{section}.file", "JSON", str(error)) from None
    for step in source.at.split(".") if source.at else ():
        if not isinstance(found, dict) or step not in found:
            raise CheckError(f"{section}.at", "the path to the rows", f"{source.at!r} without {step!r}")
        found = found[step]
    if source.key is not None:
        if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
            raise CheckError(f"{section}.key", "absent unless rows are objects by key", repr(source.key))
        if any(source.key in row for row in found.values()):
            raise CheckError(f"{section}.key", "a name that no row contains", repr(source.key))
        found = [{source.key: key, **row} for key, row in found.items()]
    if not isinstance(found, list) or not found or not all(isinstance(row, dict) for row in found):
        raise CheckError(f"{section}.file", "a list of objects, at least one", type(found).__name__)
    names = dict.fromkeys(name for row in found for name in row)
    columns = {name: [_value_to_text(row.get(name)) for row in found] for name in names}
    frame: pl.LazyFrame = import_polars().LazyFrame(columns, schema=dict.fromkeys(names, import_polars().String))
    return frame


class _TwiceError(ValueError):
    """A JSON object repeats a name."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise if it repeats a name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(f"an object with {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _refuse_twice(source: LogFile, path: Path, section: str, names: set[str]) -> None:
    """Refuse a line of JSON that repeats a name; skip lines that cannot repeat a wanted one."""
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
        return  # reading the values reports invalid JSON


def _value_to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _schema(frame: pl.LazyFrame, section: str, file: str) -> Mapping[str, Any]:
    try:
        return frame.collect_schema()
    except (import_polars().exceptions.PolarsError, OSError) as error:
        raise CheckError(f"{section}.file", f"readable ({file})", str(error).partition("\n")[0]) from None


def _require(column: str, name: str, kinds: Mapping[str, Any], file: str) -> None:
    if column not in kinds:
        raise CheckError(name, f"a column of {file} ({', '.join(kinds)})", repr(column))
    if f"{column}_duplicated_0" in kinds:
        raise CheckError(name, f"a column that occurs once in {file}", repr(column))


def _build_filter(where: Mapping[str, str], kinds: Mapping[str, Any]) -> pl.Expr:
    """Return the condition that a row has the values of a filter."""
    library = import_polars()
    tests = [_text(library.col(column), kinds[column]).eq_missing(value) for column, value in where.items()]
    wanted: pl.Expr = library.all_horizontal(*tests) if tests else library.lit(value=True)
    return wanted


def _parse_columns(frame: pl.LazyFrame, fields: Sequence[LogField], kinds: Mapping[str, Any]) -> pl.LazyFrame:
    """Return each row's number, its raw columns, and their parsed values."""
    raw = [import_polars().col(field.column).alias(f"raw {i}") for i, field in enumerate(fields)]
    parsed = [field.parse(import_polars().col(field.column), kinds[field.column]).alias(field.name) for field in fields]
    return frame.select("#row", *raw, *parsed)


def _left_out(held: pl.LazyFrame, fields: Sequence[LogField]) -> tuple[int, int]:
    """Count the rows that a filter excludes, and those among them that are valid."""
    bad = import_polars().any_horizontal(*(_bad(i, field) for i, field in enumerate(fields)))
    counted = _collect(held.select(import_polars().len().alias("#"), (~bad).sum().alias("like")))
    return int(counted["#"].item()), int(counted["like"].item())


def _check_rows(held: pl.LazyFrame, fields: Sequence[LogField], section: str, file: str) -> int:
    """Count the rows, and refuse the first invalid value."""
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
    """Return the condition that a value is invalid, or missing though required."""
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


def make_round_field(section: str, column: str, first: int) -> LogField:
    """Return the field of round numbers, which begin at ``first``."""
    return make_integer_column(f"{section}.round", column, first, MOST_ROUNDS)


def make_norm_fields(name: str, columns: Norms) -> list[LogField]:
    """Return the field of norms, or one for each parameter group."""
    groups = {"": columns} if isinstance(columns, str) else {f".{group}": column for group, column in columns.items()}
    return [make_non_negative_column(f"{name}{group}", column) for group, column in groups.items()]


def make_time_field(name: str, column: TimeColumn | None, *, blank: bool = False) -> list[LogField]:
    """Return the field of times, if they are logged."""
    return [] if column is None else [make_time_column(name, column.column, column.unit, blank=blank)]


def compute_joint_norm(frame: pl.DataFrame, name: str) -> Numbers:
    """Return the joint norm of all groups; the clip norm limits this norm, not each group's."""
    columns = [frame[column].to_numpy() for column in frame.columns if column == name or column.startswith(f"{name}.")]
    return np.asarray(columns[0] if len(columns) == 1 else np.sqrt(np.sum(np.square(columns), axis=0)))


def read_integers(frame: pl.DataFrame, name: str) -> Ids:
    """Return a column of integers."""
    return np.asarray(frame[name].to_numpy().astype(np.int64))
