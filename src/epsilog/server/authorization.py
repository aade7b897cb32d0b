"""Who may send which request: one table of permissions, token authentication, and the caller of a route.

Where the server has tokens, pages and calculators are public and everything else needs one; a route that no table names
is closed. A refusal does not say whether a token was unknown, expired or another's, nor whether a route exists. A role
that does not allow a route is refused before the body is read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Lock, to_thread
from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.ledger.commands import COMMANDS
from epsilog.ledger.commands.base import ENTIRE_LEDGER
from epsilog.server import cards, routes, snippets
from epsilog.server.access import (
    ALLOWED_ACTIONS,
    BURST_SECONDS,
    LOCAL_HOLDER,
    Action,
    Holder,
    Role,
    require_permission,
)
from epsilog.server.client_certificates import CERTIFICATE
from epsilog.server.identity import JWT_PATTERN, Identity, IdentityProvider
from epsilog.server.middleware import TokenBuckets, get_client_address
from epsilog.server.pages import PAGE_NAMES
from epsilog.server.problems import FAILURE, make_problem_response, map_error_to_problem, too_many_requests
from epsilog.server.routes import PREFIX
from epsilog.server.tokens import Token, TokenStore
from epsilog.terms import PermissionDeniedError, StorageError

HOLDER = "epsilog.holder"  # the key of the token's holder in an ASGI scope
SUBJECT = "epsilog.subject"  # the key of what a command is about there: its scope and key, for the log
SCHEME = "token"  # the name of the security scheme in OpenAPI
MAX_TOKEN_CHECKS = 2  # argon2 checks at a time: a bound on memory and cores
_OWN_SITE = frozenset({"same-origin", "none"})  # a browser adds a certificate to what any page asks
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] ([0-9A-Za-z_.-]{1,16384})", re.ASCII)
_LOG = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission that a route requires: on the entire ledger, or on what the caller can read."""

    action: Action
    entire_ledger: bool = False

    def require(self, holder: Holder) -> None:
        """Refuse a holder who may not do this in any scope."""
        require_permission(holder, self.action, None if self.entire_ledger else holder.scope)

    @property
    def roles(self) -> list[Role]:
        """The roles that allow it."""
        return [role for role in Role if self.action in ALLOWED_ACTIONS[role]]


_READ, _SPEND = Permission(Action.READ), Permission(Action.SPEND)
_READ_ALL, _AUDIT = Permission(Action.READ, entire_ledger=True), Permission(Action.AUDIT, entire_ledger=True)
_LEDGER_READS = "cycles pending entries head balances rows page charges entry spending"

PERMISSIONS: Mapping[tuple[str, str], Permission] = {
    ("GET", "/metrics"): _READ,
    **{
        (method, PREFIX + path): permission
        for method, path, permission in (
            ("POST", "/verify", _READ),
            ("POST", "/verify/example", _READ),
            ("POST", "/verify/bundle", _READ),
            ("GET", "/montecarlo", _READ),
            ("POST", "/montecarlo", _SPEND),
            ("GET", "/montecarlo/{name}", _READ),
            ("GET", "/montecarlo/{name}/events", _READ),
            ("POST", "/montecarlo/{name}/{verb}", _SPEND),
            ("GET", "/montecarlo/{name}/evidence.json", _READ),
            ("GET", "/holder", _READ),
            ("GET", "/ledger", _READ),
            *(("GET", f"/ledger/{name}", _READ) for name in _LEDGER_READS.split()),
            ("POST", "/ledger/headroom", _READ),
            *(
                (
                    "POST",
                    f"/ledger/{one.name}",
                    Permission(Action(one.role), entire_ledger=one.subject == ENTIRE_LEDGER),
                )
                for one in COMMANDS.values()
            ),
            ("POST", "/ledger/charges", _SPEND),
            ("POST", "/ledger/verify", _AUDIT),
            ("GET", "/ledger/verify/{name}", _AUDIT),
            ("GET", "/ledger/verify/{name}/events", _AUDIT),
            ("POST", "/ledger/verify/{name}/cancel", _AUDIT),
            ("GET", "/runs", _READ_ALL),
            ("GET", "/runs/{name}", _READ_ALL),
            ("GET", "/runs/{name}/{file}", _READ_ALL),
        )
    },
}
_PUBLIC_TABLES = (routes.calculators, snippets.routes, routes.playground)
QUESTION_PATHS = frozenset(PREFIX + path for table in _PUBLIC_TABLES for path in table.by_path)
CARD_PATHS = frozenset({cards.PATH, cards.IMAGE, cards.BADGE})  # each answers a question
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
PUBLIC_ROUTES = frozenset({("POST", path) for path in QUESTION_PATHS} | {("GET", path) for path in HEALTH_PATHS})
PUBLIC_PATHS = HEALTH_PATHS | {
    "/",
    "/favicon.svg",
    "/docs",
    "/api/openapi.json",
    *(f"/{name}" for name in PAGE_NAMES),
}
PUBLIC_PREFIXES = ("/assets/", "/checker/", "/embed/", "/runs/", "/docs/")  # no contents of runs: see PERMISSIONS

