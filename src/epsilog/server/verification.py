"""Documents of others, checked as `epsilog verify` does it: a report, the bundle of its ledger; nothing is kept.

A large bundle is streamed to a temporary folder: memory stays bounded. The body is a line of JSON, the fields of
``/verify`` without the bundle, and then the bundle as it is. Archives and compressed bodies are never opened: what does
not begin like a bundle is refused.

One streamed bundle is checked at a time, in a process of low priority that ends with its answer. Its time and memory
are limited, so no content of a bundle can cost more. A client has one upload at a time, and each must keep a pace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeAlias

import anyio
from anyio import CapacityLimiter
from fastapi import APIRouter, Depends
from fastapi.requests import Request
from fastapi.responses import Response
from pydantic import Field
from starlette.requests import ClientDisconnect

from epsilog import reports
from epsilog.ledger import StoredCheckpoint
from epsilog.server.authorization import authorize
from epsilog.server.middleware import get_client_address
from epsilog.server.problems import make_problem_response
from epsilog.server.responses import ReportVerificationModel, VerificationExampleModel
from epsilog.server.routes import RequestModel, Routes
from epsilog.server.workers import COMMAND, WorkerPool
from epsilog.signing import VerifierKey, read_envelopes
from epsilog.terms import CheckError, RecordError, StorageError, codec
from epsilog.verification import (
    LedgerReader,
    SignatureCheck,
    TrustAnchors,
    Verification,
    check_checkpoint_signatures,
    check_file_signatures,
    check_ledger_contents,
    check_signatures,
    parse_evidence,
    verify_evidence,
)

routes = Routes("verify")
router = APIRouter(tags=["verify"], dependencies=[Depends(authorize)])
internal = Routes("verify")  # asked by this module alone: its folder is never a client's choice

_Text: TypeAlias = Annotated[str | None, Field(max_length=4 * 1024 * 1024)]
_BEGINNING = b"epsilog-bundle/v0\n"
_EXAMPLE = Path(__file__).parent / "example"  # the records of a small rehearsal, and the bundle of its ledger
_Note: TypeAlias = Annotated[str | None, Field(max_length=64 * 1024)]  # a signature, a checkpoint
MAX_BUNDLE_BYTES = 200 * 1024 * 1024
MAX_LINE_BYTES = 10 * 1024 * 1024  # of the other fields
MAX_UPLOADS = 2  # that arrive, wait or are checked: twice the largest bundle on disk
PATIENCE_SECONDS = 30.0  # for an upload of no bytes, and for each pause
MIN_BYTES_PER_SECOND = 500_000.0  # besides: the largest bundle has seven minutes
CHECK_SECONDS = 180.0  # of work on one bundle; a bundle of 200 MB takes about 70
CHECK_BYTES = 2 * 1024**3  # of address space of the process that checks; such a bundle needs about half
POLL_SECONDS = 0.5  # between two looks whether the client is still there
_LINE, _BUNDLE = "fields.json", "ledger.bundle"


class VerifyRequest(RequestModel):
    """A report, a bundle of a ledger, or both, with what an auditor kept elsewhere."""

    report: _Text = Field(None, description="report.json or report.html, as text")
    bundle: _Text = Field(None, description="the bundle of the ledger that was charged, as text")
    record: _Text = Field(None, description="a stamped record of a calculator, as text")
    signature: _Note = Field(None, description="the report's signature (.intoto.jsonl)")
    checkpoint: _Note = Field(None, description="a checkpoint that was kept: the bundle begins with it")
    key: str | None = Field(None, description="the trusted key of signatures, NAME+ID+KEY", max_length=1000)


@routes.add("/verify", ReportVerificationModel, summary="Check a report, a bundle of a ledger, or both")
def verify_route(ask: VerifyRequest) -> dict[str, Any]:
    """Every check of the given files. Each part of a report is compared with its recomputation from the evidence.

    Only the ledger binds a report to a run: its bundle is verified entry by entry. A signature counts if it is by the
    given key, and a kept checkpoint shows whether the bundle continues the ledger of that time.
    """
    if ask.record is not None:
        return _verify_record(ask)
    return _verify(ask, _open_ledger_reader(ask), has_bundle=ask.bundle is not None)


def verify_with_bundle(ask: VerifyRequest, bundle: Path) -> dict[str, Any]:
    """Return the outcome of a question whose bundle is a file."""
    if ask.bundle is not None or ask.record is not None:
        raise CheckError("bundle", "given once, and without a record", "another too")
    with _name_unreadable("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        with bundle.open("rb") as start:
            if start.read(len(_BEGINNING)) != _BEGINNING:
                raise RecordError("it does not begin like a bundle; archives are not opened")
        ledger = LedgerReader.read(bundle)
    return _verify(ask, ledger, has_bundle=True)


def _verify(ask: VerifyRequest, ledger: LedgerReader | None, *, has_bundle: bool) -> dict[str, Any]:
    anchors = _build_trust_anchors(ask, has_bundle=has_bundle)
    if ask.report is not None:
        return _verify_report(ask.report, ask.signature, ledger, anchors)
    if ledger is None:
        raise CheckError("report", "given, or a bundle", "neither")
    if ask.signature is not None:
        raise CheckError("signature", "absent without a report (a bundle carries its own)", "one")
    signatures = check_signatures(check_checkpoint_signatures(ledger, anchors), anchors.keys)
    findings = (*check_ledger_contents(ledger, anchors), *signatures)
    return _outcome_to_json(Verification(findings, required=("ledger", "signature")))


class ExampleRequest(RequestModel):
    """Nothing."""


@routes.add("/verify/example", VerificationExampleModel, summary="A report and its ledger, to try")
def example_route(_ask: ExampleRequest) -> dict[str, Any]:
    """The report of a small rehearsal on real data, built from its records, and the bundle of its ledger."""
    return {"report": _build_example(), "bundle": (_EXAMPLE / "ledger.bundle").read_text(encoding="utf-8")}


@cache
def _build_example() -> str:
    files = {one.name: one.read_bytes() for one in _EXAMPLE.iterdir() if one.suffix in (".json", ".jsonl")}
    evidence = parse_evidence(files, LedgerReader.read(_EXAMPLE / "ledger.bundle"))
    return codec.encode_canonical(reports.build_report(verify_evidence(evidence))).decode()


def _verify_record(ask: VerifyRequest) -> dict[str, Any]:
    """Return the findings of a calculator's record; nothing that belongs to a run goes with it."""
    if ask.model_fields_set - {"record"} and ask.model_dump(exclude={"record"}, exclude_none=True):
        raise CheckError("record", "alone: it is of no run", "other fields too")
    with _name_unreadable("record", "a stamped calculation"):
        document = codec.parse_json((ask.record or "").encode("utf-8", "surrogatepass"))
        findings = reports.check_calculation(document)
    return _outcome_to_json(Verification(findings, required=()))


