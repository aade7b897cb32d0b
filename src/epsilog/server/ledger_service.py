"""The ledger of a server: opened when it is first asked, used in threads, its costs computed by a worker pool.

Commands that may wait for a cost have their own threads, so that a start or a commit never waits behind one. A cost
is computed outside any transaction, with a deadline.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from epsilog.ledger import Balance, ChargeRequest, Cost, Headroom, Ledger, compute_cost, ledger_exists, parse_address
from epsilog.ledger.commands import Command
from epsilog.ledger.commands.base import RESERVATION
from epsilog.ledger.cost import ProvenClaim, check_charge_certificate, compute_stated_cost
from epsilog.ledger.execute import Done
from epsilog.ledger.factory import is_copy, open_local_ledger
from epsilog.ledger.headroom import CostModel, compute_headroom, max_repetitions
from epsilog.ledger.http_codec import TRANSMITTED_ERRORS, cost_from_json, cost_to_json, error_from_json
from epsilog.server.group_commit import MAX_GROUP, GroupCommitStore
from epsilog.server.middleware import TokenBuckets
from epsilog.server.problems import ProblemError, too_many_requests
from epsilog.server.responses import ResponseModel
from epsilog.server.routes import RequestModel, Routes
from epsilog.server.workers import WorkerPool
from epsilog.terms import NeighboringRelation, StorageError

T = TypeVar("T")
MAX_COMMANDS = 16  # commands that wait for the disk, which takes one at a time
MAX_COSTED_COMMANDS = 96  # commands that wait for a cost
FREE_BURST, FREE_RATE = 200, 0.2  # plans and charges without cost of one token: at once, and per second after that

routes = Routes("costs")  # questions between processes; no application serves them


class CostRequest(RequestModel):
    """A request under one kind of budget."""

    request: dict[str, Any]
    kind: str
    orders: list[str]
    overridden: bool


class CertificateCheckRequest(RequestModel):
    """A request and the certificate that it presents."""

    request: dict[str, Any]
    certificate: str


class PathCostRequest(RequestModel):
    """A request under the budgets of a path, from the top."""

    request: dict[str, Any]
    path: list[str]


class HeadroomResponse(ResponseModel):
    """The headroom of a scope."""

    available: Annotated[dict[str, str], Field(description="the least amount available on any budget of the path")]
    charges: Annotated[int | None, Field(description="number of such charges that fit; null without a release")]
    repetitions: Annotated[
        int | None, Field(description="number of repetitions that fit as one plan; null if the release has none")
    ]


@routes.add("/ledger/price", ResponseModel, summary="The cost of a request under a kind of budget")
def _compute_cost(ask: CostRequest) -> dict[str, Any]:
    request = ChargeRequest.from_json(ask.request)
    return cost_to_json(compute_cost(request, ask.kind, orders=ask.orders, overridden=ask.overridden))


@routes.add("/ledger/certificate", ResponseModel, summary="What a certificate proves of a request")
def _check_certificate(ask: CertificateCheckRequest) -> dict[str, Any]:
    return check_charge_certificate(ChargeRequest.from_json(ask.request), ask.certificate)._asdict()


@routes.add("/ledger/repetitions", ResponseModel, summary="How many repetitions fit")
def _count_repetitions(ask: PathCostRequest) -> dict[str, Any]:
    return {"repetitions": max_repetitions(ChargeRequest.from_json(ask.request), _parse_path(ask))}


@routes.add("/ledger/headroom", HeadroomResponse, summary="What fits")
def _compute_headroom(ask: PathCostRequest) -> dict[str, Any]:
    return headroom_to_json(compute_headroom(ChargeRequest.from_json(ask.request), _parse_path(ask)))


def _parse_path(ask: PathCostRequest) -> list[Balance]:
    return [Balance.parse(document) for document in ask.path]


def headroom_to_json(found: Headroom) -> dict[str, Any]:
    """Return a headroom as plain JSON values."""
    return {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}


class PooledCostModel:
    """Asks a worker pool for costs, from other threads than its loop's."""

    def __init__(self, workers: WorkerPool, loop: asyncio.AbstractEventLoop) -> None:
        self._workers, self._loop = workers, loop

    def cost_model(self) -> CostModel:
        """Return the costs for a ledger that is used in threads."""
        return CostModel(self._request_cost, self._count_repetitions, self._check_certificate)

    async def headroom(self, request: ChargeRequest, path: Sequence[Balance]) -> Response:
        """What fits, as the response."""
        return await self._workers.answer(routes.by_path["/ledger/headroom"], _build_request(request, path))

    def _request_cost(self, request: ChargeRequest, kind: str, orders: Sequence[str], overridden: bool) -> Cost:
        known = compute_stated_cost(request, kind, orders=orders, overridden=overridden)
        if known is not None:
            return known
        ask = CostRequest(request=request.to_json(), kind=kind, orders=list(orders), overridden=overridden)
        return cost_from_json(self._ask("/ledger/price", ask))

    def _check_certificate(self, request: ChargeRequest, certificate: str) -> ProvenClaim:
        ask = CertificateCheckRequest(request=request.to_json(), certificate=certificate)
        found = self._ask("/ledger/certificate", ask)
        return ProvenClaim(found["epsilon"], found["delta"], NeighboringRelation(found["relation"]))

    def _count_repetitions(self, request: ChargeRequest, path: Sequence[Balance]) -> int:
        return int(self._ask("/ledger/repetitions", _build_request(request, path))["repetitions"])

    def _ask(self, path: str, ask: RequestModel) -> dict[str, Any]:
        answer = self._workers.answer(routes.by_path[path], ask)
        response = asyncio.run_coroutine_threadsafe(answer, self._loop).result()
        found: dict[str, Any] = json.loads(bytes(response.body))
        if response.status_code == 200:
            return found
        if found.get("code") in TRANSMITTED_ERRORS:
            raise error_from_json(found)
        raise ProblemError(response)


