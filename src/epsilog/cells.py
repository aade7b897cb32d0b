"""A cell of people's data, read by itself: what it cannot be read as is missing, and never an error.

Nothing here looks at two cells at once. A type that is found for a whole column depends on each of its values: one
text among numbers would turn them all into texts, one fraction would round large whole numbers, and one date beyond all
years would fail for everybody.
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

__all__ = ["day", "from_arrow", "is_missing", "is_series", "listed", "number", "objects", "text"]

_EPOCH = date(1970, 1, 1)
_DIGITS = 38  # of a decimal number in polars


def listed(column: Any) -> list[Any]:
    """The cells of a series or an array as its library hands them over; one that it cannot hand over is None."""
    with suppress(Exception):
        ways = (getattr(column, name, None) for name in ("to_list", "to_pylist", "tolist"))
        return list(next(filter(None, ways), lambda: column)())
    return [_handed_over(column, place) for place in range(len(column))]


def objects(column: Any) -> NDArray[Any]:
    """The cells of a series or an array, each as it is, in an array of objects."""
    cells = listed(column)
    return np.fromiter(cells, dtype=object, count=len(cells))


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, NaT, NA, or what does not say."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - NaN and NaT are not themselves
    except Exception:  # noqa: BLE001 - pandas.NA is neither
        return True


def number(value: Any) -> float:
    """A cell as the double nearest to it: a number, or a text of one in ASCII; NaN where it is none.

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
    """A cell as days since 1970: a date, a time of some day, or a text that begins with one; NaN where it is none.

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
    """A cell as a name or a word, without blanks around it; None where it says nothing.

    A whole number is the same name as the real number that equals it: a column with a hole may hold it as such.

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
    """A frame of polars out of a table that speaks Arrow; in texts, bytes that are no UTF-8 become U+FFFD.

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
    """Whether something has a cell for each row: no single value, no text and no mapping."""
    single = isinstance(value, str | bytes | dict | set | frozenset) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Sized) and isinstance(value, Iterable) and not single


def _plain(value: Any) -> Any:
    """Bytes as text, and a scalar of NumPy, JAX or PyTorch as Python's own value."""
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
