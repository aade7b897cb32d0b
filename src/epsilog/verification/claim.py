"""The claim, recomputed: the certified interval of what is released, and a delta that a population can bear."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Release
from epsilog.plan import OUTCOME_SHARE, RegisteredPlan
from epsilog.terms import Finding, Interval, NeighboringRelation, Status, check, delta_finding
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.evidence import RunEvidence

WITHIN = 0.005  # a claim this close below our bound may rest on a tighter accountant than ours


def compute_certified_interval(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    """The accountant's interval; the same question is answered once."""
    return _compute_interval(release, check.in_half_open_interval(0, 1, check.DOWN)(delta=delta), relation)


@lru_cache(maxsize=256)
def _compute_interval(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    return bound_epsilon(release, delta=delta, relation=relation)


def certified_run(plan: RegisteredPlan) -> Interval:
    """Recompute what a plan claims: its release, beside the published outcomes of checks (see ``plan.register``)."""
    guarantee = plan.guarantee
    alone = compute_certified_interval(plan.release, guarantee.delta, guarantee.relation)
    kept = compute_certified_interval(plan.release, guarantee.delta * (1 - OUTCOME_SHARE), guarantee.relation)
    return replace(alone, upper=max(alone.upper, kept.upper))


def check_claim(claimed: float, again: Interval) -> Finding:
    """Compare a claimed epsilon with the certified interval of what is released.

    Args:
        claimed: epsilon, as stated.
        again: as recomputed here.
    """
    numbers = (("claimed", claimed), ("lower", again.lower), ("upper", again.upper))
    if not math.isfinite(again.upper):
        return Finding("claim/unbounded", Status.FAILED, "The schedule gives no finite guarantee.", numbers[:2])
    if claimed >= again.upper * (1 - 1e-12):
        says = f"Recomputed: epsilon is in [{format_lower(again.lower, 6)}, {format_upper(again.upper, 6)}]; "
        says += f"the claim of {format_upper(claimed, 6)} holds."
        return Finding("claim/holds", Status.PASSED, says, numbers)
    says = (
        f"The claim of {format_lower(claimed, 6)} is below the bound that we can prove, {format_upper(again.upper, 6)}"
    )
    if claimed < again.lower:
        says += f", and below the least possible loss, {format_lower(again.lower, 6)}"
    close = again.lower <= claimed and claimed >= again.upper * (1 - WITHIN)
    code, verdict = ("claim/slightly-low", Status.WARNED) if close else ("claim/too-low", Status.FAILED)
    return Finding(code, verdict, says + ".", numbers)


def check_delta(evidence: RunEvidence) -> Finding:
    """Delta must be below 1/N: at 1/N a mechanism may publish the record of a unit picked at random."""
    guarantee = evidence.plan.guarantee
    return delta_finding(guarantee.delta, population=guarantee.population)
