"""CSV files read by lines: a row ends where its line ends, so one row can change only itself.

In the usual format a quote that stays open takes the lines after it into its value: one row would drop other people's
rows, or decide whether the file can be read at all. Here a value ends at its line's end, whatever it holds, and no
line is refused. A value that holds a line break is therefore cut, and what follows it is read as rows of their own.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["header_line", "is_one_way", "scan_lines", "split_line"]

_QUOTE, _RETURN, _NEWLINE = b'"\r\n'
_AT_ONCE = 1 << 24  # bytes that are looked at together
_GZIP, _MARK = b"\x1f\x8b", b"\xef\xbb\xbf"


def scan_lines(path: Path, separator: str) -> pl.LazyFrame:
    """A CSV file as a lazy frame whose columns are all text; a file with quotes is read into memory.

    A row that is too long is cut, one that is too short is blank at its end.

    Args:
        path: of the file, plain or with gzip; its first line names the columns.
        separator: between columns, one character of ASCII.

    Raises:
        OSError: it cannot be read.
        EOFError: its gzip ends too early.
        polars.exceptions.PolarsError: it has no header line.
    """
    import polars as pl

    stated: dict[str, Any] = {
        "separator": separator,
        "infer_schema": False,
        "truncate_ragged_lines": True,
        "encoding": "utf8-lossy",
    }
    if not _has_quotes(path):
        return pl.scan_csv(path, quote_char=None, glob=False, **stated)
    sign = separator.encode()
    if is_one_way(path, sign):
        return pl.scan_csv(path, glob=False, **stated).collect().lazy()
    return pl.scan_csv(io.BytesIO(b"".join(_rewritten(path, sign))), **stated).collect().lazy()


def header_line(path: Path, most: int) -> bytes:
    """The first line of a CSV file, of which at most so many bytes are read."""
    with _opened(path) as file:
        line: bytes = file.read(most).removeprefix(_MARK).partition(b"\n")[0]
    return line.removesuffix(b"\r")


def split_line(line: bytes, separator: bytes) -> list[bytes]:
    """The values of one line: a quoted one ends at its closing quote, or else where the line ends.

    >>> split_line(b'1,"a, ""b",c"d,"open, to the end', b",")
    [b'1', b'a, "b', b'c"d', b'open, to the end']
    """
    quoted, plain = _patterns(separator)
    values, place = [], 0
    while True:
        found = quoted.match(line, place)
        if found is not None:
            values.append(found[1].replace(b'""', b'"') + found[2])
        else:
            found = plain.match(line, place)
            assert found is not None, "nothing is a value too"
            values.append(found[0])
        place = found.end() + 1
        if place > len(line):
            return values


def _patterns(separator: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    other = b"[^" + re.escape(separator) + b"]*"
    return re.compile(rb'"((?:[^"]+|"")*)"?(' + other + b")", re.DOTALL), re.compile(other, re.DOTALL)


def _rewritten(path: Path, separator: bytes) -> Iterator[bytes]:
    """The lines again, those that hold a quote with their values written so that they are read in one way."""
    with _opened(path) as file:
        for place, line in enumerate(file):
            text = (line.removeprefix(_MARK) if place == 0 else line).removesuffix(b"\n")
            if b'"' in text:  # other lines stay as they are, so that they are read as in a file without quotes
                values = split_line(text.removesuffix(b"\r"), separator)
                text = separator.join(b'"' + value.replace(b'"', b'""') + b'"' for value in values)
            yield text + b"\n"


def _has_quotes(path: Path) -> bool:
    return any((chunk == _QUOTE).any() for chunk in _chunks(path))


def is_one_way(path: Path, separator: bytes) -> bool:
    """Whether every reader finds the same rows, one a line: each quote opens a value, closes it or is doubled.

    Args:
        path: of the file, plain or with gzip.
        separator: between columns, one byte.
    """
    ends = np.zeros(256, np.bool_)
    ends[np.frombuffer(separator + b'\r\n"', np.uint8)] = True  # what may stand on either side of a quoted value
    inside, last = False, np.frombuffer(b"\n", np.uint8)  # as after a line
    for chunk in _chunks(path):
        text = np.concatenate((last, chunk))
        quotes = np.flatnonzero(chunk == _QUOTE) + 1
        opening, closing = quotes[int(inside) :: 2], quotes[1 - int(inside) :: 2]
        if not inside and last[0] == _QUOTE:
            closing = np.concatenate(([0], closing))
        closed = closing[closing < len(chunk)] + 1
        breaks = np.flatnonzero(chunk == _NEWLINE) + 1
        broken = (np.searchsorted(quotes, breaks) + inside) % 2 == 1
        returns = np.flatnonzero(text[:-1] == _RETURN)
        if broken.any() or not (
            ends[text[opening - 1]].all() and ends[text[closed]].all() and (text[returns + 1] == _NEWLINE).all()
        ):
            return False
        inside, last = bool((len(quotes) + inside) % 2), text[-1:]
    return not inside and last[0] != _RETURN


def _chunks(path: Path) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a file, without the mark of UTF-8 at its beginning."""
    with _opened(path) as file:
        content = file.read(_AT_ONCE).removeprefix(_MARK)
        while content:
            yield np.frombuffer(content, np.uint8)
            content = file.read(_AT_ONCE)


def _opened(path: Path) -> Any:
    with path.open("rb") as file:
        begins = file.read(2)
    return gzip.open(path) if begins == _GZIP else path.open("rb")
