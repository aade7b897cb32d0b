"""Recompute the claim: its epsilon, its delta, its plan and its certificate."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from epsilog.accounting import FederatedClosedForm, epsilon as bound_epsilon, federated_closed_form
from epsilog.certificates import check_certificate, restate_claim, write_claim
from epsilog.ledger.cost import MOST_EXCESS
from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan
from epsilog.terms import (
    OUTCOME_SHARE,
    Finding,
    Interval,
    NeighboringRelation,
    RunArtifact,
    Status,
    UnsupportedMechanismError,
    check,
    delta_finding,
)
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.audits import audit_plan
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


RECOMPUTE_TOLERANCE = 1e-9  # relative difference of the same computation between platforms


def check_stated_plan(evidence: Evidence) -> tuple[Finding, ...]:
    """Check the plan, if there is one; a mapping of logs may state the claim instead."""
    return () if evidence.claim.plan is None else (check_plan(evidence.claim.plan),)


def check_plan(plan: RegisteredPlan) -> Finding:
    """Recompute every figure that follows from the plan's scheme, and check that the plan is consistent."""
    wrong = list(_list_contradictions(plan))
    if plan.guarantee.relation not in plan.scheme.relations:
        wrong.append(f"its scheme does not support the relation {plan.guarantee.relation.value}")
    if wrong:
        return Finding("plan/inconsistent", Status.FAILED, f"The plan is inconsistent: {'; '.join(wrong)}.")
    stated, again = plan.unamplified.upper, bound_unamplified(Claim.from_plan(plan)).upper
    if stated < again * (1 - RECOMPUTE_TOLERANCE):  # a tighter accountant than ours may have computed it
        low = f"The plan states an unamplified epsilon of {format_lower(stated, 6)}, below the proven upper bound, "
        return Finding("plan/slightly-low", Status.WARNED, f"{low}{format_upper(again, 6)}.")
    message = "The plan's intervals, assumptions, closed form and delta follow from its scheme."
    return Finding("plan/passed", Status.PASSED, message)


def closed_form(plan: RegisteredPlan) -> FederatedClosedForm:
    """Recompute the closed form of a plan's scheme."""
    share, sums = plan.scheme.closed_form
    return federated_closed_form(
        sampling_probability=share,
        noise_multiplier=plan.scheme.accounted_multiplier,
        rounds=sums,
        delta=plan.guarantee.delta,
    )


def _list_contradictions(plan: RegisteredPlan) -> Iterator[str]:
    guarantee = plan.guarantee
    if plan.epsilon.upper != guarantee.epsilon:
        yield f"it claims {guarantee.epsilon!r}, but its upper bound is {plan.epsilon.upper!r}"
    for name, stated, again in (
        ("epsilon", plan.epsilon, certified_run(plan)),
        ("unamplified", plan.unamplified, bound_unamplified(Claim.from_plan(plan))),
    ):
        if (stated.quantity, stated.relation, stated.given) != (again.quantity, again.relation, again.given):
            yield f"{name} has another quantity, relation or delta than the guarantee"
        if not set(again.assumptions) <= set(stated.assumptions):
            yield f"{name} omits assumptions"
        if stated.upper < max(again.lower, again.upper * (1 - WITHIN)) or stated.lower > again.upper * (
            1 + RECOMPUTE_TOLERANCE
        ):
            yield f"{name} is [{stated.lower:.6g}, {stated.upper:.6g}], not [{again.lower:.6g}, {again.upper:.6g}]"
    formula = closed_form(plan)
    for term in ("root_term", "linear_term"):
        if not math.isclose(getattr(formula, term), getattr(plan.closed_form, term), rel_tol=RECOMPUTE_TOLERANCE):
            yield f"the closed form's {term} is {getattr(plan.closed_form, term)!r}, not {getattr(formula, term)!r}"
    if float(plan.budget["delta"]) != guarantee.delta:
        yield f"its budget is at delta {plan.budget['delta']}, its guarantee at {guarantee.delta!r}"
    if Decimal(guarantee.epsilon) + plan.epsilon_of_counts > Decimal(plan.budget["epsilon"]):
        yield f"it claims {guarantee.epsilon!r} on a budget of {plan.budget['epsilon']}"
    yield from _list_data_mismatches(plan)
    yield from audit_plan.list_contradictions(plan)


