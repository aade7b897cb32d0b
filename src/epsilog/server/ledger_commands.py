"""The ledger's commands over HTTP: route, strict body and description of each follow from the command.

What is answered is on disk; the server prices, and no price of an asker's is believed. The same again is the same once,
as it is with the ledger itself.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine
from dataclasses import MISSING, fields
from types import NoneType
from typing import Annotated, Any, TypeAlias, get_args

from fastapi import APIRouter, Body, Depends, Header
from fastapi.requests import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import Field, create_model

from epsilog.ledger import COMMANDS, ChargeRequest, Command, Ledger, done_to_json
from epsilog.ledger.commands import RESERVATION, ChargeAtOnce
from epsilog.server import prices
from epsilog.server.asks import Relation, RequestModel
from epsilog.server.books import ItsBooks
from epsilog.server.doors import LOOPBACK, Asker, AuthorizedCaller, Holder, authorize
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.terms.codec import parse_json


class StrictJsonRoute(APIRoute):
    """A route whose JSON can be read in one way only: no name twice, no NaN, no number that a double does not hold."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()

        async def exact(request: HttpRequest) -> Response:
            return await handler(_Exact(request.scope, request.receive))

        return exact


class _Exact(HttpRequest):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


router = APIRouter(tags=["ledger's commands"], route_class=StrictJsonRoute, dependencies=[Depends(authorize)])
_Item: TypeAlias = Annotated[str, Field(max_length=100)]  # a number, a hash
_JSON = {  # what a field of another type is sent as
    NeighboringRelation: Relation,
    dict[str, str]: dict[Annotated[str, Field(max_length=2000)], _Item],
    list[str]: list[_Item],
}
IdempotencyKey = Annotated[
    str | None, Header(description="the charge's key, quoted or not; the same as in the body, where both are given")
]


def body_of(command: type[Command]) -> type[RequestModel]:
    """The strict body that a command is sent as."""
    described = {one.name: _field(command, one) for one in fields(command)}  # type: ignore[arg-type]
    found: type[RequestModel] = create_model(  # type: ignore[call-overload]
        f"{command.__name__}Ask", __base__=RequestModel, __doc__=command.says.partition("\n")[0], **described
    )
    return found


def _field(command: type[Command], one: Any) -> tuple[Any, Any]:
    """The JSON type of a field, and what the API says of it."""
    kind, arg, *_ = command.args[one.name]
    stated = arg.as_kind.json or next(part for part in (*get_args(kind), kind) if part is not NoneType)
    told: dict[str, Any] = {"description": arg.help + (f"; null: {arg.none_means}" if arg.none_means else "")}
    told |= {} if arg.example is None else {"examples": [arg.example]}
    most = arg.as_kind.most
    told |= {"max_length": most} if most and stated not in (NeighboringRelation, int, bool) else {}
    default = None if one.name == "key" and command.tells == RESERVATION else one.default  # the header may give it
    if one.default_factory is not MISSING:
        told["default_factory"] = one.default_factory
    elif default is not MISSING:
        told["default"] = arg.write(default)
    json_type: Any = _JSON.get(stated, stated)
    return json_type | None if default is None else json_type, Field(**told)


def _endpoint(command: type[Command]) -> Callable[..., Any]:
    """What answers when a command is sent."""
    named = command.tells == RESERVATION

    async def endpoint(
        ask: RequestModel, books: ItsBooks, asker: Asker, idempotency_key: IdempotencyKey = None
    ) -> dict[str, Any]:
        given = ask.model_dump()
        if named:
            given["key"] = resolve_idempotency_key(given["key"], idempotency_key)
        if given.get("scope") is not None:
            asker.require(given["scope"])
        if "by" in given:
            given["by"] = identify_actor(given["by"], asker.holder)
        made = command.from_json(given)
        done = await books.do(lambda ledger: restrict_ledger(ledger, asker).execute(made), priced=named)
        return done_to_json(made, done)

    parameters = inspect.signature(endpoint).parameters
    kept = [one for name, one in parameters.items() if named or name != "idempotency_key"]
    body = inspect.Parameter(
        "ask", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[body_of(command), Body()]
    )
    hints = {"books": ItsBooks, "asker": Asker, "idempotency_key": IdempotencyKey}
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [body, *(one.replace(annotation=hints[one.name]) for one in kept[1:])], return_annotation=dict[str, Any]
    )
    endpoint.__name__ = command.name.replace("-", "_")
    return endpoint


for _command in COMMANDS.values():
    _summary, _, _more = _command.says.partition("\n")
    router.add_api_route(
        f"/ledger/{_command.name}",
        _endpoint(_command),
        methods=["POST"],
        summary=_summary.rstrip("."),
        description=_more.partition("Example:")[0].strip() or _summary,
    )


class HeadroomRequest(RequestModel):
    """What a scope can bear of a release, or of anything."""

    scope: Annotated[str, Field(max_length=500, description="names joined by '/'", examples=["acme/claims"])]
    release: Annotated[dict[str, Any] | None, Field(description="see ``reserve``; null asks what is left")] = None
    delta: Annotated[str | None, Field(max_length=100, description="what approximate budgets are charged")] = None
    relation: Annotated[Relation | None, Field(description="null takes the budget's")] = None

    def request(self) -> ChargeRequest | None:
        """The request whose price is counted; None if nothing was asked."""
        if self.release is None:
            return None
        read = ChargeAtOnce.args["release"].arg.read
        return ChargeRequest(
            read(self.release), None if self.relation is None else NeighboringRelation(self.relation), delta=self.delta
        )


@router.post(
    "/ledger/fits",
    summary="What a scope can bear",
    response_model=None,
    responses={200: {"model": prices.HeadroomResponse}},
)
async def headroom_route(ask: HeadroomRequest, books: ItsBooks, asker: Asker) -> Response:
    """What is left on the path of a scope; and of a release, how many charges and repetitions fit."""
    asker.require(ask.scope)
    request = ask.request()
    if request is None:
        return JSONResponse(prices.headroom_to_json(await books.do(lambda ledger: ledger.what_fits(ask.scope))))
    path = await books.do(lambda ledger: ledger.open_path(ask.scope))
    return await books.prices.headroom(request.under(path[-1].relation, path[-1].privacy_unit), path)


def resolve_idempotency_key(said: str | None, header: str | None) -> str:
    """The idempotency key, which body or header give, or both alike."""
    quoted = header is not None and len(header) >= 2 and header[0] == header[-1] == '"'
    other = header[1:-1] if quoted and header is not None else header
    if said is None and other is None:
        raise CheckError("key", "given, in the body or as Idempotency-Key", "nothing")
    if said is not None and other is not None and said != other:
        raise CheckError("key", "the one that the header Idempotency-Key gives", repr(said[:80]))
    return str(other if said is None else said)


def restrict_ledger(ledger: Ledger, asker: AuthorizedCaller) -> Ledger:
    """Return the ledger restricted to what the asker's token covers and owns; it notes the asker's name."""
    who = asker.holder
    return ledger if who is LOOPBACK else ledger.on_behalf_of(who.name, covers=who.covers, owns=who.owns)


def identify_actor(by: str, asker: Holder) -> str:
    """Who decides, as they say, and whose token said so."""
    return by if asker is LOOPBACK else f"{by} (token of {asker.name})"
