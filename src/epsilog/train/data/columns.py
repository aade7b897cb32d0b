"""Columns of a table as numbers: what is not what it should be becomes NaN or -1, and never an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError
from epsilog.terms.disclosed import Private

EPOCH = date(1970, 1, 1)


class Names(NamedTuple):
    """Who or what rows are named after.

    Attributes:
        known: every name that occurs, once, sorted.
        places: each row's name, as its place among them; -1 where there is none; shape (rows,).
    """

    known: list[str]
    places: NDArray[np.int64]


class Column(Protocol):
    """One column. Its type is public, its values are not."""

    def __len__(self) -> int:
        """Rows."""

    @property
    def width(self) -> int:
        """Numbers in a row."""

    @property
    def kind(self) -> str:
        """Its type, in the words of the library that holds it."""

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Some rows as numbers, NaN where there is none; shape (rows, width)."""

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Some rows as days since 1970, NaN where there is no date; shape (rows, 1)."""

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Each row's place among some names, -1 for none of them; shape (rows,)."""

    def names(self) -> Names:
        """Whose each row is.

        Raises:
            CheckError: a type that names nobody, such as real numbers.
        """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Private):
    """Columns by name.

    Attributes:
        columns: those that were asked for and are there.
        header: the names of all that there are, which are public.
    """

    columns: Mapping[str, Column]
    header: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Array(Private):
    """A column that is a numpy array, perhaps a memory-mapped one; an array of more dimensions has wide rows."""

    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(np.prod(self.values.shape[1:]))

    @property
    def kind(self) -> str:
        """As ``Column`` says."""
        return f"{self.values.dtype} {self.values.shape[1:] or ''}".strip()

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As ``Column`` says."""
        some = np.asarray(self.values[rows]).reshape(len(rows), self.width)
        if some.dtype.kind in "biuf":
            with np.errstate(all="ignore"):  # a warning about one value would tell of it
                return some.astype(np.float64)
        if some.dtype.kind == "M":
            raise CheckError("type", "numbers; dates need a range of two dates", str(some.dtype))
        return np.vectorize(_number, otypes=[np.float64])(some) if some.size else np.zeros(some.shape)

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As ``Column`` says."""
        some = np.asarray(self.values[rows]).reshape(len(rows), self.width)
        if some.dtype.kind in "biuf":
            raise CheckError("type", "dates", str(some.dtype))
        if some.dtype.kind == "M":
            days = some.astype("datetime64[D]")
            return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))
        return np.vectorize(_day, otypes=[np.float64])(some) if some.size else np.zeros(some.shape)

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """As ``Column`` says."""
        known, places = self.names()
        among = {name: place for place, name in enumerate(names)}
        return np.array([*(among.get(name, -1) for name in known), -1], dtype=np.int64)[places]

    def names(self) -> Names:
        """As ``Column`` says."""
        kind = self.values.dtype.kind
        if self.values.ndim != 1 or kind not in "biuUSOT":
            raise CheckError(
                "type", "text or whole numbers", f"{self.values.dtype} {self.values.shape[1:] or ''}".strip()
            )
        if kind in "iu":
            known, places = np.unique(self.values, return_inverse=True)
            words = [str(each) for each in known.tolist()]
        else:
            texts = [_text(each) for each in self.values.tolist()]
            words = sorted({each for each in texts if each is not None})
            among = {word: place for place, word in enumerate(words)}
            places = np.array([among.get(each, -1) if each is not None else -1 for each in texts], dtype=np.int64)
        return _sorted(words, places.astype(np.int64))


def of_arrays(columns: Mapping[str, Any]) -> Table:
    """A table whose columns are arrays, or become some."""
    return Table({name: Array(_array(name, values)) for name, values in columns.items()}, list(columns))


def _array(name: str, values: Any) -> NDArray[Any]:
    found = values if isinstance(values, np.ndarray) else np.asarray(values)
    if found.ndim == 0:
        raise CheckError(name, "an array with a row for each example", f"a {type(values).__name__}")
    return found


def _sorted(words: list[str], places: NDArray[np.int64]) -> Names:
    """Names in the order of their letters: whole numbers come sorted by size."""
    order = sorted(range(len(words)), key=words.__getitem__)
    back = np.full(len(words) + 1, -1, dtype=np.int64)
    back[order] = np.arange(len(words))
    return Names([words[each] for each in order], back[places])


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124 - a NaN is what pandas calls missing
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() or None


def _number(value: Any) -> float:
    if isinstance(value, str | bytes) and "_" in str(value):
        return float("nan")  # Python alone would read 1_000 as a number
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _day(value: Any) -> float:
    try:
        if isinstance(value, str):
            value = date.fromisoformat(value.strip()[:10])
        if isinstance(value, datetime):
            value = value.date()
        return float((value - EPOCH).days) if isinstance(value, date) else float("nan")
    except ValueError:  # no date in the words, or what pandas calls no time
        return float("nan")