def _verify_report(
    report: str, signature: str | None, ledger: LedgerReader | None, anchors: TrustAnchors
) -> dict[str, Any]:
    content = report.encode("utf-8", "surrogatepass")
    signatures: tuple[SignatureCheck, ...] = (SignatureCheck("report"),) if anchors.keys else ()
    if signature is not None:
        with _name_unreadable("signature", "that of a report: DSSE envelopes, one a line", quote=False):
            envelopes = read_envelopes(signature.encode())
            signatures = (check_file_signatures("report", content, envelopes, anchors.keys),)
    required = (*reports.REQUIRED_OF_REPORT, *(("signature",) if anchors.keys else ()))  # a key asks for a signature
    with _name_unreadable("report", "one that carries its evidence"):
        found = reports.verify_report(content, ledger, required=required, trust=anchors, signed=signatures)
        parts = [dataclasses.asdict(part) for part in reports.compare_rebuilt(content)]
    document = reports.read_report(content)[1]
    return _outcome_to_json(found, parts, document)


def _outcome_to_json(
    outcome: Verification, parts: Sequence[dict[str, Any]] = (), report: dict[str, Any] | None = None
) -> dict[str, Any]:
    findings = [finding.to_json() for finding in outcome.findings]
    return {
        "status": outcome.status.value,
        "answer": outcome.answer,
        "supported_claim": outcome.claim,
        "findings": findings,
        "parts": list(parts),
        "evidence": reports.list_evidence_kinds(outcome, report),
        "simulation": outcome.evidence is not None and outcome.evidence.claim.simulation,
    }


def _build_trust_anchors(ask: VerifyRequest, *, has_bundle: bool) -> TrustAnchors:
    checkpoint, keys = None, tuple[VerifierKey, ...]()
    if ask.checkpoint is not None:
        if not has_bundle:
            raise CheckError("checkpoint", "absent without a bundle, which it is of", "one")
        with _name_unreadable("checkpoint", "one of a ledger", quote=False):
            checkpoint = StoredCheckpoint.parse(ask.checkpoint)
    if ask.key is not None:
        with _name_unreadable("key", "a public line, NAME+ID+KEY", quote=False):
            keys = (VerifierKey.parse(ask.key),)
    return TrustAnchors(checkpoint=checkpoint, keys=keys)


