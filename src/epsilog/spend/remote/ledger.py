"""A ledger that a server keeps, with the same interface as one that is open here.

Each verb is asked over HTTP and refused by the same errors, with the same fields. The server prices, and what it says
is done is on its disk.

An answer may be lost. What is the same when said twice is said again. Where our doing could not be told from another's,
the error says that it is not known: nobody releases for a charge without knowing who started it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from epsilog.mechanisms import Release
from epsilog.signing import VerifierKey
from epsilog.spend import chain, scopes, wire
from epsilog.spend.amounts import Amounts, Number, rdp_quantity
from epsilog.spend.balances import Balance
from epsilog.spend.charge import Charge
from epsilog.spend.checkpoints import Kept
from epsilog.spend.entries import Entry, Verb, sha256
from epsilog.spend.headroom import Headroom
from epsilog.spend.remote.connection import Connection, MissingError
from epsilog.spend.remote.store import RemoteStore, as_budget, as_row
from epsilog.spend.requests import Request
from epsilog.spend.rows import parsed
from epsilog.spend.shapes import moment
from epsilog.spend.states import LATER
from epsilog.spend.view import LedgerView
from epsilog.terms import (
    BudgetExceededError,
    CheckError,
    EpsilogError,
    LedgerIntegrityError,
    NeighboringRelation,
    UnansweredError,
    UnsupportedMechanismError,
    check,
)

_REFUSED_AS_BEFORE = (BudgetExceededError, CheckError, UnsupportedMechanismError)


class RemoteView(LedgerView):
    """All that can be asked of a ledger that a server keeps; each answer is of its own moment.

    Args:
        connection: to the server; closed with the view.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(RemoteStore(connection))
        self._connection = connection

    def spending(self, scope: str, *, limit: int = 100) -> list[tuple[Entry, Amounts]]:
        """What the newest charges under a budget cost, at most 500; see ``LedgerView.spending``."""
        scopes.ancestors(scope)
        limit = min(check.integer(1)(limit=limit), 500)
        found = self._connection.get("/spending", scope=scope, limit=limit)["spending"]
        return [(parsed(as_row(one["entry"])), Amounts.stored(one["total"])) for one in found]

    def what_fits(
        self,
        scope: str,
        release: Release | None = None,
        *,
        delta: Number | None = None,
        relation: NeighboringRelation | None = None,
    ) -> Headroom:
        """What a scope can still bear, as the server prices it; see ``LedgerView.what_fits``."""
        scopes.ancestors(scope)
        ask: dict[str, Any] = {"scope": scope}
        if release is not None:
            asked = Request(release, relation, delta=delta).to_json()
            ask |= {name: asked[name] for name in ("release", "delta", "relation")}
        found, _ = self._connection.post("/fits", ask)
        return Headroom(Amounts.stored(found["available"]), found["charges"], found["repetitions"])

    def verify(
        self,
        *,
        progress: Callable[[int], None] | None = None,
        seconds: float = chain.PRICE_SECONDS,
        since: Kept | None = None,
        keys: Collection[VerifierKey] = (),
    ) -> chain.Verified:
        """Works the whole ledger out again, here: its entries as the server tells them, and then its prices.

        See ``LedgerView.verify``. What the server keeps beside the entries is compared with theirs as far as it is
        told: balances, and of charges none.

        Raises:
            CheckError: none of the keys has signed the checkpoint.
            LedgerIntegrityError: with the index of the first entry that does not hold.
            AccessError: the token does not let all entries be read.
        """
        begins = None if since is None else since.signed_by(keys)
        with self._store.reading() as session:
            head, told, now = session.head(), session.balances(None), session.head()
            rows = takewhile(lambda row: row.position <= head[0], session.rows())
            books = chain.fold(rows, progress=progress, since=begins)
        if (books.count, books.head) != head:
            raise LedgerIntegrityError("the head that the server names is not that of its entries", index=books.count)
        if now == head and books.balances != {budget.scope: budget for budget in told}:
            raise LedgerIntegrityError("the balances that the server tells are not those of its entries")
        return replace(chain.reprice(books, seconds=seconds), charges_told=False)


