"""A plan against itself: what it derives follows from its scheme, and its parts agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from epsilog.accounting import FederatedClosedForm, federated_closed_form
from epsilog.plan import RegisteredPlan
from epsilog.terms import Finding, NeighboringRelation, Status
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification.audits import audit_plan
from epsilog.verification.claim import WITHIN, bound_unamplified, certified_run
from epsilog.verification.evidence import Claim, Evidence

RECOMPUTE_TOLERANCE = 1e-9  # relatively: how far the same computation may come out elsewhere


def check_stated_plan(evidence: Evidence) -> tuple[Finding, ...]:
    """Check the plan, where there is one; a mapping of logs may state the claim itself."""
    return () if evidence.claim.plan is None else (check_plan(evidence.claim.plan),)


def check_plan(plan: RegisteredPlan) -> Finding:
    """Every figure in the plan that follows from its scheme is worked out again, and the plan is of one mind."""
    wrong = list(_contradictions(plan))
    if plan.guarantee.relation not in plan.scheme.relations:
        wrong.append(f"its scheme has no price for neighbors that differ as {plan.guarantee.relation.value} says")
    if wrong:
        return Finding("plan/inconsistent", Status.FAILED, f"The plan contradicts itself: {'; '.join(wrong)}.")
    if low := _slightly_low(plan):
        return Finding("plan/slightly-low", Status.WARNED, low)
    return Finding(
        "plan/passed", Status.PASSED, "Intervals, assumptions, closed form and delta of the plan are its scheme's."
    )


def closed_form(plan: RegisteredPlan) -> FederatedClosedForm:
    """The popular closed form of a plan's scheme, worked out here."""
    share, sums = plan.scheme.closed_form
    return federated_closed_form(
        sampling_probability=share,
        noise_multiplier=plan.scheme.accounted_multiplier,
        rounds=sums,
        delta=plan.guarantee.delta,
    )


def _slightly_low(plan: RegisteredPlan) -> str:
    """That a stated bound may rest on a tighter accountant than ours; what is claimed has a check of its own."""
    stated, again = plan.unamplified.upper, bound_unamplified(Claim.from_plan(plan)).upper
    if stated >= again * (1 - RECOMPUTE_TOLERANCE):
        return ""
    return (
        f"The plan states {format_lower(stated, 6)} against whoever knows who took part, below the bound that we can "
        f"prove, {format_upper(again, 6)}."
    )


def _contradictions(plan: RegisteredPlan) -> Iterator[str]:
    guarantee = plan.guarantee
    if plan.epsilon.upper != guarantee.epsilon:
        yield f"it claims {guarantee.epsilon!r}, and its interval ends at {plan.epsilon.upper!r}"
    for name, stated, again in (
        ("epsilon", plan.epsilon, certified_run(plan)),
        ("unamplified", plan.unamplified, bound_unamplified(Claim.from_plan(plan))),
    ):
        if (stated.quantity, stated.relation, stated.given) != (again.quantity, again.relation, again.given):
            yield f"{name} answers another question than the guarantee's"
        if not set(again.assumptions) <= set(stated.assumptions):
            yield f"{name} leaves out what it assumes"
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
    yield from _misfits(plan)
    yield from audit_plan.list_contradictions(plan)


def _misfits(plan: RegisteredPlan) -> Iterator[str]:
    """What a plan says of its data, against its guarantee and its scheme."""
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
        yield "clients count by their rows, and it does not say that these are public and that neighbors keep them"


def _reveals_sizes(plan: RegisteredPlan) -> bool:
    """Whether clients that protect single examples count by how many they have."""
    training = plan.details.get("training")
    return not plan.scheme.unit_is_client and isinstance(training, dict) and training.get("example_cap") is not None
