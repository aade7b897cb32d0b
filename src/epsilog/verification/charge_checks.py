"""The ledger's word against the plan and the records: what was charged, begun, released and committed."""

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
    """Check that the chain holds."""
    excerpt = _get_excerpt(evidence)
    if not excerpt.sound:
        return Finding("ledger/invalid", Status.FAILED, f"The ledger does not hold: {excerpt.trouble}")
    return Finding("ledger/passed", Status.PASSED, f"All {excerpt.count} entries hold; head {excerpt.head[:16]}...")


def _get_excerpt(evidence: Evidence) -> LedgerExcerpt:
    assert evidence.ledger is not None
    return evidence.ledger


def check_charge(evidence: Evidence) -> Finding:
    """Check that a charge names this plan, asked for what the plan releases, and paid what the accountant says now."""
    guarantee, plan, excerpt = evidence.plan.guarantee, evidence.plan, _get_excerpt(evidence)
    if excerpt.key is None:
        return Finding("charge/missing", Status.FAILED, "No charge in the ledger names this plan's hash.")
    again = compute_certified_interval(plan.release, guarantee.delta, guarantee.relation)
    paid, due = Decimal(excerpt.charged.get("epsilon", "0")), Decimal(guarantee.epsilon)
    paid_delta, due_delta = Decimal(excerpt.charged.get("delta", "0")), Decimal(plan.budget["delta"])
    numbers = (("charged_epsilon", float(paid)), ("claimed_epsilon", guarantee.epsilon), ("priced_again", again.upper))
    asked = {"scope": excerpt.scope, **excerpt.request}
    other = [name for name, value in _build_expected_request(plan).items() if asked.get(name) != value]
    if other:
        message = f"The charge is for another {', '.join(other)} than the plan's."
        return Finding("charge/request-mismatch", Status.FAILED, message, numbers)
    cap, stated = excerpt.cap.get("epsilon"), plan.budget["epsilon"]
    if excerpt.state not in ("started", "committed", "abandoned"):
        message = f"The charge is {excerpt.state}{', yet rounds exist' if evidence.records else ''}."
        return Finding("charge/not-started", Status.FAILED if evidence.records else Status.WARNED, message, numbers)
    if paid < due or paid_delta < due_delta or (cap is not None and paid > Decimal(cap)):
        message = f"Charged epsilon {paid} and delta {paid_delta} for a claim of {due:.10g} and {due_delta:g}."
        return Finding("charge/less-than-claimed", Status.FAILED, message, numbers)
    if float(paid) < again.upper * (1 - WITHIN):
        message = f"Charged epsilon {paid} for a schedule whose price is {format_upper(again.upper, 6)}."
        return Finding("charge/below-cost", Status.FAILED, message, numbers)
    if over := _over(plan, excerpt):
        return Finding("charge/above-stated-budget", Status.FAILED, f"{over}.", numbers)
    if excerpt.state != "committed":
        message = f"Epsilon {paid} is spent, but the run was never committed: its charge is {excerpt.state}."
        return Finding("charge/not-closed", Status.WARNED, message, numbers)
    if excerpt.other_charges:
        message = (
            f"{excerpt.other_charges + 1} charges name this plan: each is a release of its own, and this is the last."
        )
        return Finding("charge/duplicate", Status.WARNED, message, numbers)
    if cap is not None and Decimal(cap) != Decimal(stated):
        message = f"Epsilon {paid} was charged once; the ledger's cap is {cap}, where the plan states {stated}."
        return Finding("charge/cap-mismatch", Status.WARNED, message, numbers)
    return Finding("charge/passed", Status.PASSED, f"Epsilon {paid} at delta {paid_delta} was charged once.", numbers)


def _over(plan: RegisteredPlan, excerpt: LedgerExcerpt) -> str:
    """What exceeds the budget that the plan states, whatever the ledger's own caps; "" if nothing does."""
    totals = {
        name: (Decimal(excerpt.spent_or_reserved.get(name, "0")), Decimal(excerpt.charged.get(name, "0")))
        for name in _STATED
    }
    over = [
        f"{held} of {name} was spent or reserved at {excerpt.scope} before this charge of {paid}, "
        f"and the plan states a budget of {plan.budget[name]}"
        for name, (held, paid) in totals.items()
        if not held + paid <= Decimal(plan.budget[name])
    ]
    return "; ".join(over)


_STATED = ("epsilon", "delta")  # what a plan's budget caps


def _build_expected_request(plan: RegisteredPlan) -> dict[str, Any]:
    """What the charge of a plan must have asked for."""
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
    """Check that the records hold the models that the ledger released, all of them and no others."""
    excerpt = _get_excerpt(evidence)
    recorded = {record.round: record.output_hash for record in evidence.records or ()}
    if recorded == dict(excerpt.released):
        message = f"The ledger released these {len(recorded)} models and no others."
        return Finding("released/passed", Status.PASSED, message)
    wrong = sorted(n for n in recorded.keys() | excerpt.released.keys() if recorded.get(n) != excerpt.released.get(n))
    message = f"Records and ledger differ on the released models of rounds {wrong[:5]}."
    return Finding("released/mismatch", Status.FAILED, message)


def check_files(evidence: Evidence) -> Finding:
    """The files are those that the commit names; one that was committed and is not here is missing."""
    committed = _get_excerpt(evidence).evidence
    if committed is None:
        return Finding("files/not-checked", Status.NOT_CHECKED, "The charge is open: no commit names the files.")
    if evidence.custody is not None and COMMITMENT in committed and COMMITMENT not in evidence.hashes:
        message = f"{RunArtifact.CUSTODY} is here and {RunArtifact.KEY} is not: nothing binds it. "
        return Finding("files/no-key", Status.FAILED, message + "Bring both, or neither.")
    other = [name for name in sorted(evidence.hashes) if not same_digest(committed.get(name), evidence.hashes[name])]
    unnamed = [name for name in (*COMMITTED, *evidence.hashes) if name not in committed]
    if other or unnamed:
        message = f"{', '.join(dict.fromkeys([*other, *unnamed]))}: not what was committed."
        return Finding("files/mismatch", Status.FAILED, message)
    message = f"The commit names {', '.join(sorted(committed))}; nothing here differs."
    return Finding("files/passed", Status.PASSED, message)