def _build_request(request: ChargeRequest, path: Sequence[Balance]) -> PathCostRequest:
    return PathCostRequest(request=request.to_json(), path=[balance.document() for balance in path])


class _Repeat(NamedTuple):
    """A command that repeats a charge, for the caller that its ledger is restricted to, and who waits for it."""

    ledger: Ledger
    command: Command
    answer: asyncio.Future[Done | None]

    def resolve(self, done: Done | Exception | None) -> None:
        """Answer, unless nobody waits any more."""
        if self.answer.done():
            return
        if isinstance(done, Exception):
            self.answer.set_exception(done)
        else:
            self.answer.set_result(done)


class LedgerService:
    """A ledger that a server writes; it must exist when it is first asked: no server creates a ledger."""

    def __init__(self, url: str, costs: PooledCostModel) -> None:
        self._url, self.costs = url, costs
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._free, self._free_lock = TokenBuckets(rate=FREE_RATE, burst=FREE_BURST), threading.Lock()
        self._repeats: deque[_Repeat] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._quick, self._slow = CapacityLimiter(MAX_COMMANDS), CapacityLimiter(MAX_COSTED_COMMANDS)

    async def run(self, work: Callable[[Ledger], T], *, costed: bool = False) -> T:
        """Do something with the ledger in another thread; a client that disconnects does not end it."""
        limiter = self._slow if costed else self._quick
        return await to_thread.run_sync(lambda: work(self._open_ledger()), limiter=limiter)

    async def execute(self, command: Command, restrict: Callable[[Ledger], Ledger]) -> Done:
        """Carry out a command for whoever the ledger is restricted to.

        What repeats accepted charges is written in groups, as they arrive while the disk is busy. Everything else, and
        what a group leaves undecided, takes its own thread.
        """
        if self._ledger is not None and (ledger := restrict(self._ledger)).is_repeat(command):
            answer: asyncio.Future[Done | None] = asyncio.get_running_loop().create_future()
            self._repeats.append(_Repeat(ledger, command, answer))
            if self._writing is None:
                self._writing = asyncio.create_task(self._write_repeats())
            if (done := await answer) is not None:
                return done
        costed = command.subject == RESERVATION
        return await self.run(lambda ledger: restrict(ledger).execute(command), costed=costed)

    async def _write_repeats(self) -> None:
        """Write groups of charges until none waits; each is answered, whatever happens."""
        group: list[_Repeat] = []
        try:
            while self._repeats:
                group = [self._repeats.popleft() for _ in range(min(MAX_GROUP, len(self._repeats)))]
                asked = [(one.ledger, one.command) for one in group]
                found: Sequence[Done | Exception | None]
                try:
                    found = await to_thread.run_sync(Ledger.repeat_many, asked, limiter=self._quick)
                except Exception as error:  # noqa: BLE001 (it is each one's, and raised there)
                    found = [error] * len(group)
                for one, done in zip(group, found, strict=True):
                    one.resolve(done)
        finally:
            self._writing = None
            for one in (*group, *self._repeats):  # the server ends
                one.answer.cancel()
            self._repeats.clear()

    def _open_ledger(self) -> Ledger:
        with self._lock:
            if self._ledger is None:
                where = parse_ledger_url(self._url)
                if not ledger_exists(where):
                    raise StorageError("the server's ledger does not exist")
                copy = is_copy(where)
                self._ledger = open_local_ledger(
                    where,
                    cost_model=self.costs.cost_model(),
                    within=None if copy else GroupCommitStore,
                    admit_free=self.admit_free,
                    read_only=copy,
                )
            return self._ledger

    def admit_free(self, name: str) -> None:
        """Limit the charges without cost that the holder of a token may open, which no budget limits."""
        with self._free_lock:
            wait = self._free.take(name)
        if wait:
            raise ProblemError(too_many_requests(wait))

    def close(self) -> None:
        """Close the ledger for this process."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()


def parse_ledger_url(url: str) -> Any:
    """Return the address of a server's ledger."""
    return url if url.startswith("sqlite:") else parse_address(url)


async def _get_ledger_service(request: Request) -> LedgerService:
    service: LedgerService | None = request.app.state.ledger_service
    if service is None:
        raise HTTPException(404, "This server has no ledger")
    return service


Service = Annotated[LedgerService, Depends(_get_ledger_service)]
