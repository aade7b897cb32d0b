"""A report with a large bundle, streamed to a temporary folder: memory stays bounded, and nothing is kept.

The body is a line of JSON, the fields of ``/verify`` without the bundle, and then the bundle as it is. Archives and
compressed bodies are never opened: what does not begin like a bundle is refused.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
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

MAX_BUNDLE_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 10 * 1024 * 1024  # of the other fields
MAX_UPLOADS = 2  # that arrive at the same time
UPLOAD_SECONDS = 120.0
_LINE, _BUNDLE = "fields.json", "ledger.bundle"

router = APIRouter(tags=["verify"], dependencies=[Depends(authorize)])
internal = Routes("verify")  # asked by this module alone: its folder is never a client's choice


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
    arriving = request.app.state.uploads
    if arriving.borrowed_tokens >= MAX_UPLOADS:
        return make_problem_response(503, "busy", "Server busy", "Other bundles are arriving. Retry in a minute.")
    with TemporaryDirectory(prefix="epsilog-upload-") as folder:
        try:
            async with arriving:
                with anyio.fail_after(UPLOAD_SECONDS):
                    refusal = await _store(request, Path(folder))
        except TimeoutError:
            return make_problem_response(408, "too-slow", "Request too slow", f"The limit is {UPLOAD_SECONDS:g} s.")
        except ClientDisconnect:
            return Response(status_code=400)
        if refusal is not None:
            return refusal
        client = get_client_address(request.scope, trust_proxy=request.app.state.access.trust_proxy)
        route = internal.by_path["/verify/folder"]
        answer: Response = await request.app.state.workers.answer(route, FolderRequest(folder=folder), client=client)
        return answer


async def _store(request: Request, folder: Path) -> Response | None:
    """Write the two parts of a body to files as they arrive; return a refusal, or None."""
    too_long = make_problem_response(
        413, "too-long", "Request too large", f"The limit is {MAX_BUNDLE_BYTES} bytes of a bundle."
    )
    line, size = bytearray(), 0
    async with await anyio.open_file(folder / _BUNDLE, "wb") as bundle:
        is_line = True
        async for chunk in request.stream():
            rest = chunk
            if is_line:
                part, newline, rest = chunk.partition(b"\n")
                line += part
                is_line = not newline
                if len(line) > MAX_LINE_BYTES:
                    return too_long
            size += len(rest)
            if size > MAX_BUNDLE_BYTES:
                return too_long
            await bundle.write(rest)
    (folder / _LINE).write_bytes(bytes(line))
    return None
