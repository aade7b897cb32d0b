"""The ledger's commands and ``/healthz`` without FastAPI, whose routing and validation cost more than a charge.

It answers a plain request alone: a known command in strict JSON. Whatever else arrives goes to the route of FastAPI,
which says what is wrong; so both give the same answers. Hosts, tokens, rates, limits, metrics and log are before both.
"""

from __future__ import annotations

from types import SimpleNamespace

from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.ledger.commands import COMMANDS
from epsilog.server import authorization
from epsilog.server.authorization import PERMISSIONS, AuthorizedCaller
from epsilog.server.ledger_commands import MODELS, execute_command, read_command
from epsilog.server.ledger_service import LedgerService
from epsilog.server.metrics import HEALTH
from epsilog.server.problems import FAILURE, map_error_to_problem
from epsilog.server.routes import PREFIX
from epsilog.terms import EpsilogError
from epsilog.terms.codec import parse_json

_COMMANDS = {f"{PREFIX}/ledger/{one.name}": one for one in COMMANDS.values()}
_ANSWERED = (EpsilogError, ValueError, ArithmeticError, HTTPException)  # others are failures, which the server logs


class CommandMiddleware:
    """ASGI middleware. Answers commands; a guard before it has the body arrive in one message."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a command, or pass the request on."""
        command = _COMMANDS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if command is None:
            is_probe = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/healthz"
            await (_live if is_probe else self.app)(scope, receive, send)
            return
        holder = authorization.find_holder(scope)
        service: LedgerService | None = scope["app"].state.ledger_service
        headers = dict(scope["headers"])
        message = await receive()
        try:
            given = MODELS[command].model_validate(parse_json(message.get("body", b""))).model_dump()
        except (ValueError, ValidationError):
            given = None
        plain = len(headers) == len(scope["headers"]) and headers.get(b"content-type") == b"application/json"
        if given is None or service is None or holder is None or not plain:
            await self.app(scope, _replay(message, receive), send)
            return
        scope["route"] = SimpleNamespace(path=scope["path"])  # for the metrics
        key = headers.get(b"idempotency-key")
        caller = AuthorizedCaller(holder, PERMISSIONS["POST", scope["path"]].action)
        try:
            PERMISSIONS["POST", scope["path"]].require(holder)
            parsed = read_command(command, given, caller, None if key is None else key.decode("latin-1"))
            response: Response = JSONResponse(await execute_command(parsed, service, caller, scope))
        except _ANSWERED as error:
            scope[FAILURE] = type(error).__name__
            response = map_error_to_problem(error)
        await response(scope, receive, send)


async def _live(scope: Scope, receive: Receive, send: Send) -> None:
    scope["route"] = SimpleNamespace(path=scope["path"])
    await JSONResponse(HEALTH)(scope, receive, send)


def _replay(message: Message, receive: Receive) -> Receive:
    """Return a channel that gives a message once more, before all others."""
    messages = [message]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
