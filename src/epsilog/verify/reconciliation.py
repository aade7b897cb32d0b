"""Do the records agree with plan and ledger? Every check, in an auditor's order, and what deviations would cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.accounting import fl_formula
from epsilog.plan import RegisteredPlan
from epsilog.spend import Amounts
from epsilog.terms import (
    EVIDENCE,
    Finding,
    Guarantee,
    Interval,
    NeighboringRelation,
    Release,
    Repeated,
    Scheme,
    Verdict,
    codec,
    delta_finding,
)
from epsilog.terms.digits import lower_text, upper_text
from epsilog.terms.notebook import html_table
from epsilog.verify import noise, participation
from epsilog.verify.attack import check_audit
from epsilog.verify.audits import planned
from epsilog.verify.books import LedgerWord
from epsilog.verify.clipping import check_clipping, check_norms
from epsilog.verify.evidence import COMMITTED, Evidence
from epsilog.verify.findings import overall
from epsilog.verify.noise import check_noise, in_first_unit, stddev_interval
from epsilog.verify.owner import PRIVATE, check_control
from epsilog.verify.participation import check_custody, check_participation
from epsilog.verify.playbook import Playbook

WITHIN = 0.005  # a claim this close below our bound may rest on a tighter accountant than ours
SAME = 1e-9  # relatively: how far the same computation may come out elsewhere


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the schedule would cost under other facts: a labelled estimate, never a claim.

    Attributes:
        name: which fact is changed.
        epsilon: the certified upper bound for the changed facts, in nats.
        says: one sentence for a reader.
        private: whether it rests on the curator's records, and is not published.
    """

    name: str
    epsilon: float
    says: str
    private: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"name": self.name, "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf", "says": self.says}


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The outcome of all checks.

    Attributes:
        findings: one for each check.
        what_ifs: what deviations would cost.
        required: evidence without which nothing is verified.
    """

    findings: tuple[Finding, ...]
    what_ifs: tuple[WhatIf, ...] = ()
    required: Collection[str] = EVIDENCE

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return overall(self.findings, required=self.required)

    @property
    def false_alarm(self) -> float:
        """How often a sound run is rejected by some check, at most (union bound)."""
        return min(1.0, math.fsum(finding.false_alarm for finding in self.findings))

    def to_json(self, playbook: Playbook | None = None) -> dict[str, Any]:
        """Plain JSON values: each finding with what it does to the claim, how sure it is, and which steps it triggers.

        Args:
            playbook: whose steps; None for none.
        """
        return {
            "verdict": self.verdict.value,
            "false_alarm": self.false_alarm,
            "findings": [one.to_json() | one.consequences() | _triggered(one, playbook) for one in self.findings],
            "what_ifs": [what_if.to_json() for what_if in self.what_ifs],
        }

    def _repr_html_(self) -> str:
        rows = [(finding.check, finding.verdict, finding.says) for finding in self.findings]
        return html_table(
            f"Records against plan and ledger: {self.verdict}", rows, ["check", "verdict", "what was found"]
        )

    def published(self, evidence: Evidence) -> Reconciliation:
        """What a public report may say: of the checks on the curator's records how they ended, and no figure.

        Cohort sizes, norms and counts of clients are functions of the data that no noise hides. Where those records are
        not here, the owner's word stands in for the checks on them.
        """
        shown = tuple(_public(finding, evidence) for finding in self.findings)
        return Reconciliation(shown, tuple(what_if for what_if in self.what_ifs if not what_if.private))


def _triggered(finding: Finding, playbook: Playbook | None) -> dict[str, Any]:
    steps = playbook.steps_for(finding) if playbook is not None else ()
    return {"playbook": {"steps": list(steps), "sha256": playbook.sha256}} if playbook is not None and steps else {}


def _public(finding: Finding, evidence: Evidence) -> Finding:
    if finding.check not in PRIVATE:
        return finding
    told = finding.verdict
    if evidence.custody is None and evidence.owner is not None:
        told = evidence.owner.private[finding.check]
    return Finding(
        f"{finding.check}/as-published",
        told,
        f"The curator checked it on custody.jsonl, which is not public: {told}.",
        false_alarm=0.0 if told is Verdict.NOT_CHECKED else _highest_rate(finding.check, evidence.plan.scheme),
    )


def _highest_rate(check: str, scheme: Scheme) -> float:
    """How often a check on the curator's records rejects a sound run, at most, whatever they hold."""
    if check == "norms":
        return 0.0 if scheme.count_noise is None else noise.FALSE_ALARM
    return participation.FALSE_ALARM if check == "participation" else 0.0


