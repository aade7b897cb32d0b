"""A schedule that changes between rounds: phases with their own population, cohort and noise, composed on one unit.

Neighbors differ in one unit, present or absent in all phases at once. A unit that joins late or leaves early is in
fewer phases. Given earlier releases, a phase without it has one distribution for both neighbors, so it loses no more
than a unit that stays throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Composed, Release
from epsilog.plan.federated_plan import Schedule
from epsilog.plan.pricing import RELATIVE_WIDTH, bound_schedule_epsilon
from epsilog.terms import CheckError, DeltaChoice, DeltaPolicy, Interval, NeighboringRelation, check, codec, parameters
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.terms.notebook import render_html_table

__all__ = ["PhasedPlan", "plan_phases"]

_MAX_PHASES = 100


@dataclass(frozen=True, slots=True)
class PhasedPlan:
    """A schedule of several phases with its cost.

    Attributes:
        phases: the public facts of each, in the order in which they run.
        total_population: distinct units over all phases, the N of delta's comparison with 1/N.
        delta: the failure probability used, why, and what is wrong with it.
        relation: the neighboring relation.
        privacy_unit: what one neighbor differs in.
        epsilon: the certified interval of all phases together.
        unamplified: the same against an attacker who knows participation.
    """

    phases: tuple[Schedule, ...]
    total_population: int
    delta: DeltaChoice
    relation: NeighboringRelation
    privacy_unit: str
    epsilon: Interval
    unamplified: Interval

    @property
    def rounds(self) -> int:
        """Return the rounds of all phases."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def release(self) -> Release:
        """Return all phases as one release, which a ledger can be charged with."""
        return Composed([phase.release() for phase in self.phases])

    @property
    def neighbor_note(self) -> Message:
        """Return what neighbors differ in, and the N of delta's comparison."""
        sizes = {phase.population for phase in self.phases}
        if sizes == {self.total_population}:
            return Message.of("phases/one-population", unit=self.privacy_unit)
        kind = "stated" if self.total_population > max(sizes) else "largest"
        return Message.of(f"phases/{kind}-population", unit=self.privacy_unit, enrolled=self.total_population)

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", format_upper(self.epsilon.upper), f"certified, at delta {format_upper(self.delta.delta)}"),
            ("lower bound", format_lower(self.epsilon.lower), str(self.epsilon.method)),
            ("unamplified", format_upper(self.unamplified.upper), "if participation is known"),
        ]
        return render_html_table(f"one {self.privacy_unit}, {self.relation}", rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; infinite numbers are the text "inf"."""
        return codec.plain_fields(self) | {
            "rounds": self.rounds,
            "neighbor_note": self.neighbor_note.to_json(),
            "release": codec.to_json(self.release),
        }


def plan_phases(
    phases: Sequence[Schedule],
    *,
    delta: float | None = None,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: str = "client",
    total_population: int | None = None,
    policy: DeltaPolicy | None = None,
    relative_width: float = RELATIVE_WIDTH,
) -> PhasedPlan:
    """Compute the cost of a federated schedule with changes of cohort, noise or population between phases.

    Args:
        phases: the phases in the order in which they run, all fixed before the first; 100 at most.
        delta: failure probability; blank means min(1/N, the cap), N being ``total_population``.
        relation: the neighboring relation.
        privacy_unit: what one neighbor differs in.
        total_population: distinct units over all phases; blank means the largest population, which is right where units
            only join over time, or only leave.
        policy: the delta policy; its default caps delta at 1e-6.
        relative_width: the target relative width of the interval.

    Returns:
        The plan; only ``epsilon.upper`` may be claimed.

    Raises:
        UnsupportedMechanismError: a sampling scheme has no proven cost under this relation.

    >>> slow_start = Schedule(population=50_000, cohort_size=250, rounds=50, noise_multiplier=1.5)
    >>> main = Schedule(population=60_000, cohort_size=900, rounds=150, noise_multiplier=1.2)
    >>> plan_phases([slow_start, main]).total_population
    60000
    """
    phases = check.sequence_of(check.instance_of(Schedule))(phases=phases)
    if not 1 <= len(phases) <= _MAX_PHASES:
        raise CheckError("phases", f"1 to {_MAX_PHASES} schedules", f"{len(phases)}")
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    privacy_unit = parameters.PRIVACY_UNIT.rule(str)(privacy_unit=privacy_unit)
    largest = max(phase.population for phase in phases)
    total_population = check.integer(largest)(
        total_population=largest if total_population is None else total_population
    )
    decision = (policy or DeltaPolicy()).choose_delta(delta, population=total_population)
    relative_width = check.in_open_interval(0, 1)(relative_width=relative_width)
    known = Composed([phase.unamplified_release() for phase in phases])
    return PhasedPlan(
        phases=phases,
        total_population=total_population,
        delta=decision,
        relation=relation,
        privacy_unit=privacy_unit,
        epsilon=bound_schedule_epsilon(phases, decision.delta, relation, relative_width=relative_width),
        unamplified=bound_epsilon(known, delta=decision.delta, relation=relation, relative_width=relative_width),
    )
