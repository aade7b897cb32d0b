"""Parse single cells of private data: a cell that cannot be parsed is missing, never an error.

No function looks at two cells. A type inferred for a column depends on each value: one text among numbers would turn
all into texts. One fraction would round large integers, and one date out of range would fail the whole column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["day", "from_arrow", "is_missing", "is_series", "list_cells", "number", "objects", "text"]

_EPOCH = date(1970, 1, 1)
_DIGITS = 38  # of a decimal number in polars


def list_cells(column: Any) -> list[Any]:
    """Return the cells of a series or an array as its library converts them; None for each that it cannot."""
    with suppress(Exception):
        ways = (getattr(column, name, None) for name in ("to_list", "to_pylist", "tolist"))
        return list(next(filter(None, ways), lambda: column)())
    return [_handed_over(column, place) for place in range(len(column))]


def objects(column: Any) -> NDArray[Any]:
    """Return the cells of a series or an array in an array of objects."""
    cells = list_cells(column)
    return np.fromiter(cells, dtype=object, count=len(cells))


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA, or fails to compare."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - NaN and NaT are not themselves
    except Exception:  # noqa: BLE001 - pandas.NA is neither
        return True


def number(value: Any) -> float:
    """Return the nearest double of a number, or of an ASCII text of a number; otherwise NaN.

    >>> number(" 2.5"), number(10**400), number("1_000"), number([1])
    (2.5, inf, nan, nan)
    """
    try:
        value = _plain(value)
        if isinstance(value, str):
            return float(value) if value.strip().isascii() and "_" not in value else math.nan
        return float(value) if isinstance(value, Real | Decimal) else math.nan
    except OverflowError:  # a whole number or a fraction beyond every double
        with suppress(Exception):
            return math.inf if value > 0 else -math.inf
    except Exception:  # noqa: BLE001 - whatever a value does, it only stays out itself
        return math.nan
    return math.nan


def day(value: Any) -> float:
    """Return days since 1970 of a date, a datetime or a text that begins with a date; otherwise NaN.

    >>> day("1970-01-03"), day(datetime(1970, 1, 2, 23)), day(3)
    (2.0, 1.0, nan)
    """
    try:
        value = _plain(value)
        if isinstance(value, str):
            value = date.fromisoformat(value.strip()[:10])
        if isinstance(value, datetime):
            value = value.date()
        return float((value - _EPOCH).days) if isinstance(value, date) else math.nan
    except Exception:  # noqa: BLE001 - no date in the words, or one that its library cannot say
        return math.nan


def text(value: Any) -> str | None:
    """Return a cell as a name without surrounding blanks; None if it is missing or blank.

    An integer and the float that equals it are the same name: columns with missing values hold integers as floats.

    >>> text(" north "), text(7), text(7.0), text(True), text(float("nan")), text(" ")
    ('north', '7', '7', 'true', None, None)
    """
    try:
        value = _plain(value)
        if is_missing(value):
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return str(value).strip() or None
    except Exception:  # noqa: BLE001 - a whole number of too many digits, or what has no text
        return None


def from_arrow(table: Any) -> Any:
    """Return a polars frame of an Arrow table; invalid UTF-8 in texts becomes U+FFFD.

    Raises:
        TypeError: a type that polars does not know, or of which it takes no value.
    """
    import polars as pl

    try:
        frame = pl.DataFrame(table)
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":  # of a library in Rust
            raise TypeError("a type that polars does not know") from None
        raise
    if any(isinstance(kind, pl.Decimal) and kind.precision > _DIGITS for kind in frame.schema.values()):
        raise TypeError(f"more than {_DIGITS} digits")
    texts = (name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical))
    return frame.with_columns(_unicode(frame[name]) for name in texts)


def is_series(value: Any) -> bool:
    """Return whether a value has a cell for each row: not a scalar, a text or a mapping."""
    single = isinstance(value, str | bytes | dict | set | frozenset) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Sized) and isinstance(value, Iterable) and not single


def _plain(value: Any) -> Any:
    """Return bytes as text, and a scalar of NumPy, JAX or PyTorch as Python's own value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def _unicode(column: pl.Series) -> pl.Series:
    """Text that polars took over without a look into it."""
    import polars as pl

    held = column.cast(pl.String).cast(pl.Binary)
    try:
        return held.cast(pl.String)
    except pl.exceptions.PolarsError:
        texts = [None if each is None else each.decode("utf-8", errors="replace") for each in held.to_list()]
        return pl.Series(column.name, texts, dtype=pl.String)


def _handed_over(column: Any, place: int) -> Any:
    with suppress(Exception):
        value = getattr(column, "iloc", column)[place]
        if isinstance(value, np.generic):
            return value.item()
        return value.as_py() if hasattr(value, "as_py") else value
    return None