def reconcile(evidence: Evidence, *, required: Collection[str] = EVIDENCE) -> Reconciliation:
    """Runs every check over what a run left behind."""
    plan = evidence.plan
    scheme = plan.scheme
    findings = (
        check_claim(plan.guarantee, scheme),
        check_plan(plan),
        check_delta(evidence),
        *check_ledger(evidence),
        check_rounds(evidence),
        check_noise(in_first_unit(evidence.records, scheme), noise_stddev=scheme.noise_stddev),
        check_clipping(evidence.records, scheme),
        *(_as_the_owner_said(finding, evidence) for finding in check_private(evidence)),
        *check_owner(evidence),
        *check_audit(evidence),
    )
    return Reconciliation(findings, what_ifs(evidence), required)


def check_private(evidence: Evidence) -> tuple[Finding, ...]:
    """The checks on the curator's records, in the order of ``PRIVATE``."""
    scheme = evidence.plan.scheme
    return (
        check_custody(evidence.custody, evidence.records, scheme),
        check_norms(evidence.custody, evidence.records, scheme),
        check_participation(evidence.custody, scheme),
    )


def _as_the_owner_said(finding: Finding, evidence: Evidence) -> Finding:
    """The owner wrote down how these checks ended before the commit: a failure stands, another end contradicts it."""
    if evidence.owner is None:
        return finding
    told = evidence.owner.private[finding.check]
    if evidence.custody is None and told is Verdict.FAILED:
        return Finding(
            f"{finding.check}/failed-by-the-owner", Verdict.FAILED, "The owner's own word is that it failed."
        )
    if evidence.custody is None or told is finding.verdict:
        return finding
    says = f"The owner says {told}, and custody.jsonl says {finding.verdict}: {finding.says}"
    return replace(finding, code=f"{finding.check}/contradicts-the-owner", verdict=Verdict.FAILED, says=says)


@lru_cache(maxsize=256)
def certified(release: Release, delta: float, relation: NeighboringRelation) -> Interval:
    """The accountant's interval; the same question is answered once."""
    return bound_epsilon(release, delta=delta, relation=relation)


def check_claim(guarantee: Guarantee, scheme: Scheme) -> Finding:
    """Recomputes the certified interval from the scheme and compares it with what is claimed."""
    claimed = guarantee.epsilon
    again = certified(scheme.release(), guarantee.delta, guarantee.relation)
    numbers = (("claimed", claimed), ("lower", again.lower), ("upper", again.upper))
    if not math.isfinite(again.upper):
        return Finding("claim/unbounded", Verdict.FAILED, "The schedule gives no finite guarantee.", numbers[:2])
    if claimed >= again.upper * (1 - 1e-12):
        says = f"Recomputed: epsilon is in [{lower_text(again.lower, 6)}, {upper_text(again.upper, 6)}]; "
        says += f"the claim of {upper_text(claimed, 6)} holds."
        return Finding("claim/holds", Verdict.PASSED, says, numbers)
    says = f"The claim of {lower_text(claimed, 6)} is below the bound that we can prove, {upper_text(again.upper, 6)}"
    if claimed < again.lower:
        says += f", and below the least possible loss, {lower_text(again.lower, 6)}"
    close = again.lower <= claimed and claimed >= again.upper * (1 - WITHIN)
    code, verdict = ("claim/slightly-low", Verdict.WARNED) if close else ("claim/too-low", Verdict.FAILED)
    return Finding(code, verdict, says + ".", numbers)


