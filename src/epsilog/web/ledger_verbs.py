"""The ledger's verbs. What is answered is on disk; the server prices, and no price of an asker's is believed.

Each verb answers with where things stand afterwards. The same again is the same once, as it is with the ledger itself.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response

from epsilog.spend import COMMANDS, VERB_PATHS, Balance, Charge, ChargeRecord, Ledger, Verb, is_quantity, spelled_moment
from epsilog.terms import AccessError, CheckError, NeighboringRelation
from epsilog.web import ledger_asks as asks
from epsilog.web import prices
from epsilog.web.books import ItsBooks
from epsilog.web.doors import LOOPBACK, MAY, Act, Asker, Guest, Holder, guest

router = APIRouter(tags=["ledger's verbs"], route_class=asks.ExactRoute, dependencies=[Depends(guest)])


@router.post("/ledger/create", summary="Make a budget")
async def create(ask: asks.BudgetAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Sets the cap of a scope, once and before any charge at or under it; the same again changes nothing."""
    asker.require(ask.scope)
    given = ask.model_dump(exclude={"scope", "caps", "relation"})
    relation = NeighboringRelation(ask.relation)

    def do(ledger: Ledger) -> Balance:
        return restrict_ledger(ledger, asker).create_budget(ask.scope, relation=relation, **given, **_caps(ask.caps))

    return _budget(await books.do(do))


