"""A schedule that changes between rounds: stretches with their own population, cohort and noise, composed as they are.

Neighbours differ in one unit, present or absent in every stretch at once, so all stretches are composed on the same
unit. Whoever joins late or leaves early is in fewer of them: conditionally on what was released, a stretch without it
has one law for both neighbours, and so it loses no more than a unit that stayed throughout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilog.accounting import FederatedEstimate, epsilon_by_order, fl_formula, rdp
from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Composed, Release
from epsilog.plan.federated_plan import Schedule
from epsilog.plan.pricing import GAP, formula_json, price
from epsilog.plan.wording import formula_sentence
from epsilog.terms import (
    CheckError,
    DeltaDecision,
    DeltaPolicy,
    Interval,
    NeighboringRelation,
    UnsupportedMechanismError,
    check,
    codec,
    parameters,
)
from epsilog.terms.digits import lower_text, upper_text
from epsilog.terms.notebook import html_table

MOST_STRETCHES = 100
_ORDERS = np.array([2.0, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256])  # whole, at which a divergence is a short sum


@dataclass(frozen=True, slots=True)
class Averaged:
    """The trap: one constant run at the averages of a schedule that changes. An estimate of nothing that runs.

    Attributes:
        sampling_probability: the mean of q over all rounds.
        noise_multiplier: the mean of sigma over all rounds.
        formula: the closed form at these averages.
        epsilon: what the constant run would cost, were it the one that runs.
    """

    sampling_probability: float
    noise_multiplier: float
    formula: FederatedEstimate
    epsilon: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        told = {"formula": codec.encode(self.formula.total), "epsilon": codec.encode(self.epsilon.upper)}
        return codec.plain_fields(self) | told | {"side": "estimate"}


@dataclass(frozen=True, slots=True)
class StretchedPlan:
    """A schedule of several stretches with its price.

    Attributes:
        stretches: the public facts of each, in the order in which they run.
        enrolled: different units over all stretches, for delta's comparison with 1/N.
        delta: the failure probability used, why, and what is wrong with it.
        relation: which data sets are neighbours.
        privacy_unit: what one neighbour differs in.
        epsilon: the certified interval of all stretches together.
        unamplified: the same against whoever knows who took part.
        shares: of each stretch in the Renyi divergence at the order that bounds epsilon best; they add up to 1, an
            estimate of who costs what. None where a stretch has no such divergence, or there is no bound.
        formula: the popular closed form; None where q or sigma changes, for which there is none.
        average: what averaging would say, where q or sigma changes; None where nothing does, or there is no average.
    """

    stretches: tuple[Schedule, ...]
    enrolled: int
    delta: DeltaDecision
    relation: NeighboringRelation
    privacy_unit: str
    epsilon: Interval
    unamplified: Interval
    shares: tuple[float, ...] | None
    formula: FederatedEstimate | None
    average: Averaged | None

    @property
    def rounds(self) -> int:
        """The rounds of all stretches."""
        return sum(stretch.rounds for stretch in self.stretches)

    @property
    def release(self) -> Release:
        """All stretches as one release, which a ledger can be charged with."""
        return Composed([stretch.release() for stretch in self.stretches])

    @property
    def verdict(self) -> str:
        """What the closed form says, or what averaging would, against the certified interval, in one sentence."""
        if self.formula is not None:
            return formula_sentence(self.formula.total, self.epsilon)
        if math.isinf(self.epsilon.upper):
            return "Without noise in every stretch there is no privacy."
        undefined = "The closed form is for one q and one sigma, and these change: it says nothing here."
        if self.average is None:
            return undefined
        formula, price = self.average.formula.total, self.average.epsilon.upper
        off = f"At their averages it would say {formula:.4g}, and a constant run would cost {price:.4g}"
        if price < self.epsilon.lower:
            factor = self.epsilon.lower / price if price > 0 else math.inf
            least = f"the loss is at least {lower_text(self.epsilon.lower)} ({factor:.3g} times the latter)"
            return f"{undefined} {off}, where {least}. Averages are never charged."
        return f"{undefined} {off}: the price of another run than this one. Averages are never charged."

    @property
    def neighbors(self) -> str:
        """What neighbours differ in, and which N delta is compared with, in words."""
        sizes = [stretch.population for stretch in self.stretches]
        says = f"Neighbours differ in one {self.privacy_unit}, in all stretches at once"
        low, high = min(sizes), max(sizes)
        if low == high == self.enrolled:
            return f"{says}."
        stays = "one that joins late or leaves early is in fewer of them and loses no more"
        against = f"{says}; {stays}. Delta is held against 1/{self.enrolled}"
        if self.enrolled > high:
            return f"{against}, the units enrolled over all stretches."
        return (
            f"{against}, the largest N, and so is below 1/N in every stretch. That counts all who took part where "
            "units only joined, or only left; where some left and others came, state how many there were in all "
            "(enrolled)."
        )

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", upper_text(self.epsilon.upper), f"certified, at delta {upper_text(self.delta.delta)}"),
            ("lower bound", lower_text(self.epsilon.lower), self.epsilon.method),
            ("if participation is known", upper_text(self.unamplified.upper), "no amplification by sampling"),
            *(
                (f"share of stretch {i}", f"{share:.1%}", "an estimate")
                for i, share in enumerate(self.shares or (), start=1)
            ),
        ]
        return html_table(f"one {self.privacy_unit}, {self.relation}", rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        shares = self.shares or [None] * len(self.stretches)
        listed = zip(self.stretches, shares, strict=True)
        told = codec.plain_fields(self) | {
            "stretches": [stretch.to_json() | {"share": share} for stretch, share in listed],
            "rounds": self.rounds,
            "neighbors": self.neighbors,
            "formula": self.formula and formula_json(self.formula),
            "verdict": self.verdict,
            "release": codec.to_json(self.release),
        }
        return {name: value for name, value in told.items() if name != "shares"}


def stretches(
    schedules: Sequence[Schedule],
    *,
    delta: float | None = None,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: str = "client",
    enrolled: int | None = None,
    policy: DeltaPolicy | None = None,
    gap: float = GAP,
) -> StretchedPlan:
    """Prices a federated schedule whose cohort, noise or population changes between stretches of rounds.

    Args:
        schedules: the stretches in the order in which they run, all fixed before the first; 100 at most.
        delta: failure probability; blank means min(1/N, the cap), N being ``enrolled``, and the plan says so.
        relation: which data sets are neighbours.
        privacy_unit: what one neighbour differs in.
        enrolled: different units over all stretches; blank means the largest population, which is right where units
            only joined on the way, or only left.
        policy: the delta policy; its default caps delta at 1e-6.
        gap: relative width of the interval to aim for.

    Returns:
        The plan; only ``epsilon.upper`` may be claimed.

    Raises:
        UnsupportedMechanismError: a sampling scheme has no proven price under this relation.

    >>> slow_start = Schedule(population=50_000, cohort_size=250, rounds=50, noise_multiplier=1.5)
    >>> main = Schedule(population=60_000, cohort_size=900, rounds=150, noise_multiplier=1.2)
    >>> plan = stretches([slow_start, main])
    >>> round(sum(plan.shares), 6), plan.formula is None, plan.enrolled
    (1.0, True, 60000)
    """
    parts = check.each(check.instance(Schedule))(schedules=schedules)
    if not 1 <= len(parts) <= MOST_STRETCHES:
        raise CheckError("schedules", f"1 to {MOST_STRETCHES} stretches", f"{len(parts)}")
    relation = check.member(NeighboringRelation)(relation=relation)
    privacy_unit = parameters.PRIVACY_UNIT.rule(str)(privacy_unit=privacy_unit)
    largest = max(part.population for part in parts)
    enrolled = largest if enrolled is None else check.integer(largest)(enrolled=enrolled)
    decision = (policy or DeltaPolicy()).decide(delta, population=enrolled)
    gap = check.between(0, 1)(gap=gap)
    at, steady = decision.delta, len({(part.sampling_probability, part.noise_multiplier) for part in parts}) == 1
    hidden = Composed([part.unamplified() for part in parts])
    noisy = all(part.noise_multiplier > 0 for part in parts)
    return StretchedPlan(
        stretches=parts,
        enrolled=enrolled,
        delta=decision,
        relation=relation,
        privacy_unit=privacy_unit,
        epsilon=price(parts, at, relation, gap=gap),
        unamplified=bound_epsilon(hidden, delta=at, relation=relation, gap=gap),
        shares=_shares(parts, at, relation),
        formula=parts[0].formula(at, sum(part.rounds for part in parts)) if steady else None,
        average=None if steady or not noisy else _averaged(parts, at, relation, gap=gap),
    )


def _shares(parts: Sequence[Schedule], delta: float, relation: NeighboringRelation) -> tuple[float, ...] | None:
    """Each stretch's part of the Renyi divergence at the order at which all together bound epsilon best."""
    if any(part.noise_multiplier == 0 for part in parts):
        return None
    try:
        each = {part: rdp(part.release(), _ORDERS, relation=relation) for part in dict.fromkeys(parts)}
    except UnsupportedMechanismError:
        return None
    whole = np.sum([each[part] for part in parts], axis=0)
    best = int(np.argmin(epsilon_by_order(whole, _ORDERS, delta=delta)))
    total = float(whole[best])
    if not 0 < total < math.inf:
        return None
    return tuple(float(each[part][best]) / total for part in parts)


