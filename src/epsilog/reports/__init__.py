"""After verification: a report that a third party can recompute.

``build_report`` writes one JSON document, ``build_logs_report`` that of a run that epsilog did not train, and
``check_schema`` holds either to the published schema. ``render_html``, ``render_markdown``, ``render_pdf`` and
``registry_record`` are renderings of it. ``examine`` and ``examine_logs_report`` are what a third party does: build the
report again from the evidence and compare every field. Reads records and findings, never ``training``.
"""

from epsilog.reports.calculations import Reference, check_calculation, is_calculation, stamp
from epsilog.reports.cycles import cycle_rows, cycle_sums, read_plans, render_cycles
from epsilog.reports.examination import (
    REQUIRED,
    Compared,
    Examination,
    compare,
    differences,
    examine,
    examine_report,
)
from epsilog.reports.narrative import statement, who_sees_what
from epsilog.reports.of_logs import build_logs_report, examine_logs_report, log_digests, logs_statement
from epsilog.reports.pdf import render_pdf
from epsilog.reports.plots import Series, line_plot, standalone
from epsilog.reports.publication import FIELDS, read_about, require_field
from epsilog.reports.registry import check_record, registry_record, registry_schema, render_record
from epsilog.reports.rendering import (
    counted,
    document_of,
    lower_bound,
    render_html,
    render_markdown,
    render_verdict,
    tuned,
)
from epsilog.reports.report import build_report, unpacked
from epsilog.reports.schema import check_schema, report_schema

__all__ = [
    "FIELDS",
    "REQUIRED",
    "Compared",
    "Examination",
    "Reference",
    "Series",
    "build_logs_report",
    "build_report",
    "check_calculation",
    "check_record",
    "check_schema",
    "compare",
    "counted",
    "cycle_rows",
    "cycle_sums",
    "differences",
    "document_of",
    "examine",
    "examine_logs_report",
    "examine_report",
    "is_calculation",
    "line_plot",
    "log_digests",
    "logs_statement",
    "lower_bound",
    "read_about",
    "read_plans",
    "registry_record",
    "registry_schema",
    "render_cycles",
    "render_html",
    "render_markdown",
    "render_pdf",
    "render_record",
    "render_verdict",
    "report_schema",
    "require_field",
    "stamp",
    "standalone",
    "statement",
    "tuned",
    "unpacked",
    "who_sees_what",
]
