"""The application: the API under ``/api/v1``, its OpenAPI document, and the pages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyio import Lock, to_thread
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.middleware.gzip import GZipMiddleware

from epsilog.server import (
    calculators,
    certificates,
    docs,
    elsewhere,
    ledger_commands,
    ledger_reads,
    needs,
    observing,
    pages,
    problems,
    reading,
    verifying,
)
from epsilog.server.books import LedgerService
from epsilog.server.certificates import CertificateService
from epsilog.server.desk import TIMEOUT_SECONDS, WorkerPool
from epsilog.server.disconnects import CancelOnDisconnect
from epsilog.server.doorkeeper import TokenAuthMiddleware
from epsilog.server.entrance import AccessConfig
from epsilog.server.jobs import JobRegistry
from epsilog.server.observing import Metrics, MetricsMiddleware, Readiness
from epsilog.server.prices import PooledCostModel
from epsilog.server.routes import PREFIX
from epsilog.server.security import BodyLimitMiddleware, HostGuardMiddleware
from epsilog.server.tokens import TokenStore

THREADS = 8  # files and books read at a time
_IN_TURN = 2e-4  # seconds until a thread that computes makes room


class _Written:
    """Text that is written once, in a thread: half a second in which others are answered.

    Every read and write of theirs lets go of the interpreter, and would wait for 5 ms each time until it has it again.
    """

    def __init__(self, write: Callable[[], bytes]) -> None:
        self._write, self._text, self._turn = write, b"", Lock()

    async def text(self) -> bytes:
        """The text; whoever asks meanwhile waits for the first one's."""
        async with self._turn:
            if not self._text:
                usual = sys.getswitchinterval()
                sys.setswitchinterval(_IN_TURN)
                try:
                    self._text = await to_thread.run_sync(self._write)
                finally:
                    sys.setswitchinterval(usual)
        return self._text


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    with TemporaryDirectory(prefix="epsilog-", ignore_cleanup_errors=True) as scratch:
        certificates = CertificateService(app.state.certificates_in or Path(scratch))
        app.state.certificates = certificates
        app.state.verifications = JobRegistry(what="checks of the ledger", at_once=1)
        app.state.desk = app.state.begun or WorkerPool(deadline=app.state.deadline)
        await app.state.desk.open()
        counter = WorkerPool(deadline=app.state.deadline, manners=0)  # the ledger's own: strangers may fill the other
        await counter.open(at_once=False)
        prices = PooledCostModel(counter, asyncio.get_running_loop())
        app.state.books = None if app.state.ledger is None else LedgerService(app.state.ledger, prices)
        yield
        if app.state.books is not None:
            app.state.books.close()
        await counter.close()
        await app.state.desk.close()
        for job in (*certificates.shelf.jobs(), *app.state.verifications.jobs()):
            job.stop("paused")


def create_app(
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    entrance: AccessConfig | None = None,
    deadline: float = TIMEOUT_SECONDS,
    desk: WorkerPool | None = None,
) -> FastAPI:
    """Assemble the application; see ``epsilog.server.create_app``. A pool that was begun opens with the application."""
    app = FastAPI(
        title="epsilog",
        version=version("epsilog"),
        description="Plan, read and certify differential-privacy budgets. Only upper bounds may be claimed.",
        openapi_url=None,  # below: written once, not for everybody who asks
        docs_url=None,
        redoc_url=None,
        lifespan=_life,
    )
    entrance = app.state.entrance = entrance or AccessConfig()
    app.state.ledger, app.state.runs = ledger, None if runs is None else Path(runs)
    app.state.certificates_in = None if certificates_in is None else Path(certificates_in)
    app.state.deadline, app.state.begun = deadline, desk
    app.state.metrics, app.state.readiness = Metrics(), Readiness(ledger)
    problems.install_error_handlers(app)
    app.openapi = lambda: _build_openapi(app)  # type: ignore[method-assign]
    written = _Written(lambda: json.dumps(app.openapi(), separators=(",", ":")).encode())

    @app.get("/api/openapi.json", include_in_schema=False)
    async def description() -> Response:
        return Response(await written.text(), media_type="application/json")

    app.include_router(calculators.calculators.router(), prefix=PREFIX)
    app.include_router(elsewhere.routes.router(), prefix=PREFIX)
    app.include_router(calculators.playground.router(), prefix=PREFIX)
    app.include_router(verifying.routes.router(), prefix=PREFIX)
    app.include_router(certificates.router, prefix=PREFIX)
    app.include_router(ledger_reads.router, prefix=PREFIX)
    app.include_router(ledger_commands.router, prefix=PREFIX)
    app.include_router(reading.router, prefix=PREFIX)
    app.include_router(observing.router)
    app.include_router(docs.router)  # before the pages, which answer for every other address
    app.include_router(pages.router)
    app.add_middleware(GZipMiddleware)  # the innermost; what is added last is asked first
    app.add_middleware(CancelOnDisconnect)
    app.add_middleware(BodyLimitMiddleware)
    if entrance.tokens is not None:
        keys = TokenStore(entrance.tokens)
        app.add_middleware(TokenAuthMiddleware, keys=keys, rate=entrance.rate, behind_proxy=entrance.behind_proxy)
    app.add_middleware(HostGuardMiddleware, entrance=entrance)
    app.add_middleware(MetricsMiddleware, metrics=app.state.metrics, log=entrance.access_log)
    return app


def _build_openapi(app: FastAPI) -> dict[str, Any]:
    """The API's description, worked out once, with what each address takes."""
    if app.openapi_schema is None:
        app.openapi_schema = needs.document_permissions(FastAPI.openapi(app))
    return app.openapi_schema