def _averaged(parts: Sequence[Schedule], delta: float, relation: NeighboringRelation, *, gap: float) -> Averaged | None:
    """A constant run at the mean q and the mean sigma: of another run than the one that is planned."""
    if any(part.sampling != "poisson" for part in parts) or relation is NeighboringRelation.REPLACE_ONE:
        return None
    rounds = sum(part.rounds for part in parts)
    q = math.fsum(part.rounds * part.sampling_probability for part in parts) / rounds
    noise = math.fsum(part.rounds * part.noise_multiplier for part in parts) / rounds
    # N and m that give this q to 15 digits: the price of a constant run depends on them through q alone
    population = 10**15
    constant = Schedule(population, max(1, round(min(q, 1.0) * population)), rounds, noise)
    epsilon = price(constant, delta, relation, gap=gap)
    formula = fl_formula(sampling_probability=min(q, 1.0), noise_multiplier=noise, rounds=rounds, delta=delta)
    return Averaged(q, noise, formula, epsilon)


@dataclass(frozen=True, slots=True)
class StretchPoint:
    """What all rounds up to one of them cost.

    Attributes:
        stretch: the stretch that the round is in, from 1.
        rounds: rounds from the beginning, this one included.
        epsilon: their certified interval.
    """

    stretch: int
    rounds: int
    epsilon: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        sides = {"lower": codec.encode(self.epsilon.lower), "upper": codec.encode(self.epsilon.upper)}
        return {"stretch": self.stretch, "rounds": self.rounds} | sides


