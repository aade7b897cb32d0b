"""Tables for notebooks: what ``_repr_html_`` of plans, balances, verdicts and audits returns. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from epsilog.terms.legible import legible

__all__ = ["render_html_table"]


def render_html_table(caption: str, rows: Iterable[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """Return an HTML table; the first cell of each row names it.

    >>> render_html_table("budget", [("epsilon", "<4")])
    "<table><caption>budget</caption><tr><th style='text-align:left'>epsilon</th><td>&lt;4</td></tr></table>"
    """
    left = "style='text-align:left'"
    head = "".join(f"<th {left}>{_format_cell(name)}</th>" for name in headings)
    lines = [f"<tr>{head}</tr>"] if head else []
    for name, *cells in rows:
        row = "".join(f"<td>{_format_cell(cell)}</td>" for cell in cells)
        lines.append(f"<tr><th {left}>{_format_cell(name)}</th>{row}</tr>")
    return f"<table><caption>{_format_cell(caption)}</caption>{''.join(lines)}</table>"


def _format_cell(cell: object) -> str:
    return escape(legible(str(cell), keep="\n"))
