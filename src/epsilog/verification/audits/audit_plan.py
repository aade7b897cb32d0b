"""A canary audit, as a plan states it before the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from epsilog.plan import RegisteredPlan
from epsilog.terms import Canaries, CheckError, check, codec
from epsilog.verification.audits.canaries import AuditProtocol, Guesses

PLANNED = "audit"  # its key in a plan's details
CLOSE = 1e-9  # how far a cosine may be rounded beyond 1
SCORES = {True: "cosine", False: "loss"}  # by whether whole clients are protected


@dataclass(frozen=True, slots=True)
class PlannedAudit:
    """The settings of an audit, all fixed before the run.

    Attributes:
        protocol: the number of canaries, the guesses, and the confidence of the bound.
        score: "cosine" of a canary's direction and the change of the model, or the decrease of its "loss".
        commitment: SHA-256 of the secret that determines coins and canaries.
    """

    protocol: Annotated[AuditProtocol, check.instance_of(AuditProtocol)]
    score: Annotated[str, check.one_of(tuple(SCORES.values()))]
    commitment: Annotated[str, check.text()]

    def __post_init__(self) -> None:
        check.check_fields(self)

    def is_possible(self, scores: Iterable[float]) -> bool:
        """Return whether scores are possible: a cosine is at most 1 in magnitude, a change of loss is unbounded."""
        return self.score != "cosine" or all(abs(score) <= 1 + CLOSE for score in scores)

    def to_json(self) -> dict[str, Any]:
        """Return the entry in a plan's details."""
        protocol = self.protocol
        return {
            "canaries": protocol.canaries,
            "score": self.score,
            "delta": protocol.delta,
            "confidence": protocol.confidence,
            "method": protocol.method,
            "guesses": [list(one) for one in protocol.guesses],
            "commitment": self.commitment,
        }

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> Self:
        """Read the output of ``to_json``; raise ``CheckError`` for anything else."""
        try:
            guesses = tuple(Guesses(*one) for one in stated["guesses"])
            protocol = AuditProtocol(
                stated["canaries"], stated["delta"], stated["confidence"], stated["method"], guesses
            )
            found = cls(protocol, stated["score"], stated["commitment"])
        except CheckError as error:
            raise error.under("audit") from None
        except codec.UNREADABLE as error:
            raise CheckError("audit", f"a planned audit ({error!r})", repr(stated)[:200]) from None
        if found.to_json() != stated:
            raise CheckError("audit", "a planned audit without further fields", f"{sorted(stated)}")
        return found

    @classmethod
    def create(cls, protocol: AuditProtocol, canaries: Canaries, *, unit_is_client: bool) -> Self:
        """Return the audit of these canaries, for a plan."""
        return cls(protocol, SCORES[unit_is_client], canaries.commitment)

    @classmethod
    def of(cls, plan: RegisteredPlan) -> Self | None:
        """Return the audit that a plan states, or None."""
        stated = plan.details.get(PLANNED)
        return None if stated is None else cls.from_json(stated)


def list_contradictions(plan: RegisteredPlan) -> Iterator[str]:
    """Describe each way in which a plan's audit does not fit its claim."""
    stated = PlannedAudit.of(plan)
    data = plan.details.get("data", {})
    if stated is None:
        return
    if stated.protocol.delta != plan.guarantee.delta:
        yield f"its audit is at delta {stated.protocol.delta!r}, its guarantee at {plan.guarantee.delta!r}"
    if data.get("canaries") != stated.protocol.canaries or stated.protocol.canaries >= plan.guarantee.population:
        yield f"its data has {data.get('canaries')} canaries among its units, its audit {stated.protocol.canaries}"
    if stated.score != SCORES[plan.scheme.unit_is_client]:
        yield f"its audit scores by {stated.score}, which does not fit the privacy unit of its scheme"
