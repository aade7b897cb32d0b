"""Columns of a table as numbers: what is not what it should be becomes NaN or -1, and never an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog import cells
from epsilog.terms import CheckError
from epsilog.terms.disclosed import Private

_CELLS = "OSUT"  # kinds of arrays whose cells are read one by one


class NameIndex(NamedTuple):
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

    def names(self) -> NameIndex:
        """Whose each row is.

        Raises:
            CheckError: a type that names nobody, such as real numbers.
        """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnTable(Private):
    """Columns by name.

    Attributes:
        columns: those that were asked for and are there.
        header: the names of all that there are, which are public.
    """

    columns: Mapping[str, Column]
    header: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayColumn(Private):
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
        with np.errstate(all="ignore"):  # a warning about one value would tell of it
            if some.dtype.kind in "biuf":
                return some.astype(np.float64)
            if some.dtype.kind in _CELLS:
                return _read(cells.number, some)
        raise CheckError("type", "numbers; dates need a range of two dates", str(some.dtype))

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """As ``Column`` says."""
        some = np.asarray(self.values[rows]).reshape(len(rows), self.width)
        if some.dtype.kind == "M":
            days = some.astype("datetime64[D]")
            return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))
        if some.dtype.kind in _CELLS:
            return _read(cells.day, some)
        raise CheckError("type", "dates", str(some.dtype))

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """As ``Column`` says."""
        known, places = self.names()
        among = {name: place for place, name in enumerate(names)}
        return np.array([*(among.get(name, -1) for name in known), -1], dtype=np.int64)[places]

    def names(self) -> NameIndex:
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
            texts = [cells.text(each) for each in cells.listed(self.values)]
            words = sorted({each for each in texts if each is not None})
            among = {word: place for place, word in enumerate(words)}
            places = np.array([among.get(each, -1) if each is not None else -1 for each in texts], dtype=np.int64)
        return _sort_names(words, places.astype(np.int64))


def make_array_table(columns: Mapping[str, NDArray[Any]]) -> ColumnTable:
    """A table whose columns are arrays."""
    return ColumnTable({name: ArrayColumn(values) for name, values in columns.items()}, list(columns))


def _read(reading: Callable[[Any], float], some: NDArray[Any]) -> NDArray[np.float64]:
    """Each cell as a number, whatever the others are."""
    return np.fromiter(map(reading, cells.listed(some.ravel())), np.float64, some.size).reshape(some.shape)


def _sort_names(words: list[str], places: NDArray[np.int64]) -> NameIndex:
    """Name in the order of their letters: whole numbers come sorted by size."""
    order = sorted(range(len(words)), key=words.__getitem__)
    back = np.full(len(words) + 1, -1, dtype=np.int64)
    back[order] = np.arange(len(words))
    return NameIndex([words[each] for each in order], back[places])
