"""Data in files, read so that no row changes how another one is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.terms import CheckError, RecordsError, check

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan"]


def scan(path: str | Path, *, separator: str = ",") -> pl.LazyFrame:
    """A file as a lazy frame: Parquet with its types, and anything else as CSV, whose columns are all text.

    Types that are guessed from a CSV file's values would depend on them: one row could turn numbers into text. A row
    that is too long is cut, one that is too short is blank at its end. Quotes are the writer's to get right: one that
    is opened and not closed takes in the rows after it. Needs the extra ``data``.

    Args:
        path: of the file; one that is named ``.parquet`` is read as such.
        separator: between the columns of a CSV file.
    """
    path, separator = Path(path), check.text()(separator=separator) if separator != "\t" else separator
    if not path.is_file():
        raise CheckError("data", "a file that exists", f"{path}")
    if len(separator) != 1 or not separator.isascii():
        raise CheckError("separator", "one character", repr(separator))
    try:
        import polars as pl
    except ImportError:
        raise RecordsError("CSV and Parquet files need polars: install epsilog[data]") from None
    if path.suffix == ".parquet":
        return pl.scan_parquet(path)
    return pl.scan_csv(
        path, separator=separator, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy", glob=False
    )
