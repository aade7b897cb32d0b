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
    """What a verb does.

    Attributes:
        from_states: states of the charge in which it is allowed; None for a key of which nothing is known. Empty for a
            verb that is of no charge.
        to_state: the state that the charge is in afterwards.
        spends: whether budgets count its amounts, at once and permanently, without a charge.
        memo: an additional sum to add to, for a view that counts against no cap.
        rounds: stages in which the round must be: the one that is named, or else the last that began.
        stage: the stage that the named round is in afterwards.
        ledger_wide: whether it is of the whole ledger, and of no scope.
        owned: whether it takes an owner, of its scope or of the whole ledger.
        unproven: whether its amounts count without a proof; it then needs the owners of every budget that counts it.
        untimed: whether a run says it, at a time that depends on its data: the entry carries the reservation's time.
        debit: the sum of every budget on the path from which the charge's cost is taken, by its state.
        credit: the sum that it is added to, likewise. What is added without being taken must fit.
        reserves: whether it counts the cost of a new charge.
        retired: whether it is allowed at or under a retired scope: it ends a charge, or continues with a round.
    """

    from_states: tuple[ChargeState | None, ...] = ()
    to_state: ChargeState | None = None
    spends: bool = False
    memo: str | None = None
    rounds: tuple[RoundStage, ...] = tuple(RoundStage)
    stage: RoundStage | None = None
    ledger_wide: bool = False
    owned: bool = False
    unproven: bool = False
    untimed: bool = False
    debit: str | None = field(init=False)
    credit: str | None = field(init=False)
    reserves: bool = field(init=False)
    retired: bool = field(init=False)

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