def _list_data_mismatches(plan: RegisteredPlan) -> Iterator[str]:
    """Compare a plan's description of its data with its guarantee and its scheme."""
    guarantee, scheme = plan.guarantee, plan.scheme
    data, unit, count = plan.details.get("data", {}), guarantee.privacy_unit, guarantee.population
    if data.get("privacy_unit", unit) != unit:
        yield f"its data's privacy_unit is {data['privacy_unit']!r}, its guarantee's {unit!r}"
    if scheme.unit_is_client and scheme.clients != count:
        yield f"its scheme has {scheme.clients} clients, its guarantee {count} units"
    elif data.get("units", count) != count:
        yield f"its data's units is {data['units']!r}, its guarantee's {count!r}"
    if _reveals_sizes(plan) and (
        guarantee.relation is not NeighboringRelation.ZERO_OUT or data.get("client_sizes") != "public"
    ):
        yield "clients have weights by row counts, but the plan does not state public row counts that neighbors share"


def _reveals_sizes(plan: RegisteredPlan) -> bool:
    """Return whether clients that protect single examples have weights by their number of examples."""
    training = plan.details.get("training")
    return not plan.scheme.unit_is_client and isinstance(training, dict) and training.get("example_cap") is not None


@lru_cache(maxsize=8)
def check_certificate_file(content: bytes) -> Finding:
    """Check that a certificate proves its claim, which names no particular run."""
    found = check_certificate(content)
    detail = found.message.partition(": ")[2]
    by = f"(dp_certificate.py with SHA-256 {found.checker})"
    if found.proven:
        return Finding("certificate/proven", Status.PASSED, f"The certificate proves its claim: {detail} {by}.")
    return Finding("certificate/refused", Status.FAILED, f"The certificate does not prove its claim: {detail} {by}.")


def get_certified_delta(claim: Claim) -> float:
    """Return the delta of a claim's certificate: a plan reserves a fraction of delta for the outcomes of checks."""
    return claim.guarantee.delta * (1.0 if claim.plan is None else 1 - OUTCOME_SHARE)


def check_claimed_certificate(evidence: Evidence) -> Finding:
    """Check that a run's certificate is the one that was charged, is proven, and covers the plan's release."""
    content, claim = evidence.certificate, evidence.claim
    if content is None:
        committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
        if RunArtifact.CERTIFICATE in committed:
            message = f"{RunArtifact.CERTIFICATE} was committed and is missing."
            return Finding("certificate/missing", Status.FAILED, message)
        message = "There is no certificate."
        return Finding("certificate/not-checked", Status.NOT_CHECKED, message, missing_evidence="certificate")
    presented = evidence.ledger.certificate if evidence.ledger else None
    if presented is not None and hashlib.sha256(content).hexdigest() != presented:
        message = "The reservation presented another certificate: the ledger keeps another SHA-256."
        return Finding("certificate/mismatch", Status.FAILED, message)
    found = check_certificate_file(content)
    if found.status is Status.FAILED:
        return found
    stated = json.loads(content)["claim"]
    if not _is_about(stated, claim):
        message = "The certificate covers another release, delta or relation than the plan."
        return Finding("certificate/other-claim", Status.FAILED, message)
    epsilon = float(stated["epsilon"])
    message = (
        f"A certificate proves epsilon {stated['epsilon']} at delta {stated['delta']} for the release of the plan, "
    )
    message += f"which claims {format_upper(claim.guarantee.epsilon, 6)}; dp_certificate.py checked it."
    numbers = (("proven", epsilon), ("claimed", claim.guarantee.epsilon))
    if epsilon > MOST_EXCESS * claim.guarantee.epsilon:
        return Finding("certificate/larger-epsilon", Status.WARNED, message, numbers)
    return Finding("certificate/proven", Status.PASSED, message, numbers)


def _is_about(stated: dict[str, Any], claim: Claim) -> bool:
    """Return whether each field except epsilon follows from the claim's release."""
    guarantee = claim.guarantee
    try:
        again = write_claim(
            claim.release,
            epsilon=stated["epsilon"],
            delta=get_certified_delta(claim),
            relation=guarantee.relation,
        )
    except UnsupportedMechanismError:
        return False
    return stated in (again, restate_claim(again))
