"""Recompute the claim, and compare delta with the population."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan
from epsilog.terms import OUTCOME_SHARE, Finding, Interval, NeighboringRelation, Status, check, delta_finding
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.evidence import Claim, Evidence

WITHIN = 0.005  # a claim this close below our bound may come from a tighter accountant


def compute_certified_interval(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    """Return the accountant's certified interval; cached."""
    return _compute_interval(release, check.in_half_open_interval(0, 1, check.DOWN)(delta=delta), relation)


@lru_cache(maxsize=256)
def _compute_interval(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    return bound_epsilon(release, delta=delta, relation=relation)


def compute_claim_interval(claim: Claim) -> Interval:
    """Recompute the claimed epsilon; for a plan, with the published outcomes of checks (see ``register``)."""
    guarantee = claim.guarantee
    alone = compute_certified_interval(claim.release, guarantee.delta, guarantee.relation)
    if claim.plan is None:
        return alone
    kept = compute_certified_interval(claim.release, guarantee.delta * (1 - OUTCOME_SHARE), guarantee.relation)
    return replace(alone, upper=kept.upper)


def certified_run(plan: RegisteredPlan) -> Interval:
    """Recompute a plan's claim."""
    return compute_claim_interval(Claim.from_plan(plan))


def bound_unamplified(claim: Claim) -> Interval:
    """Bound epsilon against an attacker who knows all participants."""
    return bound_release(claim, claim.scheme.unamplified_release())


def bound_every_round(claim: Claim) -> Interval:
    """Bound epsilon if every client takes part once in every round."""
    return bound_release(claim, claim.scheme.full_participation_release())


def bound_any_sampler(claim: Claim) -> float:
    """Bound epsilon for a rejected or unknown sampler: every client may take part once in every round.

    Unlike ``bound_unamplified``, it assumes no cap on participations per client.
    """
    return max(bound_unamplified(claim).upper, bound_every_round(claim).upper)


def bound_release(claim: Claim, release: Release) -> Interval:
    """Bound epsilon of a release by one run, or by the best of several, at the claim's delta and relation."""
    chosen = release if claim.plan is None else claim.plan.best_of_trials(release)
    return compute_certified_interval(chosen, claim.guarantee.delta, claim.guarantee.relation)


def check_certified_claim(evidence: Evidence) -> Finding:
    """Compare the claim with the certified bound."""
    return check_claim(evidence.claim.guarantee.epsilon, compute_claim_interval(evidence.claim))


def check_claim(claimed: float, again: Interval) -> Finding:
    """Compare a claimed epsilon with the recomputed interval."""
    numbers = (("claimed", claimed), ("lower", again.lower), ("upper", again.upper))
    if not math.isfinite(again.upper):
        return Finding("claim/unbounded", Status.FAILED, "The schedule gives no finite guarantee.", numbers[:2])
    if claimed >= again.upper * (1 - 1e-12):
        message = f"Recomputed: epsilon is in [{format_lower(again.lower, 6)}, {format_upper(again.upper, 6)}]; "
        message += f"the claim of {format_upper(claimed, 6)} holds."
        return Finding("claim/passed", Status.PASSED, message, numbers)
    message = f"The claim of {format_lower(claimed, 6)} is below the proven upper bound, {format_upper(again.upper, 6)}"
    if claimed < again.lower:
        message += f", and below the lower bound, {format_lower(again.lower, 6)}"
    close = again.lower <= claimed and claimed >= again.upper * (1 - WITHIN)
    code, status = ("claim/slightly-low", Status.WARNED) if close else ("claim/too-low", Status.FAILED)
    return Finding(code, status, message + ".", numbers)


def check_delta(evidence: Evidence) -> Finding:
    """Check that delta is below 1/N; delta = 1/N would permit publishing the record of a random unit."""
    guarantee, logs = evidence.claim.guarantee, evidence.logs
    counted = None if logs is None or logs.enrolled is None else max(1, logs.enrolled.population)
    return delta_finding(guarantee.delta, population=guarantee.population if counted is None else counted)
