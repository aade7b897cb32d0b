"""Balances and charges as folds over entries: pure functions that say what each entry does, or refuse it.

``Ledger`` folds one entry onto the stored state before it writes; ``chain`` folds all of them from nothing and
compares. Both call the same functions, and those read the table in ``states``: ``apply`` for a budget on the entry's
path, ``advance`` for its charge, ``advance_round`` for a round of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

from epsilog.spend.amounts import Amounts
from epsilog.spend.entries import Entry
from epsilog.spend.filters import filter_of, fits
from epsilog.spend.requests import waiver_of
from epsilog.spend.states import CLOSED, RULES, Rule, Stage, State
from epsilog.terms import BudgetExceededError, ConflictError, NeighboringRelation, check
from epsilog.terms.notebook import html_table

_SHOWN = ("caps", "reserved", "spent", "available")


@dataclass(frozen=True, slots=True)
class Balance:
    """A budget and what has happened under it. All amounts read as decimal strings by quantity.

    Attributes:
        scope: where it stands in the tree.
        kind: pure, approximate, zcdp or gdp.
        relation: the neighboring relation under which everything in it is accounted.
        privacy_unit: what one neighbour differs in; None if not stated.
        simulation: whether it takes charges of simulations, and those only.
        caps: the limit.
        reserved: promised to charges that have not started.
        started: spent by charges that are running, or stopped running without a word.
        committed: spent by charges that are closed.
    """

    scope: str
    kind: str
    relation: NeighboringRelation
    privacy_unit: str | None
    simulation: bool
    caps: Amounts
    reserved: Amounts
    started: Amounts
    committed: Amounts

    @property
    def spent(self) -> Amounts:
        """Gone for ever: everything that has started."""
        return self.started + self.committed

    @property
    def held(self) -> Amounts:
        """What stands against the cap: spent, or promised."""
        return self.spent + self.reserved

    @property
    def available(self) -> Amounts:
        """What a further charge may cost."""
        return self.caps - self.held

    @property
    def terms(self) -> tuple[object, ...]:
        """What was fixed at its birth."""
        return self.kind, self.caps, self.relation, self.privacy_unit, self.simulation

    @property
    def theorem(self) -> str:
        """Why these sums may be compared with the cap."""
        return filter_of(self.kind).theorem

    def _repr_html_(self) -> str:
        rows = [(name, *(getattr(self, part)[name] for part in _SHOWN)) for name in self.caps]
        return html_table(f"{self.scope}: {self.kind}, {self.relation}", rows, ["", "cap", *_SHOWN[1:]])

    def document(self) -> str:
        """The JSON that is stored."""
        return _json(self)

    @classmethod
    def parse(cls, document: str) -> Self:
        """Reads what ``document`` wrote."""
        data = json.loads(document)
        money = {name: Amounts.stored(data.pop(name)) for name in ("caps", "reserved", "started", "committed")}
        return cls(**data | money | {"relation": NeighboringRelation(data["relation"])})


@dataclass(frozen=True, slots=True)
class ChargeRecord:
    """Where a charge stands.

    Attributes:
        key: its idempotency key.
        scope: the scope it names.
        state: one of those in ``states``.
        amounts: its price, by kind of budget.
        rounds: the most rounds it may run; None for no limit.
        opened: index of the entry that reserved it, or allowed it.
        closed: index of the entry that committed or cancelled it; None while it is open.
        waiver: SHA-256 of the one request that it may be reserved with, if an owner has overridden its price.
    """

    key: str
    scope: str
    state: State
    amounts: Mapping[str, Amounts]
    rounds: int | None
    opened: int
    closed: int | None = None
    waiver: str | None = None

    def document(self) -> str:
        """The JSON that is stored."""
        return _json(self)

    @classmethod
    def parse(cls, document: str) -> Self:
        """Reads what ``document`` wrote."""
        data = json.loads(document)
        amounts = {kind: Amounts.stored(amount) for kind, amount in data["amounts"].items()}
        return cls(**data | {"state": State(data["state"]), "amounts": amounts})


@dataclass(frozen=True, slots=True)
class RoundState:
    """One round of a charge: how often it was begun, and the hash of what it released, once it has."""

    number: int
    attempts: int
    output_hash: str | None = None


def stage_of(state: RoundState | None) -> Stage:
    """Where a round stands; None is one that never began."""
    if state is None:
        return Stage.AHEAD
    return Stage.OPEN if state.output_hash is None else Stage.RELEASED


def _json(state: Balance | ChargeRecord) -> str:
    """One spelling for equal states, so that a stored one can be compared with a refolded one."""
    return json.dumps({f.name: getattr(state, f.name) for f in fields(state)}, default=dict, sort_keys=True)


def opened_balance(entry: Entry) -> Balance:
    """The balance of a budget just created."""
    caps = Amounts.stored(entry.body["caps"])
    nothing = Amounts.zero(caps)
    return Balance(
        scope=entry.scope,
        kind=entry.body["kind"],
        relation=NeighboringRelation(entry.body["relation"]),
        privacy_unit=entry.body["privacy_unit"],
        simulation=entry.body["simulation"],
        caps=caps,
        reserved=nothing,
        started=nothing,
        committed=nothing,
    )


def apply(balance: Balance, entry: Entry) -> Balance:
    """What an entry under ``balance.scope`` does to the balance.

    Raises:
        BudgetExceededError: a reservation that does not fit.
        ConflictError: a reservation for another relation, privacy unit, or kind of run.
    """
    rule = RULES[entry.verb]
    if not rule.moves:
        return balance
    amount = entry.amounts[balance.kind]
    if rule.takes is None:
        _admit(balance, entry, amount)
    else:
        balance = replace(balance, **{rule.takes: getattr(balance, rule.takes) - amount})
    return balance if rule.adds is None else replace(balance, **{rule.adds: getattr(balance, rule.adds) + amount})


def _admit(balance: Balance, entry: Entry, amount: Amounts) -> None:
    request = entry.body["request"]
    for field_name in ("relation", "privacy_unit", "simulation"):
        asked, stated = request[field_name], getattr(balance, field_name)
        if asked != stated:
            raise ConflictError(
                f"{field_name} must be that of the budget of {balance.scope!r} ({stated}), got {asked}: "
                "losses of different kinds do not add up"
            )
    if not fits(balance.caps, held=balance.held, asked=amount):
        raise BudgetExceededError(scope=balance.scope, requested=dict(amount), available=dict(balance.available))


def advance(charge: ChargeRecord | None, entry: Entry, *, last: RoundState | None = None) -> ChargeRecord:
    """What an entry does to its charge; a verb that the charge's state does not allow is a ``ConflictError``.

    Args:
        charge: where it stands; None if nothing is known of its key.
        entry: what happens.
        last: the last round that it began.
    """
    rule = RULES[entry.verb]
    if rule.opens:
        return _opened(charge, entry, rule)
    if charge is None or charge.scope != entry.scope:
        raise ConflictError(f"charge {entry.key!r} must have been reserved at {entry.scope!r}")
    if charge.state not in rule.needs:
        needed = " or ".join(str(state) for state in rule.needs)
        raise ConflictError(f"{entry.verb} needs charge {charge.key!r} to be {needed}, and it is {charge.state}")
    if rule.stage is None and stage_of(last) not in rule.rounds:
        assert last is not None, "a charge without rounds has none in a wrong stage"
        raise ConflictError(f"round {last.number} of charge {charge.key!r} is open: it releases before the commit")
    if rule.moves and entry.amounts != charge.amounts:
        raise ConflictError(f"charge {charge.key!r} must move what was reserved")
    assert rule.leads is not None, "every verb of a charge leads to a state"
    return replace(charge, state=rule.leads, closed=entry.index if rule.leads in CLOSED else None)


def _opened(charge: ChargeRecord | None, entry: Entry, rule: Rule) -> ChargeRecord:
    """A charge whose price an owner overrides, or that is reserved: each once, and in that order."""
    key, request = str(entry.key), entry.body["request"]
    if entry.key is None or (None if charge is None else charge.state) not in rule.needs:
        raise ConflictError(f"charge {entry.key!r} must be reserved once")
    assert rule.leads is not None, "every verb of a charge leads to a state"
    waiver = waiver_of(request) if rule.leads is State.ALLOWED else None
    if charge is not None:
        if (charge.scope, charge.waiver) != (entry.scope, waiver_of(request)):
            raise ConflictError(f"charge {key!r} was allowed for another request (entry {charge.opened})")
        waiver = charge.waiver
    return ChargeRecord(
        key, entry.scope, rule.leads, entry.amounts, request["rounds"], opened=entry.index, waiver=waiver
    )


def advance_round(
    charge: ChargeRecord, state: RoundState | None, entry: Entry, *, last: RoundState | None
) -> RoundState:
    """What a round entry does to its round.

    Rounds follow each other: one begins when the one before it is released. A round may begin again, under the same
    charge, as long as nothing of it was released.

    Args:
        charge: whose round it is.
        state: the round, if it began.
        entry: what happens.
        last: the last round that began, if any did.
    """
    number = check.integer(1)(round=entry.body["round"])
    if charge.rounds is not None and number > charge.rounds:
        raise ConflictError(
            f"round must be at most {charge.rounds}, as charge {charge.key!r} was planned, got {number}"
        )
    rule, stage = RULES[entry.verb], stage_of(state)
    if stage not in rule.rounds:
        refusal = {
            Stage.AHEAD: "must start before it releases",
            Stage.RELEASED: "is released: it is neither rerun nor released again",
        }
        raise ConflictError(f"round {number} of charge {charge.key!r} {refusal[stage]}")
    if state is None:
        _require_turn(charge, number, last)
        return RoundState(number, attempts=1)
    if rule.stage is Stage.RELEASED:
        return replace(state, output_hash=entry.body["output_hash"])
    return replace(state, attempts=state.attempts + 1)


def _require_turn(charge: ChargeRecord, number: int, last: RoundState | None) -> None:
    """A round begins when the one before it is released."""
    begun = 0 if last is None else last.number
    if number != begun + 1 or stage_of(last) is Stage.OPEN:
        raise ConflictError(
            f"round {number} of charge {charge.key!r} must begin when round {number - 1} is released, and "
            f"{'round ' + str(begun) if begun else 'none'} was the last to begin"
        )