def stretch_curve(plan: StretchedPlan, *, points: int | None = 16, gap: float = 0.02) -> tuple[StretchPoint, ...]:
    """Epsilon over the rounds of all stretches: at the end of each, where there are few, and at rounds between.

    Args:
        plan: a priced schedule.
        points: how many rounds to price, at most; None for the end of each stretch, however many there are.
        gap: relative width of each interval to aim for.

    >>> plan = stretches([Schedule(1000, 10, 4, 2.0), Schedule(1000, 50, 2, 2.0)])
    >>> [(point.stretch, point.rounds) for point in stretch_curve(plan, points=4)]
    [(1, 1), (1, 2), (1, 4), (2, 6)]
    """
    points = check.optional(check.integer(2))(points=points)
    ends = [int(end) for end in np.cumsum([part.rounds for part in plan.stretches])]
    found = []
    for rounds in ends if points is None else _places(ends, points):
        stretch = 1 + next(i for i, end in enumerate(ends) if rounds <= end)
        bound = price(plan.stretches, plan.delta.delta, plan.relation, rounds=rounds, gap=gap)
        found.append(StretchPoint(stretch, rounds, bound))
    return tuple(found)


def _places(ends: Sequence[int], points: int) -> list[int]:
    """Rounds to price: the first, the last, ends of stretches, then the middles of what lies furthest apart."""
    last = ends[-1]
    if len(ends) >= points:
        picked = {ends[-(-len(ends) * i // (points - 1)) - 1] for i in range(1, points)}
        return sorted({1, *picked})
    chosen = {1, *ends}
    while len(chosen) < min(points, last):
        ordered = sorted(chosen)
        wide, low = max((high - low, -low) for low, high in itertools.pairwise(ordered))
        if wide < 2:
            break
        chosen.add(-low + wide // 2)
    return sorted(chosen)
