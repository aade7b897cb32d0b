"""The whole proof of a ledger: every hash, every rule and every balance, worked out again from the first entry.

Three steps, none of which opens anything: ``fold`` takes in the entries as they lie there, ``compare`` holds what they
amount to against what is stored beside them, and ``reprice`` asks the accountant what was charged too little.

It shows edits, deletions, insertions and swaps, and balances that are not the sum of their entries. It cannot show that
the owner of a ledger cut its end off or rewrote all of it: compare the head with one that somebody else kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from epsilog.spend import promises, records, scopes
from epsilog.spend.amounts import Amounts
from epsilog.spend.balances import CREATING, Balance, along, measures
from epsilog.spend.entries import GENESIS, Entry, Verb, digest
from epsilog.spend.pricing import proven_least
from epsilog.spend.requests import request_of
from epsilog.spend.rows import UNREADABLE, Row, Stored, parsed
from epsilog.spend.shapes import check_shape
from epsilog.spend.states import RULES
from epsilog.terms import ConflictError, EpsilogError, LedgerIntegrityError, UnsupportedMechanismError

REPORT_EVERY = 500  # entries
PRICE_SECONDS = 20.0  # after which no further price is worked out again


@dataclass(frozen=True, slots=True)
class Verified:
    """What a sound ledger amounts to.

    Attributes:
        count: entries.
        head: hash of the last entry; keep it elsewhere, and a later cut or rewrite shows.
        balances: every budget, by scope.
        charges: every charge, by key.
        overridden: keys of the charges whose price an owner has allowed, in order.
        priced: charges whose price was worked out again, and is not below what the accountant proves.
        unpriced: charges whose price could not be: nothing proves a lower bound, or there was no time left.
        restored: indexes of the entries that say that it was restored from a backup: what came after it is missing.
    """

    count: int
    head: str
    balances: dict[str, Balance]
    charges: dict[str, records.ChargeRecord]
    overridden: tuple[str, ...] = ()
    priced: int = 0
    unpriced: int = 0
    restored: tuple[int, ...] = ()


@dataclass(slots=True)
class Books:
    """Everything the entries amount to: the whole fold, from nothing."""

    count: int = 0
    head: str = GENESIS
    balances: dict[str, Balance] = field(default_factory=dict)
    charges: dict[str, records.ChargeRecord] = field(default_factory=dict)
    rounds: dict[tuple[str, int], records.RoundState] = field(default_factory=dict)
    reserved: list[Entry] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)  # the last round of each charge
    populated: set[str] = field(default_factory=set)
    standing: records.Standing = field(default_factory=records.Standing)
    restored: list[int] = field(default_factory=list)
    promised: list[tuple[Entry, Balance]] = field(default_factory=list)  # with the budget that it was said of

    def read(self, row: Row) -> None:
        """Takes in the next row, if it follows from the one before and keeps every rule."""
        index = self.count + 1
        if row.position != index:
            raise LedgerIntegrityError(f"is missing or out of order: found {row.position!r}", index=index)
        entry = parsed(row)
        if entry.previous != self.head:
            raise LedgerIntegrityError("does not follow from the entry before it", index=index)
        try:
            self.fold(entry)
            if not entry.is_spelled(row.document):
                raise ValueError("an entry must be spelled as canonical JSON")
        except (EpsilogError, *UNREADABLE) as error:
            raise LedgerIntegrityError(f"breaks a rule of the ledger: {error}", index=index) from error
        self.count, self.head = index, digest(row.document)

    def fold(self, entry: Entry) -> None:
        """Takes in the next entry; whatever the rules refuse is an error here too."""
        check_shape(entry)
        if RULES[entry.verb].whole:
            self.standing = records.restand(self.standing, entry)
            if entry.verb is Verb.LEDGER_RESTORED:
                self.restored.append(entry.index)
            return
        known = None if entry.key is None else self.charges.get(entry.key)
        records.refuse_unsettled(self.standing, entry.verb, known)
        path = scopes.ancestors(entry.scope)
        creates = entry.verb in CREATING
        if creates:
            scopes.refuse_late_budget(
                entry.scope, exists=entry.scope in self.balances, populated=entry.scope in self.populated
            )
        budgets = [self.balances[scope] for scope in path if scope in self.balances]
        if not creates:
            scopes.require_budget(entry.scope, budgets)
        moved = {budget.scope: budget for budget in along(budgets, entry)}
        if entry.key is None:
            if not (creates or entry.scope in self.balances):
                raise ConflictError(f"scope {entry.scope!r} has no budget")
            self.balances |= moved
            if "promise" in entry.body:
                self.promised.append((entry, moved[entry.scope]))
            return
        key = entry.key
        if entry.verb is Verb.RESERVED:
            due = measures(budgets)
            given = {kind: tuple(amount) for kind, amount in entry.amounts.items()}
            if given != due or set(entry.body["methods"]) != set(due):
                raise ValueError(f"must be charged as {due}, got {given}")
            self.reserved.append(entry)
        last = self.rounds.get((key, self.begun.get(key, 0)))
        charge = records.advance(self.charges.get(key), entry, last=last)
        if RULES[entry.verb].stage is not None:
            place = (key, entry.body["round"])
            self.rounds[place] = records.advance_round(charge, self.rounds.get(place), entry, last=last)
            self.begun[key] = max(self.begun.get(key, 0), entry.body["round"])
        self.balances |= moved
        self.charges[key] = charge
        self.populated.update(path)


def fold(rows: Iterable[Row], *, progress: Callable[[int], None] | None = None) -> Books:
    """Works out what all entries amount to.

    Args:
        rows: the entries as they lie there, in order, from the first.
        progress: told how many held so far, now and then; what it raises ends the check.

    Raises:
        LedgerIntegrityError: with the index of the first entry that does not hold.
    """
    books = Books()
    for row in rows:
        books.read(row)
        if progress is not None and books.count % REPORT_EVERY == 0:
            progress(books.count)
    return books


def compare(books: Books, stored: Stored) -> None:
    """Requires that head, balances, charges and rounds are stored as the entries have them, row by row."""
    if stored.head != (books.count, books.head):
        raise LedgerIntegrityError(
            f"the head names {stored.head[0]} entries, and {books.count} are there", index=books.count
        )
    balances = {scope: balance.document() for scope, balance in books.balances.items()}
    charges = {key: (charge.scope, charge.document()) for key, charge in books.charges.items()}
    pairs: tuple[tuple[str, Mapping[Any, object], Mapping[Any, object]], ...] = (
        ("balance", balances, stored.balances),
        ("charge", charges, stored.charges),
        ("round", books.rounds, stored.rounds),
    )
    for what, folded, found in pairs:
        for name in folded.keys() | found.keys():
            if folded.get(name) != found.get(name):
                raise LedgerIntegrityError(
                    f"stored {what} {name!r} is not what the entries amount to", index=books.count
                )


def reprice(books: Books, *, seconds: float = PRICE_SECONDS) -> Verified:
    """Compares what was charged with what the accountant proves today; prices that an owner has allowed are not judged.

    Args:
        books: what the entries amount to.
        seconds: after which no further price is worked out. A price that is being worked out is waited for.

    Raises:
        LedgerIntegrityError: with the index of a reservation that was charged less than its release costs, or of a
            budget whose caps do not keep what it promises.
    """
    for entry, balance in books.promised:
        _hold_promise(entry, balance)
    overridden = tuple(key for key, charge in books.charges.items() if charge.waiver is not None)
    left, deadline, known = set(overridden), time.monotonic() + seconds, dict[str, Amounts | None]()
    judged = [_priced(entry, known, deadline) for entry in books.reserved if entry.key not in left]
    return Verified(
        books.count,
        books.head,
        books.balances,
        books.charges,
        overridden,
        priced=judged.count(True),
        unpriced=judged.count(False),
        restored=tuple(books.restored),
    )


def _hold_promise(entry: Entry, balance: Balance) -> None:
    """Requires that the caps of a budget keep what it promises; an error otherwise."""
    assert balance.promise is not None
    delta, relation = balance.promise["delta"], balance.relation
    epsilon = promises.kept_epsilon(balance.kind, balance.caps, delta=delta, relation=relation)
    if epsilon > Fraction(balance.promise["epsilon"]):
        said = f"promises {dict(balance.promise)} by {dict(balance.caps)}, of which epsilon {epsilon:.9g} is proved"
        raise LedgerIntegrityError(said, index=entry.index)


def _priced(entry: Entry, known: dict[str, Amounts | None], deadline: float) -> bool:
    """Whether all that a reservation was charged could be worked out again; too little is an error."""
    least = [_least(entry, kind, charged, known, deadline) for kind, charged in entry.amounts.items()]
    for charged, proven in zip(entry.amounts.values(), least, strict=True):
        if proven is not None and any(charged.units[quantity] < units for quantity, units in proven.units.items()):
            raise LedgerIntegrityError(
                f"charged {dict(charged)}, and its release costs at least {dict(proven)}", index=entry.index
            )
    return None not in least


def _least(
    entry: Entry, kind: str, charged: Amounts, known: dict[str, Amounts | None], deadline: float
) -> Amounts | None:
    """What a reservation costs at least under one kind of budget; the same question is asked once."""
    asked = {name: value for name, value in entry.body["request"].items() if name not in ("plan_hash", "rounds")}
    question = json.dumps([asked, kind, list(charged), charged.get("delta")], sort_keys=True)
    if question not in known:
        try:
            late = time.monotonic() > deadline
            known[question] = None if late else proven_least(request_of(entry.body), kind, charged)
        except (UnsupportedMechanismError, ArithmeticError):
            known[question] = None
    return known[question]
