"""An audit by canaries as a plan states it before the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from epsilog.plan import RegisteredPlan
from epsilog.terms import Canaries, CheckError, check, codec
from epsilog.verification.audits.canaries import AuditProtocol, Guesses

PLANNED = "audit"  # where a plan's details hold it
CLOSE = 1e-9  # how far a cosine may be rounded beyond 1
SCORES = {True: "cosine", False: "loss"}  # by whether whole clients are protected


@dataclass(frozen=True, slots=True)
class PlannedAudit:
    """Everything about an audit that could be chosen afterwards, chosen before.

    Attributes:
        protocol: how many canaries, what is guessed, and how sure the bound is to be.
        score: "cosine" of a canary's direction and of what training changed, or how far its "loss" fell.
        commitment: SHA-256 of the secret that coins and canaries follow from.
    """

    protocol: Annotated[AuditProtocol, check.instance_of(AuditProtocol)]
    score: Annotated[str, check.one_of(tuple(SCORES.values()))]
    commitment: Annotated[str, check.text()]

    def __post_init__(self) -> None:
        check.check_fields(self)

    def is_possible(self, scores: Iterable[float]) -> bool:
        """Whether such scores may be what was planned: cosines are at most 1, losses may fall or rise by anything."""
        return self.score != "cosine" or all(abs(score) <= 1 + CLOSE for score in scores)

    def to_json(self) -> dict[str, Any]:
        """What a plan's details hold."""
        asked = self.protocol
        return {
            "canaries": asked.canaries,
            "score": self.score,
            "delta": asked.delta,
            "confidence": asked.confidence,
            "method": asked.method,
            "guesses": [list(one) for one in asked.guesses],
            "commitment": self.commitment,
        }

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> Self:
        """Reads what ``to_json`` wrote.

        Raises:
            CheckError: something else.
        """
        try:
            guesses = tuple(Guesses(*one) for one in stated["guesses"])
            protocol = AuditProtocol(
                stated["canaries"], stated["delta"], stated["confidence"], stated["method"], guesses
            )
            found = cls(protocol, stated["score"], stated["commitment"])
        except CheckError as error:
            raise error.under("audit") from None
        except codec.UNREADABLE as error:
            raise CheckError(
                "audit", f"what a plan states of one ({error!r})", repr(stated)[:200], verb="say"
            ) from None
        if found.to_json() != stated:
            raise CheckError("audit", "what a plan states of one, and nothing else", f"{sorted(stated)}", verb="say")
        return found

    @classmethod
    def create(cls, protocol: AuditProtocol, canaries: Canaries, *, unit_is_client: bool) -> Self:
        """What a plan will state of these canaries."""
        return cls(protocol, SCORES[unit_is_client], canaries.commitment)

    @classmethod
    def of(cls, plan: RegisteredPlan) -> Self | None:
        """What a plan states; None where no audit was planned."""
        stated = plan.details.get(PLANNED)
        return None if stated is None else cls.from_json(stated)


def list_contradictions(plan: RegisteredPlan) -> Iterator[str]:
    """Where a plan's audit is not of the plan's own claim."""
    stated = PlannedAudit.of(plan)
    data = plan.details.get("data", {})
    if stated is None:
        return
    if stated.protocol.delta != plan.guarantee.delta:
        yield f"its audit is at delta {stated.protocol.delta!r}, its guarantee at {plan.guarantee.delta!r}"
    if data.get("canaries") != stated.protocol.canaries or stated.protocol.canaries >= plan.guarantee.population:
        yield f"its data has {data.get('canaries')} canaries among its units, its audit {stated.protocol.canaries}"
    if stated.score != SCORES[plan.scheme.unit_is_client]:
        yield f"its audit scores by {stated.score}, which is not what its scheme protects"
