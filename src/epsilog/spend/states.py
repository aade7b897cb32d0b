"""The life of a charge as one table: for each verb, when it is allowed, where it leads, and where the money goes.

Whatever decides about state or money is a column of ``RULES``: ``shapes`` reads which fields an entry has, ``folds``
what it does to a charge, to its rounds and to every budget on its path. To add a verb is to add a row. Two things are
not in the table, since they compare numbers: whether a reservation fits (``filters``), and that rounds leave no gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epsilog.spend.entries import Verb


class State(StrEnum):
    """Where a charge stands. A key of which nothing is known is in none of them: None in the table."""

    ALLOWED = "allowed"  # an owner has overridden its price, and nothing else has happened
    RESERVED = "reserved"
    STARTED = "started"
    COMMITTED = "committed"
    CANCELLED = "cancelled"


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
        needs: states of the charge in which it is allowed; None for a key of which nothing is known. Empty for a verb
            that is of no charge.
        leads: the state that the charge is in afterwards.
        takes: the sum of every budget on the path that the charge's price is taken from.
        adds: the sum that it is added to. What is added without being taken must fit.
        rounds: stages in which the round must be: the one that is named, or else the last that began.
        stage: the stage that the named round is in afterwards.
    """

    says: frozenset[str] = frozenset()
    needs: tuple[State | None, ...] = ()
    leads: State | None = None
    takes: str | None = None
    adds: str | None = None
    rounds: tuple[Stage, ...] = tuple(Stage)
    stage: Stage | None = None

    @property
    def opens(self) -> bool:
        """Whether it is the first that is heard of a charge."""
        return None in self.needs

    @property
    def moves(self) -> bool:
        """Whether money moves."""
        return self.takes is not None or self.adds is not None


RULES = {
    Verb.BUDGET_CREATED: Rule(
        says=frozenset({"kind", "caps", "relation", "privacy_unit", "simulation"}),
    ),
    Verb.PRICE_OVERRIDDEN: Rule(
        says=frozenset({"request", "reason"}),
        needs=(None,),
        leads=State.ALLOWED,
    ),
    Verb.RESERVED: Rule(
        says=frozenset({"request", "methods"}),
        needs=(None, State.ALLOWED),
        leads=State.RESERVED,
        adds="reserved",
    ),
    Verb.STARTED: Rule(
        needs=(State.RESERVED,),
        leads=State.STARTED,
        takes="reserved",
        adds="started",
    ),
    Verb.ROUND_STARTED: Rule(
        says=frozenset({"round"}),
        needs=(State.STARTED,),
        leads=State.STARTED,
        rounds=(Stage.AHEAD, Stage.OPEN),
        stage=Stage.OPEN,
    ),
    Verb.ROUND_RELEASED: Rule(
        says=frozenset({"round", "output_hash"}),
        needs=(State.STARTED,),
        leads=State.STARTED,
        rounds=(Stage.OPEN,),
        stage=Stage.RELEASED,
    ),
    Verb.COMMITTED: Rule(
        says=frozenset({"evidence"}),
        needs=(State.STARTED,),
        leads=State.COMMITTED,
        takes="started",
        adds="committed",
        rounds=(Stage.AHEAD, Stage.RELEASED),
    ),
    Verb.CANCELLED: Rule(
        says=frozenset({"reason"}),
        needs=(State.RESERVED,),
        leads=State.CANCELLED,
        takes="reserved",
    ),
}

CLOSED = frozenset(State) - {state for rule in RULES.values() for state in rule.needs}  # no verb leads out of them
LATER = tuple(verb for verb, rule in RULES.items() if rule.needs and not rule.opens)  # what happens to a known charge
