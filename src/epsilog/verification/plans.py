"""Check that a plan's figures follow from its scheme, and that its parts are consistent."""

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
