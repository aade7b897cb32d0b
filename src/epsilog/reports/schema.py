"""The published JSON Schemas of a report and of a registry record, and checks against them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def load_report_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a report."""
    return _load("report")


def load_registry_schema() -> dict[str, Any]:
    """Return the schema of the OpenDP Deployments Registry: its names, types, choices and required fields."""
    return _load("registry")


@cache
def _load(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / f"{kind}.schema.json").read_text(encoding="utf-8"))
    return schema


def check_schema(report: Any) -> None:
    """Raise ``ValueError`` that names the first place where a document is not a report."""
    _check(report, load_report_schema(), "report")


def check_record(record: Any) -> None:
    """Raise ``ValueError`` that names the first place where a document is not a registry record."""
    _check(record, load_registry_schema(), "record")


def _check(document: Any, schema: dict[str, Any], name: str) -> None:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for error in sorted(validator.iter_errors(document), key=lambda error: list(map(str, error.path))):
        raise ValueError(f"{'/'.join(map(str, error.path)) or name}: {error.message[:200]}")
