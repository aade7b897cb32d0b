"""Do the records agree with plan and ledger? Every check, in an auditor's order, and what deviations would cost."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.plan import price
from epsilog.terms import ClientLevelCentral, Composed, Gaussian, Guarantee, PoissonSampled, Repeated, Scheme
from epsilog.terms.digits import lower_text, upper_text
from epsilog.verify.clipping import check_clipping
from epsilog.verify.evidence import CUSTODY, ROUNDS, Evidence
from epsilog.verify.findings import Finding, Verdict, overall
from epsilog.verify.noise import check_noise, stddev_interval
from epsilog.verify.participation import check_participation

WITHIN = 0.005  # a claim this close below our bound may rest on a tighter accountant than ours


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the schedule would cost under other facts: a labelled estimate, never a claim.

    Attributes:
        name: which fact is changed.
        epsilon: the certified upper bound for the changed facts, in nats.
        says: one sentence for a reader.
    """

    name: str
    epsilon: float
    says: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The outcome of all checks.

    Attributes:
        findings: one for each check.
        what_ifs: what deviations would cost.
    """

    findings: tuple[Finding, ...]
    what_ifs: tuple[WhatIf, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return overall(self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "verdict": self.verdict.value,
            "findings": [finding.to_json() for finding in self.findings],
            "what_ifs": [
                {"name": w.name, "epsilon": w.epsilon if math.isfinite(w.epsilon) else "inf", "says": w.says}
                for w in self.what_ifs
            ],
        }


def reconcile(evidence: Evidence) -> Reconciliation:
    """Runs every check over what a run left behind."""
    plan = evidence.plan
    findings = (
        check_claim(plan.guarantee, plan.scheme),
        check_delta(evidence),
        *check_ledger(evidence),
        check_rounds(evidence),
        check_noise(evidence.records, noise_stddev=plan.scheme.noise_stddev),
        check_clipping(
            evidence.records,
            evidence.custody,
            clip_norm=plan.scheme.clip_norm,
            noise_stddev=plan.scheme.noise_stddev,
        ),
        check_participation(evidence.custody, plan.scheme),
    )
    return Reconciliation(findings, what_ifs(evidence))


def check_claim(guarantee: Guarantee, scheme: Scheme) -> Finding:
    """Recomputes the certified interval from the scheme and compares it with what is claimed."""
    claimed = guarantee.epsilon
    again = price(scheme, guarantee.delta, guarantee.relation)
    numbers = (("claimed", claimed), ("lower", again.lower), ("upper", again.upper))
    if not math.isfinite(again.upper):
        return Finding("claim", Verdict.FAILED, "The schedule gives no finite guarantee.", numbers[:2])
    if claimed >= again.upper * (1 - 1e-12):
        says = f"Recomputed: epsilon is in [{lower_text(again.lower, 6)}, {upper_text(again.upper, 6)}]; "
        says += f"the claim of {upper_text(claimed, 6)} holds."
        return Finding("claim", Verdict.PASSED, says, numbers)
    says = f"The claim of {lower_text(claimed, 6)} is below the bound that we can prove, {upper_text(again.upper, 6)}"
    if claimed < again.lower:
        says += f", and below the least possible loss, {lower_text(again.lower, 6)}"
    close = again.lower <= claimed and claimed >= again.upper * (1 - WITHIN)
    return Finding("claim", Verdict.WARNED if close else Verdict.FAILED, says + ".", numbers)


def check_delta(evidence: Evidence) -> Finding:
    """Delta must be below 1/N: at 1/N a mechanism may publish one unit's record outright."""
    guarantee = evidence.plan.guarantee
    numbers = (("delta", guarantee.delta), ("one_over_n", 1 / guarantee.population))
    if guarantee.delta < 1 / guarantee.population:
        says = f"delta {guarantee.delta:.3g} is below 1/N = {1 / guarantee.population:.3g}."
        return Finding("delta", Verdict.PASSED, says, numbers)
    says = (
        f"delta {guarantee.delta:.3g} is not below 1/N = {1 / guarantee.population:.3g} (N = {guarantee.population})."
    )
    return Finding("delta", Verdict.WARNED, says, numbers)


def check_ledger(evidence: Evidence) -> tuple[Finding, ...]:
    """The chain holds, a charge names this plan, and it pays for the claim within its caps."""
    word, guarantee = evidence.ledger, evidence.plan.guarantee
    if word is None:
        return (Finding("ledger", Verdict.NOT_CHECKED, "No ledger was given."),)
    if not word.sound:
        return (Finding("ledger", Verdict.FAILED, f"The ledger does not hold: {word.trouble}"),)
    chain = Finding("ledger", Verdict.PASSED, f"All {word.count} entries hold; head {word.head[:16]}...")
    if word.key is None:
        return chain, Finding("charge", Verdict.FAILED, "No charge in the ledger names this plan's hash.")
    paid, due = Decimal(word.amounts.get("epsilon", "0")), Decimal(guarantee.epsilon)
    paid_delta, due_delta = Decimal(word.amounts.get("delta", "0")), Decimal(repr(guarantee.delta))
    over = [s for s, caps in word.caps.items() if "epsilon" in caps and paid > Decimal(caps["epsilon"])]
    cap = word.caps.get(evidence.plan.budget["scope"], {}).get("epsilon")
    stated = evidence.plan.budget["epsilon"]
    numbers = (("charged_epsilon", float(paid)), ("claimed_epsilon", guarantee.epsilon))
    if word.state not in ("started", "committed"):
        says = f"The charge is {word.state}, yet rounds exist." if evidence.records else f"The charge is {word.state}."
        return chain, Finding("charge", Verdict.FAILED if evidence.records else Verdict.WARNED, says, numbers)
    if paid < due or paid_delta < due_delta or over:
        says = f"Charged epsilon {paid} and delta {paid_delta} for a claim of {due:.10g} and {due_delta:g}."
        return chain, Finding("charge", Verdict.FAILED, says, numbers)
    if word.state == "started":
        says = f"Epsilon {paid} is spent, but the run was never closed."
        return chain, Finding("charge", Verdict.WARNED, says, numbers)
    if cap is not None and Decimal(cap) != Decimal(stated):
        says = f"Epsilon {paid} was charged once; the ledger's cap is {cap}, where the plan states {stated}."
        return chain, Finding("charge", Verdict.WARNED, says, numbers)
    return chain, Finding("charge", Verdict.PASSED, f"Epsilon {paid} at delta {paid_delta} was charged once.", numbers)


