"""What a check says: a verdict, a sentence, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import check


class Verdict(StrEnum):
    """How a check ended. Only FAILED voids a claim; NOT_CHECKED says that the evidence was not there."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's outcome.

    Attributes:
        check: what was checked, e.g. "noise".
        verdict: how it ended.
        says: one sentence for a reader.
        numbers: named figures behind it: observed, expected, p-values, intervals.
    """

    check: str
    verdict: Verdict
    says: str
    numbers: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        check.fields(self, check=check.text(), says=check.text(), verdict=check.instance(Verdict))

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        numbers = {name: float(value) for name, value in self.numbers}
        return {"check": self.check, "verdict": self.verdict.value, "says": self.says, "numbers": numbers}


def overall(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict of all: failed, else warned, else passed; nothing checked at all is NOT_CHECKED."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.FAILED, Verdict.WARNED, Verdict.PASSED):
        if verdict in verdicts:
            return verdict
    return Verdict.NOT_CHECKED
