"""Read data files so that no row changes how another row is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog import delimited
from epsilog.terms import CheckError, RecordError, check
from epsilog.terms.extras import install_command

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan_file"]

_PARQUET = b"PAR1"
_OTHER = {  # first bytes of files that are no CSV file in UTF-8
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "a ZIP archive",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_LONGEST_HEADER = 1 << 20  # bytes
_TWIN = re.compile(r"(.+)_duplicated_\d+", re.DOTALL)  # how polars renames a duplicate


def scan_file(path: str | Path, *, separator: str = ",") -> pl.LazyFrame:
    """Scan a file as a lazy frame: Parquet with its types, and any other file as CSV with text columns.

    Types inferred from the values of a CSV file would depend on them: one row could turn numbers into text. A row that
    is too long is cut, and one that is too short is filled with blanks. Each line is a row, and a quoted value ends
    with its line, so that an open quote takes no other row; Parquet supports values with line breaks. A CSV file with
    quotes is read into memory. Requires the extra ``data``.

    Args:
        path: of the file; one that begins like a Parquet file, or is named ``.parquet``, is read as one.
        separator: between the columns of a CSV file.

    Raises:
        RecordError: the file cannot be read as its format, whatever its rows hold.
    """
    path, separator = Path(path), check.text()(separator=separator) if separator != "\t" else separator
    if not path.is_file():
        raise CheckError("data", "a file that exists", f"{path}")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise CheckError("separator", "one character, and no quote", repr(separator))
    try:
        import polars as pl
    except ImportError:
        raise RecordError(f"CSV and Parquet files need polars: {install_command('data')}") from None
    try:
        with path.open("rb") as file:
            begins = file.read(4)
        if begins == _PARQUET or path.suffix.lower() == ".parquet":
            table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            table.collect_schema()
            return table
        for magic, name in _OTHER.items():
            if begins.startswith(magic):
                raise RecordError(f"{path.name} is {name}: a CSV file is text in UTF-8, plain or with gzip")
        if b"\r" in delimited.header_line(path, _LONGEST_HEADER):
            raise RecordError(f"{path.name} must have lines that end in a line feed, got a carriage return alone")
        frame = delimited.scan_lines(path, separator)
        names = set(frame.collect_schema())
    except (OSError, EOFError, pl.exceptions.PolarsError) as error:  # their messages may repeat the data
        raise RecordError(f"{path.name} cannot be read ({type(error).__name__})") from None
    for twin in filter(None, map(_TWIN.fullmatch, names)):
        if twin[1] in names:
            raise RecordError(f"{path.name} must have columns of different names, got {twin[1]!r} twice")
    return frame
