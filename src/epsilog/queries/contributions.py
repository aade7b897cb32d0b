"""Sum the contributions of rows: each row alone, and a bounded number of rows per privacy unit.

A contribution depends on the rows of one unit alone: no category or range is read from the data, and no value raises
an error. A value that cannot be read as required is left out. Names and types of columns, and the steps of a lazy
frame, count as public and are checked before the charge; values are read after it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog import cells
from epsilog.queries.lazy import require_total
from epsilog.queries.noise import NoisySum, round_midpoint_down
from epsilog.queries.query_types import (
    Count,
    CountAbove,
    FirstCategoryAbove,
    Histogram,
    Mean,
    MostCommonCategory,
    Query,
    Sum,
    build_value_grid,
)
from epsilog.terms import CheckError, RecordError
from epsilog.terms.extras import install_command

__all__ = ["check_frame", "get_column_types", "sum_contributions"]

Array = NDArray[np.int64]
_NUMERIC = re.compile(r"(u?int|float)\d+|bool(ean)?", re.IGNORECASE)


def check_frame(frame: Any, query: Query, unit: str | None) -> None:
    """Require the columns of a query, each once and with a suitable type; read no value.

    Raises:
        CheckError: the frame lacks them, or a lazy frame has a step that a value can make fail.
    """
    types = get_column_types(frame)
    if _is_lazy(frame):
        require_total(frame)
    for name in (*query.columns, *(() if unit is None else (unit,))):
        if name not in types:
            raise CheckError("frame", f"a column {name!r}", ", ".join(map(repr, types)) or "none", verb="have")
    numeric = isinstance(query, Sum | Mean) or (isinstance(query, Histogram) and query.edges is not None)
    for name in query.columns if numeric else ():
        if types[name].startswith(
            ("Date", "Time", "Duration", "List", "Struct", "Array", "Binary", "datetime", "time")
        ):
            raise CheckError(name, "a column of numbers", types[name])


def sum_contributions(
    frame: Any, query: Query, parts: Sequence[NoisySum], *, unit: str | None, rows: int
) -> list[list[int]]:
    """Return the sums over the rows in steps: a list of cells for each part.

    Args:
        frame: a frame that ``check_frame`` accepts.
        query: the query.
        parts: the sums of the query.
        unit: the column with the privacy unit of each row; None if each row is a unit.
        rows: how many rows of a unit count, at most: its first ones with a usable value.
    """
    table = _collect_columns(frame, (*query.columns, *(() if unit is None else (unit,))))
    with np.errstate(all="ignore"):  # a warning about one value would reveal it
        added, counted = _list_row_contributions(table, query)
    kept = counted if unit is None else _limit_rows(_list_values(table, unit), counted, rows)
    match query:
        case Sum():
            return [[_sum(added[kept])]]
        case Mean():
            sums = [_sum(added[kept]), int(kept.sum())]
            return [[total * factor] for total, factor in zip(sums, (1, parts[-1].high), strict=True)][: len(parts)]
    (part,) = parts
    return [[int(total) * part.high for total in np.bincount(added[kept], minlength=part.cells)]]


def _sum(steps: Array) -> int:
    """Sum without overflow: a row has fewer than 2^22 steps, and no frame has 2^41 rows."""
    return int(steps.sum(dtype=np.int64))


def _list_row_contributions(table: Any, query: Query) -> tuple[Array, NDArray[np.bool_]]:
    """Return what each row adds (steps, or the index of its cell), and whether it counts."""
    match query:
        case Count(column=None) | CountAbove(column=None):
            height = _count_rows(table)
            return np.zeros(height, np.int64), np.ones(height, np.bool_)
        case Count(column=str(name)) | CountAbove(column=str(name)):
            there = np.fromiter((not cells.is_missing(value) for value in _list_values(table, name)), np.bool_)
            return np.zeros(len(there), np.int64), there
        case Sum(column=name, bounds=bounds) | Mean(column=name, bounds=bounds):
            return _snap_to_grid(_list_numbers(table, name), bounds, centred=isinstance(query, Mean))
        case Histogram(column=name, edges=edges) if edges is not None:
            return _bin_values(_list_numbers(table, name), edges)
        case (
            Histogram(column=name, categories=names)
            | MostCommonCategory(column=name, categories=names)
            | FirstCategoryAbove(column=name, categories=names)
        ):
            assert names is not None, "a histogram without edges has categories"
            return _place_categories(_list_values(table, name), names)
    raise CheckError("query", "a question that epsilog.queries has", repr(query))


def _snap_to_grid(
    values: NDArray[np.float64], bounds: tuple[float, float], *, centred: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """Clamp values to their bounds and round them to the grid, in steps; exact, since a step is a power of two."""
    step, low, high = build_value_grid(bounds)
    there = ~np.isnan(values)
    clamped = np.clip(np.where(there, values, bounds[0]), *bounds)
    steps = np.clip(np.rint(clamped / float(step)).astype(np.int64), low, high)
    return steps - (round_midpoint_down(low, high) if centred else 0), there


def _bin_values(values: NDArray[np.float64], edges: Sequence[float]) -> tuple[Array, NDArray[np.bool_]]:
    there = (values >= edges[0]) & (values <= edges[-1])  # NaN is neither
    places = np.searchsorted(np.array(edges), values, side="right") - 1
    return np.clip(places, 0, len(edges) - 2).astype(np.int64), there


def _place_categories(values: Iterable[Any], names: Sequence[str | int]) -> tuple[Array, NDArray[np.bool_]]:
    """Return the index of each value among the categories: texts by their letters, numbers by their value."""
    known = {name: place for place, name in enumerate(names)}
    places = np.fromiter((_find_category(known, value) for value in values), np.int64)
    return places, places >= 0


def _find_category(known: Mapping[Any, int], value: Any) -> int:
    try:
        return known.get(value, -1)
    except Exception:  # noqa: BLE001 - whatever a value does, it only stays out itself
        return -1


def _limit_rows(units: Iterable[Any], counted: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
    """Keep the first rows of each unit, of those that count; leave out a row without a unit.

    Which rows of a unit are kept depends on the order of that unit's rows alone.
    """
    seen: dict[Any, int] = {}
    kept = np.zeros(len(counted), np.bool_)
    for place, value in enumerate(units):
        if not counted[place] or cells.is_missing(value):
            continue
        with suppress(Exception):  # whatever a value does, it only stays out itself
            before = seen.get(value, 0)
            seen[value] = before + 1
            kept[place] = before < rows
    return kept


def _list_numbers(table: Any, name: str) -> NDArray[np.float64]:
    """Return a column as doubles; NaN for what is no number."""
    column = table[name]
    kind = str(getattr(column, "dtype", "object"))
    if _NUMERIC.fullmatch(kind):
        if _is_from(column, "pandas"):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=math.nan))
        if _is_from(column, "polars"):
            return np.asarray(column.cast(sys.modules["polars"].Float64).fill_null(math.nan).to_numpy())
        return np.asarray(np.ma.filled(np.ma.asarray(column, dtype=np.float64), math.nan))  # a masked value is missing
    return np.fromiter(map(cells.number, _list_values(table, name)), np.float64)


def _list_values(table: Any, name: str) -> list[Any]:
    """Return the cells of a column as Python values."""
    column = table[name]
    if _is_from(column, "polars") and (column.dtype.is_nested() or column.dtype.is_temporal()):
        # one date beyond Python's years would fail for all rows; these values equal no category
        there = column.is_not_null().to_list()
        if column.dtype.is_nested():
            return [[] if each else None for each in there]  # no unit, like any list
        return [(each,) if known else None for each, known in zip(column.to_physical().to_list(), there, strict=True)]
    return cells.list_cells(column)


def _count_rows(table: Any) -> int:
    return len(next(iter(table.values()), ())) if isinstance(table, Mapping) else len(table)


def _is_from(value: Any, library: str) -> bool:
    return type(value).__module__.split(".")[0] == library


def get_column_types(frame: Any) -> dict[str, str]:
    """Return the type names of the columns of a frame, by name; without names that are no text."""
    if _is_from(frame, "polars") and hasattr(frame, "collect_schema"):
        found = _read(lambda: dict(frame.collect_schema()))
    elif _is_from(frame, "pandas") and hasattr(frame, "columns"):
        if not frame.columns.is_unique:
            raise CheckError("frame", "columns of different names", "some twice", verb="have")
        found = dict(frame.dtypes)
    elif isinstance(frame, Mapping):
        if any(not cells.is_series(each) or getattr(each, "ndim", 1) != 1 for each in frame.values()):
            raise CheckError("frame", "columns that are series", "another", verb="have")
        if len({len(column) for column in frame.values()}) > 1:
            raise CheckError("frame", "columns of one length", "several", verb="have")
        found = {name: getattr(column, "dtype", "object") for name, column in frame.items()}
    elif _is_arrow(frame):
        found = dict(_read(lambda: cells.from_arrow(_without_rows(frame)).schema))
    else:
        bound = "a frame of Polars, pandas or Arrow, a table of DuckDB, or a mapping of columns"
        raise CheckError("frame", bound, type(frame).__name__)
    return {name: str(kind) for name, kind in found.items() if isinstance(name, str)}


def _collect_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return these columns in memory."""
    if _is_arrow(frame):
        return _read(lambda: cells.from_arrow(frame))
    if not _is_lazy(frame):
        return frame
    if names:
        return _read(lambda: frame.select(*dict.fromkeys(names)).collect())
    polars = sys.modules["polars"]
    return _read(lambda: frame.select(polars.repeat(0, polars.len())).collect())