def check_plan(plan: RegisteredPlan) -> Finding:
    """Every figure in the plan that follows from its scheme is worked out again, and the plan is of one mind."""
    wrong = list(_contradictions(plan))
    if plan.guarantee.relation not in plan.scheme.relations:
        wrong.append(f"its scheme has no price for neighbours that differ as {plan.guarantee.relation.value} says")
    if wrong:
        return Finding("plan/contradicts-itself", Verdict.FAILED, f"The plan contradicts itself: {'; '.join(wrong)}.")
    return Finding(
        "plan/holds", Verdict.PASSED, "Intervals, assumptions, closed form and delta of the plan are its scheme's."
    )


def _contradictions(plan: RegisteredPlan) -> Iterator[str]:
    guarantee, scheme = plan.guarantee, plan.scheme
    if plan.epsilon.upper != guarantee.epsilon:
        yield f"it claims {guarantee.epsilon!r}, and its interval ends at {plan.epsilon.upper!r}"
    for name, stated, release in (
        ("epsilon", plan.epsilon, scheme.release()),
        ("unamplified", plan.unamplified, scheme.unamplified()),
    ):
        again = certified(release, guarantee.delta, guarantee.relation)
        if (stated.quantity, stated.relation, stated.given) != (again.quantity, again.relation, again.given):
            yield f"{name} answers another question than the guarantee's"
        if not set(again.assumptions) <= set(stated.assumptions):
            yield f"{name} leaves out what it assumes"
        if stated.upper < again.upper * (1 - WITHIN) or stated.lower > again.upper * (1 + SAME):
            yield f"{name} is [{stated.lower:.6g}, {stated.upper:.6g}], not [{again.lower:.6g}, {again.upper:.6g}]"
    share, sums = scheme.closed_form
    formula = fl_formula(
        sampling_probability=share,
        noise_multiplier=scheme.accounted_multiplier,
        rounds=sums,
        delta=guarantee.delta,
    )
    for term in ("root_term", "linear_term"):
        if not math.isclose(getattr(formula, term), getattr(plan.formula, term), rel_tol=SAME):
            yield f"the closed form's {term} is {getattr(plan.formula, term)!r}, not {getattr(formula, term)!r}"
    if float(plan.budget["delta"]) != guarantee.delta:
        yield f"its budget is at delta {plan.budget['delta']}, its guarantee at {guarantee.delta!r}"
    if Decimal(guarantee.epsilon) > Decimal(plan.budget["epsilon"]):
        yield f"it claims {guarantee.epsilon!r} on a budget of {plan.budget['epsilon']}"
    yield from _misfits(plan)
    yield from planned.contradictions(plan)


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
    if _tells_sizes(plan) and (
        guarantee.relation is not NeighboringRelation.ZERO_OUT or data.get("client_sizes") != "public"
    ):
        yield "clients count by their rows, and it does not say that these are public and that neighbours keep them"


def _tells_sizes(plan: RegisteredPlan) -> bool:
    """Whether clients that protect single examples count by how many they have."""
    training = plan.details.get("training")
    return not plan.scheme.unit_is_client and isinstance(training, dict) and training.get("example_cap") is not None


def check_delta(evidence: Evidence) -> Finding:
    """Delta must be below 1/N: at 1/N a mechanism may publish the record of a unit picked at random."""
    guarantee = evidence.plan.guarantee
    return delta_finding(guarantee.delta, population=guarantee.population)


LEDGER_CHECKS = ("ledger", "charge", "released", "attempts", "files")


