"""A report with a large bundle, streamed to a temporary folder: memory stays bounded, and nothing is kept.

The body is a line of JSON, the fields of ``/verify`` without the bundle, and then the bundle as it is. Archives and
compressed bodies are never opened: what does not begin like a bundle is refused.

One bundle is checked at a time, in a process of low priority that ends with its answer. Its time and its memory are
limited, so no content of a bundle can cost more. A client has one upload at a time, and each must keep a pace.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from anyio import CapacityLimiter
from fastapi import APIRouter, Depends
from fastapi.requests import Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from epsilog.server.authorization import authorize
from epsilog.server.problems import make_problem_response
from epsilog.server.rate_limits import get_client_address
from epsilog.server.responses import ReportVerificationModel
from epsilog.server.routes import RequestModel, Routes
from epsilog.server.verification import VerifyRequest, verify_with_bundle
from epsilog.server.workers import COMMAND, WorkerPool

MAX_BUNDLE_BYTES = 200 * 1024 * 1024
MAX_LINE_BYTES = 10 * 1024 * 1024  # of the other fields
MAX_UPLOADS = 2  # that arrive, wait or are checked: twice the largest bundle on disk
PATIENCE_SECONDS = 30.0  # for an upload of no bytes, and for each pause
MIN_BYTES_PER_SECOND = 500_000.0  # besides: the largest bundle has seven minutes
CHECK_SECONDS = 180.0  # of work on one bundle; a bundle of 200 MB takes about 70
CHECK_BYTES = 2 * 1024**3  # of address space of the process that checks; such a bundle needs about half
POLL_SECONDS = 0.5  # between two looks whether the client is still there
_LINE, _BUNDLE = "fields.json", "ledger.bundle"

router = APIRouter(tags=["verify"], dependencies=[Depends(authorize)])
internal = Routes("verify")  # asked by this module alone: its folder is never a client's choice


class Uploads:
    """The uploads of one server; see ``open`` and ``close``.

    Attributes:
        places: for those that arrive, wait or are checked.
        clients: the addresses that they come from.
        workers: the process that checks them.
    """

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
