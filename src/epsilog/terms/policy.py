"""The delta policy: which failure probability may stand in a claim, and what to say about one that should not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from epsilog.terms import check, fields, parameters
from epsilog.terms.errors import CheckError
from epsilog.terms.fields import DOWN, Field
from epsilog.terms.findings import Finding, Status
from epsilog.terms.messages import Message


def delta_finding(delta: float, *, population: int) -> Finding:
    """Compare delta with 1/N: at 1/N a mechanism may publish the record of a unit picked at random.

    >>> delta_finding(1e-6, population=50_000).code, delta_finding(0.1, population=10).code
    ('delta/passed', 'delta/too-large')
    """
    delta, population = check.in_closed_interval(0, 1)(delta=delta), check.integer(1)(population=population)
    share = 1 / population
    code, verdict = ("delta/passed", Status.PASSED) if delta < share else ("delta/too-large", Status.WARNED)
    return Finding.of(Message.of(code, delta=delta, one_over_n=share), verdict)


@fields.document_fields
@dataclass(frozen=True, slots=True)
class DeltaChoice:
    """The chosen delta, its rationale, and notices for the reader."""

    delta: Annotated[float, Field("the value used", gt=0, lt=1, rounding=DOWN)]
    rationale: Annotated[str, Field("reason for the value")]
    findings: Annotated[tuple[Finding, ...], Field("problems with the value; empty if none")] = ()

    def __post_init__(self) -> None:
        check.check_fields(self)

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        findings = [finding.to_json() for finding in self.findings]
        return {"value": self.delta, "rationale": self.rationale, "findings": findings}


@fields.document_fields
@dataclass(frozen=True, slots=True)
class DeltaPolicy:
    """Caps delta and compares it with 1/N.

    A delta of 1/N allows a mechanism that publishes the record of a unit picked at random, so it must be well below.
    """

    delta_cap: Annotated[float | None, parameters.DELTA_CAP] = 1e-6

    def __post_init__(self) -> None:
        check.check_fields(self)

    def choose_delta(self, given: float | None, *, population: int) -> DeltaChoice:
        """Return the delta to use for ``population`` units; a blank one is min(1/N, delta_cap), a given one is capped.

        >>> DeltaPolicy().choose_delta(None, population=50_000).delta
        1e-06
        >>> DeltaPolicy(delta_cap=None).choose_delta(2e-5, population=50_000).findings[0].code
        'delta/too-large'
        """
        population = check.integer(1)(population=population)
        share = 1 / population
        if given is None:
            delta = min(share, self.delta_cap) if self.delta_cap is not None else share
            limit = "1/N" if delta == share else "the policy cap"
            rationale = f"left blank: min(1/N = {share:g}, policy cap {self.delta_cap}) is {limit}"
        else:
            given = check.in_open_interval(0, 1, check.DOWN)(delta=given)
            delta = given if self.delta_cap is None else min(given, self.delta_cap)
            rationale = f"given as {given:g}, lowered to the policy cap {delta:g}" if delta < given else "as given"
        if delta >= 1:  # N = 1 and no cap: no delta is below 1/N
            raise CheckError("delta", "in (0, 1)", f"{delta!r} (population {population} and no cap)")
        found = delta_finding(delta, population=population)
        return DeltaChoice(delta, rationale, (found,) if found.status is Status.WARNED else ())