def check_ledger(evidence: Evidence) -> tuple[Finding, ...]:
    """The chain holds, a charge names this plan and pays for the claim, and released and committed what is here."""
    word = evidence.ledger
    if word is None:
        return _unchecked("No ledger was given.", LEDGER_CHECKS)
    if not word.sound:
        broken = Finding("ledger/broken", Verdict.FAILED, f"The ledger does not hold: {word.trouble}")
        return broken, *_unchecked("The ledger does not hold.", LEDGER_CHECKS[1:])
    chain = Finding("ledger/holds", Verdict.PASSED, f"All {word.count} entries hold; head {word.head[:16]}...")
    if word.key is None:
        stray = Finding("charge/missing", Verdict.FAILED, "No charge in the ledger names this plan's hash.")
        return chain, stray, *_unchecked("No charge names the plan.", LEDGER_CHECKS[2:])
    return (
        chain,
        check_charge(evidence, word),
        check_released(evidence, word),
        *check_attempts(word),
        check_files(evidence),
    )


def _unchecked(says: str, checks: Collection[str]) -> tuple[Finding, ...]:
    return tuple(Finding(f"{name}/not-checked", Verdict.NOT_CHECKED, says, lacks="ledger") for name in checks)


def check_charge(evidence: Evidence, word: LedgerWord) -> Finding:
    """The charge asked for what the plan releases, and paid what the accountant says now."""
    guarantee, plan = evidence.plan.guarantee, evidence.plan
    again = certified(plan.scheme.release(), guarantee.delta, guarantee.relation)
    paid, due = Decimal(word.charged.get("epsilon", "0")), Decimal(guarantee.epsilon)
    paid_delta, due_delta = Decimal(word.charged.get("delta", "0")), Decimal(plan.budget["delta"])
    numbers = (("charged_epsilon", float(paid)), ("claimed_epsilon", guarantee.epsilon), ("priced_again", again.upper))
    asked = {"scope": word.scope, **word.request}
    other = [name for name, value in _asked(plan).items() if asked.get(name) != value]
    if other:
        says = f"The charge is for another {', '.join(other)} than the plan's."
        return Finding("charge/of-another-question", Verdict.FAILED, says, numbers)
    cap, stated = word.cap.get("epsilon"), plan.budget["epsilon"]
    if word.state not in ("started", "committed", "abandoned"):
        says = f"The charge is {word.state}, yet rounds exist." if evidence.records else f"The charge is {word.state}."
        return Finding("charge/not-started", Verdict.FAILED if evidence.records else Verdict.WARNED, says, numbers)
    if paid < due or paid_delta < due_delta or (cap is not None and paid > Decimal(cap)):
        says = f"Charged epsilon {paid} and delta {paid_delta} for a claim of {due:.10g} and {due_delta:g}."
        return Finding("charge/less-than-claimed", Verdict.FAILED, says, numbers)
    if float(paid) < again.upper * (1 - WITHIN):
        says = f"Charged epsilon {paid} for a schedule whose price is {upper_text(again.upper, 6)}."
        return Finding("charge/below-its-price", Verdict.FAILED, says, numbers)
    if word.state != "committed":
        says = f"Epsilon {paid} is spent, but the run was never committed: its charge is {word.state}."
        return Finding("charge/not-closed", Verdict.WARNED, says, numbers)
    if word.others:
        says = f"{word.others + 1} charges name this plan: each is a release of its own, and this is the last."
        return Finding("charge/several", Verdict.WARNED, says, numbers)
    if cap is not None and Decimal(cap) != Decimal(stated):
        says = f"Epsilon {paid} was charged once; the ledger's cap is {cap}, where the plan states {stated}."
        return Finding("charge/of-another-cap", Verdict.WARNED, says, numbers)
    return Finding("charge/holds", Verdict.PASSED, f"Epsilon {paid} at delta {paid_delta} was charged once.", numbers)


def _asked(plan: RegisteredPlan) -> dict[str, Any]:
    """What the charge of a plan must have asked for."""
    return {
        "scope": plan.budget["scope"],
        "plan_hash": plan.hash,
        "release": codec.to_json(plan.scheme.release()),
        "relation": plan.guarantee.relation.value,
        "privacy_unit": plan.guarantee.privacy_unit,
        "delta": Amounts.charged({"delta": plan.budget["delta"]})["delta"],
        "rounds": plan.scheme.rounds,
        "simulation": plan.simulation,
    }


