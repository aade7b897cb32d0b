"""What was shown, held against what a plan claims: one point of it, and its whole privacy profile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from epsilog.accounting import epsilon
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan, compute_profile_view
from epsilog.terms import NeighboringRelation
from epsilog.verification.audits.canaries import ONE_RUN, CanaryAudit, refutes_epsilon, refutes_profile

SMALLEST = 1e-13  # down to which delta a profile is looked at


@dataclass(frozen=True, slots=True)
class ClaimTest:
    """How a claim fares.

    Attributes:
        claimed: epsilon that is claimed, at the audit's delta.
        by_epsilon: whether the guesses refute that.
        by_profile: whether they refute the plan's whole profile, which says more than one point of it.
        mistaken: how often, at most, either says so of a true claim.
    """

    claimed: float
    by_epsilon: bool
    by_profile: bool
    mistaken: float

    @property
    def refuted(self) -> bool:
        """Whether either test says so."""
        return self.by_epsilon or self.by_profile


def refute_claim(audit: CanaryAudit, plan: RegisteredPlan, *, mistaken: float | None = None) -> ClaimTest:
    """Holds an audit against a plan's claim.

    Args:
        audit: of canaries that are in or out as the plan's neighbors are.
        plan: its guarantee, and its scheme's certified profile.
        mistaken: the chance of refuting a true claim that is borne, in (0, 1), over all guesses and tests; None for
            what the protocol's confidence leaves, for each of the tests.
    """
    asked, guarantee = audit.protocol, plan.guarantee
    any_mechanism = asked.method == ONE_RUN  # else the bound is one on Gaussian mechanisms alone
    tests = 2 if any_mechanism else 1
    borne = min(1.0, tests * (1 - asked.confidence)) if mistaken is None else mistaken
    level = borne / tests / len(asked.guesses)
    release, relation, claimed = plan.release, guarantee.relation, guarantee.epsilon
    if asked.delta != guarantee.delta:
        claimed = epsilon(release, delta=asked.delta, relation=relation).upper
    by_profile = refutes_profile(audit, _points(release, guarantee.delta, relation), level=level)
    return ClaimTest(claimed, any_mechanism and refutes_epsilon(audit, claimed, level=level), by_profile, borne)


@lru_cache(maxsize=64)
def _points(release: Release, delta: float, relation: NeighboringRelation) -> tuple[tuple[float, float], ...]:
    """(epsilon, delta) of the certified profile, down to far below what a claim states; answered once.

    A claim at one delta allows all to be told with that chance: what comes once in a million refutes smaller ones only.
    """
    views = (compute_profile_view(release, delta=down, relation=relation) for down in (delta, min(delta, SMALLEST)))
    points = (zip(view.epsilons, (one.upper for one in view.deltas), strict=True) for view in views)
    return tuple(chain.from_iterable(points))
