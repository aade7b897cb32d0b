"""The report as a PDF, set by Typst from the JSON: nothing that a report quotes is read as markup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epsilog.reports.publication_fields import merge_publication_fields
from epsilog.reports.rendering import TEMPLATES, build_context, draw_report_plots, format_number
from epsilog.terms import RecordError
from epsilog.terms.charts import make_standalone
from epsilog.terms.extras import install_command
from epsilog.terms.legible import legible


def render_pdf(report: dict[str, Any], about: Mapping[str, str] | None = None) -> bytes:
    """Renders a report as a PDF.

    Args:
        report: the document.
        about: fields that the report leaves blank; see ``publication``.

    Raises:
        RecordError: the extra ``pdf`` is not installed.
    """
    try:
        import typst
    except ImportError as error:
        raise RecordError(f"a PDF needs Typst: {install_command('pdf')}") from error
    stated = merge_publication_fields(report, about or {})
    told = build_context(report) | {
        "stated": [(name.replace("_", " "), value) for name, value in stated.items()],
        "blank": [item for item in report["publication"]["blank"] if item["field"] not in stated],
        "plots": {name: make_standalone(plot) for name, plot in draw_report_plots(report).items()},
        "false_alarm_rate": format_number(report["verification"]["false_alarm_rate"]),
    }
    content = (TEMPLATES / "report.typ").read_bytes()
    return bytes(typst.compile(content, sys_inputs={"told": json.dumps(_legible(told))}))


def _legible(value: Any) -> Any:
    """The same JSON values, with text that has a glyph for each character."""
    if isinstance(value, Mapping):
        return {legible(str(name)): _legible(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_legible(inner) for inner in value]
    return legible(str(value), keep="\n") if isinstance(value, str) else value
