"""The ledger's commands over HTTP: route, strict body and description of each are derived from the command.

An answer means that the change is on disk. The server computes costs, and believes none that a client states. A command
that is repeated changes nothing, as with the ledger itself.
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
from starlette.types import Scope

from epsilog.ledger import ChargeRequest, Ledger
from epsilog.ledger.commands import COMMANDS, ChargeAtOnce, Command
from epsilog.ledger.commands.base import RESERVATION
from epsilog.ledger.execute import MAX_BATCH, Done
from epsilog.ledger.http_codec import done_to_json, error_to_json
from epsilog.server.access import LOCAL_HOLDER, Holder
from epsilog.server.authorization import SUBJECT, AuthorizedCaller, Caller, authorize
from epsilog.server.identity_config import CERTIFICATE_HOLDER
from epsilog.server.ledger_service import HeadroomResponse, LedgerService, Service, headroom_to_json
from epsilog.server.routes import Relation, RequestModel
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.terms.codec import parse_json


class StrictJsonRoute(APIRoute):
    """A route for JSON with one meaning: no name twice, no NaN, no number that a double does not hold."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()

        async def handle(request: HttpRequest) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(HttpRequest):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


MODELS: dict[type[Command], type[RequestModel]] = {}
"""The strict body of each command."""

router = APIRouter(tags=["ledger's commands"], route_class=StrictJsonRoute, dependencies=[Depends(authorize)])
_Item: TypeAlias = Annotated[str, Field(max_length=100)]  # a number, a hash
_JSON = {  # how a field of another type is sent
    NeighboringRelation: Relation,
    dict[str, str]: dict[Annotated[str, Field(max_length=2000)], _Item],
    list[str]: list[_Item],
}
IdempotencyKey = Annotated[
    str | None, Header(description="the charge's key, quoted or not; the same as in the body, where both are given")
]


def build_command_model(command: type[Command]) -> type[RequestModel]:
    """Return the strict body of a command."""
    members = {one.name: _describe_field(command, one) for one in fields(command)}  # type: ignore[arg-type]
    model: type[RequestModel] = create_model(  # type: ignore[call-overload]
        f"{command.__name__}Request", __base__=RequestModel, __doc__=command.description.partition("\n")[0], **members
    )
    return model


def _describe_field(command: type[Command], one: Any) -> tuple[Any, Any]:
    """Return the JSON type of a field, and its description."""
    kind, arg, *_ = command.args[one.name]
    stated = arg.as_kind.json or next(part for part in (*get_args(kind), kind) if part is not NoneType)
    info: dict[str, Any] = {"description": arg.help + (f"; null: {arg.none_means}" if arg.none_means else "")}
    info |= {} if arg.example is None else {"examples": [arg.example]}
    most = arg.as_kind.most
    info |= {"max_length": most} if most and stated not in (NeighboringRelation, int, bool) else {}
    default = None if one.name == "key" and command.subject == RESERVATION else one.default  # the header may give it
    if one.default_factory is not MISSING:
        info["default_factory"] = one.default_factory
    elif default is not MISSING:
        info["default"] = arg.write(default)
    json_type: Any = _JSON.get(stated, stated)
    return json_type | None if default is None else json_type, Field(**info)


def _make_endpoint(command: type[Command]) -> Callable[..., Any]:
    """Return the function that executes a command."""
    reserves = command.subject == RESERVATION
    model = build_command_model(command)
    MODELS[command] = model

    async def endpoint(
        ask: RequestModel,
        request: HttpRequest,
        service: Service,
        caller: Caller,
        idempotency_key: IdempotencyKey = None,
    ) -> dict[str, Any]:
        parsed = read_command(command, ask.model_dump(), caller, idempotency_key)
        return await execute_command(parsed, service, caller, request.scope)

    hints: dict[str, Any] = {
        "ask": Annotated[model, Body()],
        "request": HttpRequest,
        "service": Service,
        "caller": Caller,
        "idempotency_key": IdempotencyKey,
    }
    parameters = inspect.signature(endpoint).parameters.values()
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(annotation=hints[one.name]) for one in parameters if reserves or one.name != "idempotency_key"],
        return_annotation=dict[str, Any],
    )
    endpoint.__name__ = command.name.replace("-", "_")
    return endpoint


def read_command(
    command: type[Command], given: dict[str, Any], caller: AuthorizedCaller, idempotency_key: str | None
) -> Command:
    """Return the command of a body that fits its model, if the caller may give it."""
    if command.subject == RESERVATION:
        given["key"] = resolve_idempotency_key(given["key"], idempotency_key)
    if given.get("scope") is not None:
        caller.require(given["scope"])
    if "actor" in given:
        given["actor"] = identify_actor(given["actor"], caller.holder)
    return command.from_json(given)


async def execute_command(
    command: Command, service: LedgerService, caller: AuthorizedCaller, scope: Scope
) -> dict[str, Any]:
    """Carry out a command for a caller, and return the answer; the ASGI scope gets what the log says of it."""
    scope[SUBJECT] = {"scope": getattr(command, "scope", None), "key": command.key_of_charge()}
    done = await service.execute(command, lambda ledger: restrict_ledger(ledger, caller))
    return done_to_json(command, done)