def _open_ledger_reader(ask: VerifyRequest) -> LedgerReader | None:
    if ask.bundle is None:
        return None
    with _name_unreadable("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        return LedgerReader.read(BytesIO(ask.bundle.encode("utf-8", "surrogatepass")))


@contextmanager
def _name_unreadable(field: str, wanted: str, *, quote: bool = True) -> Iterator[None]:
    """Name the text that cannot be read; quote nothing of one that may be a private key."""
    try:
        yield
    except (RecordError, StorageError, ValueError) as error:
        if not quote:
            raise CheckError(field, wanted, "another text") from None
        raise CheckError(field, wanted, f"another: {error}") from error


class Uploads:
    """The uploads of one server: places for those that arrive, wait or are checked, and the process that checks."""

    def __init__(self) -> None:
        self.places, self.clients = CapacityLimiter(MAX_UPLOADS), set[str]()
        self.workers = WorkerPool(
            workers=0, slow=1, deadline=CHECK_SECONDS, command=(*COMMAND, str(CHECK_BYTES)), reused=False
        )

    async def open(self) -> None:
        """Be ready; the process starts with the first upload."""
        await self.workers.open(at_once=False)

    async def close(self) -> None:
        """Kill the process."""
        await self.workers.close()


class FolderRequest(RequestModel):
    """The folder with the parts of one upload."""

    folder: str


@internal.add("/verify/folder", ReportVerificationModel, summary="Check an upload")
def verify_folder_route(ask: FolderRequest) -> dict[str, Any]:
    """As ``/verify``, with the bundle read from its file."""
    folder = Path(ask.folder)
    return verify_with_bundle(VerifyRequest.model_validate_json((folder / _LINE).read_bytes()), folder / _BUNDLE)


@router.post(
    "/verify/bundle",
    summary="Check a report with a large bundle",
    response_model=None,
    responses={200: {"model": ReportVerificationModel}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def verify_bundle_route(request: Request) -> Response:
    """The body is a line of JSON, the fields of ``/verify`` without the bundle, and then the bundle as it is."""
    uploads: Uploads = request.app.state.uploads
    client = get_client_address(request.scope, trust_proxy=request.app.state.access.trust_proxy)
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:18]) > MAX_LINE_BYTES + MAX_BUNDLE_BYTES:
        return _refuse_length()
    if client in uploads.clients:
        detail = "A bundle from your address is being checked. Retry when it has its answer."
        return make_problem_response(429, "too-many", "Too many bundles", detail, retry_after=30)
    if uploads.places.borrowed_tokens >= MAX_UPLOADS:
        detail = "Other bundles are being checked. Retry in a minute."
        return make_problem_response(503, "busy", "Server busy", detail, retry_after=60)
    uploads.clients.add(client)
    try:
        async with uploads.places:
            with TemporaryDirectory(prefix="epsilog-upload-") as folder:
                return await _store(request, Path(folder)) or await _check(request, uploads, folder)
    except TimeoutError:
        detail = f"It must arrive at {MIN_BYTES_PER_SECOND / 1e6:g} MB a second or faster."
        return make_problem_response(408, "too-slow", "Upload too slow", detail)
    except ClientDisconnect:
        return Response(status_code=400)
    finally:
        uploads.clients.discard(client)


async def _check(request: Request, uploads: Uploads, folder: str) -> Response:
    """Have the folder checked, unless the client leaves before: then its place is free again at once."""
    answer: Response | None = None
    async with anyio.create_task_group() as group:

        async def leave() -> None:
            while not await request.is_disconnected():
                await anyio.sleep(POLL_SECONDS)
            group.cancel_scope.cancel()

        group.start_soon(leave)
        answer = await uploads.workers.answer(internal.by_path["/verify/folder"], FolderRequest(folder=folder))
        group.cancel_scope.cancel()
    if answer is None:
        raise ClientDisconnect
    return answer


def _refuse_length() -> Response:
    limit = f"The limit is {MAX_BUNDLE_BYTES // 1024**2} MB of a bundle. Use `epsilog verify` on your own machine."
    return make_problem_response(413, "too-long", "Request too large", limit)


async def _store(request: Request, folder: Path) -> Response | None:
    """Write the two parts of a body to files as they arrive; return a refusal, or None."""
    line, size, began = bytearray(), 0, anyio.current_time()
    async with await anyio.open_file(folder / _BUNDLE, "wb") as bundle:
        is_line = True
        with anyio.fail_after(PATIENCE_SECONDS) as pace:
            async for chunk in request.stream():
                rest = chunk
                if is_line:
                    part, newline, rest = chunk.partition(b"\n")
                    line += part
                    is_line = not newline
                    if len(line) > MAX_LINE_BYTES:
                        return _refuse_length()
                size += len(rest)
                if size > MAX_BUNDLE_BYTES:
                    return _refuse_length()
                pace.deadline = began + PATIENCE_SECONDS + (len(line) + size) / MIN_BYTES_PER_SECOND
                await bundle.write(rest)
    (folder / _LINE).write_bytes(bytes(line))
    return None
