"""The ledger's word against the plan and the records: what was charged, begun, released and committed."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from epsilog.ledger import Amounts
from epsilog.plan import RegisteredPlan
from epsilog.terms import COMMITMENT, Finding, RunArtifact, Status, codec
from epsilog.terms.disclosed import same_digest
from epsilog.terms.formatting import format_upper
from epsilog.verification.claim import WITHIN, compute_certified_interval
from epsilog.verification.evidence import COMMITTED, RunEvidence
from epsilog.verification.ledger_excerpt import LedgerExcerpt

LEDGER_CHECKS = ("ledger", "charge", "released", "attempts", "files")


def check_ledger(evidence: RunEvidence) -> tuple[Finding, ...]:
    """The chain holds, a charge names this plan and pays for the claim, and released and committed what is here."""
    word = evidence.ledger
    if word is None:
        return _make_unchecked_findings("No ledger was given.", LEDGER_CHECKS)
    if not word.sound:
        broken = Finding("ledger/broken", Status.FAILED, f"The ledger does not hold: {word.trouble}")
        return broken, *_make_unchecked_findings("The ledger does not hold.", LEDGER_CHECKS[1:])
    chain = Finding("ledger/holds", Status.PASSED, f"All {word.count} entries hold; head {word.head[:16]}...")
    if word.key is None:
        stray = Finding("charge/missing", Status.FAILED, "No charge in the ledger names this plan's hash.")
        return chain, stray, *_make_unchecked_findings("No charge names the plan.", LEDGER_CHECKS[2:])
    return (
        chain,
        check_charge(evidence, word),
        check_released(evidence, word),
        *check_attempts(word),
        check_files(evidence),
    )


def _make_unchecked_findings(says: str, checks: Collection[str]) -> tuple[Finding, ...]:
    return tuple(Finding(f"{name}/not-checked", Status.NOT_CHECKED, says, lacks="ledger") for name in checks)


def check_charge(evidence: RunEvidence, word: LedgerExcerpt) -> Finding:
    """The charge asked for what the plan releases, and paid what the accountant says now."""
    guarantee, plan = evidence.plan.guarantee, evidence.plan
    again = compute_certified_interval(plan.release, guarantee.delta, guarantee.relation)
    paid, due = Decimal(word.charged.get("epsilon", "0")), Decimal(guarantee.epsilon)
    paid_delta, due_delta = Decimal(word.charged.get("delta", "0")), Decimal(plan.budget["delta"])
    numbers = (("charged_epsilon", float(paid)), ("claimed_epsilon", guarantee.epsilon), ("priced_again", again.upper))
    asked = {"scope": word.scope, **word.request}
    other = [name for name, value in _build_expected_request(plan).items() if asked.get(name) != value]
    if other:
        says = f"The charge is for another {', '.join(other)} than the plan's."
        return Finding("charge/of-another-question", Status.FAILED, says, numbers)
    cap, stated = word.cap.get("epsilon"), plan.budget["epsilon"]
    if word.state not in ("started", "committed", "abandoned"):
        says = f"The charge is {word.state}, yet rounds exist." if evidence.records else f"The charge is {word.state}."
        return Finding("charge/not-started", Status.FAILED if evidence.records else Status.WARNED, says, numbers)
    if paid < due or paid_delta < due_delta or (cap is not None and paid > Decimal(cap)):
        says = f"Charged epsilon {paid} and delta {paid_delta} for a claim of {due:.10g} and {due_delta:g}."
        return Finding("charge/less-than-claimed", Status.FAILED, says, numbers)
    if float(paid) < again.upper * (1 - WITHIN):
        says = f"Charged epsilon {paid} for a schedule whose price is {format_upper(again.upper, 6)}."
        return Finding("charge/below-its-price", Status.FAILED, says, numbers)
    if over := _over(plan, word):
        return Finding("charge/above-stated-budget", Status.FAILED, f"{over}.", numbers)
    if word.state != "committed":
        says = f"Epsilon {paid} is spent, but the run was never committed: its charge is {word.state}."
        return Finding("charge/not-closed", Status.WARNED, says, numbers)
    if word.others:
        says = f"{word.others + 1} charges name this plan: each is a release of its own, and this is the last."
        return Finding("charge/several", Status.WARNED, says, numbers)
    if cap is not None and Decimal(cap) != Decimal(stated):
        says = f"Epsilon {paid} was charged once; the ledger's cap is {cap}, where the plan states {stated}."
        return Finding("charge/of-another-cap", Status.WARNED, says, numbers)
    return Finding("charge/holds", Status.PASSED, f"Epsilon {paid} at delta {paid_delta} was charged once.", numbers)


def _over(plan: RegisteredPlan, word: LedgerExcerpt) -> str:
    """What exceeds the budget that the plan states, whatever the ledger's own caps; "" if nothing does."""
    totals = {name: (Decimal(word.held.get(name, "0")), Decimal(word.charged.get(name, "0"))) for name in _STATED}
    over = [
        f"{held} of {name} was spent or reserved at {word.scope} before this charge of {paid}, "
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


def check_released(evidence: RunEvidence, word: LedgerExcerpt) -> Finding:
    """The records hold the models that the ledger released, all of them and no others."""
    recorded = {record.round: record.output_hash for record in evidence.records}
    if recorded == dict(word.released):
        return Finding(
            "released/holds", Status.PASSED, f"The ledger released these {len(recorded)} models and no others."
        )
    wrong = sorted(n for n in recorded.keys() | word.released.keys() if recorded.get(n) != word.released.get(n))
    says = f"Records and ledger differ on the released models of rounds {wrong[:5]}."
    return Finding("released/differs", Status.FAILED, says)


def check_attempts(word: LedgerExcerpt) -> tuple[Finding]:
    """Who runs a round again can choose between its outcomes: every attempt counts."""
    again = {number: times for number, times in sorted(word.attempts.items()) if times > 1}
    unreleased = sorted(word.attempts.keys() - word.released.keys())
    numbers = (("rounds_begun", float(len(word.attempts))), ("attempts", float(sum(word.attempts.values()))))
    if not again and not unreleased:
        return (Finding("attempts/holds", Status.PASSED, "Every round was begun once.", numbers),)
    told = [f"round {number} was begun {times} times" for number, times in list(again.items())[:3]]
    told += [f"{len(again) - 3} more rounds were begun more than once"] if len(again) > 3 else []
    told += [f"rounds {unreleased[:5]} were begun and not released"] if unreleased else []
    says = "; ".join(told) + ". The claim stands if nothing of an attempt was seen before the next."
    return (Finding("attempts/repeated", Status.WARNED, says[0].upper() + says[1:], numbers),)


def check_files(evidence: RunEvidence) -> Finding:
    """The files are those that the commit names; one that was committed and is not here is missing."""
    committed = evidence.ledger.evidence if evidence.ledger else None
    if committed is None:
        return Finding("files/not-checked", Status.NOT_CHECKED, "The charge is open: no commit names the files.")
    if evidence.custody is not None and COMMITMENT in committed and COMMITMENT not in evidence.hashes:
        says = f"{RunArtifact.CUSTODY} is here and {RunArtifact.KEY} is not: nothing binds it. Bring both, or neither."
        return Finding("files/no-key", Status.FAILED, says)
    other = [name for name in sorted(evidence.hashes) if not same_digest(committed.get(name), evidence.hashes[name])]
    unnamed = [name for name in (*COMMITTED, *evidence.hashes) if name not in committed]
    if other or unnamed:
        says = f"{', '.join(dict.fromkeys([*other, *unnamed]))}: not what was committed."
        return Finding("files/differ", Status.FAILED, says)
    return Finding(
        "files/holds", Status.PASSED, f"The commit names {', '.join(sorted(committed))}; nothing here differs."
    )
