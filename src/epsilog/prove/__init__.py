"""After verification: a report that a third party can recompute.

``build_report`` writes one JSON document, ``render_html`` and ``summary`` are renderings of it, and ``check_schema``
holds it to the published schema. ``examine`` is what a third party does: it builds the report again from the evidence
and compares every field. Reads records and findings, never ``train``.
"""

from epsilog.prove.examination import REQUIRED, Examination, differences, examine, examine_report
from epsilog.prove.narrative import statement, who_sees_what
from epsilog.prove.plots import Series, line_plot
from epsilog.prove.rendering import document_of, render_html
from epsilog.prove.report import build_report, unpacked
from epsilog.prove.schema import check_schema, report_schema

__all__ = [
    "REQUIRED",
    "Examination",
    "Series",
    "build_report",
    "check_schema",
    "differences",
    "document_of",
    "examine",
    "examine_report",
    "line_plot",
    "render_html",
    "report_schema",
    "statement",
    "unpacked",
    "who_sees_what",
]
