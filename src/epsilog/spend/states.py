"""The life of a charge as one table: for each verb, when it is allowed, where it leads, and where the money goes.

Whatever decides about state or money is a column of ``RULES``: ``shapes`` reads which fields an entry has, ``records``
what it does to a charge and to its rounds, ``paths`` what to every budget on its path. To add a verb is to add a
row. What is not in the table compares numbers: whether a reservation or a share fits, that rounds leave no gap, that a
time has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epsilog.spend.entries import Verb


class State(StrEnum):
    """Where a charge stands. A key of which nothing is known is in none of them: None in the table."""

    REGISTERED = "registered"  # its plan is known, and nothing else has happened
    ALLOWED = "allowed"  # an owner has overridden its price, and nothing was reserved yet
    RESERVED = "reserved"
    STARTED = "started"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # it ended without a commit, and stays charged
    DECOMMISSIONED = "decommissioned"  # what it released is no longer used, and stays charged


class Stage(StrEnum):
    """Where one round of a charge stands."""

    AHEAD = "ahead"
    OPEN = "open"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a verb does.

    Attributes:
        says: what the entry's body names.
        may_say: what it may name besides.
        needs: states of the charge in which it is allowed; None for a key of which nothing is known. Empty for a verb
            that is of no charge.
        leads: the state that the charge is in afterwards.
        takes: the sum of every budget on the path that the charge's price is taken from.
        adds: the sum that it is added to. What is added without being taken must fit.
        notes: a sum beside those, for a view that counts against no cap, which it is added to.
        rounds: stages in which the round must be: the one that is named, or else the last that began.
        stage: the stage that the named round is in afterwards.
        retired: whether it is allowed at or under a scope that is retired: it ends something, or goes on with it.
        whole: whether it is of the whole ledger, and of no scope.
        owned: whether it takes an owner, of its scope or of the whole ledger.
        prices: whether what it states is counted without a proof: then it takes owners of every budget that counts it.
        untimed: whether a run says it, at a time that depends on its data: the entry carries the reservation's time.
    """

    says: frozenset[str] = frozenset()
    may_say: frozenset[str] = frozenset()
    needs: tuple[State | None, ...] = ()
    leads: State | None = None
    takes: str | None = None
    adds: str | None = None
    notes: str | None = None
    rounds: tuple[Stage, ...] = tuple(Stage)
    stage: Stage | None = None
    retired: bool = False
    whole: bool = False
    owned: bool = False
    prices: bool = False
    untimed: bool = False

    @property
    def opens(self) -> bool:
        """Whether it is the first that is heard of a charge."""
        return None in self.needs

    @property
    def moves(self) -> bool:
        """Whether a price goes from one sum to another, or to a first one."""
        return self.takes is not None or self.adds is not None or self.notes is not None

    @property
    def spends(self) -> bool:
        """Whether a price becomes spent by it: for ever."""
        return self.adds in ("started", "committed") and self.takes != "started"


_BUDGET = frozenset({"kind", "caps", "relation", "privacy_unit", "simulation"})
_PROMISE = frozenset({"promise"})  # what the caps are to keep, where that was said in other quantities
_ACT = frozenset({"by", "reason"})  # what an owner says of an act: who, and why
_BY = frozenset({"by"})  # who asked for it, where that is known: the holder of a token

