"""Release cycles: what many releases about the same people cost, one cycle after another and all together.

A started charge is spent permanently, whatever happens to the model. In addition to this lifetime sum, a view shows
what is still in use; no cap is compared with it. Figures are folded from the entries and compared with the stored
balance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from epsilog.ledger import cap_conversion
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.cap_conversion import round_up_to_float
from epsilog.ledger.entries import ChargeId, Entry, Verb
from epsilog.ledger.partitions import counts_towards_parent
from epsilog.ledger.transitions import TRANSITIONS, ChargeState
from epsilog.ledger.view import LedgerView
from epsilog.terms import LedgerIntegrityError, StorageError, check

MOST_LOOKS = 5  # at a ledger that others write to
EXACT = "Sums are exact, in whole units of what was charged; each charge is a certified bound, rounded up."
NOT_THE_LEAST = "The total is an upper bound on the joint privacy loss and need not be tight."
SIMULATED = "A simulation: its noise protects no one, and these sums are the cost of the same plans on real data."
PARTITION_NOTE = (
    "A partition counts for one block: its owner declares that no unit is in two. Each block lists its spending."
)
IN_USE = "Only the lifetime total counts against the cap: decommissioning a model does not undo its release."


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What a plan says of its release, where the ledger has but the plan's hash.

    Attributes:
        name: of the run config.
        period: the calendar period of its report; "" where none is stated.
        population: N, as stated for this release.
    """

    name: str
    period: str
    population: int


@dataclass(frozen=True, slots=True)
class ReleasedCharge:
    """One started charge, or the cost of the blocks of a partition."""

    key: str | None  # of the charge; None for a partition's payment
    scope: str
    amounts: Amounts  # what it cost, in the budget's own quantities
    state: ChargeState
    plan_hash: str | None = None  # of its plan; None if it names none
    stated: PlanSummary | None = None  # what that plan says; None where it was not given
    allowed: bool = False  # whether its cost is an owner's override
    ended: str = ""  # who took it out of use or aborted it, and why; "" before

    @property
    def in_use(self) -> bool:
        """Return whether what it released is still in use."""
        return self.state is not ChargeState.DECOMMISSIONED

    @property
    def name(self) -> str:
        """Return the name of the run config, the charge or the partition."""
        own = f"partition {self.scope}" if self.key is None else self.key
        return own if self.stated is None else self.stated.name


@dataclass(frozen=True, slots=True)
class Cycle:
    """Releases of one cycle, and what was spent up to and with it."""

    name: str  # the period that plans state, else the part of the scope under the budget's, else the key
    releases: tuple[ReleasedCharge, ...]  # in the order in which they started
    spent: Amounts  # in this cycle
    lifetime: Amounts  # up to and with it
    active: Amounts  # of that, what is in use now

    @property
    def populations(self) -> tuple[int, ...]:
        """N as each plan restates it, each number once."""
        return tuple(sorted({one.stated.population for one in self.releases if one.stated is not None}))


@dataclass(frozen=True, slots=True)
class CycleHistory:
    """All cycles under one budget.

    Attributes:
        budget: its balance.
        cycles: in the order of their first start.
        delta: at which epsilon is read off where the budget is kept in another quantity; None for no reading.
        unmatched: names of plans that were given, and that no charge names which was started here.
    """

    budget: Balance
    cycles: tuple[Cycle, ...]
    delta: float | None = None
    unmatched: tuple[str, ...] = ()

    def epsilon(self, amounts: Amounts) -> float | None:
        """An upper bound on epsilon for an amount of this budget; None where it takes a delta, and none is given."""
        return convert_amount_to_epsilon(amounts, self.budget, self.delta)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Charges with a cost override, each by its key and scope."""
        return tuple(f"{one.key} at {one.scope}" for cycle in self.cycles for one in cycle.releases if one.allowed)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is exact, what is a bound, and what counts."""
        owned = (
            f"Exceptions: {', '.join(self.allowed)}, with costs that the owner attests without proof."
            if self.allowed
            else ""
        )
        why = f"{EXACT} {owned}".strip(), f"{NOT_THE_LEAST} Theorem: {self.budget.theorem}.", IN_USE
        unmatched = (f"No charge that was started here names the plan of {', '.join(self.unmatched)}.",)
        blocks = any(one.key is None for cycle in self.cycles for one in cycle.releases)
        more = ((unmatched, self.unmatched), ((PARTITION_NOTE,), blocks), ((SIMULATED,), self.budget.simulation))
        return (*why, *(text for texts, holds in more if holds for text in texts))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        budget = self.budget
        return {
            "scope": budget.scope,
            "kind": budget.kind,
            "relation": budget.relation.value,
            "privacy_unit": budget.privacy_unit,
            "simulation": budget.simulation,
            "delta": self.delta,
            "caps": dict(budget.caps),
            "lifetime": self._amounts_to_json(budget.spent),
            "active": self._amounts_to_json(budget.active),
            "reserved": dict(budget.reserved),
            "available": dict(budget.available),
            "theorem": budget.theorem,
            "notes": list(self.notes),
            "cycles": [self._cycle_to_json(cycle) for cycle in self.cycles],
        }

    def _amounts_to_json(self, amounts: Amounts) -> dict[str, Any]:
        found = self.epsilon(amounts)
        return dict(amounts) | {"epsilon_upper_bound": "inf" if found is not None and math.isinf(found) else found}

    def _cycle_to_json(self, cycle: Cycle) -> dict[str, Any]:
        return {
            "name": cycle.name,
            "spent": self._amounts_to_json(cycle.spent),
            "lifetime": self._amounts_to_json(cycle.lifetime),
            "active": self._amounts_to_json(cycle.active),
            "populations": list(cycle.populations),
            "releases": [
                {
                    "key": one.key,
                    "scope": one.scope,
                    "name": one.name,
                    "amounts": dict(one.amounts),
                    "state": one.state.value,
                    "in_use": one.in_use,
                    "ended": one.ended,
                    "allowed": one.allowed,
                    "plan_hash": one.plan_hash,
                    "population": None if one.stated is None else one.stated.population,
                    "period": None if one.stated is None else one.stated.period,
                }
                for one in cycle.releases
            ],
        }


