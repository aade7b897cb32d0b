"""The whole proof of a ledger: every hash, every rule and every balance, worked out again from the first entry.

It shows edits, deletions, insertions and swaps, and balances that are not the sum of their entries. It cannot show that
the owner of the file cut its end off or rewrote all of it: compare the head with one that somebody else kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog.spend import folds, scopes
from epsilog.spend.amounts import Amounts
from epsilog.spend.entries import APPLICATION_ID, GENESIS, Entry, Verb, digest
from epsilog.spend.place import peek
from epsilog.spend.pricing import proven_least
from epsilog.spend.requests import request_of
from epsilog.spend.shapes import check_shape
from epsilog.spend.states import RULES
from epsilog.terms import EpsilogError, LedgerIntegrityError, UnsupportedMechanismError
from epsilog.terms.codec import canonical

if TYPE_CHECKING:
    from epsilog.spend.rows import Session
    from epsilog.spend.store import Store


REPORT_EVERY = 500  # entries


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
    """

    count: int
    head: str
    balances: dict[str, folds.Balance]
    charges: dict[str, folds.ChargeRecord]
    overridden: tuple[str, ...] = ()
    priced: int = 0
    unpriced: int = 0


@dataclass(slots=True)
class Books:
    """Everything the entries amount to: the whole fold, from nothing."""

    balances: dict[str, folds.Balance] = field(default_factory=dict)
    charges: dict[str, folds.ChargeRecord] = field(default_factory=dict)
    rounds: dict[tuple[str, int], folds.RoundState] = field(default_factory=dict)
    reserved: list[Entry] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)  # the last round of each charge
    populated: set[str] = field(default_factory=set)

    def fold(self, entry: Entry) -> None:
        """Takes in the next entry; whatever the rules refuse is an error here too."""
        path = scopes.ancestors(entry.scope)
        check_shape(entry)
        if entry.verb is Verb.BUDGET_CREATED:
            scopes.refuse_late_budget(
                entry.scope, exists=entry.scope in self.balances, populated=entry.scope in self.populated
            )
            self.balances[entry.scope] = folds.opened_balance(entry)
            return
        budgets = [scope for scope in path if scope in self.balances]
        scopes.require_budget(entry.scope, budgets)
        moved = {scope: folds.apply(self.balances[scope], entry) for scope in budgets}
        key = str(entry.key)
        kinds = {self.balances[scope].kind for scope in budgets}
        if entry.verb is Verb.RESERVED:
            if set(entry.amounts) != kinds or set(entry.body["methods"]) != kinds:
                raise ValueError(f"must be charged as {sorted(kinds)}, got {sorted(entry.amounts)}")
            self.reserved.append(entry)
        last = self.rounds.get((key, self.begun.get(key, 0)))
        charge = folds.advance(self.charges.get(key), entry, last=last)
        if RULES[entry.verb].stage is not None:
            place = (key, entry.body["round"])
            self.rounds[place] = folds.advance_round(charge, self.rounds.get(place), entry, last=last)
            self.begun[key] = max(self.begun.get(key, 0), entry.body["round"])
        self.balances |= moved
        self.charges[key] = charge
        self.populated.update(path)


PRICE_SECONDS = 20.0  # after which no further price is worked out again


def verify(store: Store, *, progress: Callable[[int], None] | None = None, seconds: float = PRICE_SECONDS) -> Verified:
    """Checks a whole ledger: its entries in one consistent view of it, and then its prices.

    Args:
        store: the ledger's file.
        progress: told how many entries held so far, now and then; what it raises ends the check.
        seconds: after which no further price is worked out again. A price that is being worked out is waited for.

    Raises:
        LedgerIntegrityError: with the index of the first entry that does not hold.
    """
    with store.reading() as session:
        found, reserved = refold(session, progress=progress)
    waived = {key for key, charge in found.charges.items() if charge.waiver is not None}
    priced, unpriced = _reprice([entry for entry in reserved if entry.key not in waived], time.monotonic() + seconds)
    return replace(found, priced=priced, unpriced=unpriced)


