"""Reports that a third party can recompute.

``build_report`` writes one JSON document about a run of epsilog, or about the logs of another run, and ``check_schema``
checks it against the published schema. ``render_html``, ``render_markdown``, ``render_pdf`` and
``build_registry_record`` render it. A third party calls ``verify``, which builds the report again from the evidence and
compares every field. This package reads records and findings, never ``training``.
"""

from epsilog.reports.calculations import FileReference, check_calculation, is_calculation, stamp_calculation
from epsilog.reports.cycles import list_cycle_rows, list_cycle_totals, read_plan_summaries, render_cycles
from epsilog.reports.figures import format_audit_bound, list_noisy_counts, list_tuning_figures, write_score_cost
from epsilog.reports.first_page import format_verdict, list_evidence_kinds, read_card_question, write_meaning
from epsilog.reports.publication_fields import PUBLICATION_FIELDS, read_publication_file, require_field
from epsilog.reports.registry import build_registry_record, render_record
from epsilog.reports.rendering import render_html, render_markdown, render_pdf, render_verdict
from epsilog.reports.report import build_report
from epsilog.reports.schema import check_schema, load_registry_schema, load_report_schema
from epsilog.reports.statements import format_verified_claim
from epsilog.reports.verification import (
    REQUIRED_EVIDENCE,
    REQUIRED_OF_REPORT,
    compare_rebuilt,
    read_report,
    verify_report,
    verify_run,
)
from epsilog.reports.verifier import verify
from epsilog.terms.charts import PlotSeries, draw_line_plot, make_standalone

__all__ = [
    "PUBLICATION_FIELDS",
    "REQUIRED_EVIDENCE",
    "REQUIRED_OF_REPORT",
    "FileReference",
    "PlotSeries",
    "build_registry_record",
    "build_report",
    "check_calculation",
    "check_schema",
    "compare_rebuilt",
    "draw_line_plot",
    "format_audit_bound",
    "format_verdict",
    "format_verified_claim",
    "is_calculation",
    "list_cycle_rows",
    "list_cycle_totals",
    "list_evidence_kinds",
    "list_noisy_counts",
    "list_tuning_figures",
    "load_registry_schema",
    "load_report_schema",
    "make_standalone",
    "read_card_question",
    "read_plan_summaries",
    "read_publication_file",
    "read_report",
    "render_cycles",
    "render_html",
    "render_markdown",
    "render_pdf",
    "render_record",
    "render_verdict",
    "require_field",
    "stamp_calculation",
    "verify",
    "verify_report",
    "verify_run",
    "write_meaning",
    "write_score_cost",
]
