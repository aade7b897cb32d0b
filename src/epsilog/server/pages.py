"""The built front end: one page for every room, embed pages that may be framed, and hashed assets."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

from epsilog.server.files import find_static_file

router = APIRouter(include_in_schema=False)

STATIC = Path(__file__).parent / "static"
PAGE_NAMES = ("federated", "queries", "playground", "compare", "montecarlo", "ledger", "runs", "verify", "game")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8"}


@router.get("/")
@router.get("/{room}")
def serve_page_route(request: Request, room: str = "") -> Response:
    """The single page application, at every room's address; elsewhere it says so, to a browser."""
    if room == "favicon.svg":
        return _file("favicon.svg")
    if room and room not in PAGE_NAMES:
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404, "There is no such page")
        return _file("index.html", status=404)
    return _file("index.html")


@router.get("/runs/{name}")
def serve_run_page_route(name: str) -> Response:  # noqa: ARG001
    """One run's page."""
    return _file("index.html")


@router.get("/assets/{name}")
def serve_asset_route(name: str) -> Response:
    """A built file; its name carries its hash, so it may be cached for ever."""
    response = _file(f"assets/{name}")
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@router.get("/embed/{name}")
def serve_embed_route(name: str) -> Response:
    """A calculator to be framed, or the custom element's script."""
    if name in {"federated", "queries"}:
        return _file("embed.html")
    if name == "epsilog-embed.js":
        return _file("embed/epsilog-embed.js")
    raise HTTPException(404, "There is no such embed")


@router.get("/embed/assets/{name}")
def serve_embed_asset_route(name: str) -> Response:
    """A built file, for a framed page."""
    return serve_asset_route(name)


def _file(name: str, *, status: int = 200) -> Response:
    path = find_static_file(STATIC, name)
    if path is None:
        if not (STATIC / "index.html").is_file():
            raise HTTPException(503, "The front end is not built: run python hatch_build.py")
        raise HTTPException(404, "There is no such file")
    return FileResponse(path, status, media_type=_KINDS.get(path.suffix), headers={"Cache-Control": "no-cache"})
