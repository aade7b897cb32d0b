"""Columns of a table as numbers: an invalid value becomes NaN or -1, never an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog import cells
from epsilog.terms import CheckError
from epsilog.terms.disclosed import Private

_CELLS = "OSUT"  # kinds of arrays that are read cell by cell


class NameIndex(NamedTuple):
    """The names of rows.

    Attributes:
        known: sorted distinct names.
        places: position of the name of each row in ``known``; -1 for no name; shape (rows,).
    """

    known: list[str]
    places: NDArray[np.int64]


class Column(Protocol):
    """One column. Its type is public; its values are not."""

    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    def width(self) -> int:
        """Return the number of numbers in a row."""

    @property
    def kind(self) -> str:
        """Return the type, as its library names it."""

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rows as numbers, or NaN; shape (rows, width)."""

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rows as days since 1970, or NaN; shape (rows, 1)."""

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each row in a list of names, or -1; shape (rows,)."""

    def names(self) -> NameIndex:
        """Return the names of the rows."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnTable(Private):
    """Columns by name."""

    columns: Mapping[str, Column]
    header: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayColumn(Private):
    """A column in a NumPy array, possibly memory-mapped; further dimensions are the width of its rows."""

    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Return the number of numbers in a row."""
        return int(np.prod(self.values.shape[1:]))

    @property
    def kind(self) -> str:
        """Return the type, as NumPy names it."""
        return f"{self.values.dtype} {self.values.shape[1:] or ''}".strip()

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers, as ``Column`` specifies."""
        some = np.asarray(self.values[rows]).reshape(len(rows), self.width)
        with np.errstate(all="ignore"):  # a warning would disclose a value
            if some.dtype.kind in "biuf":
                return some.astype(np.float64)
            if some.dtype.kind in _CELLS:
                return _read(cells.number, some)
        raise CheckError("type", "numbers; dates need a range of two dates", str(some.dtype))

    def days(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return days, as ``Column`` specifies."""
        some = np.asarray(self.values[rows]).reshape(len(rows), self.width)
        if some.dtype.kind == "M":
            days = some.astype("datetime64[D]")
            return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))
        if some.dtype.kind in _CELLS:
            return _read(cells.day, some)
        raise CheckError("type", "dates", str(some.dtype))

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return positions, as ``Column`` specifies."""
        known, places = self.names()
        among = {name: place for place, name in enumerate(names)}
        return np.array([*(among.get(name, -1) for name in known), -1], dtype=np.int64)[places]

    def names(self) -> NameIndex:
        """Return names, as ``Column`` specifies."""
        kind = self.values.dtype.kind
        if self.values.ndim != 1 or kind not in "biuUSOT":
            raise CheckError(
                "type", "text or whole numbers", f"{self.values.dtype} {self.values.shape[1:] or ''}".strip()
            )
        if kind in "iu":
            known, places = np.unique(self.values, return_inverse=True)
            words = [str(each) for each in known.tolist()]
        else:
            texts = [cells.text(each) for each in cells.list_cells(self.values)]
            words = sorted({each for each in texts if each is not None})
            among = {word: place for place, word in enumerate(words)}
            places = np.array([among.get(each, -1) if each is not None else -1 for each in texts], dtype=np.int64)
        return _sort_names(words, places.astype(np.int64))


def make_array_table(columns: Mapping[str, NDArray[Any]]) -> ColumnTable:
    """Return a table of arrays."""
    return ColumnTable({name: ArrayColumn(values) for name, values in columns.items()}, list(columns))


def _read(reading: Callable[[Any], float], some: NDArray[Any]) -> NDArray[np.float64]:
    """Return each cell as a number, independently of the others."""
    return np.fromiter(map(reading, cells.list_cells(some.ravel())), np.float64, some.size).reshape(some.shape)


def _sort_names(words: list[str], places: NDArray[np.int64]) -> NameIndex:
    """Return names in alphabetical order, since whole numbers come in numerical order."""
    order = sorted(range(len(words)), key=words.__getitem__)
    back = np.full(len(words) + 1, -1, dtype=np.int64)
    back[order] = np.arange(len(words))
    return NameIndex([words[each] for each in order], back[places])