def _is_lazy(frame: Any) -> bool:
    return _is_from(frame, "polars") and hasattr(frame, "collect")


def _is_arrow(frame: Any) -> bool:
    """Return whether a table of another library has the Arrow interface."""
    speaks = hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")
    return speaks and not _is_from(frame, "polars") and not _is_from(frame, "pandas") and not isinstance(frame, Mapping)


def _without_rows(frame: Any) -> Any:
    """Return a table without its rows; reads no value.

    Raises:
        CheckError: the table is computed when it is read, so that a value can make it fail.
    """
    if _is_from(frame, "duckdb"):
        kind = str(getattr(frame, "type", "another"))
        if kind != "TABLE_RELATION":
            bound = "a table of DuckDB that is stored, or frame.to_arrow_table(): a query may fail because of a value"
            raise CheckError("frame", bound, kind)
        return frame.limit(0)
    if not hasattr(frame, "slice"):
        raise CheckError("frame", "a whole table or record batch of Arrow, in memory", type(frame).__name__)
    return frame.slice(0, 0)


def _read(reading: Callable[[], Any]) -> Any:
    """Read data without passing on a library's error, which may repeat a value."""
    try:
        return reading()
    except (CheckError, RecordError):
        raise
    except ImportError:
        raise RecordError(f"tables of Arrow and DuckDB need polars: {install_command('data')}") from None
    except Exception:  # noqa: BLE001 - see above
        raise RecordError("the frame could not be read") from None