def _reprice(reserved: list[Entry], deadline: float) -> tuple[int, int]:
    """Compares what was charged with what the accountant proves today; counts what it could and could not."""
    known: dict[str, Amounts | None] = {}
    counts = [0, 0]
    for entry in reserved:
        request, proven = request_of(entry.body), True
        for kind, charged in entry.amounts.items():
            asked = {
                name: value for name, value in entry.body["request"].items() if name not in ("plan_hash", "rounds")
            }
            question = canonical([asked, kind, charged.get("delta")]).decode()
            if question not in known:
                try:
                    known[question] = None if time.monotonic() > deadline else proven_least(request, kind, charged)
                except (UnsupportedMechanismError, ArithmeticError):
                    known[question] = None
            least = known[question]
            if least is None:
                proven = False
            elif any(charged.units[quantity] < units for quantity, units in least.units.items()):
                raise LedgerIntegrityError(
                    f"charged {dict(charged)}, and its release costs at least {dict(least)}", index=entry.index
                )
        counts[not proven] += 1
    return counts[0], counts[1]


def refold(session: Session, *, progress: Callable[[int], None] | None = None) -> tuple[Verified, list[Entry]]:
    """Checks everything but prices, in one consistent view; returns the reservations too.

    Args:
        session: the view.
        progress: told how many entries held so far, now and then; what it raises ends the check.

    Raises:
        LedgerIntegrityError: with the index of the first entry that does not hold.
    """
    from epsilog.spend.rows import UNREADABLE, parsed

    session.check_format()
    pages = session.integrity()
    if pages != "ok":
        raise LedgerIntegrityError(f"SQLite finds the file damaged: {pages}")
    books, previous, count = Books(), GENESIS, 0
    for row in session.rows():
        count += 1
        if row.position != count:
            raise LedgerIntegrityError(f"is missing or out of order: found {row.position!r}", index=count)
        entry = parsed(row)
        if entry.previous != previous:
            raise LedgerIntegrityError("does not follow from the entry before it", index=count)
        try:
            books.fold(entry)
        except (EpsilogError, *UNREADABLE) as error:
            raise LedgerIntegrityError(f"breaks a rule of the ledger: {error}", index=count) from error
        previous = digest(row.document)
        if progress is not None and count % REPORT_EVERY == 0:
            progress(count)
    if session.stored_head() != (count, previous):
        raise LedgerIntegrityError(
            f"the head names {session.stored_head()[0]} entries, and {count} are there", index=count
        )
    _compare(session, books, count)
    overridden = tuple(key for key, charge in books.charges.items() if charge.waiver is not None)
    return Verified(count, previous, books.balances, books.charges, overridden), books.reserved


def _compare(session: Session, books: Books, count: int) -> None:
    """Stored balances, charges and rounds are those of the entries, row by row."""
    balances, charges, rounds = session.derived()
    expected: tuple[tuple[str, Mapping[Any, object], Mapping[Any, object]], ...] = (
        ("balance", {scope: balance.document() for scope, balance in books.balances.items()}, balances),
        ("charge", {key: (charge.scope, charge.document()) for key, charge in books.charges.items()}, charges),
        ("round", books.rounds, rounds),
    )
    for what, folded, stored in expected:
        for name in folded.keys() | stored.keys():
            if folded.get(name) != stored.get(name):
                raise LedgerIntegrityError(f"stored {what} {name!r} is not what the entries amount to", index=count)


def is_ledger(path: Path) -> bool:
    """Tells a ledger by its content: an SQLite file that carries our application id."""
    header = peek(path, 100)
    return header.startswith(b"SQLite format 3\0") and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def verify_file(path: Path) -> Verified:
    """Checks a ledger file without writing to it; see ``verify``."""
    from epsilog.spend.store import Store

    store = Store(path, read_only=True)
    try:
        return verify(store)
    finally:
        store.close()
