"""A report that somebody was given, checked as `epsilog verify` does it: nothing of it is kept."""

from __future__ import annotations

import dataclasses
from typing import Any

from epsilog import prove
from epsilog.terms import CheckError, RecordsError
from epsilog.web import answers
from epsilog.web.asks import ReportAsk
from epsilog.web.questions import Questions

questions = Questions("verify", heavy=True)


@questions.add("/verify", answers.CheckedReport, summary="Check a report, and build it again")
def verify(ask: ReportAsk) -> dict[str, Any]:
    """Every check on the evidence that the report carries, and every part of it beside what comes out again.

    Without the ledger nothing binds the report to a run; `epsilog verify` takes that too.
    """
    content = ask.report.encode("utf-8", "surrogatepass")
    try:
        found, parts = prove.examine_report(content, None), prove.compare(content)
    except RecordsError as error:
        raise CheckError("report", "one that carries its evidence", f"another: {error}") from error
    return {
        "verdict": found.verdict.value,
        "stands": found.stands,
        "findings": [finding.to_json() for finding in found.outcome.findings],
        "parts": [dataclasses.asdict(part) for part in parts],
    }
