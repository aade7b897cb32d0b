"""What a check or a plan has found: a code for programs, a verdict, a sentence for readers, the numbers behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from epsilog.terms import check
from epsilog.terms.errors import CheckError
from epsilog.terms.legible import legible
from epsilog.terms.messages import Message

EVIDENCE_KINDS = (
    "report",
    "ledger",
    "custody",
    "page",
    "model",
    "signature",
)  # what may lack; plan and records never do
OPTIONAL_EVIDENCE_KINDS = ("certificate",)  # required only on request
LOG_EVIDENCE_KINDS = (
    "cohorts",
    "clients",
    "settings",
    "norms",
    "divisor",
    "padding",
    "attempts",
    "enrollment",
)  # of logs
_SENTENCE = check.Validator(lambda name, value: legible(check.text()(**{name: value})))  # it may quote foreign text
_CODE = re.compile(r"[a-z]+(-[a-z]+)*/[a-z]+(-[a-z]+)*")


class Status(StrEnum):
    """How a check ended. NOT_CHECKED says that the evidence was not there, and is never as good as PASSED."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


class ClaimEffect(StrEnum):
    """The effect of a finding on the claim. UNDETERMINED is never as good as SUPPORTED."""

    SUPPORTED = "supported"
    UNAMPLIFIED = "supported without amplification"
    UNSUPPORTED = "unsupported"
    UNDETERMINED = "undetermined"


class Severity(StrEnum):
    """How much is wrong, as in docs/pitfalls.

    Critical: the stated number does not hold. Theoretical: void against a stated attacker, or under stated
    circumstances, such as when an unchecked assumption fails. Negligible: a tiny difference, or no cost to privacy.
    """

    NONE = "none"
    NEGLIGIBLE = "negligible"
    THEORETICAL = "theoretical"
    CRITICAL = "critical"


_OF_SAMPLING = ("participation", "population")  # a failure makes the sampler another one than was claimed
_NEGLIGIBLE = {
    "charge/not-closed",
    "claim/slightly-low",
    "classic-formula/delta-for-each",
    "clipping/norm-mismatch",
    "clipping/more-noise",
    "laplace/pure-split",
    "log/out-of-order",
    "noise/too-strong",
    "norms/count-noise-too-strong",
    "rounds/diverged",
    "rounds/stopped-early",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One outcome of a check, or one notice for the reader of a plan.

    Attributes:
        code: what was found, as check/outcome, such as "noise/too-weak". Codes are listed in the reference and keep
            their meaning; sentences may change.
        status: how the check ended.
        message: one sentence for a reader; what it quotes becomes ``legible``.
        values: named figures behind it: observed, expected, p-values, intervals.
        missing_evidence: the missing evidence that prevented the check; "" if there was another reason.
        false_alarm_rate: how often the check rejects a sound run, at most; 0 for what is compared and not estimated.

    >>> Finding("noise/too-weak", Status.FAILED, "The noise is too weak.").check
    'noise'
    """

    code: str
    status: Annotated[Status, check.instance_of(Status)]
    message: Annotated[str, _SENTENCE]
    values: Annotated[tuple[tuple[str, float], ...], check.sequence_of(check.pair_of(check.text(), check.real()))] = ()
    missing_evidence: Annotated[
        str, check.one_of(("", *EVIDENCE_KINDS, *OPTIONAL_EVIDENCE_KINDS, *LOG_EVIDENCE_KINDS))
    ] = ""
    false_alarm_rate: Annotated[float, check.in_half_open_interval(0, 1)] = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.code, str) and _CODE.fullmatch(self.code)):
            raise CheckError("code", "words as check/outcome", repr(self.code))
        check.check_fields(self)

    @classmethod
    def of(cls, message: Message, status: Status = Status.PASSED) -> Finding:
        """Return a finding from a message: its identifier is the code, its numbers are kept."""
        numbers = ((name, float(value)) for name, value in message.params if isinstance(value, int | float))
        return cls(message.id, status, str(message), tuple(numbers))

    @property
    def check(self) -> str:
        """Return what was checked, e.g. "noise"."""
        return self.code.partition("/")[0]

    @property
    def claim_effect(self) -> ClaimEffect:
        """Return what it does to the claim."""
        if self.status is Status.NOT_CHECKED:
            return ClaimEffect.UNDETERMINED
        if self.status is not Status.FAILED:
            return ClaimEffect.SUPPORTED
        return ClaimEffect.UNAMPLIFIED if self.check in _OF_SAMPLING else ClaimEffect.UNSUPPORTED

    @property
    def severity(self) -> Severity:
        """Return how much is wrong."""
        if self.status is Status.PASSED:
            return Severity.NONE
        if self.status is Status.FAILED:
            return Severity.CRITICAL
        return Severity.NEGLIGIBLE if self.code in _NEGLIGIBLE else Severity.THEORETICAL

    def consequences(self) -> dict[str, object]:
        """Return the severity and the effect on the claim, as plain JSON values that complete ``to_json``."""
        return {
            "severity": self.severity.value,
            "claim_effect": self.claim_effect.value,
            "false_alarm_rate": self.false_alarm_rate,
        }

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        document = {"code": self.code, "check": self.check, "status": self.status.value, "message": self.message}
        return document | {"values": dict(self.values)}
