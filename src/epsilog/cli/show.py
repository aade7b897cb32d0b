"""How results look on a terminal: a few shapes, used by every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from epsilog.terms import Interval
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible


class _Console(Console):
    """A terminal to which foreign text says nothing but itself."""

    def print(self, *objects: Any, **kwargs: Any) -> None:
        """As rich's, with text that is legible."""
        super().print(*(_safe(each, keep="\n") for each in objects), **kwargs)


def _safe(shown: Any, *, keep: str = "") -> Any:
    """Text in characters that a terminal does not act upon; anything else as it is."""
    if isinstance(shown, str):
        return legible(shown, keep=keep)
    if isinstance(shown, Text) and (told := legible(shown.plain, keep=keep)) != shown.plain:
        return Text(told, style=shown.style)
    return shown


console = _Console(highlight=False, markup=False, emoji=False)  # what people wrote into a ledger is no markup
VERDICT_STYLE = {"passed": "green", "warned": "yellow", "failed": "bold red", "not checked": "dim"}


def format_interval(interval: Interval) -> str:
    """Both sides of a certified number; the upper one may be claimed."""
    if interval.lower == interval.upper:
        return format_upper(interval.upper, 6)
    return f"at most {format_upper(interval.upper, 6)} (at least {format_lower(interval.lower, 6)})"


def print_figures(title: str, rows: Sequence[tuple[str | Text, str | Text]]) -> None:
    """Named values, one a line."""
    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(_safe(name), _safe(value))
    console.print(style_bold(f"\n{legible(title)}"))
    console.print(grid)


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A table with a heading line."""
    shown = Table(
        title=legible(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*map(_safe, row))
    console.print()
    console.print(shown)


def print_notice(text: str) -> None:
    """A sentence that a reader must not miss."""
    console.print(Text.assemble(("!", "yellow"), f" {legible(text)}"))


def style_bold(text: str) -> Text:
    """What matters most."""
    return Text(text, style="bold")


def escape_control_characters(text: str) -> str:
    r"""What somebody wrote, in characters that tell a terminal nothing.

    >>> escape_control_characters("as agreed\x1b[2J")
    'as agreed\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_status(verdict: str) -> Text:
    """A verdict in its colour."""
    return Text(verdict, style=VERDICT_STYLE[verdict])
