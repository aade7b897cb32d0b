"""What a client reads of the ledger, a bounded piece at a time: entries word for word, so that it can check them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.exceptions import HTTPException

from epsilog.ledger import Ledger, LedgerView, Verb, hash_entry
from epsilog.server.books import ItsBooks
from epsilog.server.doors import Asker, authorize
from epsilog.server.ledger_commands import restrict_ledger
from epsilog.terms import check

router = APIRouter(tags=["ledger, word for word"], dependencies=[Depends(authorize)])

ENOUGH = 4 * 1024 * 1024  # characters of entries in one answer; one entry more may pass it

ScopeQuery = Annotated[str | None, Query(max_length=500, description="at and under this scope; all if it is absent")]
KeyQuery = Annotated[str, Query(max_length=500, description="the charge's idempotency key, within its scope")]
AtQuery = Annotated[
    str | None, Query(max_length=500, description="the charge's scope; absent if one charge alone has the key")
]
Limit = Annotated[int, Query(ge=1, le=500)]
LARGEST = 2**53 - 1


@router.get("/ledger/head", summary="How many entries there are")
async def head_route(books: ItsBooks) -> dict[str, Any]:
    """The count, and the hash of the last: whoever keeps it can tell later whether anything before was changed."""
    count, hashed = await books.do(LedgerView.head)
    return {"count": count, "hash": hashed}


@router.get("/ledger/balances", summary="Budgets, as the ledger keeps them folded")
async def balances_route(
    books: ItsBooks,
    asker: Asker,
    above: Annotated[str | None, Query(max_length=500, description="at and above this scope; all if absent")] = None,
) -> dict[str, Any]:
    """Those at and under the asker's scope, and those above it."""
    if above is not None and not asker.holder.can_read(above):
        asker.require(above)
    found = await books.do(lambda ledger: ledger.budgets() if above is None else ledger.budgets_above(above))
    return {"budgets": [json.loads(budget.document()) for budget in found if asker.holder.can_read(budget.scope)]}


@router.get("/ledger/rows", summary="Entries, oldest first")
async def rows_route(
    books: ItsBooks,
    asker: Asker,
    scope: ScopeQuery = None,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="only entries of a higher index")] = 0,
    limit: Limit = 500,
) -> dict[str, Any]:
    """The canonical JSON of each entry, whose SHA-256 the next one names; ``more`` says whether others follow."""
    asker.require(scope)
    return await books.do(lambda ledger: _rows(ledger, scope, after, limit))


def _rows(ledger: Ledger, scope: str | None, after: int, limit: int) -> dict[str, Any]:
    documents: list[str] = []
    long, more = 0, False
    for _, document in ledger.documents(scope, after=after):
        if len(documents) == limit or long >= ENOUGH:
            more = True
            break
        documents.append(document)
        long += len(document)
    return {"documents": documents, "more": more}


@router.get("/ledger/page", summary="Entries, newest first")
async def page_route(
    books: ItsBooks,
    asker: Asker,
    before: Annotated[int, Query(ge=1, le=LARGEST, description="only entries of a lower index")],
    scope: ScopeQuery = None,
    verb: Annotated[str | None, Query(max_length=40, description="only entries that do this; needs a scope")] = None,
    *,
    limit: Limit = 50,
) -> dict[str, Any]:
    """As ``rows_route``, backwards from any entry."""
    asker.require(scope)
    found = await books.do(lambda ledger: ledger.page(scope, before=before, limit=limit, verb=_verb(verb)))
    return {"documents": [entry.document() for entry in found]}


@router.get("/ledger/charges", summary="One charge")
async def charge_route(books: ItsBooks, asker: Asker, key: KeyQuery, scope: AtQuery = None) -> dict[str, Any]:
    """Its state and its rounds; null if no charge has the key. If several scopes have it, name the scope."""
    if scope is not None:
        asker.require(scope)

    def look(ledger: Ledger) -> dict[str, Any]:
        seen = restrict_ledger(ledger, asker)
        found = seen.find_record(key, scope=scope)
        if found is None:
            return {"charge": None, "rounds": []}
        told = seen.charge_rounds(key, scope=found.scope)
        rounds = [[one.number, one.attempts, one.output_hash] for one in told]
        return {"charge": json.loads(found.document()), "rounds": rounds}

    return await books.do(look)


@router.get("/ledger/entry", summary="One entry")
async def entry_route(books: ItsBooks, asker: Asker, index: Annotated[int, Query(ge=1, le=LARGEST)]) -> dict[str, Any]:
    """Its canonical JSON, and the hash of that."""
    found = await books.do(lambda ledger: ledger.page(before=index + 1, limit=1))
    if not found or found[0].index != index or not asker.holder.covers(found[0].scope or None):
        raise HTTPException(404, "There is no such entry")
    document = found[0].document()
    return {"document": document, "hash": hash_entry(document)}


@router.get("/ledger/spending", summary="What the newest charges under a budget cost")
async def spending_route(
    books: ItsBooks, asker: Asker, scope: Annotated[str, Query(max_length=500)], limit: Limit = 100
) -> dict[str, Any]:
    """The entry that spent each, oldest first, and all that was spent up to and with it."""
    asker.require(scope)
    found = await books.do(lambda ledger: ledger.spending(scope, limit=limit))
    return {"spending": [{"entry": one.document(), "total": dict(total)} for one, total in found]}


def _verb(said: str | None) -> Verb | None:
    return check.optional(check.enum_member(Verb))(verb=said)
