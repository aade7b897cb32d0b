"""Prices for the ledger's verbs, worked out at the desk: in another process, with a deadline, and no thread of reads.

A verb waits for its price in a thread of its own, outside any transaction; nobody else waits with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi.responses import Response
from pydantic import Field

from epsilog.ledger import (
    TRANSMITTED_ERRORS,
    Balance,
    ChargeRequest,
    Cost,
    CostModel,
    Headroom,
    compute_cost,
    compute_headroom,
    compute_stated_cost,
    cost_from_json,
    cost_to_json,
    count_max_repetitions,
    error_from_json,
)
from epsilog.server.answers import ResponseModel
from epsilog.server.asks import RequestModel
from epsilog.server.desk import WorkerPool
from epsilog.server.problems import ProblemError
from epsilog.server.routes import Routes

routes = Routes("prices")


class CostRequest(RequestModel):
    """A request under one kind of budget."""

    request: dict[str, Any]
    kind: str
    orders: list[str]
    overridden: bool


class PathCostRequest(RequestModel):
    """A request under the budgets of a path, from the top."""

    request: dict[str, Any]
    path: list[str]


class CostModelResponse(ResponseModel):
    """A price."""

    values: dict[str, float | str]
    method: str


class HeadroomResponse(ResponseModel):
    """What a scope can still bear."""

    available: Annotated[dict[str, str], Field(description="the least that any budget on the path still has")]
    charges: Annotated[int | None, Field(description="how many more charges like it fit; null if nothing was asked")]
    repetitions: Annotated[int | None, Field(description="how many repetitions fit as one plan; null if none is made")]


class RepetitionsResponse(ResponseModel):
    """How many repetitions fit."""

    repetitions: int


@routes.add("/ledger/price", CostModelResponse, summary="What a request costs under a kind of budget")
def _compute_cost(ask: CostRequest) -> dict[str, Any]:
    return cost_to_json(
        compute_cost(ChargeRequest.from_json(ask.request), ask.kind, orders=ask.orders, overridden=ask.overridden)
    )


@routes.add("/ledger/repetitions", RepetitionsResponse, summary="How many repetitions fit")
def _repetitions(ask: PathCostRequest) -> dict[str, Any]:
    return {"repetitions": count_max_repetitions(ChargeRequest.from_json(ask.request), _path(ask))}


@routes.add("/ledger/headroom", HeadroomResponse, summary="What fits")
def _headroom(ask: PathCostRequest) -> dict[str, Any]:
    return headroom_to_json(compute_headroom(ChargeRequest.from_json(ask.request), _path(ask)))


def _path(ask: PathCostRequest) -> list[Balance]:
    return [Balance.parse(document) for document in ask.path]


def headroom_to_json(found: Headroom) -> dict[str, Any]:
    """A headroom as plain JSON values."""
    return {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}


class PooledCostModel:
    """Asks a desk from other threads.

    Args:
        desk: where prices are worked out.
        loop: that of the desk.
    """

    def __init__(self, desk: WorkerPool, loop: asyncio.AbstractEventLoop) -> None:
        self._desk, self._loop = desk, loop

    def pricing(self) -> CostModel:
        """For a ledger that is used in other threads than the loop's."""
        return CostModel(self._request_cost, self._repetitions)

    async def headroom(self, request: ChargeRequest, path: Sequence[Balance]) -> Response:
        """What fits, as it is answered."""
        return await self._desk.answer(routes.by_path["/ledger/headroom"], _build_request(request, path))

    def _request_cost(self, request: ChargeRequest, kind: str, orders: Sequence[str], overridden: bool) -> Cost:
        known = compute_stated_cost(request, kind, orders=orders, overridden=overridden)
        if known is not None:
            return known
        ask = CostRequest(request=request.to_json(), kind=kind, orders=list(orders), overridden=overridden)
        return cost_from_json(self._ask("/ledger/price", ask))

    def _repetitions(self, request: ChargeRequest, path: Sequence[Balance]) -> int:
        return int(self._ask("/ledger/repetitions", _build_request(request, path))["repetitions"])

    def _ask(self, path: str, ask: RequestModel) -> dict[str, Any]:
        asked = self._desk.answer(routes.by_path[path], ask)
        answer = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        found: dict[str, Any] = json.loads(bytes(answer.body))
        if answer.status_code == 200:
            return found
        if found.get("code") in TRANSMITTED_ERRORS:
            raise error_from_json(found)
        raise ProblemError(answer)


def _build_request(request: ChargeRequest, path: Sequence[Balance]) -> PathCostRequest:
    return PathCostRequest(request=request.to_json(), path=[balance.document() for balance in path])
