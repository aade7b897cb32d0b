"""After verification: a report that a third party can recompute.

``build_report`` writes one JSON document, ``render_html`` and ``summary`` are renderings of it, and ``check_schema``
holds it to the published schema. Reads records and findings, never ``train``.
"""

from epsilog.prove.narrative import statement, who_sees_what
from epsilog.prove.render_html import render_html
from epsilog.prove.report import Utility, build_report
from epsilog.prove.schema import check_schema, report_schema

__all__ = ["Utility", "build_report", "check_schema", "render_html", "report_schema", "statement", "who_sees_what"]
