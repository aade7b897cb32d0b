"""The report as a PDF, set by Typst from the JSON: quoted text is never read as markup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epsilog.reports.rendering import TEMPLATES, build_context
from epsilog.terms import RecordError
from epsilog.terms.charts import make_standalone
from epsilog.terms.extras import install_command
from epsilog.terms.legible import legible

COLORS = {"guessed": "#1d2326", "found": "#a3480c", "leaked": "#5a4b9a", "safe": "#dfdbd2"}


def render_pdf(report: dict[str, Any], about: Mapping[str, str] | None = None) -> bytes:
    """Render a report as a PDF.

    Args:
        report: the document.
        about: publication fields that the report leaves blank.

    Raises:
        RecordError: the extra ``pdf`` is not installed.
    """
    try:
        import typst
    except ImportError as error:
        raise RecordError(f"a PDF needs Typst: {install_command('pdf')}") from error
    context = build_context(report, about or {})
    context["picture"] = _draw(context["page"]["dots"]) if context["page"]["dots"] else None
    context["plots"] = {name: make_standalone(plot) for name, plot in context["plots"].items()}
    content = (TEMPLATES / "report.typ").read_bytes()
    return bytes(typst.compile(content, sys_inputs={"context": json.dumps(_make_legible(context))}))


def _draw(dots: list[tuple[str, str]]) -> str:
    """The picture of 1,000 units as an SVG with its colors."""
    line = '<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linecap="round"/>'
    parts = [line.format(path, COLORS[name], 8) for name, path in dots if path]
    parts += [line.format(path, "#ffffff", 4.6) for name, path in dots if name == "leaked" and path]
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 250">{"".join(parts)}</svg>'


def _make_legible(value: Any) -> Any:
    """Return the same JSON values, with text that has a glyph for each character."""
    if isinstance(value, Mapping):
        return {legible(str(name)): _make_legible(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_make_legible(inner) for inner in value]
    return legible(str(value), keep="\n") if isinstance(value, str) else value
