"""How results are printed for people, in a few shapes. Rich is imported when something is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task
    from rich.text import Text

    from epsilog.terms import Interval

VERDICT_STYLE = {"passed": "green", "warned": "yellow", "failed": "bold red", "not checked": "dim"}

LEAKED = "epsilon if participation leaks"


@cache
def console() -> Console:
    """Return the terminal; what is printed passes through ``write``, so that foreign text cannot act upon it."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)  # text from a ledger is not markup


@cache
def progress_console() -> Console:
    """Return the terminal for progress: standard error, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def make_progress(*, quiet: bool) -> Progress:
    """Return bars with counts and the time left; nothing is drawn where standard error is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    class _TimeLeft(TimeRemainingColumn):
        def render(self, task: Task) -> Text:
            left = super().render(task)
            return style(f"{left.plain} left", "dim") if task.total and "-" not in left.plain else style("", "dim")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        _TimeLeft(),
        TextColumn("{task.fields[facts]}"),
    )
    terminal = progress_console()
    return Progress(*columns, console=terminal, disable=quiet or not terminal.is_terminal, transient=True)


def write(*objects: str | Text, style: str = "", sep: str = " ", soft_wrap: bool = False) -> None:
    """Print text, wrapped between words; ``soft_wrap=True`` leaves a line whole, so that it can be copied."""
    from rich.text import Text

    joined = Text(sep).join([_as_text(each, keep="\n") for each in objects])
    lines = joined.split("\n", allow_blank=True) if soft_wrap else _wrap(joined, console().width)
    for line in lines:
        console().print(line, style=style, soft_wrap=True)


def format_interval(interval: Interval) -> str:
    """Return both bounds of a certified number; the upper one may be claimed."""
    if interval.lower == interval.upper:
        return format_upper(interval.upper, 6)
    return f"at most {format_upper(interval.upper, 6)} (at least {format_lower(interval.lower, 6)})"


def print_figures(title: str, rows: Sequence[tuple[str | Text, str | Text]]) -> None:
    """Print named values, one a line; where a word would break, each value stands below its name."""
    write(style(f"\n{legible(title)}"))
    cells = [(style(name, "dim") if isinstance(name, str) else name, value) for name, value in rows]
    _print_columns(cells, gap=3, headings=None)


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table with a heading line; where a word would break, each row is a list of named values."""
    write(style(f"\n{legible(title)}"))
    _print_columns(rows, gap=2, headings=headings)


def _print_columns(rows: Sequence[Sequence[str | Text]], *, gap: int, headings: Sequence[str] | None) -> None:
    """Print rows side by side if every word fits into its column, else one cell below the other."""
    shown = [[_as_text(cell) for cell in row] for row in rows]
    if not shown:
        return None
    lines = [*([[style(legible(name)) for name in headings]] if headings is not None else []), *shown]
    widths = _fit_columns(lines, console().width - gap * (len(lines[0]) - 1), names_first=headings is None)
    if widths is None:
        return _print_stacked(shown, headings)
    for line in lines:
        cells = [_wrap(cell, width) for cell, width in zip(line, widths, strict=True)]
        for place in range(max(map(len, cells))):
            whole = style("", "")
            for cell, width in zip(cells, widths, strict=True):
                whole.append_text(_pad(cell, place, width + gap))
            whole.rstrip()
            write(whole, soft_wrap=True)
    return None


def _wrap(text: Text, width: int) -> list[Text]:
    """Return lines of text, broken between words only; a word that is wider stays whole."""
    from rich.cells import cell_len

    def starts(line: str) -> Iterator[int]:
        begun = 0
        for word in re.finditer(r"\S+", line):
            if word.start() > begun and cell_len(line[begun : word.end()]) > width:
                yield (begun := word.start())

    lines = [part for line in text.split("\n", allow_blank=True) for part in line.divide(starts(line.plain))]
    for line in lines:
        line.rstrip()
    return lines


def _pad(lines: Sequence[Text], place: int, width: int) -> Text:
    """Return a line of a cell, blank below its last one, as wide as the column."""
    part = lines[place].copy() if place < len(lines) else style("", "")
    part.rstrip()
    part.append(" " * (width - part.cell_len))
    return part


def _fit_columns(lines: Sequence[Sequence[Text]], width: int, *, names_first: bool) -> list[int] | None:
    """Return widths that break no word and add up to ``width`` at most; None if there are none.

    Each column gets its longest word. What is left is shared evenly; with ``names_first``, the first column is served
    before the others.
    """
    columns = list(zip(*lines, strict=True))
    least = [max(_measure_longest_token(cell) for cell in column) for column in columns]
    wanted = [max(cell.cell_len for cell in column) for column in columns]
    spare = width - sum(least)
    if spare < 0:
        return None
    if sum(wanted) <= width:
        return wanted
    widths = list(least)
    by_lack = sorted(
        range(len(widths)), key=lambda place: 0 if names_first and place == 0 else wanted[place] - least[place]
    )
    for others, place in zip(range(len(by_lack), 0, -1), by_lack, strict=True):
        share = spare if names_first and place == 0 else spare // others
        grown = min(wanted[place] - least[place], share)
        widths[place] += grown
        spare -= grown
    return widths


def _measure_longest_token(cell: Text) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for word in cell.plain.split()), default=0)


def _print_stacked(rows: Sequence[Sequence[Text]], headings: Sequence[str] | None) -> None:
    """Print each row with its first cell as a title, and the others below it, indented; long words are left whole."""
    for first, *others in rows:
        write(first)
        for name, cell in zip(headings[1:] if headings is not None else [""] * len(others), others, strict=True):
            if not cell.plain.strip():
                continue
            label = style(f"{legible(name)}: ", "dim") if name else style("", "")
            label.append_text(cell)
            for line in _wrap(label, console().width - 2):
                write(style("  ", "").append_text(line), soft_wrap=True)


def _as_text(cell: str | Text, *, keep: str = "") -> Text:
    """Return text in which no character acts upon a terminal."""
    from rich.text import Text

    if isinstance(cell, str):
        return Text(legible(cell, keep=keep))
    safe = legible(cell.plain, keep=keep)
    return cell if safe == cell.plain else Text(safe, style=cell.style)


def print_notice(text: str) -> None:
    """Print a sentence that a reader must not miss."""
    from rich.text import Text

    write(Text.assemble(("!", "yellow"), f" {legible(text)}"))


def style(text: str, how: str = "bold", after: str = "") -> Text:
    """Return text in a style, bold by default, with plain text after it."""
    from rich.text import Text

    return Text.assemble((text, how), after) if after else Text(text, style=how)


def format_status(status: str) -> Text:
    """Return a status in its color."""
    return style(status, VERDICT_STYLE[status])
