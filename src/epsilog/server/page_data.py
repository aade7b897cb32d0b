"""What is read of a ledger and of finished runs, by the pages and by clients. Nothing here writes.

A holder reads what is at and under their scope. Runs and the check of the chain need the whole ledger. Every answer is
one bounded piece, so its cost does not grow with the history. Clients get entries verbatim, to verify them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from starlette.exceptions import HTTPException

from epsilog.ledger import (
    Amounts,
    Balance,
    Entry,
    Ledger,
    LedgerView,
    PendingApproval,
    Verb,
    hash_entry,
    read_ledger,
)
from epsilog.mechanisms import describe_release
from epsilog.server.access import ALLOWED_ACTIONS, Holder
from epsilog.server.authorization import Caller, authorize
from epsilog.server.jobs import Job, JobRegistry, stream_job_events
from epsilog.server.ledger_commands import restrict_ledger
from epsilog.server.ledger_service import Service, parse_ledger_url
from epsilog.terms import CheckError, LedgerIntegrityError, RunArtifact, check
from epsilog.terms.messages import Message

router = APIRouter(tags=["ledger and runs"], dependencies=[Depends(authorize)])
client_router = APIRouter(tags=["ledger, word for word"], dependencies=[Depends(authorize)])

MAX_REPORT_BYTES = 20_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MEDIA_TYPES: dict[str, str] = {RunArtifact.REPORT: "application/json", RunArtifact.PAGE: "text/html"}
_AMOUNTS = ("caps", "reserved", "started", "committed", "spent", "available")
MAX_CHARACTERS = 4 * 1024 * 1024  # of entries in one answer; the last entry may exceed it
MAX_INDEX = 2**53 - 1
_MAX_RELEASE_LENGTH = 1000  # characters of a release in plain words

ScopeQuery = Annotated[str | None, Query(max_length=500, description="at and under this scope; all if it is absent")]
KeyQuery = Annotated[str, Query(max_length=500, description="the charge's idempotency key, within its scope")]
AtQuery = Annotated[
    str | None, Query(max_length=500, description="the charge's scope; absent if one charge alone has the key")
]
Limit = Annotated[int, Query(ge=1, le=500)]


@router.get("/holder", summary="Caller and permissions")
def holder_route(caller: Caller) -> dict[str, Any]:
    """The name, role and scope of the token (null for the whole ledger), so that a page offers only what it permits."""
    holder = caller.holder
    acts = sorted(ALLOWED_ACTIONS[holder.role])
    return {"name": holder.name, "role": holder.role, "scope": holder.scope, "acts": acts}


@router.get("/ledger", summary="Budgets and their entries")
def budgets_route(request: Request, caller: Caller) -> dict[str, Any]:
    """Every scope that the caller can read, with its caps, its replayed balance and the theorem for its sums."""
    if request.app.state.ledger is None:
        return {"present": False, "entries": 0, "head": None, "budgets": []}
    with _open_ledger(request) as ledger:
        count, head = ledger.head()
        found = [_balance_to_json(balance) for balance in ledger.budgets() if caller.holder.can_read(balance.scope)]
    return {"present": True, "entries": count, "head": head, "budgets": found}


@router.get("/ledger/cycles", summary="Cost of each release under a budget, and the total")
def cycles_route(
    request: Request,
    caller: Caller,
    scope: str = Query(max_length=500, description="a scope that has a budget"),
    limit: int = Query(100, ge=1, le=500),
) -> dict[str, Any]:
    """The newest charges at and under a budget from the moment each was started, oldest first, with the running sum.

    A partition (its ``key`` is null) costs the amount charged for its blocks; a charge in one of those costs nothing.
    """
    caller.require(scope)
    with _open_ledger(request) as ledger:
        budget, found = ledger.balance(scope), ledger.spending(scope, limit=limit + 1)
    before = [Amounts.zero(budget.caps), *(total for _, total in found)]
    shown = list(zip(found, before, strict=False))[-limit:]
    return {
        "scope": scope,
        "caps": dict(budget.caps),
        "cycles": [
            {name: getattr(entry, name) for name in ("scope", "key", "time")}
            | {"amount": dict(total - less), "cumulative": dict(total)}
            for (entry, total), less in shown
        ],
    }


@router.get("/ledger/pending", summary="What waits for the approval of owners")
def pending_route(request: Request, caller: Caller, scope: ScopeQuery = None, limit: Limit = 100) -> dict[str, Any]:
    """The newest reservations and caps that wait, caps first, and how many do (``count``).

    Each is as ``epsilog ledger pending --json`` writes it, with its ``release`` in plain words, what is to be known of
    it (``notes``), and whether the caller can approve it (``may_approve``). Without a scope, all that the caller can
    read.
    """
    scope = caller.holder.scope if scope is None else scope
    caller.require(scope)
    with _open_ledger(request) as ledger:
        found = ledger.list_pending_approvals(scope)
    shown = [_pending_to_json(one, caller.holder) for one in found[:limit]]
    return {"holder": caller.holder.name, "count": len(found), "pending": shown}


@router.get("/ledger/entries", summary="Entries with their hashes, newest first")
def entries_route(
    request: Request,
    caller: Caller,
    scope: str | None = Query(None, max_length=500),
    before: int | None = Query(None, ge=1, le=2**53, description="only entries of a lower index"),
    limit: int = Query(50, ge=1, le=500),
) -> dict[str, Any]:
    """A page of the chain: each entry names the hash of the one before. ``next`` is the cursor to page on with.

    Without a scope, all that the caller can read.
    """
    scope = caller.holder.scope if scope is None else scope
    caller.require(scope)
    with _open_ledger(request) as ledger:
        found = ledger.page(scope, before=before, limit=limit + 1)
    shown = found[:limit]
    return {"entries": [_entry_to_json(one) for one in shown], "next": shown[-1].index if len(found) > limit else None}


@router.post("/ledger/verify", summary="Verify the whole ledger", status_code=202)
def verify_ledger_route(request: Request) -> dict[str, Any]:
    """Recompute every hash, replay every entry and compare the balances. A second request joins the running check."""
    checks: JobRegistry = request.app.state.ledger_checks
    for job in checks.jobs():
        if job.is_running:
            return {"id": job.id, **job.snapshot}
    with _open_ledger(request) as ledger:
        count, _ = ledger.head()
    url = request.app.state.ledger
    job = Job(lambda job: _verify_ledger(job, url), of=count, checked=0)
    checks.begin(job)
    return {"id": job.id, **job.snapshot}


@router.get("/ledger/verify/{name}/events", summary="Watch the check", response_class=StreamingResponse)
async def verify_events_route(name: str, request: Request) -> StreamingResponse:
    """Server-sent events, each the whole state; the stream ends with the check."""
    return stream_job_events(request.app.state.ledger_checks.job(name), request)


@router.get("/ledger/verify/{name}", summary="State of the check")
def verify_state_route(name: str, request: Request) -> dict[str, Any]:
    """The number of entries verified so far, and finally whether all are valid."""
    return dict(request.app.state.ledger_checks.job(name).snapshot)


@router.post("/ledger/verify/{name}/cancel", summary="End the check")
def verify_cancel_route(name: str, request: Request) -> dict[str, Any]:
    """An ended check says nothing about the remaining entries."""
    job = request.app.state.ledger_checks.job(name)
    job.stop("cancelled")
    return dict(job.snapshot)


def _verify_ledger(job: Job, url: str) -> dict[str, Any]:
    with open_readable_ledger(url) as ledger:
        try:
            sound = ledger.verify(progress=lambda count: job.report_progress(checked=count))
        except LedgerIntegrityError as error:
            return {"sound": False, "message": str(error)}
    return {"sound": True, "checked": sound.count, "entries": sound.count, "head": sound.head}


@router.get("/runs", summary="Finished runs")
def runs_route(request: Request) -> dict[str, Any]:
    """One line for each run that wrote a report."""
    folder = request.app.state.runs
    if folder is None or not folder.is_dir():
        return {"present": folder is not None, "runs": []}
    paths = (path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name))
    found = [path for path in paths if (path / RunArtifact.REPORT).is_file()]
    return {"present": True, "runs": [{"name": path.name} | _summarize(_read_report(path)) for path in found]}


@router.get("/runs/{name}", summary="One run's report")
def run_route(request: Request, name: str) -> dict[str, Any]:
    """The report as it was written."""
    return _read_report(_find_run(request, name))


@router.get("/runs/{name}/{file}", summary="Download a report")
def report_route(request: Request, name: str, file: str) -> FileResponse:
    """``report_route.json`` or ``report_route.html``, to keep."""
    path = _find_run(request, name) / file
    if file not in _MEDIA_TYPES or not path.is_file():
        raise HTTPException(404, "Report not found")
    return FileResponse(path, media_type=_MEDIA_TYPES[file], filename=f"{name}-{file}")


@contextmanager
def _open_ledger(request: Request) -> Iterator[LedgerView]:
    url = request.app.state.ledger
    if url is None:
        raise HTTPException(404, "This server has no ledger")
    with open_readable_ledger(url) as ledger:
        yield ledger


def open_readable_ledger(url: str) -> LedgerView:
    """Return the ledger of a server, to read."""
    return read_ledger(parse_ledger_url(url))


def _balance_to_json(balance: Balance) -> dict[str, Any]:
    return {
        "scope": balance.scope,
        "kind": balance.kind,
        "relation": balance.relation.value,
        "privacy_unit": balance.privacy_unit,
        "simulation": balance.simulation,
        "target_guarantee": balance.target_guarantee and dict(balance.target_guarantee),
        "partition": balance.partition,
        "requires_certificate": bool(balance.requires_certificate),
        "requires_approvals": balance.requires_approvals or 0,
        "requires_child_budget": bool(balance.requires_child_budget),
        "valid_from": balance.valid_from,
        "valid_until": balance.valid_until,
        "theorem": balance.theorem,
    } | {name: dict(getattr(balance, name)) for name in _AMOUNTS}


def _pending_to_json(pending: PendingApproval, holder: Holder) -> dict[str, Any]:
    obstacle = _find_obstacle(pending, holder)
    release = "" if pending.request is None else str(describe_release(pending.request.release))
    notes = [*_list_pending_notes(pending), *([] if obstacle is None else [obstacle])]
    return pending.to_json() | {
        "release": f"{release[:_MAX_RELEASE_LENGTH]}…" if release[_MAX_RELEASE_LENGTH:] else release or None,
        "notes": list(map(str, notes)),
        "may_approve": obstacle is None,
    }


def _list_pending_notes(pending: PendingApproval) -> Iterator[Message]:
    if pending.overridden and pending.overrider is None:
        yield Message("pending/overridden")
    elif pending.overridden:
        yield Message.of("pending/overridden-by", owner=str(pending.overrider))
    if pending.reason is not None:
        yield Message.of("pending/reason", reason=pending.reason)


def _find_obstacle(pending: PendingApproval, holder: Holder) -> Message | None:
    """Return why the holder of a token cannot approve what waits; None where they can. The command decides."""
    if len(pending.approved) >= pending.required:
        return Message("pending/complete")
    if not holder.owns(pending.approver_scope):
        return Message.of("pending/not-owned", scope=pending.approver_scope)
    if holder.name in pending.approved:
        return Message("pending/approved-it")
    own = {"pending/reserved-it": pending.actor, "pending/overrode-it": pending.overrider}
    return next((Message(why) for why, name in own.items() if name == holder.name), None)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    document = entry.document()
    members: dict[str, Any] = json.loads(document)
    return {"hash": hash_entry(document)} | members


def _find_run(request: Request, name: str) -> Path:
    root: Path | None = request.app.state.runs
    if root is None or not _NAME.fullmatch(name) or not (root / name / RunArtifact.REPORT).is_file():
        raise HTTPException(404, "Run not found")
    return root / name


def _read_report(folder: Path) -> dict[str, Any]:
    path = folder / RunArtifact.REPORT
    if path.stat().st_size > MAX_REPORT_BYTES:
        raise HTTPException(413, "Report too large to show")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("kind") != "report":
        raise CheckError("report", "a report document", f"{path.name}")
    return document


def _summarize(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "config_name": report["identity"].get("name"),
        "period": report["identity"].get("period"),
        "simulation": report["simulation"],
        "epsilon": report["claim"]["supported"],  # what the records support, and no more
        "delta": report["claim"]["guarantee"]["delta"],
        "status": report["verification"]["status"],
        "rounds": report["result"]["rounds"],
    }


@client_router.get("/ledger/head", summary="Number of entries")
async def head_route(service: Service) -> dict[str, Any]:
    """The count and the hash of the last entry. The hash later shows whether an earlier entry was changed."""
    count, head = await service.run(LedgerView.head)
    return {"count": count, "hash": head}


@client_router.get("/ledger/balances", summary="Stored balances")
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


@client_router.get("/ledger/rows", summary="Entries, oldest first")
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


@client_router.get("/ledger/page", summary="Entries, newest first")
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


@client_router.get("/ledger/charges", summary="One charge")
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


@client_router.get("/ledger/entry", summary="One entry")
async def entry_route(
    service: Service, caller: Caller, index: Annotated[int, Query(ge=1, le=MAX_INDEX)]
) -> dict[str, Any]:
    """Its canonical JSON, and the hash of that."""
    found = await service.run(lambda ledger: ledger.page(before=index + 1, limit=1))
    if not found or found[0].index != index or not caller.holder.contains_scope(found[0].scope or None):
        raise HTTPException(404, "Entry not found")
    document = found[0].document()
    return {"document": document, "hash": hash_entry(document)}


@client_router.get("/ledger/spending", summary="Costs of the newest charges under a budget")
async def spending_route(
    service: Service, caller: Caller, scope: Annotated[str, Query(max_length=500)], limit: Limit = 100
) -> dict[str, Any]:
    """The entry that spent each, oldest first, and the total up to and including it."""
    caller.require(scope)
    found = await service.run(lambda ledger: ledger.spending(scope, limit=limit))
    return {"spending": [{"entry": one.document(), "total": dict(total)} for one, total in found]}
