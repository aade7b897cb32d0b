"""What a client reads of the ledger, a bounded piece at a time: entries verbatim, so that it can verify them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.exceptions import HTTPException

from epsilog.ledger import Ledger, LedgerView, Verb, hash_entry
from epsilog.server.authorization import Caller, authorize
from epsilog.server.ledger_commands import restrict_ledger
from epsilog.server.ledger_service import Service
from epsilog.terms import check

router = APIRouter(tags=["ledger, word for word"], dependencies=[Depends(authorize)])

MAX_CHARACTERS = 4 * 1024 * 1024  # of entries in one answer; the last entry may exceed it
MAX_INDEX = 2**53 - 1

ScopeQuery = Annotated[str | None, Query(max_length=500, description="at and under this scope; all if it is absent")]
KeyQuery = Annotated[str, Query(max_length=500, description="the charge's idempotency key, within its scope")]
AtQuery = Annotated[
    str | None, Query(max_length=500, description="the charge's scope; absent if one charge alone has the key")
]
Limit = Annotated[int, Query(ge=1, le=500)]


@router.get("/ledger/head", summary="Number of entries")
async def head_route(service: Service) -> dict[str, Any]:
    """The count and the hash of the last entry. The hash later shows whether an earlier entry was changed."""
    count, head = await service.run(LedgerView.head)
    return {"count": count, "hash": head}


@router.get("/ledger/balances", summary="Stored balances")
async def balances_route(
    service: Service,
    caller: Caller,
    above: Annotated[str | None, Query(max_length=500, description="at and above this scope; all if absent")] = None,
) -> dict[str, Any]:
    """Those at and under the caller's scope, and those above it."""
    if above is not None and not caller.holder.can_read(above):
        caller.require(above)
    found = await service.run(lambda ledger: ledger.budgets() if above is None else ledger.budgets_above(above))
    return {"budgets": [json.loads(budget.document()) for budget in found if caller.holder.can_read(budget.scope)]}


@router.get("/ledger/rows", summary="Entries, oldest first")
async def rows_route(
    service: Service,
    caller: Caller,
    scope: ScopeQuery = None,
    after: Annotated[int, Query(ge=0, le=MAX_INDEX, description="only entries of a higher index")] = 0,
    limit: Limit = 500,
) -> dict[str, Any]:
    """The canonical JSON of each entry, with its SHA-256 in the next one; ``more`` says whether others follow."""
    caller.require(scope)
    return await service.run(lambda ledger: _read_documents(ledger, scope, after, limit))


def _read_documents(ledger: Ledger, scope: str | None, after: int, limit: int) -> dict[str, Any]:
    documents: list[str] = []
    length = 0
    for _, document in ledger.documents(scope, after=after):
        if len(documents) == limit or length >= MAX_CHARACTERS:
            return {"documents": documents, "more": True}
        documents.append(document)
        length += len(document)
    return {"documents": documents, "more": False}


@router.get("/ledger/page", summary="Entries, newest first")
async def page_route(
    service: Service,
    caller: Caller,
    before: Annotated[int, Query(ge=1, le=MAX_INDEX, description="only entries of a lower index")],
    scope: ScopeQuery = None,
    verb: Annotated[str | None, Query(max_length=40, description="only entries that do this; needs a scope")] = None,
    *,
    limit: Limit = 50,
) -> dict[str, Any]:
    """As ``rows_route``, backwards from any entry."""
    caller.require(scope)
    parsed = check.optional(check.enum_member(Verb))(verb=verb)
    found = await service.run(lambda ledger: ledger.page(scope, before=before, limit=limit, verb=parsed))
    return {"documents": [entry.document() for entry in found]}


@router.get("/ledger/charges", summary="One charge")
async def charge_route(service: Service, caller: Caller, key: KeyQuery, scope: AtQuery = None) -> dict[str, Any]:
    """Its state and its rounds; null if no charge has the key. If several scopes have it, state the scope."""
    if scope is not None:
        caller.require(scope)

    def read(ledger: Ledger) -> dict[str, Any]:
        visible = restrict_ledger(ledger, caller)
        found = visible.find_record(key, scope=scope)
        if found is None:
            return {"charge": None, "rounds": []}
        rounds = visible.charge_rounds(key, scope=found.scope)
        return {
            "charge": json.loads(found.document()),
            "rounds": [[one.number, one.attempts, one.output_hash] for one in rounds],
        }

    return await service.run(read)


@router.get("/ledger/entry", summary="One entry")
async def entry_route(
    service: Service, caller: Caller, index: Annotated[int, Query(ge=1, le=MAX_INDEX)]
) -> dict[str, Any]:
    """Its canonical JSON, and the hash of that."""
    found = await service.run(lambda ledger: ledger.page(before=index + 1, limit=1))
    if not found or found[0].index != index or not caller.holder.contains_scope(found[0].scope or None):
        raise HTTPException(404, "Entry not found")
    document = found[0].document()
    return {"document": document, "hash": hash_entry(document)}


@router.get("/ledger/spending", summary="Costs of the newest charges under a budget")
async def spending_route(
    service: Service, caller: Caller, scope: Annotated[str, Query(max_length=500)], limit: Limit = 100
) -> dict[str, Any]:
    """The entry that spent each, oldest first, and the total up to and including it."""
    caller.require(scope)
    found = await service.run(lambda ledger: ledger.spending(scope, limit=limit))
    return {"spending": [{"entry": one.document(), "total": dict(total)} for one, total in found]}
