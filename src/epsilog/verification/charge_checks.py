"""Compare the ledger with the plan and the records: charges, rounds, released models and committed files."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from epsilog.ledger import Amounts
from epsilog.plan import RegisteredPlan
from epsilog.terms import COMMITMENT, Finding, RunArtifact, Status, codec
from epsilog.terms.disclosed import same_digest
from epsilog.terms.formatting import format_upper
from epsilog.verification.claim import WITHIN, compute_certified_interval
from epsilog.verification.evidence import Evidence
from epsilog.verification.ledger_excerpt import LedgerExcerpt
from epsilog.verification.run_folder import COMMITTED

LEDGER_CHECKS = ("ledger", "charge", "released", "attempts", "files")


def check_ledger(evidence: Evidence) -> Finding:
    """Check that the chain and all balances are valid."""
    excerpt = _get_excerpt(evidence)
    if not excerpt.sound:
        return Finding("ledger/invalid", Status.FAILED, f"The ledger is invalid: {excerpt.trouble}")
    message = f"All {excerpt.count} entries are valid; head {excerpt.head[:16]}..."
    return Finding("ledger/passed", Status.PASSED, message)


def _get_excerpt(evidence: Evidence) -> LedgerExcerpt:
    assert evidence.ledger is not None
    return evidence.ledger


def check_charge(evidence: Evidence) -> Finding:
    """Check that a charge names this plan, requests its release, and covers the claim and the recomputed cost."""
    guarantee, plan, excerpt = evidence.plan.guarantee, evidence.plan, _get_excerpt(evidence)
    if excerpt.key is None:
        return Finding("charge/missing", Status.FAILED, "No charge in the ledger names this plan's hash.")
    again = compute_certified_interval(plan.release, guarantee.delta, guarantee.relation)
    charged, due = Decimal(excerpt.charged.get("epsilon", "0")), Decimal(guarantee.epsilon)
    charged_delta, due_delta = Decimal(excerpt.charged.get("delta", "0")), Decimal(plan.budget["delta"])
    numbers = (
        ("charged_epsilon", float(charged)),
        ("claimed_epsilon", guarantee.epsilon),
        ("priced_again", again.upper),
    )
    requested = {"scope": excerpt.scope, **excerpt.request}
    other = [name for name, value in _build_expected_request(plan).items() if requested.get(name) != value]
    if other:
        message = f"The charge and the plan differ in {', '.join(other)}."
        return Finding("charge/request-mismatch", Status.FAILED, message, numbers)
    cap, stated = excerpt.cap.get("epsilon"), plan.budget["epsilon"]
    if excerpt.state not in ("started", "committed", "abandoned"):
        message = f"The charge is {excerpt.state}{', yet rounds exist' if evidence.records else ''}."
        return Finding("charge/not-started", Status.FAILED if evidence.records else Status.WARNED, message, numbers)
    if charged < due or charged_delta < due_delta or (cap is not None and charged > Decimal(cap)):
        message = f"Charged epsilon {charged} and delta {charged_delta} for a claim of {due:.10g} and {due_delta:g}."
        return Finding("charge/less-than-claimed", Status.FAILED, message, numbers)
    if float(charged) < again.upper * (1 - WITHIN):
        message = f"Charged epsilon {charged}, but the schedule costs {format_upper(again.upper, 6)}."
        return Finding("charge/below-cost", Status.FAILED, message, numbers)
    if excess := _format_excess(plan, excerpt):
        return Finding("charge/above-stated-budget", Status.FAILED, f"{excess}.", numbers)
    if excerpt.state != "committed":
        message = f"Epsilon {charged} is spent, but the run was never committed: its charge is {excerpt.state}."
        return Finding("charge/not-closed", Status.WARNED, message, numbers)
    if excerpt.other_charges:
        message = f"{excerpt.other_charges + 1} charges name this plan, each for a separate release; this is the last."
        return Finding("charge/duplicate", Status.WARNED, message, numbers)
    if cap is not None and Decimal(cap) != Decimal(stated):
        message = f"Epsilon {charged} was charged once; the ledger's cap is {cap}, the plan's {stated}."
        return Finding("charge/cap-mismatch", Status.WARNED, message, numbers)
    message = f"Epsilon {charged} at delta {charged_delta} was charged once."
    return Finding("charge/passed", Status.PASSED, message, numbers)


def _format_excess(plan: RegisteredPlan, excerpt: LedgerExcerpt) -> str:
    """Describe which part of the plan's stated budget is exceeded, regardless of the ledger's caps; "" for none."""
    totals = {
        name: (Decimal(excerpt.spent_or_reserved.get(name, "0")), Decimal(excerpt.charged.get(name, "0")))
        for name in ("epsilon", "delta")
    }
    excess = [
        f"{earlier} of {name} was spent or reserved at {excerpt.scope} before this charge of {charged}, "
        f"and the plan states a budget of {plan.budget[name]}"
        for name, (earlier, charged) in totals.items()
        if not earlier + charged <= Decimal(plan.budget[name])
    ]
    return "; ".join(excess)


def _build_expected_request(plan: RegisteredPlan) -> dict[str, Any]:
    """Return the request that the charge of a plan must contain."""
    return {
        "scope": plan.budget["scope"],
        "plan_hash": plan.hash,
        "release": codec.to_json(plan.release),
        "relation": plan.guarantee.relation.value,
        "privacy_unit": plan.guarantee.privacy_unit,
        "delta": Amounts.from_charge({"delta": plan.budget["delta"]})["delta"],
        "rounds": plan.scheme.rounds,
        "simulation": plan.simulation,
    }


def check_released(evidence: Evidence) -> Finding:
    """Check that the records and the ledger name the same released models."""
    excerpt = _get_excerpt(evidence)
    recorded = {record.round: record.output_hash for record in evidence.records or ()}
    if recorded == dict(excerpt.released):
        message = f"Records and ledger name the same {len(recorded)} released models."
        return Finding("released/passed", Status.PASSED, message)
    wrong = sorted(n for n in recorded.keys() | excerpt.released.keys() if recorded.get(n) != excerpt.released.get(n))
    message = f"Records and ledger name different released models for rounds {wrong[:5]}."
    return Finding("released/mismatch", Status.FAILED, message)


def check_files(evidence: Evidence) -> Finding:
    """Check the hashes of the files against the commit."""
    committed = _get_excerpt(evidence).evidence
    if committed is None:
        return Finding("files/not-checked", Status.NOT_CHECKED, "The charge is open: no commit names the files.")
    if evidence.custody is not None and COMMITMENT in committed and COMMITMENT not in evidence.hashes:
        message = f"{RunArtifact.CUSTODY} cannot be checked against its commitment without {RunArtifact.KEY}. "
        return Finding("files/no-key", Status.FAILED, message + "Supply both files, or neither.")
    other = [name for name in sorted(evidence.hashes) if not same_digest(committed.get(name), evidence.hashes[name])]
    unnamed = [name for name in (*COMMITTED, *evidence.hashes) if name not in committed]
    if other or unnamed:
        message = f"{', '.join(dict.fromkeys([*other, *unnamed]))}: does not match the commit."
        return Finding("files/mismatch", Status.FAILED, message)
    message = f"The commit names {', '.join(sorted(committed))}; every file matches it."
    return Finding("files/passed", Status.PASSED, message)
