"""What the schedule would cost under other facts: labelled estimates, and the price whatever the sampler did."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from epsilog.mechanisms import Release, Repeated
from epsilog.plan import RegisteredPlan
from epsilog.terms.formatting import format_upper
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.evidence import RunEvidence
from epsilog.verification.ledger_excerpt import LedgerExcerpt
from epsilog.verification.noise import compute_stddev_interval, rescale_to_first_round
from epsilog.verification.plans import bound_unamplified


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


def compute_what_ifs(evidence: RunEvidence) -> tuple[WhatIf, ...]:
    """The price under the facts that were observed rather than planned; estimates, labelled as such."""
    plan, scheme = evidence.plan, evidence.plan.scheme
    found = []
    padding = [value for record in rescale_to_first_round(evidence.records, scheme) for value in record.padding]
    if any(padding) and scheme.noise_multiplier > 0:
        share = compute_stddev_interval(padding, failure_probability=0.05)[0] / scheme.noise_stddev
        weak = share * scheme.accounted_multiplier
        cost = _upper(Repeated(scheme.step(share), scheme.noisy_sums(scheme.rounds)), plan)
        says = (
            f"If noise were as weak as padding allows (multiplier {weak:.4g}), epsilon would be {format_upper(cost)}."
        )
        found.append(WhatIf("weakest noise that the padding allows (95%)", cost, says))
    further = _further_attempts(evidence.ledger)
    if further:
        cost = _upper(scheme.with_attempts(further), plan)
        says = f"If each of the {further} further attempts was a release too, epsilon would be {format_upper(cost)}."
        found.append(WhatIf("every attempt released", cost, says))
    observed = scheme.at_cohort_sizes([len(record.participants) for record in evidence.custody or ()])
    if observed is not None:
        cost = _upper(observed, plan)
        says = (
            f"At the cohort sizes that occurred, epsilon would be {format_upper(cost)}: an estimate, not a guarantee."
        )
        found.append(WhatIf("observed cohort sizes", cost, says, private=True))
    lists = bound_unamplified(plan).upper
    says = f"Against whoever learns who took part, epsilon is at most {format_upper(lists)}."
    found.append(WhatIf("participation lists known", lists, says))
    return tuple(found)


def _further_attempts(word: LedgerExcerpt | None) -> int:
    """Attempts beyond one for each released round; none where a ledger says that less was begun than released."""
    return 0 if word is None else max(0, sum(word.attempts.values()) - len(word.released))


def bound_any_sampler(plan: RegisteredPlan) -> float:
    """Epsilon, certified from above, if everybody may have taken part in every round, once in each.

    A rejected or unknown sampler leaves this. Unlike the price for known lists, it trusts no cap on how often one
    client takes part, which only those lists show.
    """
    return max(bound_unamplified(plan).upper, _upper(plan.scheme.in_every_round(), plan))


def _upper(release: Release, plan: RegisteredPlan) -> float:
    """The price of one run's release, or of the best of several such runs."""
    return compute_certified_interval(plan.best_of_trials(release), plan.guarantee.delta, plan.guarantee.relation).upper
