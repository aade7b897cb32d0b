"""What the pages show: budgets, entries, the check of the whole chain, and finished runs. Nothing here writes.

A holder reads what is at and under their scope. Runs and the check of the chain need the whole ledger. Every request
opens and closes the ledger and asks for one page of it, so its cost does not grow with the history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from starlette.exceptions import HTTPException

from epsilog.ledger import Amounts, Balance, Entry, LedgerView, hash_entry, read_ledger
from epsilog.server.access import ALLOWED_ACTIONS
from epsilog.server.authorization import Caller, authorize
from epsilog.server.jobs import Job, JobRegistry, stream_job_events
from epsilog.server.ledger_service import parse_ledger_url
from epsilog.terms import CheckError, LedgerIntegrityError, RunArtifact

router = APIRouter(tags=["ledger and runs"], dependencies=[Depends(authorize)])

MAX_REPORT_BYTES = 20_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MEDIA_TYPES: dict[str, str] = {RunArtifact.REPORT: "application/json", RunArtifact.PAGE: "text/html"}
_AMOUNTS = ("caps", "reserved", "started", "committed", "spent", "available")


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
        "theorem": balance.theorem,
    } | {name: dict(getattr(balance, name)) for name in _AMOUNTS}


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
