"""Tables as people paste them from a spreadsheet: tabs, semicolons or commas, columns named in any order or not."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from epsilog.terms import CheckError
from epsilog.terms.numerals import read_number

LONGEST = 64 * 1024  # characters of a table
_NUMERIC = re.compile("[+\u2212-]?[.,]?[0-9]")  # how a number begins, and no column's name
_MOST_WHOLE = 10**16

At = Callable[[str], str]
"""Where a column of one row is, for what is refused."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a table may hold.

    Attributes:
        aliases: the columns, each with the names that it may have, however they are capitalised.
        plain: the columns of a table without names; it may end before the last of them.
        whole: those that hold whole numbers.
        words: those that hold text.
        row: what a row is, in one word.
        most: how many rows there may be.
    """

    aliases: Mapping[str, tuple[str, ...]]
    plain: tuple[str, ...]
    whole: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    row: str = "row"
    most: int = 100

    def read(self, text: str) -> list[tuple[dict[str, Any], At]]:
        """The values of each row by column, blank ones left out, with where they are.

        Raises:
            CheckError: names the line and the column that is wrong.
        """
        if not isinstance(text, str) or len(text) > LONGEST:
            raise CheckError("table", f"text of at most {LONGEST} characters", "something else or more")
        rows = _rows(text)
        if not rows:
            raise CheckError("table", f"a line a {self.row}", "none")
        names = self._header(*rows[0])
        if names is not None:
            rows = rows[1:]
        self._check_count(len(rows), "table")
        return [self._row(line, names, cells) for line, cells in rows]

    def listed(self, document: Any, name: str) -> list[tuple[dict[str, Any], At]]:
        """The same from plain values: a list of objects, or an object that holds nothing but one under ``name``."""
        listed = document.get(name) if isinstance(document, Mapping) and set(document) == {name} else document
        if not isinstance(listed, list):
            raise CheckError(name, f"a list, a {self.row} an object, with nothing beside it", repr(listed)[:80])
        self._check_count(len(listed), name)
        found: list[tuple[dict[str, Any], At]] = []
        for i, each in enumerate(listed):
            if not isinstance(each, Mapping):
                raise CheckError(f"{name}[{i}]", "an object", repr(each)[:80])
            for key in each:
                if key not in self.aliases:
                    raise CheckError(f"{name}[{i}]", f"of {', '.join(self.aliases)}", repr(key)[:80])
            given = {key: value for key, value in each.items() if value is not None}
            found.append((given, partial("{}[{}].{}".format, name, i)))
        return found

    def _check_count(self, count: int, name: str) -> None:
        if not 1 <= count <= self.most:
            raise CheckError(name, f"1 to {self.most} rows, a {self.row} each", f"{count}")

    def _header(self, line: int, cells: list[str]) -> tuple[str, ...] | None:
        """The columns that a first line names; None where it holds numbers."""
        cells = _cut(cells, 0)
        if any(_NUMERIC.match(cell) for cell in cells):
            return None
        of = {alias: name for name, aliases in self.aliases.items() for alias in aliases}
        names: list[str] = []
        for i, cell in enumerate(cells, start=1):
            name = of.get(re.sub(r"[\s-]+", "_", cell.casefold()))
            if name is None:
                raise CheckError(f"line {line}, column {i}", f"one of {', '.join(self.aliases)}", repr(cell[:80]))
            if name in names:
                raise CheckError(f"line {line}, column {i}", f"the only one for {name}", repr(cell[:80]))
            names.append(name)
        return tuple(names)

    def _row(self, line: int, names: Sequence[str] | None, cells: list[str]) -> tuple[dict[str, Any], At]:
        def at(name: str) -> str:
            return f"line {line}, column {name}"

        allowed = self.plain if names is None else names
        cells = _cut(cells, len(allowed))
        if len(cells) > len(allowed) or (names is not None and len(cells) < len(allowed)):
            raise CheckError(f"line {line}", f"{len(allowed)} cells ({', '.join(allowed)})", f"{len(cells)}")
        pairs = zip(allowed, cells, strict=False)
        return {name: self._value(at(name), name, cell) for name, cell in pairs if cell}, at

    def _value(self, at: str, name: str, cell: str) -> int | float | str:
        if name in self.words:
            return cell
        whole = name in self.whole
        number = read_number(at, cell, whole=whole)
        if whole and abs(number) >= _MOST_WHOLE:
            raise CheckError(at, f"below {_MOST_WHOLE}", repr(cell[:80]))
        return int(number) if whole else float(number)


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """The lines that say something, with their numbers, in cells."""
    apart = next((mark for mark in "\t;" if mark in text), ",")
    found, reader = [], csv.reader(text.lstrip("\ufeff").splitlines(), delimiter=apart, strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                found.append((reader.line_num, cells))
    except csv.Error as error:
        raise CheckError(f"line {reader.line_num}", "cells of a table", str(error)) from error
    return found


def _cut(cells: list[str], least: int) -> list[str]:
    """Without blank cells at the end, which spreadsheets leave behind."""
    while len(cells) > least and not cells[-1]:
        cells = cells[:-1]
    return cells