class RemoteLedger(RemoteView):
    """A ledger that a server keeps; see ``Ledger`` for the verbs. Use it as a context manager, or ``close`` it.

    Every verb may also raise an ``UnansweredError``: no answer came, and what was asked may stand or not. The ledger
    knows: ``find`` the charge, or ask again with the same key.
    """

    def create_budget(
        self,
        scope: str,
        *,
        kind: str,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit: str | None = None,
        simulation: bool = False,
        quota: bool = False,
        orders: Sequence[Number] | None = None,
        **caps: Number,
    ) -> Balance:
        """Sets the cap of a scope; see ``Ledger.create_budget``."""
        ask: dict[str, Any] = {
            "scope": scope,
            "kind": kind,
            "caps": dict(Amounts.capped(caps)),
            "relation": check.member(NeighboringRelation)(relation=relation).value,
            "privacy_unit": privacy_unit,
            "simulation": check.flag()(simulation=simulation),
            "quota": check.flag()(quota=quota),
        }
        if orders is not None:
            ask["orders"] = [rdp_quantity(order).removeprefix("rdp_") for order in orders]
        return self._budget("/create", ask)

    def declare_partition(self, scope: str, *, by: str, reason: str, **caps: Number) -> Balance:
        """Declares the blocks below a scope disjoint; see ``Ledger.declare_partition``."""
        ask = {"scope": scope, "by": by, "reason": reason, "caps": dict(Amounts.capped(caps))}
        return self._budget("/partition", ask)

    def change_cap(self, scope: str, *, by: str, reason: str, **caps: Number) -> Balance:
        """Sets another cap; see ``Ledger.change_cap``. It is asked once: later it could undo what another has set."""
        ask = {"scope": scope, "by": by, "reason": reason, "caps": dict(Amounts.capped(caps))}
        return self._budget("/cap", ask, again=False)

    def retire(self, scope: str, *, by: str, reason: str) -> Balance:
        """Ends a scope; see ``Ledger.retire``."""
        return self._budget("/retire", {"scope": scope, "by": by, "reason": reason})

    def mark_restored(self, *, by: str, reason: str) -> None:
        """Notes that the ledger came out of a backup; see ``Ledger.mark_restored``."""
        self._do("/mark-restored", {"by": by, "reason": reason}, again=False)

    def accept_restored(self, *, by: str, reason: str) -> None:
        """Accepts what may be missing since the backup; see ``Ledger.accept_restored``."""
        self._do("/accept", {"by": by, "reason": reason})

    def register_plan(self, scope: str, plan_hash: str, *, key: str) -> None:
        """Notes a plan before anything is reserved for it; see ``Ledger.register_plan``."""
        scopes.check_key(key)
        sha256(plan_hash=plan_hash)
        self._do("/register", {"scope": scope, "key": key, "plan_hash": plan_hash})

    def reserve(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        delta: Number | None = None,
        amount: Mapping[str, Number] | None = None,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        plan_hash: str | None = None,
        rounds: int | None = None,
        simulation: bool = False,
        until: datetime | None = None,
    ) -> Charge:
        """Promises the price of a release; see ``Ledger.reserve``."""
        request = Request(release, relation, privacy_unit, delta, amount, plan_hash, rounds, simulation)
        ask = _asked(scope, key, request) | {"until": None if until is None else moment(until=until)}
        return self._charge(self._do("/reserve", ask)[0], ask)

    def charge(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        delta: Number | None = None,
        amount: Mapping[str, Number] | None = None,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        simulation: bool = False,
    ) -> Charge:
        """Reserves, starts and commits at once; see ``Ledger.charge``.

        Raises:
            UnansweredError: an answer was lost, and the charge stands: by this asking, or by an earlier one.
        """
        request = Request(release, relation, privacy_unit, delta, amount, simulation=simulation)
        ask = _asked(scope, key, request)
        found, lost = self._do("/charge", {name: ask[name] for name in ask.keys() - {"plan_hash", "rounds"}})
        charge = self._charge(found, ask)
        if lost and charge.replayed:
            raise UnansweredError(
                f"an answer was lost: charge {key!r} stands, and whether it is new or was there before is not known"
            )
        return charge

    def override_price(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        amount: Mapping[str, Number],
        reason: str,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        plan_hash: str | None = None,
        rounds: int | None = None,
        simulation: bool = False,
    ) -> None:
        """Allows one charge at an amount that the accountant does not prove; see ``Ledger.override_price``."""
        request = Request(release, relation, privacy_unit, None, amount, plan_hash, rounds, simulation)
        ask = _asked(scope, key, request) | {"reason": check.text()(reason=reason)}
        self._do("/override", {name: ask[name] for name in ask.keys() - {"delta"}})

    def advance(self, key: str, verb: Verb, body: Mapping[str, Any], *, scope: str | None = None) -> None:
        """Writes one entry of a charge that exists; ``Charge`` has the verbs by name."""
        scopes.check_key(key)
        if scope is not None:
            scopes.ancestors(scope)
        verb = check.one_of(LATER)(verb=verb)
        self._do(f"/{wire.VERB_PATHS.get(verb, 'abandon')}", {**body, "key": key, "scope": scope})

    def expire(self, key: str, *, scope: str | None = None) -> None:
        """Gives back a reservation whose time is over; see ``Ledger.expire``."""
        self.advance(key, Verb.EXPIRED, {}, scope=scope)

    def revoke(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """Gives back a reservation of somebody else's; see ``Ledger.revoke``."""
        self.advance(key, Verb.REVOKED, {"by": by, "reason": reason}, scope=scope)

    def abandon(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """Closes a charge whose run is gone; see ``Ledger.abandon``."""
        self.advance(key, Verb.ABANDONED, {"by": by, "reason": reason}, scope=scope)

    def decommission(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """Notes that what a charge released is out of use; see ``Ledger.decommission``."""
        self.advance(key, Verb.DECOMMISSIONED, {"by": by, "reason": reason}, scope=scope)

    def find(self, key: str, *, scope: str | None = None) -> Charge | None:
        """The charge with a key, if there is one that the token may see."""
        entry = self._opening(key, scope)
        return None if entry is None else Charge(self, entry, replayed=True)

    def _do(self, path: str, ask: Mapping[str, Any], *, again: bool = True) -> tuple[dict[str, Any], bool]:
        """Asks the server, which does it or refuses.

        After a lost answer a conflict may be one with our own doing, and whoever is not let in any more may have been
        before: that is not known. What would have been refused the first time too was not done.
        """
        try:
            return self._connection.post(path, ask, again=again)
        except _REFUSED_AS_BEFORE:
            raise
        except EpsilogError as error:
            if isinstance(error.__cause__, UnansweredError) and not isinstance(error, UnansweredError):
                raise UnansweredError(f"{error.__cause__}; asked again, the ledger says: {error}") from error
            raise

    def _budget(self, path: str, ask: Mapping[str, Any], *, again: bool = True) -> Balance:
        scope = str(ask["scope"])
        scopes.ancestors(scope)
        return as_budget(self._do(path, ask, again=again)[0]["budget"], scope=scope)

    def _charge(self, found: Mapping[str, Any], ask: Mapping[str, Any]) -> Charge:
        """The charge that an answer tells of, if it is the one that was asked for; new only if it is said to be."""
        entry = parsed(as_row(found["entry"]))
        request = entry.body.get("request", {})
        if (entry.verb, entry.key, entry.scope) != (Verb.RESERVED, ask["key"], ask["scope"]) or any(
            request.get(name) != ask[name] for name in ("release", "plan_hash", "rounds", "simulation")
        ):
            raise LedgerIntegrityError("is not the reservation that was asked for", index=entry.index)
        return Charge(self, entry, replayed=found["replayed"] is not False)


def is_kept(connection: Connection) -> bool:
    """Whether a server keeps a ledger at all; hangs up."""
    try:
        connection.get("/head")
    except MissingError:
        return False
    finally:
        connection.close()
    return True


def _asked(scope: str, key: str, request: Request) -> dict[str, Any]:
    """A request as it is sent; what could not be stored is refused before."""
    scopes.ancestors(scope)
    scopes.check_key(key)
    return {"scope": scope, "key": key} | request.to_json()
