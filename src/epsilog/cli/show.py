"""How results are printed for people, in a few shapes. Rich is imported when something is shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from epsilog.terms import Interval

VERDICT_STYLE = {"passed": "green", "warned": "yellow", "failed": "bold red", "not checked": "dim"}


@cache
def console() -> Console:
    """Return the terminal; foreign text cannot act upon it."""
    from rich.console import Console

    class _SafeConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(_escape(each, keep="\n") for each in objects), **options)

    return _SafeConsole(highlight=False, markup=False, emoji=False)  # text from a ledger is not markup


def _escape(content: Any, *, keep: str = "") -> Any:
    """Return text with characters escaped that a terminal would act upon; anything else as it is."""
    from rich.text import Text

    if isinstance(content, str):
        return legible(content, keep=keep)
    if isinstance(content, Text) and (safe := legible(content.plain, keep=keep)) != content.plain:
        return Text(safe, style=content.style)
    return content


def write(*objects: Any, **options: Any) -> None:
    """Print text, wrapped at words; ``soft_wrap=True`` leaves a line whole, so that it can be copied."""
    console().print(*objects, **options)


def format_interval(interval: Interval) -> str:
    """Return both bounds of a certified number; the upper one may be claimed."""
    if interval.lower == interval.upper:
        return format_upper(interval.upper, 6)
    return f"at most {format_upper(interval.upper, 6)} (at least {format_lower(interval.lower, 6)})"


def print_figures(title: str, rows: Sequence[tuple[str | Text, str | Text]]) -> None:
    """Print named values, one a line."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(_escape(name), _escape(value))
    write(style(f"\n{legible(title)}"))
    write(grid)


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table with a heading line."""
    from rich.table import Table

    table = Table(
        title=legible(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(_escape, row))
    write()
    write(table)


def print_notice(text: str) -> None:
    """Print a sentence that a reader must not miss."""
    from rich.text import Text

    write(Text.assemble(("!", "yellow"), f" {legible(text)}"))


def style(text: str, how: str = "bold", after: str = "") -> Text:
    """Return text in a style, bold by default, with plain text after it."""
    from rich.text import Text

    return Text.assemble((text, how), after) if after else Text(text, style=how)


def escape_control_characters(text: str) -> str:
    r"""Return text with each character that is not printable as its Python escape.

    >>> escape_control_characters("as agreed\x1b[2J")
    'as agreed\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_status(status: str) -> Text:
    """Return a status in its color."""
    return style(status, VERDICT_STYLE[status])
