"""Balances and charges as folds over entries: pure functions that say what each entry does, or refuse it.

``Ledger`` folds one entry onto the stored state before it writes; ``chain`` folds all of them from nothing and
compares. Both call the same functions: ``apply`` for a budget on the entry's path, ``advance`` for its charge.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from epsilog.spend.amounts import Amounts
from epsilog.spend.entries import Entry, Verb, digest
from epsilog.spend.filters import filter_of, fits
from epsilog.terms import BudgetExceededError, ConflictError, NeighboringRelation, check
from epsilog.terms.codec import canonical


def ancestors(scope: str) -> tuple[str, ...]:
    """The scope and everything above it, from the top; a malformed scope is a ``ValueError``.

    >>> ancestors("acme/claims/2026-Q4")
    ('acme', 'acme/claims', 'acme/claims/2026-Q4')
    """
    scope = check.text()(scope=scope)
    parts = scope.split("/")
    if not all(part == part.strip() and part.strip(".") for part in parts) or not _plain(scope):
        raise ValueError(f"scope must be names joined by '/', printable and without blank ends, got {scope[:80]!r}")
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def _plain(text: str) -> bool:
    """Short, printable and spelled in one way: no control characters, no surrogates, no second form of a letter."""
    return len(text) <= 500 and text.isprintable() and unicodedata.is_normalized("NFC", text)


def check_key(key: str) -> None:
    """Requires an idempotency key: printable text of at most 500 characters."""
    key = check.text()(key=key)
    if not _plain(key):
        raise ValueError(f"key must be printable (NFC) text of at most 500 characters, got {key[:80]!r}")


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
        state: allowed (an owner has overridden its price, and nothing else has happened), reserved, started, committed
            or cancelled.
        amounts: its price, by kind of budget.
        rounds: the most rounds it may run; None for no limit.
        opened: index of the entry that reserved it, or allowed it.
        closed: index of the entry that committed or cancelled it; None while it is open.
        waiver: SHA-256 of the one request that it may be reserved with, if an owner has overridden its price.
    """

    key: str
    scope: str
    state: str
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
        return cls(**data | {"amounts": {kind: Amounts.stored(amount) for kind, amount in data["amounts"].items()}})


@dataclass(frozen=True, slots=True)
class RoundState:
    """One round of a charge: how often it was begun, and the hash of what it released, once it has."""

    number: int
    attempts: int
    output_hash: str | None = None


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
    if entry.verb not in MOVES:
        return balance
    amount = entry.amounts[balance.kind]
    if entry.verb is Verb.RESERVED:
        _admit(balance, entry, amount)
    source, target = MOVES[entry.verb]
    moved = balance if source is None else replace(balance, **{source: getattr(balance, source) - amount})
    return moved if target is None else replace(moved, **{target: getattr(moved, target) + amount})


# from where to where each verb moves the money of a charge
MOVES: dict[Verb, tuple[str | None, str | None]] = {
    Verb.RESERVED: (None, "reserved"),
    Verb.STARTED: ("reserved", "started"),
    Verb.COMMITTED: ("started", "committed"),
    Verb.CANCELLED: ("reserved", None),
}


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


ROUND_VERBS = (Verb.ROUND_STARTED, Verb.ROUND_RELEASED)
STATES = {Verb.STARTED: "started", Verb.COMMITTED: "committed", Verb.CANCELLED: "cancelled"}
NEEDS = {
    Verb.STARTED: "reserved",
    Verb.CANCELLED: "reserved",
    Verb.ROUND_STARTED: "started",
    Verb.ROUND_RELEASED: "started",
    Verb.COMMITTED: "started",
}


def advance(charge: ChargeRecord | None, entry: Entry, *, last: RoundState | None = None) -> ChargeRecord:
    """What an entry does to its charge; a verb that the charge's state does not allow is a ``ConflictError``.

    Args:
        charge: where it stands; None if nothing is known of its key.
        entry: what happens.
        last: the last round that it began.
    """
    if entry.verb in (Verb.PRICE_OVERRIDDEN, Verb.RESERVED):
        return _opened(charge, entry)
    if charge is None or charge.scope != entry.scope:
        raise ConflictError(f"charge {entry.key!r} must have been reserved at {entry.scope!r}")
    if charge.state != NEEDS[entry.verb]:
        raise ConflictError(
            f"{entry.verb} needs charge {charge.key!r} to be {NEEDS[entry.verb]}, and it is {charge.state}"
        )
    if entry.verb is Verb.COMMITTED and last is not None and last.output_hash is None:
        raise ConflictError(f"round {last.number} of charge {charge.key!r} is open: it releases before the commit")
    if entry.verb in STATES:
        if entry.amounts != charge.amounts:
            raise ConflictError(f"charge {charge.key!r} must move what was reserved")
        closed = None if entry.verb is Verb.STARTED else entry.index
        return replace(charge, state=STATES[entry.verb], closed=closed)
    return charge


def _opened(charge: ChargeRecord | None, entry: Entry) -> ChargeRecord:
    """A charge whose price an owner overrides, or that is reserved: each once, and in that order."""
    key, request = str(entry.key), entry.body["request"]
    allowed = charge is not None and charge.state == "allowed" and entry.verb is Verb.RESERVED
    if entry.key is None or not (charge is None or allowed):
        raise ConflictError(f"charge {entry.key!r} must be reserved once")
    waiver = waiver_of(request) if entry.verb is Verb.PRICE_OVERRIDDEN else None
    if charge is not None:
        if (charge.scope, charge.waiver) != (entry.scope, waiver_of(request)):
            raise ConflictError(f"charge {key!r} was allowed for another request (entry {charge.opened})")
        waiver = charge.waiver
    state = "reserved" if entry.verb is Verb.RESERVED else "allowed"
    return ChargeRecord(key, entry.scope, state, entry.amounts, request["rounds"], opened=entry.index, waiver=waiver)


def waiver_of(request: Mapping[str, Any]) -> str:
    """What stands for a request whose price an owner has overridden."""
    return digest(canonical(dict(request)).decode())


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
    if state is not None and state.output_hash is not None:
        raise ConflictError(
            f"round {number} of charge {charge.key!r} is released: it is neither rerun nor released again"
        )
    if entry.verb is Verb.ROUND_STARTED:
        if state is not None:
            return RoundState(number, state.attempts + 1)
        begun, released = (0, True) if last is None else (last.number, last.output_hash is not None)
        if number != begun + 1 or not released:
            raise ConflictError(
                f"round {number} of charge {charge.key!r} must begin when round {number - 1} is released, and "
                f"{'round ' + str(begun) if begun else 'none'} was the last to begin"
            )
        return RoundState(number, 1)
    if state is None:
        raise ConflictError(f"round {number} of charge {charge.key!r} must start before it releases")
    return replace(state, output_hash=entry.body["output_hash"])


def refuse_late_budget(scope: str, *, exists: bool, populated: bool) -> None:
    """A budget is created once, and before any charge beneath it: it could not count what came earlier."""
    if exists:
        raise ConflictError(f"budget of {scope!r} exists already")
    if populated:
        raise ConflictError(f"budget of {scope!r} must be created before any charge at or under that scope")


def require_budget(scope: str, budgets: Sequence[object]) -> None:
    """Some scope on the path must have a budget: money is never spent where nobody counts it."""
    if not budgets:
        raise ValueError(
            f"scope must lie at or under a budget, got {scope!r}: its owner makes one with create_budget or "
            f"`epsilog ledger create {scope}`"
        )