def check_released(evidence: Evidence, word: LedgerWord) -> Finding:
    """The records hold the models that the ledger released, all of them and no others."""
    recorded = {record.round: record.output_hash for record in evidence.records}
    if recorded == dict(word.released):
        return Finding(
            "released/holds", Verdict.PASSED, f"The ledger released these {len(recorded)} models and no others."
        )
    wrong = sorted(n for n in recorded.keys() | word.released.keys() if recorded.get(n) != word.released.get(n))
    says = f"Records and ledger differ on the released models of rounds {wrong[:5]}."
    return Finding("released/differs", Verdict.FAILED, says)


def check_attempts(word: LedgerWord) -> tuple[Finding]:
    """Who runs a round again can choose between its outcomes: every attempt counts."""
    again = {number: times for number, times in sorted(word.attempts.items()) if times > 1}
    unreleased = sorted(word.attempts.keys() - word.released.keys())
    numbers = (("rounds_begun", float(len(word.attempts))), ("attempts", float(sum(word.attempts.values()))))
    if not again and not unreleased:
        return (Finding("attempts/holds", Verdict.PASSED, "Every round was begun once.", numbers),)
    told = [f"round {number} was begun {times} times" for number, times in list(again.items())[:3]]
    told += [f"{len(again) - 3} more rounds were begun more than once"] if len(again) > 3 else []
    told += [f"rounds {unreleased[:5]} were begun and not released"] if unreleased else []
    says = "; ".join(told) + ". The claim stands if nothing of an attempt was seen before the next."
    return (Finding("attempts/repeated", Verdict.WARNED, says[0].upper() + says[1:], numbers),)


def check_files(evidence: Evidence) -> Finding:
    """The files are those that the commit names; one that was committed and is not here is missing."""
    committed = evidence.ledger.evidence if evidence.ledger else None
    if committed is None:
        return Finding("files/not-checked", Verdict.NOT_CHECKED, "The charge is open: no commit names the files.")
    other = [name for name in sorted(evidence.hashes) if committed.get(name) != evidence.hashes[name]]
    unnamed = [name for name in (*COMMITTED, *evidence.hashes) if name not in committed]
    if other or unnamed:
        says = f"{', '.join(dict.fromkeys([*other, *unnamed]))}: not what was committed."
        return Finding("files/differ", Verdict.FAILED, says)
    return Finding(
        "files/holds", Verdict.PASSED, f"The commit names {', '.join(sorted(committed))}; nothing here differs."
    )


def check_rounds(evidence: Evidence) -> Finding:
    """Rounds are complete and in order."""
    planned = evidence.plan.scheme.rounds
    numbers = [record.round for record in evidence.records]
    counted = (("planned", float(planned)), ("recorded", float(len(numbers))))
    if numbers != list(range(1, len(numbers) + 1)):
        repeated = [n for n, times in Counter(numbers).items() if times > 1]
        says = f"Rounds are missing, repeated or out of order ({len(numbers)} lines, repeated: {repeated[:5]})."
        return Finding("rounds/out-of-order", Verdict.FAILED, says, counted)
    given_up = list(_given_up_in_name(evidence))
    if given_up:
        says = f"Rounds {given_up[:5]} are said to be given up, and their model is another than the one before."
        return Finding("rounds/given-up-in-name", Verdict.FAILED, says, counted)
    if len(numbers) > planned:
        return Finding(
            "rounds/too-many", Verdict.FAILED, f"{len(numbers)} rounds were run, {planned} were planned.", counted
        )
    if any(record.diverged for record in evidence.records):
        says = f"Training diverged in round {len(numbers)} of {planned}: the released model or its loss is not finite. "
        return Finding("rounds/diverged", Verdict.WARNED, says + "The whole plan stays charged.", counted)
    if evidence.records and evidence.records[0].given_up:
        says = "The first round was given up: that its model is the starting one, no record shows."
        return Finding("rounds/given-up-at-once", Verdict.WARNED, says, counted)
    if len(numbers) < planned:
        says = f"{len(numbers)} of {planned} planned rounds were run; the whole plan stays charged."
        return Finding("rounds/stopped-early", Verdict.WARNED, says, counted)
    return Finding("rounds/holds", Verdict.PASSED, f"All {planned} rounds are recorded, in order.", counted)


