"""The application: the API under ``/api/v1``, its OpenAPI document, and the pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from anyio import to_thread
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from epsilog.web import calculators, certificates, pages, playground, problems, reading
from epsilog.web.security import Guard

THREADS = 4  # answers worked out at a time; more would only slow each other down


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def create_app(*, ledger: str | None = None, runs: Path | str | None = None) -> FastAPI:
    """Puts the rooms together; see ``epsilog.web.create_app``."""
    app = FastAPI(
        title="epsilog",
        version=version("epsilog"),
        description="Plan, read and certify differential-privacy budgets. Only upper bounds may be claimed.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_few_threads,
    )
    app.state.ledger, app.state.runs = ledger, None if runs is None else Path(runs)
    app.state.jobs = {}
    problems.install(app)
    app.include_router(calculators.router, prefix="/api/v1")
    app.include_router(playground.router, prefix="/api/v1")
    app.include_router(certificates.router, prefix="/api/v1")
    app.include_router(reading.router, prefix="/api/v1")
    app.include_router(pages.router)
    app.add_middleware(GZipMiddleware)
    app.add_middleware(Guard)
    return app
