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
    REFUSALS,
    Balance,
    Headroom,
    Price,
    Pricing,
    Request,
    headroom_for,
    most_repetitions,
    price,
    price_at_once,
    price_from_json,
    price_to_json,
    refusal_from_json,
)
from epsilog.server.answers import Answer
from epsilog.server.asks import Ask
from epsilog.server.desk import Desk
from epsilog.server.problems import ProblemError
from epsilog.server.routes import Routes

routes = Routes("prices")


class PriceAsk(Ask):
    """A request under one kind of budget."""

    request: dict[str, Any]
    kind: str
    orders: list[str]
    overridden: bool


class PathAsk(Ask):
    """A request under the budgets of a path, from the top."""

    request: dict[str, Any]
    path: list[str]


class Priced(Answer):
    """A price."""

    values: dict[str, float | str]
    method: str


class Fits(Answer):
    """What a scope can still bear."""

    available: Annotated[dict[str, str], Field(description="the least that any budget on the path still has")]
    charges: Annotated[int | None, Field(description="how many more charges like it fit; null if nothing was asked")]
    repetitions: Annotated[int | None, Field(description="how many repetitions fit as one plan; null if none is made")]


class Repetitions(Answer):
    """How many repetitions fit."""

    repetitions: int


@routes.add("/ledger/price", Priced, summary="What a request costs under a kind of budget")
def _price(ask: PriceAsk) -> dict[str, Any]:
    return price_to_json(price(Request.from_json(ask.request), ask.kind, orders=ask.orders, overridden=ask.overridden))


@routes.add("/ledger/repetitions", Repetitions, summary="How many repetitions fit")
def _repetitions(ask: PathAsk) -> dict[str, Any]:
    return {"repetitions": most_repetitions(Request.from_json(ask.request), _path(ask))}


@routes.add("/ledger/headroom", Fits, summary="What fits")
def _headroom(ask: PathAsk) -> dict[str, Any]:
    return told(headroom_for(Request.from_json(ask.request), _path(ask)))


def _path(ask: PathAsk) -> list[Balance]:
    return [Balance.parse(document) for document in ask.path]


def told(found: Headroom) -> dict[str, Any]:
    """A headroom as plain JSON values."""
    return {"available": dict(found.available), "charges": found.charges, "repetitions": found.repetitions}


class DeskPricing:
    """Asks a desk from other threads.

    Args:
        desk: where prices are worked out.
        loop: that of the desk.
    """

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk, self._loop = desk, loop

    def pricing(self) -> Pricing:
        """For a ledger that is used in other threads than the loop's."""
        return Pricing(self._price, self._repetitions)

    async def headroom(self, request: Request, path: Sequence[Balance]) -> Response:
        """What fits, as it is answered."""
        return await self._desk.answer(routes.by_path["/ledger/headroom"], _asked(request, path))

    def _price(self, request: Request, kind: str, orders: Sequence[str], overridden: bool) -> Price:
        known = price_at_once(request, kind, orders=orders, overridden=overridden)
        if known is not None:
            return known
        ask = PriceAsk(request=request.to_json(), kind=kind, orders=list(orders), overridden=overridden)
        return price_from_json(self._ask("/ledger/price", ask))

    def _repetitions(self, request: Request, path: Sequence[Balance]) -> int:
        return int(self._ask("/ledger/repetitions", _asked(request, path))["repetitions"])

    def _ask(self, path: str, ask: Ask) -> dict[str, Any]:
        asked = self._desk.answer(routes.by_path[path], ask)
        answer = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        found: dict[str, Any] = json.loads(bytes(answer.body))
        if answer.status_code == 200:
            return found
        if found.get("code") in REFUSALS:
            raise refusal_from_json(found)
        raise ProblemError(answer)


def _asked(request: Request, path: Sequence[Balance]) -> PathAsk:
    return PathAsk(request=request.to_json(), path=[balance.document() for balance in path])
