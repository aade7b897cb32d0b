"""Read CSV files by lines: a row ends with its line, so that one row can change only itself.

In the usual format, an open quote takes the following lines into its value: one row could remove other rows, or make
the file unreadable. Here, a value ends with its line, and no line is refused. A value with a line break is therefore
cut, and the rest is read as further rows.
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
_CHUNK_BYTES = 1 << 24
_GZIP, _BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"


def scan_lines(path: Path, separator: str) -> pl.LazyFrame:
    """Scan a CSV file as a lazy frame with text columns; a file with quotes is read into memory.

    A row that is too long is cut, and one that is too short is filled with blanks.

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
    return pl.scan_csv(io.BytesIO(b"".join(_rewrite_lines(path, sign))), **stated).collect().lazy()


def header_line(path: Path, most: int) -> bytes:
    """Return the first line of a CSV file, from at most ``most`` bytes."""
    with _open(path) as file:
        line: bytes = file.read(most).removeprefix(_BYTE_ORDER_MARK).partition(b"\n")[0]
    return line.removesuffix(b"\r")


def split_line(line: bytes, separator: bytes) -> list[bytes]:
    """Split one line into values; a quoted value ends at its closing quote, or with the line.

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


def _rewrite_lines(path: Path, separator: bytes) -> Iterator[bytes]:
    """Yield the lines; in those with a quote, all values are quoted unambiguously."""
    with _open(path) as file:
        for place, line in enumerate(file):
            text = (line.removeprefix(_BYTE_ORDER_MARK) if place == 0 else line).removesuffix(b"\n")
            if b'"' in text:  # other lines are unchanged, as in a file without quotes
                values = split_line(text.removesuffix(b"\r"), separator)
                text = separator.join(b'"' + value.replace(b'"', b'""') + b'"' for value in values)
            yield text + b"\n"


def _has_quotes(path: Path) -> bool:
    return any((chunk == _QUOTE).any() for chunk in _read_chunks(path))


def is_one_way(path: Path, separator: bytes) -> bool:
    """Return whether every reader finds the same rows, one per line: each quote opens or closes a value, or is doubled.

    Args:
        path: of the file, plain or with gzip.
        separator: between columns, one byte.
    """
    ends = np.zeros(256, np.bool_)
    ends[np.frombuffer(separator + b'\r\n"', np.uint8)] = True  # what may stand on either side of a quoted value
    inside, last = False, np.frombuffer(b"\n", np.uint8)  # as after a line
    for chunk in _read_chunks(path):
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


def _read_chunks(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of a file, without the byte order mark."""
    with _open(path) as file:
        content = file.read(_CHUNK_BYTES).removeprefix(_BYTE_ORDER_MARK)
        while content:
            yield np.frombuffer(content, np.uint8)
            content = file.read(_CHUNK_BYTES)


def _open(path: Path) -> Any:
    with path.open("rb") as file:
        magic = file.read(2)
    return gzip.open(path) if magic == _GZIP else path.open("rb")