for _command in COMMANDS.values():
    _summary, _, _more = _command.description.partition("\n")
    router.add_api_route(
        f"/ledger/{_command.name}",
        _make_endpoint(_command),
        methods=["POST"],
        summary=_summary.rstrip("."),
        description=_more.partition("Example:")[0].strip() or _summary,
    )


_Charge = build_command_model(ChargeAtOnce)


class ChargesRequest(RequestModel):
    """Charges of one transaction."""

    charges: Annotated[list[_Charge], Field(max_length=MAX_BATCH, description="see ``charge``; each with its key")]  # type: ignore[valid-type]
    atomic: Annotated[
        bool, Field(description="whether one refusal undoes the batch; else each charge stands for itself")
    ] = True


@router.post("/ledger/charges", summary="Charge several releases in one transaction")
async def charges_route(ask: ChargesRequest, request: HttpRequest, service: Service, caller: Caller) -> dict[str, Any]:
    """One durable write for all. The answer has an outcome for each charge: its reservation, or its error."""
    charges = [_read_charge(index, one, caller) for index, one in enumerate(ask.charges)]
    request.scope[SUBJECT] = {"keys": [one.key for one in charges]}

    def work(ledger: Ledger) -> list[dict[str, Any]]:
        restricted = restrict_ledger(ledger, caller)
        found = restricted.execute_many(charges, atomic=ask.atomic)
        return [_outcome_to_json(charge, one) for charge, one in zip(charges, found, strict=True)]

    return {"outcomes": await service.run(work, costed=True)}


def _read_charge(index: int, asked: RequestModel, caller: AuthorizedCaller) -> ChargeAtOnce:
    given = asked.model_dump()
    try:
        caller.require(given["scope"])
        return ChargeAtOnce.from_json(given)
    except CheckError as error:
        raise error.under(f"charges[{index}]") from None


def _outcome_to_json(charge: ChargeAtOnce, found: Done | Exception) -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"error": error_to_json(found) | {"detail": str(found)[:500]}}
    return done_to_json(charge, found)


class HeadroomRequest(RequestModel):
    """A question about the headroom of a scope, optionally for a release."""

    scope: Annotated[str, Field(max_length=500, description="names joined by '/'", examples=["acme/claims"])]
    release: Annotated[
        dict[str, Any] | None, Field(description="see ``reserve``; null asks for the available amount")
    ] = None
    delta: Annotated[str | None, Field(max_length=100, description="delta that approximate budgets are charged")] = None
    relation: Annotated[Relation | None, Field(description="null: that of the nearest budget")] = None

    def request(self) -> ChargeRequest | None:
        """Return the request to be costed; None without a release."""
        if self.release is None:
            return None
        read = ChargeAtOnce.args["release"].arg.read
        relation = None if self.relation is None else NeighboringRelation(self.relation)
        return ChargeRequest(read(self.release), relation, delta=self.delta)


@router.post(
    "/ledger/headroom",
    summary="Headroom of a scope",
    response_model=None,
    responses={200: {"model": HeadroomResponse}},
)
async def headroom_route(ask: HeadroomRequest, service: Service, caller: Caller) -> Response:
    """The available amount on the path of a scope; for a release, also the charges and repetitions that fit."""
    caller.require(ask.scope)
    request = ask.request()
    if request is None:
        return JSONResponse(headroom_to_json(await service.run(lambda ledger: ledger.get_headroom(ask.scope))))
    path = await service.run(lambda ledger: ledger.open_path(ask.scope))
    return await service.costs.headroom(request.under(path[-1].relation, path[-1].privacy_unit), path)


def resolve_idempotency_key(key: str | None, header: str | None) -> str:
    """Return the idempotency key, which body or header give, or both alike."""
    quoted = header is not None and len(header) >= 2 and header[0] == header[-1] == '"'
    other = header[1:-1] if quoted and header is not None else header
    if key is None and other is None:
        raise CheckError("key", "given, in the body or as Idempotency-Key", "nothing")
    if key is not None and other is not None and key != other:
        raise CheckError("key", "the one that the header Idempotency-Key gives", repr(key[:80]))
    return str(other if key is None else key)


def restrict_ledger(ledger: Ledger, caller: AuthorizedCaller) -> Ledger:
    """Return the ledger restricted to what the caller's token covers and owns; it notes the holder's name."""
    holder = caller.holder
    if holder is LOCAL_HOLDER:
        return ledger
    return ledger.on_behalf_of(holder.name, covers=holder.contains_scope, owns=holder.owns)


def identify_actor(actor: str, holder: Holder) -> str:
    """Return the actor that the request names, with the token or the client certificate that sent it."""
    if holder is LOCAL_HOLDER:
        return actor
    return f"{actor} ({'' if holder.name.startswith(CERTIFICATE_HOLDER) else 'token of '}{holder.name})"
