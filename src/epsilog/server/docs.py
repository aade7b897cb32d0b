"""The docs under ``/docs``, as built into the wheel; a server without them says so, and how to build them."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from epsilog.server.files import find_static_file

router = APIRouter(include_in_schema=False)

BUILT = Path(__file__).parent / "built_docs"
HOW_TO_BUILD = "https://github.com/epsilog/epsilog/blob/main/docs/install.md#these-pages-offline"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".png": "image/png",
}
_SAID = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body><main><h1>{title}</h1><p>{says}</p></main></body>
</html>
"""


@router.get("/docs")
def serve_index_route() -> Response:
    """Relative links need the slash."""
    return RedirectResponse("/docs/", 308)


@router.get("/docs/{path:path}")
def serve_docs_page_route(path: str) -> Response:
    """One built file."""
    if not (BUILT / "index.html").is_file():
        says = (
            "This server runs from sources whose docs were not built: run <code>make docs</code> there. "
            f'<a href="{HOW_TO_BUILD}">How to build them</a>. <a href="/">To the calculators</a>.'
        )
        return HTMLResponse(_SAID.format(title="The docs are not built here", says=says), 503)
    file = find_static_file(BUILT, path or "index.html")
    if file is None:
        says = 'Begin at <a href="/docs/">the front of the docs</a>, or search there.'
        return HTMLResponse(_SAID.format(title="There is no such page in the docs", says=says), 404)
    kind = _KINDS.get(file.suffix, "application/octet-stream")
    return FileResponse(file, media_type=kind, headers={"Cache-Control": "no-cache"})
