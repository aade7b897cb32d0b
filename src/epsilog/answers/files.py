"""Data in files, read so that no row changes how another one is read."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, RecordsError, check

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan"]

_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"
_OTHER = {  # how a file begins that is no CSV file in UTF-8
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "a ZIP archive",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_QUOTE, _RETURN, _NEWLINE = b'"\r\n'
_AT_ONCE = 1 << 24  # bytes that are looked at together
_TWIN = re.compile(r"(.+)_duplicated_\d+", re.DOTALL)  # what polars makes of a name that comes twice


def scan(path: str | Path, *, separator: str = ",") -> pl.LazyFrame:
    """A file as a lazy frame: Parquet with its types, and anything else as CSV, whose columns are all text.

    Types that are guessed from a CSV file's values would depend on them: one row could turn numbers into text. A row
    that is too long is cut, one that is too short is blank at its end. Quotes are the writer's to get right: in a file
    where one stands inside a value that is not quoted, or is not closed, rows would be taken for parts of others, so it
    is refused whole, here, before anything is charged. Needs the extra ``data``.

    Args:
        path: of the file; one that begins as a Parquet file does, or is named ``.parquet``, is read as such.
        separator: between the columns of a CSV file.

    Raises:
        RecordsError: it cannot be read as what it is.
    """
    path, separator = Path(path), check.text()(separator=separator) if separator != "\t" else separator
    if not path.is_file():
        raise CheckError("data", "a file that exists", f"{path}")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise CheckError("separator", "one character, and no quote", repr(separator))
    try:
        import polars as pl
    except ImportError:
        raise RecordsError("CSV and Parquet files need polars: install epsilog[data]") from None
    try:
        with path.open("rb") as file:
            begins = file.read(4)
        if begins == _PARQUET or path.suffix.lower() == ".parquet":
            table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            table.collect_schema()
            return table
        for magic, name in _OTHER.items():
            if begins.startswith(magic):
                raise RecordsError(f"{path.name} is {name}: a CSV file is text in UTF-8, plain or with gzip")
        _check_quotes(path, separator.encode(), zipped=begins.startswith(_GZIP))
        frame = pl.scan_csv(
            path, separator=separator, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy", glob=False
        )
        names = set(frame.collect_schema())
    except (OSError, EOFError, pl.exceptions.PolarsError) as error:  # what they say may repeat the data
        raise RecordsError(f"{path.name} cannot be read ({type(error).__name__})") from None
    for twin in filter(None, map(_TWIN.fullmatch, names)):
        if twin[1] in names:
            raise RecordsError(f"{path.name} must have columns of different names, got {twin[1]!r} twice")
    return frame


def _check_quotes(path: Path, separator: bytes, *, zipped: bool) -> None:
    """Refuses a file that can be read in two ways: each quote opens a value, closes one, or is doubled within one."""
    ends = np.zeros(256, np.bool_)
    ends[np.frombuffer(separator + b'\r\n"', np.uint8)] = True  # what may stand on either side of a quoted value
    inside, last = False, np.frombuffer(b"\n", np.uint8)  # as after a line
    for chunk in _chunks(path, zipped=zipped):
        text = np.concatenate((last, chunk))
        quotes = np.flatnonzero(chunk == _QUOTE) + 1
        opening, closing = quotes[int(inside) :: 2], quotes[1 - int(inside) :: 2]
        if not inside and last[0] == _QUOTE:
            closing = np.concatenate(([0], closing))
        returns = np.flatnonzero(text[:-1] == _RETURN)
        returns = returns[(np.searchsorted(quotes, returns) + inside) % 2 == 0]
        closed = closing[closing < len(chunk)] + 1
        if not (ends[text[opening - 1]].all() and ends[text[closed]].all() and (text[returns + 1] == _NEWLINE).all()):
            raise _ambiguous(path)
        inside, last = bool((len(quotes) + inside) % 2), text[-1:]
    if inside or last[0] == _RETURN:
        raise _ambiguous(path)


def _chunks(path: Path, *, zipped: bool) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a file, without the mark of UTF-8 at its beginning."""
    with gzip.open(path) if zipped else path.open("rb") as file:
        content = file.read(_AT_ONCE).removeprefix(b"\xef\xbb\xbf")
        while content:
            yield np.frombuffer(content, np.uint8)
            content = file.read(_AT_ONCE)


def _ambiguous(path: Path) -> RecordsError:
    return RecordsError(
        f"{path.name} can be read in more than one way: a quote stands inside a value, or is not closed, or a line "
        "ends in a carriage return alone. Have a CSV writer write it; nothing was charged"
    )
