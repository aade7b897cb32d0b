"""What a check says: a verdict, a sentence, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import check

EVIDENCE = ("report", "ledger", "custody", "page")  # what a check may lack; plan and records are always there


class Verdict(StrEnum):
    """How a check ended. NOT_CHECKED says that the evidence was not there, and is never as good as PASSED."""

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
        lacks: the evidence for want of which it was not checked; "" if that was not the reason.
    """

    check: str
    verdict: Verdict
    says: str
    numbers: tuple[tuple[str, float], ...] = ()
    lacks: str = ""

    def __post_init__(self) -> None:
        check.fields(
            self,
            check=check.text(),
            says=check.text(),
            verdict=check.instance(Verdict),
            lacks=check.one_of(("", *EVIDENCE)),
        )

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        numbers = {name: float(value) for name, value in self.numbers}
        return {"check": self.check, "verdict": self.verdict.value, "says": self.says, "numbers": numbers}


def overall(findings: Iterable[Finding], *, required: Collection[str] = EVIDENCE) -> Verdict:
    """The worst verdict of all: failed, else not checked, else warned, else passed; of nothing, not checked.

    Args:
        findings: one for each check.
        required: evidence that must be here; what lacks other evidence does not count.
    """
    counted = [f for f in findings if f.verdict is not Verdict.NOT_CHECKED or not f.lacks or f.lacks in required]
    verdicts = {finding.verdict for finding in counted}
    for verdict in (Verdict.FAILED, Verdict.NOT_CHECKED, Verdict.WARNED, Verdict.PASSED):
        if verdict in verdicts:
            return verdict
    return Verdict.NOT_CHECKED
