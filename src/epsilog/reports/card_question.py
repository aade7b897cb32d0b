"""The question of a verdict card, from a report: its full curve where the report supports its whole claim."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from epsilog.reports.first_page import format_verdict
from epsilog.reports.schema import check_schema
from epsilog.terms import CheckError, Status, codec


def read_card_question(data: bytes) -> dict[str, Any]:
    """Return the fields of a ``VerdictQuestion`` about a report.

    Figures come from the mechanism's full curve if the report supports all that it claims, else from the supported
    epsilon and delta alone.

    Args:
        data: the report's bytes, which the card names by their SHA-256.

    Raises:
        ValueError: this is no report.
        CheckError: a check failed, or the records support no epsilon.
    """
    report: dict[str, Any] = codec.parse_json(data)
    check_schema(report)
    claim, guarantee = report["claim"], report["claim"]["guarantee"]
    supported = float(claim["supported"])
    if report["verification"]["status"] == Status.FAILED or not math.isfinite(supported):
        raise CheckError("report", "one whose claim its records support", "another")
    stated = {
        "delta": guarantee["delta"],
        "relation": guarantee["relation"],
        "privacy_unit": guarantee["privacy_unit"],
        "simulation": report["simulation"],
        "name": (report["identity"].get("name") or "report")[:80],
        "report": hashlib.sha256(data).hexdigest(),
        "verdict": "Cannot tell" if report["verification"]["status"] == Status.NOT_CHECKED else format_verdict(report),
    }
    whole = report["kind"] == "report" and supported <= float(claim["epsilon"]["upper"])
    if whole:
        return stated | {"epsilon": None, "release": {"v": 1, "term": report["mechanism"]["release"]}}
    return stated | {"epsilon": supported}