RULES = {
    Verb.BUDGET_CREATED: Rule(says=_BUDGET, may_say=_PROMISE | _BY, owned=True),
    Verb.QUOTA_CREATED: Rule(says=_BUDGET, may_say=_PROMISE | _BY, owned=True),
    Verb.PARTITION_DECLARED: Rule(says=_BUDGET | _ACT, may_say=_PROMISE, adds="committed", owned=True, prices=True),
    Verb.PARTITION_RAISED: Rule(says=_ACT | {"caps"}, may_say=_PROMISE, adds="committed", owned=True, prices=True),
    Verb.CAP_CHANGED: Rule(says=_ACT | {"caps"}, may_say=_PROMISE, owned=True),
    Verb.SCOPE_RETIRED: Rule(says=_ACT, owned=True),
    Verb.PLAN_REGISTERED: Rule(
        says=frozenset({"plan_hash"}),
        may_say=_BY,
        needs=(None,),
        leads=State.REGISTERED,
    ),
    Verb.PRICE_OVERRIDDEN: Rule(
        says=frozenset({"request", "reason"}),
        may_say=_BY,
        needs=(None, State.REGISTERED),
        leads=State.ALLOWED,
        owned=True,
        prices=True,
    ),
    Verb.RESERVED: Rule(
        says=frozenset({"request", "methods"}),
        may_say=_BY,
        needs=(None, State.REGISTERED, State.ALLOWED),
        leads=State.RESERVED,
        adds="reserved",
    ),
    Verb.HELD_UNTIL: Rule(
        says=frozenset({"until"}),
        needs=(State.RESERVED,),
        leads=State.RESERVED,
    ),
    Verb.STARTED: Rule(
        needs=(State.RESERVED,),
        leads=State.STARTED,
        takes="reserved",
        adds="started",
        untimed=True,
    ),
    Verb.ROUND_STARTED: Rule(
        says=frozenset({"round"}),
        needs=(State.STARTED,),
        leads=State.STARTED,
        rounds=(Stage.AHEAD, Stage.OPEN),
        stage=Stage.OPEN,
        retired=True,
        untimed=True,
    ),
    Verb.ROUND_RELEASED: Rule(
        says=frozenset({"round", "output_hash"}),
        needs=(State.STARTED,),
        leads=State.STARTED,
        rounds=(Stage.OPEN,),
        stage=Stage.RELEASED,
        retired=True,
        untimed=True,
    ),
    Verb.COMMITTED: Rule(
        says=frozenset({"evidence"}),
        needs=(State.STARTED,),
        leads=State.COMMITTED,
        takes="started",
        adds="committed",
        rounds=(Stage.AHEAD, Stage.RELEASED),
        retired=True,
        untimed=True,
    ),
    Verb.CANCELLED: Rule(
        says=frozenset({"reason"}),
        needs=(State.RESERVED,),
        leads=State.CANCELLED,
        takes="reserved",
        retired=True,
    ),
    Verb.REVOKED: Rule(
        says=_ACT,
        owned=True,
        needs=(State.RESERVED,),
        leads=State.CANCELLED,
        takes="reserved",
        retired=True,
    ),
    Verb.EXPIRED: Rule(
        needs=(State.RESERVED,),
        leads=State.CANCELLED,
        takes="reserved",
        retired=True,
    ),
    Verb.ABANDONED: Rule(
        says=_ACT,
        owned=True,
        needs=(State.STARTED,),
        leads=State.ABANDONED,
        takes="started",
        adds="committed",
        retired=True,
    ),
    Verb.WRITTEN_OFF: Rule(
        says=_ACT,
        owned=True,
        needs=(State.RESERVED,),
        leads=State.ABANDONED,
        takes="reserved",
        adds="committed",
        retired=True,
    ),
    Verb.DECOMMISSIONED: Rule(
        says=_ACT,
        owned=True,
        needs=(State.COMMITTED, State.ABANDONED),
        leads=State.DECOMMISSIONED,
        notes="decommissioned",
        retired=True,
    ),
    Verb.LEDGER_RESTORED: Rule(says=_ACT, whole=True, owned=True),
    Verb.RESTORE_ACCEPTED: Rule(says=_ACT | {"restored"}, whole=True, owned=True),
}

# Out of these no verb takes money, and in them nothing runs.
CLOSED = frozenset(State) - {
    state
    for rule in RULES.values()
    if rule.takes is not None or rule.adds is not None or rule.stage is not None
    for state in rule.needs
}
AHEAD = frozenset({State.REGISTERED, State.ALLOWED})  # known, and nothing is reserved yet
LATER = tuple(verb for verb, rule in RULES.items() if rule.needs and not rule.opens)  # what happens to a known charge
