"""The report's published JSON Schema, and the check against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load_report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report, of this version and of the one before."""
    schema: dict[str, Any] = json.loads((Path(__file__).parent / "report.schema.json").read_text(encoding="utf-8"))
    return schema


def check_schema(report: Any) -> None:
    """Raises ``ValueError`` naming the first place where a document is not a report."""
    from jsonschema import Draft202012Validator

    errors = sorted(
        Draft202012Validator(load_report_schema()).iter_errors(report), key=lambda e: list(map(str, e.path))
    )
    if errors:
        place = "/".join(str(step) for step in errors[0].path) or "report"
        raise ValueError(f"{place}: {errors[0].message[:200]}")
