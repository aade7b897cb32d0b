"""The application: the API under ``/api/v1``, its OpenAPI document, and the pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import to_thread
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.middleware.gzip import GZipMiddleware

from epsilog.server import (
    cards,
    command_route,
    ledger_commands,
    metrics,
    montecarlo,
    page_data,
    pages,
    problems,
    routes,
    snippets,
    verification,
)
from epsilog.server.access import AccessConfig
from epsilog.server.authorization import TokenAuthMiddleware, document_permissions
from epsilog.server.client_certificates import ProxyGuardMiddleware
from epsilog.server.identity import IdentityProvider
from epsilog.server.jobs import JobRegistry
from epsilog.server.ledger_service import LedgerService, PooledCostModel
from epsilog.server.middleware import BodyLimitMiddleware, CancelOnDisconnect, HostGuardMiddleware
from epsilog.server.telemetry import open_telemetry
from epsilog.server.tokens import TokenStore
from epsilog.server.workers import WorkerPool

THREADS = 8  # files and ledgers read at a time

_PARTS = (
    routes.calculators.router(),
    snippets.routes.router(),
    routes.playground.router(),
    verification.routes.router(),
    verification.router,
    montecarlo.router,
    page_data.client_router,
    ledger_commands.router,
    page_data.router,
)


@asynccontextmanager
async def _run_services(app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    state = app.state
    with TemporaryDirectory(prefix="epsilog-", ignore_cleanup_errors=True) as scratch:
        state.montecarlo = montecarlo.MonteCarloService(state.montecarlo_in or Path(scratch))
        state.ledger_checks = JobRegistry(what="checks of the ledger", at_once=1)
        state.uploads = verification.Uploads()
        await state.uploads.open()
        state.workers = state.workers or WorkerPool()
        await state.workers.open()
        # the ledger's own: strangers may fill the other pool
        cost_workers = WorkerPool(niceness=0, deadline=state.workers.deadline)
        await cost_workers.open(at_once=False)
        costs = PooledCostModel(cost_workers, asyncio.get_running_loop())
        state.ledger_service = None if state.ledger is None else LedgerService(state.ledger, costs)
        if state.telemetry is not None:
            state.telemetry.start()
        yield
        if state.telemetry is not None:
            await to_thread.run_sync(state.telemetry.close)
        if state.ledger_service is not None:
            state.ledger_service.close()
        await cost_workers.close()
        await state.uploads.close()
        await state.workers.close()
        for job in (*state.montecarlo.registry.jobs(), *state.ledger_checks.jobs()):
            job.stop("paused")


def create_app(
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    montecarlo_in: Path | str | None = None,
    access: AccessConfig | None = None,
    workers: WorkerPool | None = None,
    otel_scopes: Sequence[str] = (),
) -> FastAPI:
    """Return the application, not yet listening.

    Args:
        ledger: a ledger to read and write, as a database URL or a path; None shows none.
        runs: the folder of runs, each a subfolder with ``report.json``; None shows no runs.
        montecarlo_in: the folder that keeps Monte Carlo evidence; None keeps them while the application lives.
        access: who may enter; None admits users of this machine.
        workers: answers the questions; it opens and closes with the application. None takes a pool of usual size.
        otel_scopes: with OTEL_EXPORTER_OTLP_ENDPOINT, the budgets at and under these scopes are exported too.
    """
    app = FastAPI(
        title="epsilog",
        version=version("epsilog"),
        description="Plan, read and prove differential-privacy budgets. Only upper bounds may be claimed.",
        openapi_url=None,  # below: written once, not for every request
        docs_url=None,
        redoc_url=None,
        lifespan=_run_services,
    )
    access = app.state.access = access or AccessConfig()
    app.state.ledger, app.state.runs = ledger, None if runs is None else Path(runs)
    app.state.montecarlo_in = None if montecarlo_in is None else Path(montecarlo_in)
    app.state.workers, app.state.cards = workers, cards.CardCache()
    app.state.metrics, app.state.readiness = metrics.Metrics(), metrics.Readiness(ledger)
    app.state.telemetry = open_telemetry(app.state.metrics.registry, ledger, tuple(otel_scopes))
    problems.install_error_handlers(app)
    app.openapi = cache(lambda: document_permissions(FastAPI.openapi(app)))  # type: ignore[method-assign]
    write_openapi = cache(lambda: json.dumps(app.openapi(), separators=(",", ":")))

    @app.get("/api/openapi.json", include_in_schema=False)
    def openapi_route() -> Response:
        return Response(write_openapi(), media_type="application/json")

    for part in _PARTS:
        app.include_router(part, prefix=routes.PREFIX)
    app.include_router(metrics.router)
    app.include_router(cards.router)
    app.include_router(pages.router)  # the last: it answers for every other address
    app.add_middleware(command_route.CommandMiddleware)  # the innermost; the last one that is added runs first
    app.add_middleware(GZipMiddleware)
    app.add_middleware(CancelOnDisconnect)
    app.add_middleware(BodyLimitMiddleware)
    identities = None if access.identity is None else IdentityProvider(access.identity)
    if access.requires_token:
        app.add_middleware(
            TokenAuthMiddleware,
            keys=None if access.tokens is None else TokenStore(access.tokens),
            identities=identities,
            rate=access.rate,
            trust_proxy=access.trust_proxy,
        )
    app.add_middleware(ProxyGuardMiddleware, identities=identities)
    app.add_middleware(HostGuardMiddleware, access=access)
    app.add_middleware(metrics.MetricsMiddleware, metrics=app.state.metrics, log=access.access_log)
    return app
