"""What a check or a plan has found: a code for programs, a verdict, a sentence for readers, the numbers behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import check
from epsilog.terms.errors import CheckError

EVIDENCE = ("report", "ledger", "custody", "page", "model")  # what a check may lack; plan and records are always there
LOG_EVIDENCE = ("cohorts", "clients", "settings", "norms", "divisor", "padding", "attempts", "enrolment")  # of logs
_CODE = re.compile(r"[a-z]+(-[a-z]+)*/[a-z]+(-[a-z]+)*")


class Verdict(StrEnum):
    """How a check ended. NOT_CHECKED says that the evidence was not there, and is never as good as PASSED."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One outcome of a check, or one thing that a reader of a plan must be told.

    Attributes:
        code: what was found, as check/outcome, such as "noise/too-weak". Codes are listed in the reference and keep
            their meaning; sentences may change.
        verdict: how bad it is.
        says: one sentence for a reader.
        numbers: named figures behind it: observed, expected, p-values, intervals.
        lacks: the evidence for want of which it was not checked; "" if that was not the reason.

    >>> Finding("noise/too-weak", Verdict.FAILED, "The noise is too weak.").check
    'noise'
    """

    code: str
    verdict: Verdict
    says: str
    numbers: tuple[tuple[str, float], ...] = ()
    lacks: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.code, str) and _CODE.fullmatch(self.code)):
            raise CheckError("code", "words as check/outcome", repr(self.code))
        check.fields(
            self,
            says=check.text(),
            verdict=check.instance(Verdict),
            numbers=check.each(check.pair(check.text(), check.number())),
            lacks=check.one_of(("", *EVIDENCE, *LOG_EVIDENCE)),
        )

    @property
    def check(self) -> str:
        """What was checked, e.g. "noise"."""
        return self.code.partition("/")[0]

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        told = {"code": self.code, "check": self.check, "verdict": self.verdict.value, "says": self.says}
        return told | {"numbers": dict(self.numbers)}