@router.post("/ledger/partition", summary="Declare disjoint blocks")
async def partition(ask: asks.PartitionAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """The budgets above pay for one block, now; what is charged in a block then counts in that block alone.

    It states that each privacy unit lies in one block, by itself alone and settled beforehand, and that a release under
    a block reads that block alone. On that rests what the budget above promises, so its owner says it.
    """
    asker.require(ask.scope)
    by = signed(ask.by, asker.holder)

    def do(ledger: Ledger) -> Balance:
        return restrict_ledger(ledger, asker).declare_partition(ask.scope, by=by, reason=ask.reason, **_caps(ask.caps))

    return _budget(await books.do(do))


@router.post("/ledger/cap", summary="Set another cap")
async def cap(ask: asks.CapAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Higher or lower; what is spent or promised stays so."""
    asker.require(ask.scope)
    by = signed(ask.by, asker.holder)

    def do(ledger: Ledger) -> Balance:
        return restrict_ledger(ledger, asker).change_cap(ask.scope, by=by, reason=ask.reason, **_caps(ask.caps))

    return _budget(await books.do(do))


@router.post("/ledger/retire", summary="End a scope")
async def retire(ask: asks.ActAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Nothing new is charged at or under it, ever; what runs may end."""
    asker.require(ask.scope)
    by = signed(ask.by, asker.holder)
    return _budget(
        await books.do(lambda ledger: restrict_ledger(ledger, asker).retire(ask.scope, by=by, reason=ask.reason))
    )


@router.post("/ledger/accept", summary="Accept a restored ledger")
async def accept(ask: asks.WholeAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Accepts what may be missing since the backup that this ledger was restored from."""
    by = signed(ask.by, asker.holder)
    await books.do(lambda ledger: restrict_ledger(ledger, asker).accept_restored(by=by, reason=ask.reason))
    return {"accepted": True}


@router.post("/ledger/mark-restored", summary="Note that the ledger came out of a backup")
async def mark_restored(ask: asks.WholeAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Nothing happens in it until an owner accepts that."""
    by = signed(ask.by, asker.holder)
    await books.do(lambda ledger: restrict_ledger(ledger, asker).mark_restored(by=by, reason=ask.reason))
    return {"accepted": False}


@router.post("/ledger/register", summary="Register a plan")
async def register(ask: asks.PlanAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """Its key of this scope is then for this plan."""
    asker.require(ask.scope)

    def do(ledger: Ledger) -> ChargeRecord:
        _require_own_key(ledger, asker.holder, ask.scope, ask.key)
        restrict_ledger(ledger, asker).register_plan(ask.scope, ask.plan_hash, key=ask.key)
        return ledger.charge_record(ask.key, scope=ask.scope)

    return _record(await books.do(do))


@router.post("/ledger/override", summary="Allow one charge at a price of one's own")
async def override(ask: asks.OverrideAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """One charge at an amount that the accountant does not prove; every check of the ledger names it."""
    asker.require(ask.scope)
    release, given = ask.term(), ask.arguments()

    def do(ledger: Ledger) -> ChargeRecord:
        _require_own_key(ledger, asker.holder, ask.scope, ask.key)
        restrict_ledger(ledger, asker).override_price(ask.scope, release, key=ask.key, **given)
        return ledger.charge_record(ask.key, scope=ask.scope)

    return _record(await books.do(do))


@router.post("/ledger/reserve", summary="Promise the price of a release")
async def reserve(
    ask: asks.ReserveAsk, books: ItsBooks, asker: Asker, idempotency_key: asks.IdempotencyKey = None
) -> dict[str, Any]:
    """Nothing is spent before its start. The same key and request give the same charge, which is then ``replayed``."""
    asker.require(ask.scope)
    key, release, given, until = asks.key_of(ask, idempotency_key), ask.term(), ask.arguments(), ask.moment()

    def do(ledger: Ledger) -> Charge:
        _require_own_key(ledger, asker.holder, ask.scope, key)
        return _own(
            restrict_ledger(ledger, asker).reserve(ask.scope, release, key=key, until=until, **given), asker.holder
        )

    return _charge(await books.do(do, priced=True))


@router.post("/ledger/charge", summary="Charge a release that is made in one step")
async def charge(
    ask: asks.RequestAsk, books: ItsBooks, asker: Asker, idempotency_key: asks.IdempotencyKey = None
) -> dict[str, Any]:
    """Reserves, starts and commits at once, before the release. One that is ``replayed`` was charged before."""
    asker.require(ask.scope)
    key, release, given = asks.key_of(ask, idempotency_key), ask.term(), ask.arguments()

    def do(ledger: Ledger) -> Charge:
        _require_own_key(ledger, asker.holder, ask.scope, key)
        return _own(restrict_ledger(ledger, asker).charge(ask.scope, release, key=key, **given), asker.holder)

    return _charge(await books.do(do, priced=True))


@router.post(
    "/ledger/fits", summary="What a scope can bear", response_model=None, responses={200: {"model": prices.Fits}}
)
async def fits(ask: asks.FitsAsk, books: ItsBooks, asker: Asker) -> Response:
    """What is left on the path of a scope; and of a release, how many charges and repetitions fit."""
    asker.require(ask.scope)
    request = ask.request()
    if request is None:
        return JSONResponse(prices.told(await books.do(lambda ledger: ledger.what_fits(ask.scope))))
    path = await books.do(lambda ledger: ledger.open_path(ask.scope))
    return await books.prices.headroom(request.under(path[-1].relation, path[-1].privacy_unit), path)


@router.post("/ledger/abandon", summary="Close a charge whose run is gone")
async def abandon(ask: asks.ChargeActAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
    """It stays charged; one that is only reserved is counted as spent."""
    if ask.scope is not None:
        asker.require(ask.scope)
    by = signed(ask.by, asker.holder)

    def do(ledger: Ledger) -> ChargeRecord:
        seen = restrict_ledger(ledger, asker)
        found = seen.charge_record(ask.key, scope=ask.scope)
        seen.abandon(ask.key, by=by, reason=ask.reason, scope=found.scope)
        return seen.charge_record(ask.key, scope=found.scope)

    return _record(await books.do(do))


@dataclass(frozen=True, slots=True)
class Later:
    """What happens to a charge that is there.

    Attributes:
        verb: what is written of it.
        asks: what is asked.
        summary: a line for the API's description.
        says: further words.
    """

    verb: Verb
    asks: type[asks.KeyAsk]
    summary: str
    says: str


LATER = (
    Later(Verb.STARTED, asks.KeyAsk, "Spend a reservation", "For ever: before data is touched, and once."),
    Later(Verb.ROUND_STARTED, asks.RoundAsk, "Begin a round", "Again, if nothing of it was released."),
    Later(Verb.ROUND_RELEASED, asks.OutputAsk, "Release a round", "Before it leaves; twice is once."),
    Later(Verb.COMMITTED, asks.EvidenceAsk, "Close a charge that has started", "Twice the same is once."),
    Later(Verb.HELD_UNTIL, asks.UntilAsk, "Hold a reservation", "What was said last stands."),
    Later(Verb.CANCELLED, asks.CancelAsk, "Give a reservation back", "Before its start."),
    Later(Verb.EXPIRED, asks.KeyAsk, "Give back what is over", "Once its time has come."),
    Later(Verb.REVOKED, asks.ChargeActAsk, "Give back somebody's reservation", "Before its start."),
    Later(Verb.DECOMMISSIONED, asks.ChargeActAsk, "Take out of use", "It stays spent, for ever."),
)


def _endpoint(later: Later) -> Callable[..., Any]:
    async def endpoint(ask: asks.KeyAsk, books: ItsBooks, asker: Asker) -> dict[str, Any]:
        if ask.scope is not None:
            asker.require(ask.scope)
        body = ask.model_dump(exclude={"key", "scope"})
        if "by" in body:
            body["by"] = signed(body["by"], asker.holder)
        if "until" in body:
            body["until"] = spelled_moment(until=asks.moment(body["until"]))

        def do(ledger: Ledger) -> ChargeRecord:
            seen = restrict_ledger(ledger, asker)
            found = seen.charge_record(ask.key, scope=ask.scope)
            if later.verb is not Verb.EXPIRED:  # which anybody may say, once its time has come
                _require_own(asker.holder, found.key, found.scope, found.by)
            seen.execute(COMMANDS[VERB_PATHS[later.verb]].from_json({"key": ask.key, "scope": found.scope, **body}))
            return seen.charge_record(ask.key, scope=found.scope)

        return _record(await books.do(do))

    endpoint.__name__ = VERB_PATHS[later.verb].replace("-", "_")
    endpoint.__doc__ = later.says
    hints = inspect.get_annotations(endpoint) | {"ask": later.asks, "books": ItsBooks, "asker": Asker}
    endpoint.__annotations__ = hints | {"return": dict[str, Any]}
    return endpoint


for _later in LATER:
    router.add_api_route(
        f"/ledger/{VERB_PATHS[_later.verb]}", _endpoint(_later), methods=["POST"], summary=_later.summary
    )


def _require_own_key(ledger: Ledger, asker: Holder, scope: str, key: str) -> None:
    """Refuse a key whose charge in this scope belongs to another holder."""
    found = ledger.find_record(key, scope=scope)
    if found is not None:
        _require_own(asker, found.key, found.scope, found.by)


def _require_own(asker: Holder, key: str, scope: str, by: str | None) -> None:
    """Refuses a charge of somebody else's to all but the owners of its scope.

    Whoever started a charge of another's would release nothing for it, and whoever went on with theirs might release
    twice for one price.
    """
    if by is not None and by != asker.name and Act.OWN not in MAY[asker.role]:
        raise AccessError(f"charge {key!r} is that of {by!r}: they go on with it, or an owner of {scope!r}")


def _own(charge: Charge, asker: Holder) -> Charge:
    """A charge that was asked for, if it is the asker's: another may have been first with the same key and request."""
    _require_own(asker, charge.key, charge.scope, charge.entry.body.get("by"))
    return charge


def restrict_ledger(ledger: Ledger, asker: Guest) -> Ledger:
    """Return the ledger restricted to what the asker's token covers and owns; it notes the asker's name."""
    who = asker.holder
    return ledger if who is LOOPBACK else ledger.on_behalf_of(who.name, covers=who.covers, owns=who.owns)


def signed(by: str, asker: Holder) -> str:
    """Who decides, as they say, and whose token said so."""
    return by if asker is LOOPBACK else f"{by} (token of {asker.name})"


def _caps(caps: dict[str, str]) -> dict[str, Any]:
    if not all(map(is_quantity, caps)):  # they are keywords, beside others
        raise CheckError("caps", "of epsilon, delta, rho, mu_squared or rdp_ORDER", ", ".join(caps)[:200])
    return dict(caps)


def _budget(budget: Balance) -> dict[str, Any]:
    return {"budget": json.loads(budget.document())}


def _record(record: ChargeRecord) -> dict[str, Any]:
    return {"charge": json.loads(record.document())}


def _charge(charge: Charge) -> dict[str, Any]:
    return {
        "key": charge.key,
        "scope": charge.scope,
        "amounts": {kind: dict(amount) for kind, amount in charge.amounts.items()},
        "replayed": charge.replayed,
        "entry": charge.entry.document(),
    }
