"""Entries for other programs: as a table in CSV or Parquet, or as the very documents that are hashed, one a line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilog import durable_io
from epsilog.ledger.entries import Entry, hash_entry
from epsilog.ledger.filters import PRIVACY_FILTERS
from epsilog.terms import CheckError, EpsilogError, StorageError
from epsilog.terms.extras import install_command

# The characters that may precede a formula. Commas are quoted; in many locales semicolons separate cells too.
_FORMULA = re.compile('(?<![\\s";])[\\s";]*+(?=[=+@\uff1d\uff0b\uff0d\uff20-])')
_PARTS = frozenset(";\t\r\n")
FORMATS = (".csv", ".jsonl", ".parquet")
_SUMS = [(kind, quantity) for kind, rule in PRIVACY_FILTERS.items() for quantity in rule.quantities]
_BY_ORDER = [kind for kind, rule in PRIVACY_FILTERS.items() if rule.by_order]  # each budget declares its orders
COLUMNS = (
    *("index", "time", "verb", "scope", "key"),
    *(f"{kind} {quantity}" for kind, quantity in _SUMS),
    *_BY_ORDER,
    *("actor", "reason", "body", "hash"),
)


def export_entries(entries: Iterable[Entry], path: Path) -> int:
    """Write entries into a new file; its suffix selects the format.

    Amounts are decimal strings, and a cell is empty if nothing moves; those at Renyi orders are JSON in one cell.
    ``.jsonl`` holds the canonical documents, from which a reader can recompute the hashes. In ``.csv`` an apostrophe
    precedes text that a spreadsheet would read as a formula, at every possible cell boundary.

    Args:
        entries: from ``Ledger.history``.
        path: ends in ``.csv``, ``.jsonl`` or ``.parquet``; the last needs the extra ``data`` and holds all in memory.

    Returns:
        How many entries there were.
    """
    if path.suffix not in FORMATS:
        raise CheckError("file", f"named {', '.join(FORMATS)}", repr(str(path)))
    with appearing(path) as part:
        return _WRITERS[path.suffix](entries, part)


@contextmanager
def appearing(path: Path, *suffixes: str) -> Iterator[Path]:
    """A part that gets the name of a file if the block succeeds; files beside both, by suffix, are in the way."""
    part = path.with_name(f"{path.name}.part")
    beside, left = ([one.with_name(one.name + suffix) for suffix in suffixes] for one in (path, part))
    for name in (path, part, *beside):
        if os.path.lexists(name):
            raise CheckError("file", f"one that does not exist yet{', nor its log' if beside else ''}", repr(str(name)))
    try:
        yield part
        if any(log.exists() and log.stat().st_size for log in left):
            raise StorageError(f"{part} was not closed: its log still holds entries")
        durable_io.sync_file(part)
        os.link(part, path)  # unlike a rename, refuses a name that was taken meanwhile
    finally:
        for name in (part, *left):
            name.unlink(missing_ok=True)
    durable_io.sync_folder(path.parent)


def flatten_entry(entry: Entry) -> tuple[str | int | None, ...]:
    """Return an entry as one line of a table; see ``COLUMNS``."""
    amounts = [entry.amounts[kind][quantity] if kind in entry.amounts else None for kind, quantity in _SUMS]
    orders = [json.dumps(dict(entry.amounts[kind])) if kind in entry.amounts else None for kind in _BY_ORDER]
    texts = [str(entry.body[name]) if name in entry.body else None for name in ("actor", "reason")]
    body = json.dumps(dict(entry.body), ensure_ascii=False, sort_keys=True)
    where = (entry.index, entry.time, entry.verb.value, entry.scope, entry.key)
    return (*where, *amounts, *orders, *texts, body, hash_entry(entry.document()))


def escape_formula(cell: str | int | None) -> str | int | None:
    """A cell that no spreadsheet takes for a formula, nor for several cells with one among them.

    >>> [escape_formula(cell) for cell in ("=HYPERLINK(1)", "plain", "-1", "a;=1", 7)]
    ["'=HYPERLINK(1)", 'plain', "'-1", "a;'=1", 7]
    """
    return _FORMULA.sub(_mark_line_start, cell) if isinstance(cell, str) else cell


def _mark_line_start(before: re.Match[str]) -> str:
    begins = before.start() == 0 or not _PARTS.isdisjoint(before[0])
    return f"{before[0]}'" if begins else before[0]


def _flat(body: str) -> str:
    """Return the same JSON value, in which no cell ends where semicolons part them."""
    return body.replace(";", "\\u003b")


def format_csv_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a CSV file, its head first."""
    line = io.StringIO(newline="")
    writer = csv.writer(line)
    writer.writerow(COLUMNS)
    yield line.getvalue()
    for entry in entries:
        line.seek(line.truncate(0))
        *cells, body, hashed = flatten_entry(entry)
        writer.writerow([*map(escape_formula, cells), _flat(str(body)), hashed])
        yield line.getvalue()


def _write_csv(entries: Iterable[Entry], path: Path) -> int:
    with path.open("w", encoding="utf-8", newline="") as file:
        return sum(1 for line in format_csv_lines(entries) if file.write(line)) - 1


def _write_jsonl(entries: Iterable[Entry], path: Path) -> int:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        return sum(1 for entry in entries if file.write(f"{entry.document()}\n"))


def _write_parquet(entries: Iterable[Entry], path: Path) -> int:
    try:
        import polars as pl
    except ImportError as error:
        raise EpsilogError(f"Parquet needs the extra `data`: {install_command('data')} ({error})") from error
    schema = {name: pl.Int64 if name == "index" else pl.String for name in COLUMNS}
    frame = pl.DataFrame([flatten_entry(entry) for entry in entries], schema=schema, orient="row")
    frame.write_parquet(path)
    return frame.height


_WRITERS = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}