def check_rounds(evidence: Evidence) -> Finding:
    """Rounds are complete, in order, released as the ledger says, and in files that the commit named."""
    planned, word = evidence.plan.scheme.rounds, evidence.ledger
    numbers = [record.round for record in evidence.records]
    counted = (("planned", float(planned)), ("recorded", float(len(numbers))))
    if numbers != list(range(1, len(numbers) + 1)):
        repeated = [n for n, times in Counter(numbers).items() if times > 1]
        says = f"Rounds are missing, repeated or out of order ({len(numbers)} lines, repeated: {repeated[:5]})."
        return Finding("rounds", Verdict.FAILED, says, counted)
    if len(numbers) > planned:
        return Finding("rounds", Verdict.FAILED, f"{len(numbers)} rounds were run, {planned} were planned.", counted)
    if evidence.custody and [record.round for record in evidence.custody] != numbers:
        return Finding(
            "rounds", Verdict.FAILED, "The curator's records are of other rounds than the public ones.", counted
        )
    if word is None or not word.sound or word.key is None:
        says = f"{len(numbers)} of {planned} rounds are recorded; no ledger confirms them."
        return Finding("rounds", Verdict.WARNED, says, counted)
    recorded = {record.round: record.output_hash for record in evidence.records}
    if recorded != dict(word.released):
        wrong = sorted(n for n in recorded.keys() | word.released.keys() if recorded.get(n) != word.released.get(n))
        says = f"Records and ledger differ on the released models of rounds {wrong[:5]}."
        return Finding("rounds", Verdict.FAILED, says, counted)
    for name in (ROUNDS, CUSTODY):
        if name in word.evidence and name in evidence.hashes and word.evidence[name] != evidence.hashes[name]:
            return Finding("rounds", Verdict.FAILED, f"{name} is not the file that was committed.", counted)
    if any(record.diverged for record in evidence.records):
        says = f"Training diverged in round {len(numbers)} of {planned}: the released model has no finite loss. "
        return Finding("rounds", Verdict.WARNED, says + "The whole plan stays charged.", counted)
    if len(numbers) < planned:
        says = f"{len(numbers)} of {planned} planned rounds were run; the whole plan stays charged."
        return Finding("rounds", Verdict.WARNED, says, counted)
    return Finding("rounds", Verdict.PASSED, f"All {planned} rounds are recorded as the ledger released them.", counted)


def what_ifs(evidence: Evidence) -> tuple[WhatIf, ...]:
    """The price under the facts that were observed rather than planned; estimates, labelled as such."""
    plan = evidence.plan
    found = []
    padding = [value for record in evidence.records for value in record.padding]
    if padding and plan.scheme.noise_multiplier > 0:
        weak = stddev_interval(padding, failure_probability=0.05)[0] / plan.scheme.clip_norm
        step, sums = plan.scheme.step(), plan.scheme.noisy_sums(plan.scheme.rounds)
        cost = _upper(Repeated(PoissonSampled(Gaussian(weak), step.sampling_probability), sums), evidence)
        says = f"If noise were as weak as padding allows (multiplier {weak:.4g}), epsilon would be {upper_text(cost)}."
        found.append(WhatIf("weakest noise that the padding allows (95%)", cost, says))
    if evidence.custody and isinstance(plan.scheme, ClientLevelCentral):
        sizes = Counter(len(record.participants) for record in evidence.custody)
        noise = Gaussian(plan.scheme.noise_multiplier)
        rounds = [Repeated(PoissonSampled(noise, m / plan.scheme.population), n) for m, n in sizes.items() if m]
        cost = _upper(Composed(rounds), evidence)
        says = f"At the cohort sizes that occurred, epsilon would be {upper_text(cost)}: an estimate, not a guarantee."
        found.append(WhatIf("observed cohort sizes", cost, says))
    lists = plan.unamplified.upper
    says = f"Against whoever learns who took part, epsilon is at most {upper_text(lists)}."
    found.append(WhatIf("participation lists known", lists, says))
    return tuple(found)


def _upper(release: Composed | Repeated, evidence: Evidence) -> float:
    guarantee = evidence.plan.guarantee
    return bound_epsilon(release, delta=guarantee.delta, relation=guarantee.relation).upper