def read_cycles(
    ledger: LedgerView, scope: str, *, plans: Mapping[str, PlanSummary] | None = None, delta: float | None = None
) -> CycleHistory:
    """Read the release cycles of a budget.

    Args:
        ledger: that holds it.
        scope: of the budget.
        plans: what plans say, by their hash.
        delta: at which epsilon is read off a zcdp or gdp budget.

    Raises:
        CheckError: a scope without a budget, or a delta that is invalid or that the budget does not use.
        LedgerIntegrityError: the entries do not amount to the stored balance.
        StorageError: the ledger was written to during every attempt to read it.
    """
    for _ in range(MOST_LOOKS):
        head, budget = ledger.head(), ledger.balance(scope)
        releases = fold_cycles(budget, ledger.history(scope), plans or {})
        if ledger.head() == head:
            break
    else:
        raise StorageError("the ledger is written to while it is read: read a backup of it")
    if delta is not None:
        delta = check.in_open_interval(0, 1)(delta=delta)
        check.one_of(cap_conversion.KINDS)(**{"the budget's kind, where a delta is given,": budget.kind})
    named = {one.plan_hash for one in releases}
    unmatched = tuple(sorted(plan.name for digest, plan in (plans or {}).items() if digest not in named))
    found = CycleHistory(budget, _group_releases(budget, releases), delta, unmatched)
    last = found.cycles[-1] if found.cycles else None
    zero = Amounts.zero(budget.caps)
    summed = (last.lifetime, last.active) if last else (zero, zero)
    if (dict(summed[0]), dict(summed[1])) != (dict(budget.spent), dict(budget.active)):
        raise LedgerIntegrityError(f"entries under {scope!r} do not add up to its balance", index=head[0])
    return found


@dataclass(slots=True)
class _Heard:
    """What was heard of a charge before it started."""

    allowed: bool = False
    plan_hash: str | None = None
    amounts: Mapping[str, Amounts] = field(default_factory=dict)


def fold_cycles(
    budget: Balance, entries: Iterable[Entry], plans: Mapping[str, PlanSummary]
) -> tuple[ReleasedCharge, ...]:
    """Return the charges that were started, in that order, as the entries at and under a budget tell of them."""
    heard: dict[ChargeId, _Heard] = {}
    found: dict[ChargeId | int, ReleasedCharge] = {}
    partitions = {budget.scope} if budget.partition is not None else set()
    for entry in entries:
        rule, name = TRANSITIONS[entry.verb], entry.charge_id
        if entry.verb is Verb.PARTITION_DECLARED:
            partitions.add(entry.scope)
        if not counts_towards_parent(entry, budget.scope, partitions):
            continue
        if name is None and rule.is_spend:
            found[entry.index] = ReleasedCharge(None, entry.scope, budget.cost(entry.amounts), ChargeState.COMMITTED)
        if name is None or rule.to_state is None:
            continue
        known = heard.setdefault(name, _Heard())
        known.allowed |= entry.verb is Verb.COST_OVERRIDDEN
        if rule.reserves:
            known.plan_hash, known.amounts = entry.body["request"]["plan_hash"], entry.amounts
        if rule.is_spend:
            stated = plans.get(known.plan_hash or "")
            amounts = budget.cost(known.amounts)
            found[name] = ReleasedCharge(
                entry.key, entry.scope, amounts, rule.to_state, known.plan_hash, stated, known.allowed
            )
        if name in found:
            who = (
                f"{entry.body['actor']}: {entry.body['reason']}" if rule.owned and not rule.opens else found[name].ended
            )
            found[name] = replace(found[name], state=rule.to_state, ended=who)
    return tuple(found.values())


def _group_releases(budget: Balance, releases: Iterable[ReleasedCharge]) -> tuple[Cycle, ...]:
    by_name: dict[str, list[ReleasedCharge]] = {}
    for one in releases:
        by_name.setdefault(_cycle_of(budget, one), []).append(one)
    cycles: list[Cycle] = []
    lifetime = active = Amounts.zero(budget.caps)
    for name, of in by_name.items():
        spent = sum((one.amounts for one in of), Amounts.zero(budget.caps))
        lifetime += spent
        active += sum((one.amounts for one in of if one.in_use), Amounts.zero(budget.caps))
        cycles.append(Cycle(name, tuple(of), spent, lifetime, active))
    return tuple(cycles)


def _cycle_of(budget: Balance, one: ReleasedCharge) -> str:
    if one.stated is not None and one.stated.period:
        return one.stated.period
    below = one.scope.removeprefix(budget.scope).strip("/")
    return below.partition("/")[0] or str(one.key)  # a partition is below its parents


def convert_amount_to_epsilon(amounts: Amounts, budget: Balance, delta: float | None) -> float | None:
    """An upper bound on epsilon for an amount of a budget: its own, or what rho or mu squared means at ``delta``."""
    if "epsilon" in amounts:
        return round_up_to_float(Fraction(amounts["epsilon"]))
    return (
        None
        if delta is None
        else cap_conversion.convert_caps_to_epsilon(budget.kind, amounts, delta=delta, relation=budget.relation)
    )
