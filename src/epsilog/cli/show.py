"""How results look on a terminal: a few shapes, used by every command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from epsilog.terms import Interval
from epsilog.terms.digits import lower_text, upper_text

console = Console(highlight=False)
VERDICT_STYLE = {"passed": "green", "warned": "yellow", "failed": "bold red", "not checked": "dim"}


def interval_text(interval: Interval) -> str:
    """Both sides of a certified number; the upper one may be claimed."""
    if interval.lower == interval.upper:
        return upper_text(interval.upper, 6)
    return f"at most {upper_text(interval.upper, 6)} (at least {lower_text(interval.lower, 6)})"


def figures(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Named values, one a line."""
    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    console.print(f"\n[bold]{title}[/bold]")
    console.print(grid)


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with a heading line."""
    shown = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    console.print()
    console.print(shown)


def note(text: str) -> None:
    """A sentence that a reader must not miss."""
    console.print(f"[yellow]![/yellow] {text}")


def verdict_text(verdict: str) -> str:
    """A verdict in its colour."""
    return f"[{VERDICT_STYLE[verdict]}]{verdict}[/]"
