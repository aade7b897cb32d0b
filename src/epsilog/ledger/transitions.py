"""The states of a charge and of its rounds, and the table of what each verb does to them and to the budgets.

A row is made of the class keywords of the command that writes the verb. ``charge_record`` reads in it what an entry
does to a charge and to its rounds, ``budget_path`` what it does to every budget on its path. What is not in the table
compares numbers: whether a reservation or a quota fits, that rounds leave no gap, that a time has come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from epsilog.ledger.entries import Verb


class ChargeState(StrEnum):
    """The state of a charge; an unknown key has none: None in the table."""

    REGISTERED = "registered"  # its plan is known, and nothing else has happened
    OVERRIDDEN = "overridden"  # an owner has overridden its cost, and nothing was reserved yet
    RESERVED = "reserved"
    STARTED = "started"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # it ended without a commit, and stays charged
    DECOMMISSIONED = "decommissioned"  # what it released is no longer used, and stays charged


class RoundStage(StrEnum):
    """The state of one round of a charge."""

    NOT_STARTED = "not started"
    OPEN = "open"
    RELEASED = "released"


CLOSED_STATES = frozenset(
    {ChargeState.COMMITTED, ChargeState.CANCELLED, ChargeState.ABANDONED, ChargeState.DECOMMISSIONED}
)  # no charge leaves these
UNRESERVED_STATES = frozenset({ChargeState.REGISTERED, ChargeState.OVERRIDDEN})  # known, and nothing is reserved yet
HELD: dict[ChargeState | None, str] = {  # the sum of a budget that holds a charge's cost; other states have none
    ChargeState.RESERVED: "reserved",
    ChargeState.STARTED: "started",
    ChargeState.COMMITTED: "committed",
    ChargeState.ABANDONED: "committed",
    ChargeState.DECOMMISSIONED: "committed",
}


@dataclass(frozen=True, slots=True)
class Transition:
    """What a verb does."""

    from_states: tuple[ChargeState | None, ...] = ()  # where it is allowed; None: an unknown key; empty: of no charge
    to_state: ChargeState | None = None  # the state that the charge is in afterwards
    spends: bool = False  # budgets count its amounts, at once and permanently, without a charge
    memo: str | None = None  # an additional sum to add to, for a view that counts against no cap
    rounds: tuple[RoundStage, ...] = tuple(RoundStage)  # stages of the named round, or else of the last that began
    stage: RoundStage | None = None  # the stage that the named round is in afterwards
    ledger_wide: bool = False  # it is of the whole ledger, and of no scope
    owned: bool = False  # it takes an owner, of its scope or of the whole ledger
    unproven: bool = False  # it counts without a proof, so it needs the owners of every budget that counts it
    untimed: bool = False  # a run says it, at a time that depends on its data: the entry has the reservation's time
    debit: str | None = field(init=False)  # the sum of every budget on the path that the cost leaves, by its state
    credit: str | None = field(init=False)  # the sum that it is added to; what no other sum lost must fit
    reserves: bool = field(init=False)  # it counts the cost of a new charge
    retired: bool = field(init=False)  # allowed at or under a retired scope: it ends a charge, or goes on with a round

    def __post_init__(self) -> None:
        held = {HELD.get(state) for state in self.from_states}
        assert len(held) <= 1, "what a verb moves is in one sum"
        debit, credit = next(iter(held), None), "committed" if self.spends else HELD.get(self.to_state)
        moves = debit != credit and (self.spends or bool(self.from_states))
        object.__setattr__(self, "debit", debit if moves else None)
        object.__setattr__(self, "credit", credit if moves else None)
        object.__setattr__(self, "reserves", self.opens and self.credit is not None)
        ends = self.to_state in CLOSED_STATES and not self.opens
        object.__setattr__(self, "retired", ends or self.stage is not None)

    @property
    def opens(self) -> bool:
        """Return whether it is the first that is heard of a charge."""
        return None in self.from_states

    @property
    def changes_balance(self) -> bool:
        """Return whether a cost moves from one sum to another, or to a first one."""
        return self.debit is not None or self.credit is not None or self.memo is not None

    @property
    def allows_release(self) -> bool:
        """Return whether a charge may be released afterwards, and before it may not."""
        at_once = self.reserves and self.to_state is not ChargeState.RESERVED
        return at_once or (self.debit, self.credit) == ("reserved", "started")

    @property
    def is_spend(self) -> bool:
        """Return whether it makes a cost spent, permanently."""
        return self.credit in ("started", "committed") and self.debit != "started"


TRANSITIONS: dict[Verb, Transition] = {}  # what each verb does; the commands fill it, each with its own row