_PATH_PATTERNS = [(method, compile_path(path)[0], path) for method, path in PERMISSIONS if "{" in path]


def match_route(method: str, path: str) -> str | None:
    """The template of the table that a request's path matches; None if no template does."""
    if (method, path) in PERMISSIONS:
        return path
    return next(
        (template for name, pattern, template in _PATH_PATTERNS if name == method and pattern.match(path)), None
    )


def find_permission(method: str, path: str) -> Permission | None:
    """Return the permission that a request requires; None if its path is public or unknown."""
    template = match_route(method, path)
    return None if template is None else PERMISSIONS[method, template]


def document_permissions(document: dict[str, Any]) -> dict[str, Any]:
    """Add to an OpenAPI document what each route needs; a route that is neither in the table nor public is an error."""
    document["components"]["securitySchemes"] = {
        SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `epsilog token create` or of an issuer that the server trusts, if the server "
            "was started with --tokens or --identity. The roles of an operation are alternatives: the token needs one "
            "of them, at the scope of the request. A client certificate that the server's proxy checked replaces the "
            "token.",
        }
    }
    refusals = {"401": "The token is missing or invalid", "403": "The token lacks the role or the scope"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (method.upper(), path) in PUBLIC_ROUTES:
                operation["security"] = []
                continue
            permission = PERMISSIONS[method.upper(), path]
            operation["security"] = [{SCHEME: [role.value]} for role in permission.roles]
            operation["x-act"], operation["x-whole-ledger"] = permission.action.value, permission.entire_ledger
            for status, text in refusals.items():
                operation["responses"][status] = {"description": text}
    return document


@dataclass(frozen=True, slots=True)
class AuthorizedCaller:
    """The sender of a request, and the action of its route, which the sender may do in some scope."""

    holder: Holder
    action: Action

    def require(self, scope: str | None) -> None:
        """Refuse the action in a scope that the holder's role does not cover; None is the whole ledger."""
        require_permission(self.holder, self.action, scope)


def find_holder(scope: Scope) -> Holder | None:
    """Return the sender of a request: the holder of its token, where the server has tokens; None without one."""
    if not scope["app"].state.access.requires_token:
        return LOCAL_HOLDER
    found = scope.get(HOLDER)
    return found if isinstance(found, Holder) else None


async def authenticate(request: Request) -> Holder:
    """Return the sender of a request, who must have a token where the server has tokens."""
    if (found := find_holder(request.scope)) is None:
        raise HTTPException(401, "Token required")
    return found


async def authorize(request: Request, holder: Annotated[Holder, Depends(authenticate)]) -> AuthorizedCaller:
    """Return the sender of a request to a route of the table."""
    permission = find_permission(request.method, request.scope["path"])
    if permission is None:
        raise PermissionDeniedError("no role allows this")
    permission.require(holder)
    return AuthorizedCaller(holder, permission.action)


Caller = Annotated[AuthorizedCaller, Depends(authorize)]


class TokenAuthMiddleware:
    """ASGI middleware. Answers 401 without a valid token, and 429 to too many requests or failures.

    Failures are counted by address, and for a known id by address and token: wrong tokens lock out a holder only if
    their sender shares the address and knows the id.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: TokenStore | None,
        rate: float,
        trust_proxy: bool,
        identities: IdentityProvider | None = None,
    ) -> None:
        self.app, self._keys, self._identities, self._trust_proxy = app, keys, identities, trust_proxy
        self._holders = TokenBuckets(rate=rate, burst=max(1.0, BURST_SECONDS * rate))
        self._calculator_clients = TokenBuckets(rate=5, burst=60)  # as fast as a person types
        self._failures = TokenBuckets(rate=0.1, burst=10)
        self._checking = CapacityLimiter(MAX_TOKEN_CHECKS)
        self._signing = CapacityLimiter(MAX_TOKEN_CHECKS)  # its own: an issuer's keys may be slow to come
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # of texts that are being checked
        self._last_trouble = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit or refuse one request."""
        if scope["type"] != "http" or (_is_page(scope) and scope["path"] not in CARD_PATHS):
            await self.app(scope, receive, send)
            return
        if (scope["method"] == "POST" and scope["path"] in QUESTION_PATHS) or scope["path"] in CARD_PATHS:
            wait = self._calculator_clients.take(self._client(scope))
            await (too_many_requests(wait) if wait else self.app)(scope, receive, send)
            return
        try:
            admitted = await self._admit(scope)
        except PermissionDeniedError as error:
            scope[FAILURE], admitted = PermissionDeniedError.__name__, map_error_to_problem(error)
        except StorageError as error:
            self._log_once(str(error))
            admitted = make_problem_response(
                503, "tokens", "Tokens unavailable", "The server cannot read its tokens; see its log."
            )
        if isinstance(admitted, Response):
            await admitted(scope, receive, send)
            return
        token, over = admitted, False

        async def send_while_valid(message: Message) -> None:
            """End a stream once its token was revoked."""
            nonlocal over
            if over:
                return
            if message["type"] == "http.response.body" and message.get("more_body") and not self._is_valid(token):
                message, over = {"type": "http.response.body", "body": b"", "more_body": False}, True
            await send(message)

        scope[HOLDER] = token.holder
        await self.app(scope, receive, send_while_valid)

    async def _admit(self, scope: Scope) -> Token | Identity | Response:
        certificate: str | None = scope.get(CERTIFICATE)
        token = await self._read_token(scope) if certificate is None else self._read_certificate(scope, certificate)
        if isinstance(token, Response):
            return token
        wait = self._holders.take(token.id)
        if wait:
            return too_many_requests(wait)
        permission = find_permission(scope["method"], scope["path"])
        if permission is not None:
            scope[HOLDER] = token.holder  # the log names who is refused here
            permission.require(token.holder)
        return token

    async def _read_token(self, scope: Scope) -> Token | Identity | Response:
        """Return the valid token of a request, or a refusal."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return _refuse_without_token()
        match = _BEARER.fullmatch(given[0].decode("latin-1")) if len(given) == 1 else None
        text = "" if match is None else match[1]
        token = await self._find(text)
        if token is None:
            wait = self._failures.take(self._client(scope))
            return too_many_requests(wait) if wait else _refuse_without_token()
        return (await self._verify(scope, token, text) if isinstance(token, Token) else None) or token

    def _read_certificate(self, scope: Scope, value: str) -> Identity | Response:
        """Return the holder of the certificate that the proxy passed, or a refusal."""
        assert self._identities is not None, "the file names the proxy"
        if not _OWN_SITE.issuperset(Headers(scope=scope).getlist("sec-fetch-site")):
            detail = "Pages of other sites may not call the API with a client certificate."
            return make_problem_response(403, "origin", "Origin not allowed", detail)
        try:
            found = self._identities.find(value) or self._identities.verify_certificate(value)
        except PermissionDeniedError:
            wait = self._failures.take(self._client(scope))
            if wait:
                return too_many_requests(wait)
            raise
        return found or _refuse_without_token()

    async def _find(self, text: str) -> Token | Identity | None:
        """Return the row of a token, whose secret is still to be checked, or the verified holder of another issuer."""
        if self._identities is not None and JWT_PATTERN.fullmatch(text):
            found = self._identities.find(text)
            return found or await to_thread.run_sync(self._identities.verify, text, limiter=self._signing)
        return None if self._keys is None else self._keys.find(text)

    async def _verify(self, scope: Scope, token: Token, text: str) -> Response | None:
        """A refusal unless the text is the token with its id; concurrent requests with one text share one check."""
        assert self._keys is not None, "the row is one of the file"
        if self._keys.is_known(token, text):
            return None
        lock = self._locks.setdefault(text, Lock())
        async with lock:
            if self._keys.is_known(token, text):
                return None
            key = (self._client(scope), token.id)
            wait = self._failures.take(key)
            if wait:
                return too_many_requests(wait)
            good = await to_thread.run_sync(self._keys.verify, token, text, limiter=self._checking)
            if not (good and self._keys.remember(token, text)):
                return _refuse_without_token()
            self._failures.refund(key)
            return None

    def _log_once(self, trouble: str) -> None:
        """Log once why every token is refused, not for each request."""
        if trouble != self._last_trouble:
            self._last_trouble = trouble
            _LOG.error("every token is refused: %s", trouble)

    def _client(self, scope: Scope) -> str:
        return get_client_address(scope, trust_proxy=self._trust_proxy)

    def _is_valid(self, token: Token | Identity) -> bool:
        try:
            if isinstance(token, Identity):
                return self._identities is not None and self._identities.is_valid(token)
            return self._keys is not None and self._keys.is_valid(token)
        except StorageError:
            return False


def _is_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] in {"GET", "HEAD"} and (path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES))


def _refuse_without_token() -> Response:
    refusal = make_problem_response(
        401, "token", "Token required", "Send a valid token as Authorization: Bearer TOKEN."
    )
    refusal.headers["WWW-Authenticate"] = 'Bearer realm="epsilog"'
    return refusal
