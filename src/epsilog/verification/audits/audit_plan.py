"""A canary audit, as a plan states it before the run, and what its outcome says of the plan's claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Self

from epsilog.accounting import epsilon
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan, compute_profile_view
from epsilog.terms import Canaries, CheckError, NeighboringRelation, check, codec
from epsilog.verification.audits.canaries import (
    ONE_RUN,
    AuditProtocol,
    CanaryAudit,
    Guesses,
    refutes_epsilon,
    refutes_profile,
)

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


SMALLEST = 1e-13  # the smallest delta of the profile


@dataclass(frozen=True, slots=True)
class ClaimTest:
    """The result of testing a claim.

    Attributes:
        claimed: the claimed epsilon, at the audit's delta.
        by_epsilon: whether the guesses refute this epsilon.
        by_profile: whether they refute the plan's whole privacy profile, which claims more than one point.
        mistaken: the largest probability of refuting a true claim.
    """

    claimed: float
    by_epsilon: bool
    by_profile: bool
    mistaken: float

    @property
    def refuted(self) -> bool:
        """Return whether either test refutes the claim."""
        return self.by_epsilon or self.by_profile


def refute_claim(audit: CanaryAudit, plan: RegisteredPlan, *, mistaken: float | None = None) -> ClaimTest:
    """Test a plan's claim against an audit.

    Args:
        audit: of canaries, included or not as in the plan's neighboring relation.
        plan: its guarantee, and the certified profile of its scheme.
        mistaken: the largest probability of refuting a true claim, in (0, 1), over all guesses and tests; None for
            1 - confidence of the protocol, for each test.
    """
    protocol, guarantee = audit.protocol, plan.guarantee
    any_mechanism = protocol.method == ONE_RUN  # else the bound is one on Gaussian mechanisms alone
    tests = 2 if any_mechanism else 1
    error = min(1.0, tests * (1 - protocol.confidence)) if mistaken is None else mistaken
    level = error / tests / len(protocol.guesses)
    release, relation, claimed = plan.release, guarantee.relation, guarantee.epsilon
    if protocol.delta != guarantee.delta:
        claimed = epsilon(release, delta=protocol.delta, relation=relation).upper
    by_profile = refutes_profile(audit, _list_points(release, guarantee.delta, relation), level=level)
    return ClaimTest(claimed, any_mechanism and refutes_epsilon(audit, claimed, level=level), by_profile, error)


@lru_cache(maxsize=64)
def _list_points(release: Release, delta: float, relation: NeighboringRelation) -> tuple[tuple[float, float], ...]:
    """Return points (epsilon, delta) of the certified profile, down to far below the claimed delta; cached.

    A claim at one delta permits publishing everything with that probability, so rare events refute smaller deltas only.
    """
    views = (compute_profile_view(release, delta=down, relation=relation) for down in (delta, min(delta, SMALLEST)))
    points = (zip(view.epsilons, (one.upper for one in view.deltas), strict=True) for view in views)
    return tuple(chain.from_iterable(points))
