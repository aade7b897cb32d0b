"""Compare an audit with a plan's claim: one point, and the whole privacy profile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from epsilog.accounting import epsilon
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan, compute_profile_view
from epsilog.terms import NeighboringRelation
from epsilog.verification.audits.canaries import ONE_RUN, CanaryAudit, refutes_epsilon, refutes_profile

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
