"""Health, readiness and metrics of a server: requests, durations, refusals and the sums of budgets.

Tokens, query strings and bodies never reach a log or a metric: requests are named by the template of their route. Of a
command on the ledger, the log keeps the scope and the key, which the ledger would store too. Each answer has an id in
``X-Request-Id``, which its line of the log repeats.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import math
import random
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, TextIO, final

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.ledger import Balance
from epsilog.server.access import Holder
from epsilog.server.authorization import HOLDER, SUBJECT, Caller, match_route
from epsilog.server.page_data import open_readable_ledger
from epsilog.server.problems import FAILURE, make_problem_response
from epsilog.server.routes import PREFIX

router = APIRouter(tags=["health"])

_LOG = logging.getLogger("uvicorn.error")
READY_FOR = 1.0  # seconds that an answer to /readyz holds: more requests open no more ledgers
_NUMBERS = random.Random()  # noqa: S311 - tells requests apart, and guards nothing
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HEALTH = {"status": "live"}
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@final
class Metrics:
    """The counters since the server started."""

    def __init__(self) -> None:
        self.registry = of = CollectorRegistry()
        ProcessCollector(registry=of)
        self.requests = Counter("epsilog_requests", "Answers.", ["method", "route", "status"], registry=of)
        self.seconds = Histogram(
            "epsilog_request_seconds", "Until the last byte.", ["method", "route"], registry=of, buckets=_SECONDS
        )
        self.refusals = Counter("epsilog_refusals", "What was refused, by why.", ["why"], registry=of)
        self.of_answer = cache(
            lambda method, route, status: (
                self.requests.labels(method, route, status),
                self.seconds.labels(method, route),
            )
        )


class MetricsMiddleware:
    """ASGI middleware. Counts every response, and logs it as a line of JSON if configured."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, log: bool, out: Callable[[], TextIO] = lambda: sys.stdout):
        self.app, self._metrics, self._log, self._out = app, metrics, log, out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Record one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, number = time.perf_counter(), 500, f"{_NUMBERS.getrandbits(64):016x}"

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", number.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_and_record)
        finally:
            self._note(scope, number, status, time.perf_counter() - began)

    def _note(self, scope: Scope, number: str, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = get_route_template(scope)
        count, histogram = self._metrics.of_answer(method, route, status)
        count.inc()
        histogram.observe(seconds)
        failure = (scope.get(FAILURE) or f"status {status}") if status >= 400 else None
        if failure is not None:
            self._metrics.refusals.labels(failure).inc()
        if self._log:
            holder = scope.get(HOLDER)
            line = {
                "id": number,
                "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
                "holder": holder.name if isinstance(holder, Holder) else None,
                "method": method,
                "route": route,
                "status": status,
                "outcome": failure or "ok",
                **scope.get(SUBJECT, {}),
                "milliseconds": round(1000 * seconds, 1),
            }
            with contextlib.suppress(OSError, ValueError):  # the log has no reader any more; the ledger still works
                self._out().write(json.dumps(line) + "\n")
                self._out().flush()


def get_route_template(scope: Scope) -> str:
    """Return the template of the route that answered; "none" if no route did."""
    path = getattr(scope.get("route"), "path", None)
    if not isinstance(path, str):  # the holder may have been refused before routing
        return (HOLDER in scope and match_route(scope["method"], scope["path"])) or "none"
    inner = scope["path"].startswith(f"{PREFIX}/") and not path.startswith(f"{PREFIX}/")  # as the router has it
    return PREFIX + path if inner else path


@router.get("/healthz", summary="Liveness")
async def check_health_route() -> dict[str, str]:
    """The server runs."""
    return HEALTH


@router.get("/readyz", summary="Readiness")
async def check_readiness_route(request: Request) -> Response:
    """Whether the ledger opens and its head can be read; the log states the reason if not."""
    if await request.app.state.readiness.check():
        return JSONResponse({"status": "ready"})
    return make_problem_response(503, "not-ready", "Not ready", "The ledger cannot be read; see the server's log.")


@router.get("/metrics", summary="Metrics in Prometheus's text format", response_class=Response)
def metrics_route(request: Request, caller: Caller) -> Response:
    """Requests, refusals, and the budgets at and below the caller's scope."""
    found = generate_latest(request.app.state.metrics.registry)
    if request.app.state.ledger is not None:
        with open_readable_ledger(request.app.state.ledger) as ledger:
            budgets = [one for one in ledger.budgets() if caller.holder.contains_scope(one.scope)]
        found += generate_latest(collect_budgets(budgets))
    return Response(found, media_type=_TEXT)


def collect_budgets(budgets: list[Balance]) -> CollectorRegistry:
    """Return the sums of budgets as gauges: spent amounts rounded up, caps down."""
    registry = CollectorRegistry()
    for name, amounts in (("cap", "caps"), ("spent", "spent"), ("reserved", "reserved")):
        gauge = Gauge(f"epsilog_budget_{name}", f"The {name} of a budget.", ["scope", "unit"], registry=registry)
        for budget in budgets:
            for unit, amount in dict(getattr(budget, amounts)).items():
                gauge.labels(budget.scope, unit).set(_round_outward(amount, up=name != "cap"))
    return registry


@final
class Readiness:
    """Whether a ledger can be read, checked at most once a second."""

    def __init__(self, url: str | None) -> None:
        self._url, self._lock = url, anyio.Lock()
        self._is_ready, self._until = False, -math.inf

    async def check(self) -> bool:
        """As it is now, or was a moment ago."""
        async with self._lock:
            if time.monotonic() >= self._until:
                self._is_ready = await anyio.to_thread.run_sync(self._reads)
                self._until = time.monotonic() + READY_FOR
            return self._is_ready

    def _reads(self) -> bool:
        try:
            if self._url is not None:
                with open_readable_ledger(self._url) as ledger:
                    ledger.head()
        except Exception as error:  # noqa: BLE001 (whatever it is, the server is not ready)
            _LOG.error("not ready: %s", error)
            return False
        return True


def _round_outward(amount: Any, *, up: bool) -> float:
    """Return a decimal number as a float on the safe side of it."""
    exact = Decimal(str(amount))
    near = float(exact)
    if math.isinf(near) or Decimal(near) == exact or (Decimal(near) > exact) == up:
        return near
    return math.nextafter(near, math.inf if up else -math.inf)
