"""The reading room: budgets, entries and runs as they stand. Nothing here writes; every request opens and closes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

from epsilog.spend import Balance, Entry, Ledger, Verb, read_ledger
from epsilog.spend.entries import digest
from epsilog.terms import LedgerIntegrityError

router = APIRouter(tags=["reading room"])

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_REPORTS = {"report.json": "application/json", "report.html": "text/html"}
LONGEST_REPORT = 20_000_000  # bytes


@router.get("/ledger", summary="Budgets and what has happened under them")
def budgets(request: Request) -> dict[str, Any]:
    """Every scope with its caps, its balance and the theorem behind its sums; and every charge that was started."""
    if request.app.state.ledger is None:
        return {"present": False, "budgets": [], "cycles": []}
    with _ledger(request) as ledger:
        entries = ledger.history()
        return {
            "present": True,
            "entries": len(entries),
            "head": digest(entries[-1].document()) if entries else None,
            "budgets": [_budget(balance) for balance in ledger.budgets()],
            "cycles": _cycles(entries),
        }


@router.get("/ledger/entries", summary="Entries with their hashes, newest first")
def entries(
    request: Request,
    scope: str | None = Query(None, max_length=500),
    offset: int = Query(0, ge=0),
    limit: int = Query(50, ge=1, le=500),
) -> dict[str, Any]:
    """A page of the chain: each entry names the hash of the one before."""
    with _ledger(request) as ledger:
        found = ledger.history(scope)[::-1]
    return {"total": len(found), "entries": [_entry(entry) for entry in found[offset : offset + limit]]}


@router.post("/ledger/verify", summary="Work the whole ledger out again")
def verify(request: Request) -> dict[str, Any]:
    """Rechecks every hash, refolds every entry and compares the balances."""
    with _ledger(request) as ledger:
        try:
            sound = ledger.verify()
        except LedgerIntegrityError as error:
            return {"sound": False, "says": str(error)}
    return {"sound": True, "entries": sound.count, "head": sound.head}


@router.get("/runs", summary="Finished runs")
def runs(request: Request) -> dict[str, Any]:
    """One line for each run that wrote a report."""
    folder = request.app.state.runs
    if folder is None or not folder.is_dir():
        return {"present": folder is not None, "runs": []}
    named = (path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name))
    found = [path for path in named if (path / "report.json").is_file()]
    return {"present": True, "runs": [{"name": path.name} | _summary(_report(path)) for path in found]}


@router.get("/runs/{name}", summary="One run's report")
def run(request: Request, name: str) -> dict[str, Any]:
    """The report as it was written."""
    return _report(_folder(request, name))


@router.get("/runs/{name}/{file}", summary="Download a report")
def report(request: Request, name: str, file: str) -> FileResponse:
    """``report.json`` or ``report.html``, to keep."""
    path = _folder(request, name) / file
    if file not in _REPORTS or not path.is_file():
        raise HTTPException(404, "There is no such report")
    return FileResponse(path, media_type=_REPORTS[file], filename=f"{name}-{file}")


@contextmanager
def _ledger(request: Request) -> Iterator[Ledger]:
    url = request.app.state.ledger
    if url is None:
        raise HTTPException(404, "This server was started without a ledger")
    with read_ledger(url if str(url).startswith("sqlite:") else Path(url)) as ledger:
        yield ledger


def _budget(balance: Balance) -> dict[str, Any]:
    money = {
        "caps": balance.caps,
        "reserved": balance.reserved,
        "started": balance.started,
        "committed": balance.committed,
        "spent": balance.spent,
        "available": balance.available,
    }
    return {
        "scope": balance.scope,
        "kind": balance.kind,
        "relation": balance.relation.value,
        "privacy_unit": balance.privacy_unit,
        "simulation": balance.simulation,
        "theorem": balance.theorem,
    } | {name: dict(amounts) for name, amounts in money.items()}


def _entry(entry: Entry) -> dict[str, Any]:
    document = entry.document()
    fields: dict[str, Any] = json.loads(document)
    return {"hash": digest(document)} | fields


def _cycles(entries: list[Entry]) -> list[dict[str, Any]]:
    """Every charge from the moment it became spent, with the running sum of its scope and kind."""
    sums: dict[tuple[str, str], Any] = {}
    cycles = []
    for entry in entries:
        if entry.verb is Verb.STARTED:
            for kind, amount in entry.amounts.items():
                at = entry.scope, kind
                sums[at] = sums[at] + amount if at in sums else amount
                line = {"scope": entry.scope, "kind": kind, "key": entry.key, "time": entry.time}
                cycles.append(line | {"amount": dict(amount), "cumulative": dict(sums[at])})
    return cycles


def _folder(request: Request, name: str) -> Path:
    root: Path | None = request.app.state.runs
    if root is None or not _NAME.fullmatch(name) or not (root / name / "report.json").is_file():
        raise HTTPException(404, "There is no such run")
    return root / name


def _report(folder: Path) -> dict[str, Any]:
    path = folder / "report.json"
    if path.stat().st_size > LONGEST_REPORT:
        raise HTTPException(413, "The report is too large to show")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("kind") != "report":
        raise ValueError(f"report must be a report document, got {path.name}")
    return document


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "programme": report["identity"].get("name"),
        "period": report["identity"].get("period"),
        "simulation": report["simulation"],
        "epsilon": report["claim"]["epsilon"]["upper"],
        "delta": report["claim"]["guarantee"]["delta"],
        "verdict": report["verification"]["verdict"],
        "rounds": report["result"]["rounds"],
    }
