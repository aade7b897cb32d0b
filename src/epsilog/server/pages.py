"""The built front end and docs: one page for every address of the app, embeds that may be framed, hashed assets."""

from __future__ import annotations

import html
import re
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from epsilog.certificates import find_checker

router = APIRouter(include_in_schema=False)

STATIC = Path(__file__).parent / "static"
DOCS = Path(__file__).parent / "built_docs"
HOW_TO_BUILD = "https://github.com/epsilog/epsilog/blob/main/docs/install.md#these-pages-offline"
PAGES = {  # title and description, as a search engine or a chat shows a link
    "": ("epsilog", "Plan, spend, verify and prove differential-privacy budgets."),
    "dp-sgd": ("DP-SGD", "What a DP-SGD run costs each example: a proven bound on epsilon, and code to copy."),
    "federated": ("Federated", "What a federated learning run costs each client: a proven bound on epsilon."),
    "queries": ("Queries", "How much noise counts, sums and means need under one differential-privacy budget."),
    "playground": ("Playground", "What several differentially private releases cost together: a proven interval."),
    "compare": ("Compare", "Which of two differentially private releases protects better, at every point."),
    "montecarlo": (
        "Monte Carlo",
        "Bound delta by simulation where no closed form exists, and watch the interval shrink.",
    ),
    "verdict": ("Verdict", "What a differential-privacy epsilon means, out of 1,000 people, beside a blind guess."),
    "ledger": ("Ledger", "What is left of each privacy budget, and who spent the rest."),
    "runs": ("Runs", "Each run's plan beside its records, with every difference."),
    "verify": ("Verify", "Check a privacy report: epsilog recomputes its figures from the evidence that it carries."),
    "certificate": ("Certificate", "What a certificate of differential privacy proves, checked in this browser."),
    "game": ("Game", "Release statistics as a data curator: too little noise uses up the budget."),
}
PAGE_NAMES = tuple(name for name in PAGES if name)
EMBEDS = {
    "federated": ("Federated privacy calculator", "What a federated learning run costs each client."),
    "queries": ("Query budget calculator", "How much noise queries need under one privacy budget."),
    "verdict": ("Verdict card", "What an epsilon means, out of 1,000 people."),
}
EMBED_NAMES = tuple(EMBEDS)
CHECKERS = ("dp_certificate.mjs", "dp_certificate.py")
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".py": "text/x-python; charset=utf-8",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".png": "image/png",
}
_BROTLI = re.compile(r"br(\s*;\s*q=(1(\.0*)?|0\.0*[1-9]\d*))?")
_TITLE = re.compile("<title>.*?</title>")
_DESCRIPTION = re.compile('(<meta name="description" content=").*?(")')
_MESSAGE_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body><main><h1>{title}</h1><p>{text}</p></main></body>
</html>
"""


@router.get("/docs")
def serve_index_route() -> Response:
    """Relative links need the slash."""
    return RedirectResponse("/docs/", 308)


@router.get("/docs/{path:path}")
def serve_docs_page_route(path: str) -> Response:
    """One built file of the docs."""
    if not (DOCS / "index.html").is_file():
        text = (
            "This server runs from sources without built docs: run <code>make docs</code> there. "
            f'<a href="{HOW_TO_BUILD}">How to build them</a>. <a href="/">To the calculators</a>.'
        )
        return HTMLResponse(_MESSAGE_PAGE.format(title="Docs not built", text=text), 503)
    file = find_static_file(DOCS, path or "index.html")
    if file is None:
        text = 'Go to the <a href="/docs/">start of the docs</a> or search there.'
        return HTMLResponse(_MESSAGE_PAGE.format(title="Page not found", text=text), 404)
    return _serve_file(file)


@router.get("/")
@router.get("/{page}")
def serve_page_route(request: Request, page: str = "") -> Response:
    """The single-page application at every page's address; elsewhere a browser gets it with status 404."""
    if page == "favicon.svg":
        return _serve_static_file("favicon.svg")
    if page and page not in PAGE_NAMES:
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404, "Page not found")
        return serve_page("index.html", "Page not found", PAGES[""][1], status=404)
    return serve_page("index.html", *PAGES[page])


@router.get("/runs/{name}")
def serve_run_page_route(name: str) -> Response:  # noqa: ARG001
    """One run's page."""
    return serve_page("index.html", *PAGES["runs"])


@router.get("/assets/{name}")
@router.get("/embed/assets/{name}")
def serve_asset_route(request: Request, name: str) -> Response:
    """A built file; its name carries its hash, so it may be cached forever. ``web/compress.mjs`` compressed it."""
    path = find_static_file(STATIC, f"assets/{name}.br")
    if path is None or not _accepts_brotli(request.headers.get("accept-encoding", "")):
        response = _serve_static_file(f"assets/{name}")
    else:
        headers = {"Content-Encoding": "br", "Vary": "Accept-Encoding"}
        response = FileResponse(path, headers=headers, media_type=_MEDIA_TYPES[Path(name).suffix])
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@router.get("/checker/{name}")
def serve_checker_route(name: str) -> Response:
    """A standalone checker of certificates, unchanged: the page runs it, and a visitor downloads it."""
    if name not in CHECKERS:
        raise HTTPException(404, "File not found")
    return _serve_file(find_checker(name))


@router.get("/embed/{name}")
def serve_embed_route(name: str) -> Response:
    """A calculator or a card to be framed, or the custom element's script."""
    if name in EMBED_NAMES:
        return serve_page("embed.html", *EMBEDS[name])
    if name == "epsilog-embed.js":
        return _serve_static_file("embed/epsilog-embed.js")
    raise HTTPException(404, "Embed not found")


def find_static_file(folder: Path, name: str) -> Path | None:
    """Return the file with that name in a folder or below it; None if it does not exist, or the name is no path."""
    try:
        file = (folder / name).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, ValueError):  # too long, or with a NUL
        return None


def serve_page(name: str, title: str, description: str, *, head: str = "", status: int = 200) -> Response:
    """A page with the title and description of its address, for readers that run no script; ``head`` is more of it."""
    page = _serve_static_file(name, status=status)
    full = title if title == "epsilog" else f"{title} · epsilog"
    text = (STATIC / name).read_text(encoding="utf-8")
    text = _TITLE.sub(lambda _: f"{head}<title>{html.escape(full)}</title>", text, count=1)
    text = _DESCRIPTION.sub(rf"\g<1>{html.escape(description)}\g<2>", text, count=1)
    return HTMLResponse(text, page.status_code, {"Cache-Control": "no-cache"})


def _accepts_brotli(header: str) -> bool:
    """Whether a client names Brotli among the encodings that it accepts, with a weight above 0."""
    return any(_BROTLI.fullmatch(coding.strip().lower()) for coding in header.split(","))


def _serve_static_file(name: str, *, status: int = 200) -> Response:
    path = find_static_file(STATIC, name)
    if path is None:
        if not (STATIC / "index.html").is_file():
            raise HTTPException(503, "The front end is not built: run python hatch_build.py")
        raise HTTPException(404, "File not found")
    return _serve_file(path, status)


def _serve_file(path: Path, status: int = 200) -> Response:
    media_type = _MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    return FileResponse(path, status, media_type=media_type, headers={"Cache-Control": "no-cache"})