def _given_up_in_name(evidence: Evidence) -> Iterator[int]:
    """Rounds that released something after all, or under a scheme that gives nothing up."""
    for before, record in zip((None, *evidence.records), evidence.records, strict=False):
        same = before is None or before.output_hash == record.output_hash
        if record.given_up and not (same and evidence.plan.scheme.gives_up(0)):
            yield record.round


def check_owner(evidence: Evidence) -> tuple[Finding, ...]:
    """The owner's word is here, speaks of a simulation only where one was planned, and its control was rejected."""
    if evidence.owner is None:
        return (Finding("owner/missing", Verdict.FAILED, "The owner's word, owner.json, is not here."),)
    utility = evidence.owner.utility
    if (utility is not None) != evidence.plan.simulation:
        return (
            Finding(
                "owner/utility-out-of-place",
                Verdict.FAILED,
                "Utility beside the run is for simulations, and for those only.",
            ),
        )
    here = Finding("owner/holds", Verdict.PASSED, "The owner's word is here; nobody else can recompute it.")
    return (here,) if utility is None else (here, check_control(utility))


def what_ifs(evidence: Evidence) -> tuple[WhatIf, ...]:
    """The price under the facts that were observed rather than planned; estimates, labelled as such."""
    plan, scheme = evidence.plan, evidence.plan.scheme
    found = []
    padding = [value for record in in_first_unit(evidence.records, scheme) for value in record.padding]
    if any(padding) and scheme.noise_multiplier > 0:
        share = stddev_interval(padding, failure_probability=0.05)[0] / scheme.noise_stddev
        weak = share * scheme.accounted_multiplier
        cost = _upper(Repeated(scheme.step(share), scheme.noisy_sums(scheme.rounds)), plan)
        says = f"If noise were as weak as padding allows (multiplier {weak:.4g}), epsilon would be {upper_text(cost)}."
        found.append(WhatIf("weakest noise that the padding allows (95%)", cost, says))
    further = _further_attempts(evidence.ledger)
    if further:
        cost = _upper(scheme.with_attempts(further), plan)
        says = f"If each of the {further} further attempts was a release too, epsilon would be {upper_text(cost)}."
        found.append(WhatIf("every attempt released", cost, says))
    observed = scheme.at_cohort_sizes([len(record.participants) for record in evidence.custody or ()])
    if observed is not None:
        cost = _upper(observed, plan)
        says = f"At the cohort sizes that occurred, epsilon would be {upper_text(cost)}: an estimate, not a guarantee."
        found.append(WhatIf("observed cohort sizes", cost, says, private=True))
    lists = plan.unamplified.upper
    says = f"Against whoever learns who took part, epsilon is at most {upper_text(lists)}."
    found.append(WhatIf("participation lists known", lists, says))
    return tuple(found)


def _further_attempts(word: LedgerWord | None) -> int:
    """Attempts beyond one for each released round."""
    return sum(word.attempts.values()) - len(word.released) if word is not None else 0


def whatever_the_sampler(plan: RegisteredPlan) -> float:
    """Epsilon, certified from above, if everybody may have taken part in every round, once in each.

    A rejected or unknown sampler leaves this. Unlike the price for known lists, it trusts no cap on how often one
    client takes part, which only those lists show.
    """
    return max(plan.unamplified.upper, _upper(plan.scheme.in_every_round(), plan))


def _upper(release: Release, plan: RegisteredPlan) -> float:
    return certified(release, plan.guarantee.delta, plan.guarantee.relation).upper
