"""Reports that a third party can recompute.

``build_report`` writes one JSON document about a run of epsilog, or about the logs of another run, and ``check_schema``
checks it against the published schema. ``render_html``, ``render_markdown``, ``render_pdf`` and
``build_registry_record`` render it. A third party calls ``verify``, which builds the report again from the evidence and
compares every field. This package reads records and findings, never ``training``.
"""

from epsilog.reports.calculations import (
    FileReference as FileReference,
    check_calculation as check_calculation,
    is_calculation as is_calculation,
    stamp_calculation as stamp_calculation,
)
from epsilog.reports.cycles import (
    list_cycle_rows as list_cycle_rows,
    list_cycle_totals as list_cycle_totals,
    read_plan_summaries as read_plan_summaries,
    render_cycles as render_cycles,
)
from epsilog.reports.figures import (
    format_audit_bound as format_audit_bound,
    list_noisy_counts as list_noisy_counts,
    list_tuning_figures as list_tuning_figures,
    write_score_cost as write_score_cost,
)
from epsilog.reports.first_page import (
    format_verdict as format_verdict,
    list_evidence_kinds as list_evidence_kinds,
    read_card_question as read_card_question,
    write_meaning as write_meaning,
)
from epsilog.reports.publication_fields import (
    PUBLICATION_FIELDS as PUBLICATION_FIELDS,
    read_publication_file as read_publication_file,
    require_field as require_field,
)
from epsilog.reports.registry import build_registry_record, render_record as render_record
from epsilog.reports.rendering import render_html, render_markdown, render_pdf, render_verdict as render_verdict
from epsilog.reports.report import build_report
from epsilog.reports.schema import check_schema, load_registry_schema as load_registry_schema, load_report_schema
from epsilog.reports.statements import format_verified_claim
from epsilog.reports.verification import (
    REQUIRED_EVIDENCE as REQUIRED_EVIDENCE,
    REQUIRED_OF_REPORT as REQUIRED_OF_REPORT,
    compare_rebuilt as compare_rebuilt,
    read_report,
    verify_report,
    verify_run,
)
from epsilog.reports.verifier import verify
from epsilog.terms.charts import (
    PlotSeries as PlotSeries,
    draw_line_plot as draw_line_plot,
    make_standalone as make_standalone,
)

__all__ = [
    "build_registry_record",
    "build_report",
    "check_schema",
    "format_verified_claim",
    "load_report_schema",
    "read_report",
    "render_html",
    "render_markdown",
    "render_pdf",
    "verify",
    "verify_report",
    "verify_run",
]
