"""Who comes in, once there are tokens: everybody to the pages and the calculators, holders to the rest.

What is not named here as open is closed, whatever routes come later. Whoever is turned away learns nothing: not whether
a token was known, had run out or was another's, nor whether there is anything behind the door. Whoever's role does not
allow what an address is for is turned away before a word of the body is read.
"""

from __future__ import annotations

import logging
import re
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Lock, to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.server.doors import HOLDER
from epsilog.server.entrance import BURST
from epsilog.server.limits import TokenBuckets
from epsilog.server.needs import HEALTH, QUESTIONS, find_permission
from epsilog.server.pages import PAGE_NAMES
from epsilog.server.peers import get_client_address
from epsilog.server.problems import FAILURE, make_problem_response, map_error_to_problem, too_many_requests
from epsilog.server.tokens import Token, TokenStore
from epsilog.terms import PermissionDeniedError, StorageError

PAGES = HEALTH | {"/", "/favicon.svg", "/docs", "/api/openapi.json", *(f"/{room}" for room in PAGE_NAMES)}
FILES = ("/assets/", "/embed/", "/runs/", "/docs/")  # built files; what a run holds is under the API
CHECKS_AT_ONCE = 2  # argon2 in threads: so much memory and so many cores, whoever knocks
_LOG = logging.getLogger("uvicorn.error")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] (eps_[0-9A-Za-z_-]{1,100})", re.ASCII)


class TokenAuthMiddleware:
    """ASGI middleware. Without a good token 401; too often, or too many wrong ones, 429.

    Wrong tokens are counted by address, and by address and token where the id is known: nobody can keep a colleague
    out with wrong tokens, unless they know the id of theirs.

    Args:
        app: what stands behind the door.
        keys: the tokens.
        rate: requests a second that one holder may go on with.
        behind_proxy: as for ``get_client_address``.
    """

    def __init__(self, app: ASGIApp, *, keys: TokenStore, rate: float, behind_proxy: bool) -> None:
        self.app, self._keys, self._behind_proxy = app, keys, behind_proxy
        self._holders = TokenBuckets(rate=rate, burst=max(1.0, BURST * rate))
        self._askers = TokenBuckets(rate=5, burst=60)  # at the calculators: so often somebody types
        self._failures = TokenBuckets(rate=0.1, burst=10)
        self._checking = CapacityLimiter(CHECKS_AT_ONCE)
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # as long as somebody waits for one
        self._said = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets one request in, or turns it away."""
        if scope["type"] != "http" or _is_page(scope):
            await self.app(scope, receive, send)
            return
        if scope["method"] == "POST" and scope["path"] in QUESTIONS:
            wait = self._askers.take(self._peer(scope))
            await (too_many_requests(wait) if wait else self.app)(scope, receive, send)
            return
        try:
            found = await self._admit(scope)
        except PermissionDeniedError as error:
            scope[FAILURE], found = PermissionDeniedError.__name__, map_error_to_problem(error)
        except StorageError as error:
            self._log_once(str(error))
            found = make_problem_response(
                503, "tokens", "Nobody can come in", "The server cannot read its tokens; its log says why."
            )
        if isinstance(found, Response):
            await found(scope, receive, send)
            return
        token, over = found, False

        async def watched(message: Message) -> None:
            """Ends a stream whose token was revoked meanwhile."""
            nonlocal over
            if over:
                return
            if message["type"] == "http.response.body" and message.get("more_body") and not self._is_valid(token):
                message, over = {"type": "http.response.body", "body": b"", "more_body": False}, True
            await send(message)

        scope[HOLDER] = token.holder
        await self.app(scope, receive, watched)

    async def _admit(self, scope: Scope) -> Token | Response:
        said = Headers(scope=scope).getlist("authorization")
        if not said:
            return _unknown()
        match = _BEARER.fullmatch(said[0]) if len(said) == 1 else None
        token = None if match is None else self._keys.find(match[1])
        if match is None or token is None:
            wait = self._failures.take(self._peer(scope))
            return too_many_requests(wait) if wait else _unknown()
        refusal = await self._refusal(scope, token, match[1])
        if refusal is not None:
            return refusal
        wait = self._holders.take(token.id)
        if wait:
            return too_many_requests(wait)
        need = find_permission(scope["method"], scope["path"])
        if need is not None:
            scope[HOLDER] = token.holder  # who is refused here is known by name
            need.ask(token.holder)
        return token

    async def _refusal(self, scope: Scope, token: Token, text: str) -> Response | None:
        """Whether a text is the token whose id it has; of many that come at once with the same, one is checked."""
        if self._keys.is_known(token, text):
            return None
        turn = self._turns.setdefault(text, Lock())
        async with turn:
            if self._keys.is_known(token, text):
                return None
            knocks = (self._peer(scope), token.id)
            wait = self._failures.take(knocks)
            if wait:
                return too_many_requests(wait)
            good = await to_thread.run_sync(self._keys.verify, token, text, limiter=self._checking)
            if not (good and self._keys.remember(token, text)):
                return _unknown()
            self._failures.refund(knocks)
            return None

    def _log_once(self, trouble: str) -> None:
        """Says once why nobody comes in, not to everybody who tries."""
        if trouble != self._said:
            self._said = trouble
            _LOG.error("nobody comes in: %s", trouble)

    def _peer(self, scope: Scope) -> str:
        return get_client_address(scope, behind_proxy=self._behind_proxy)

    def _is_valid(self, token: Token) -> bool:
        try:
            return self._keys.is_valid(token)
        except StorageError:
            return False


def _is_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] in {"GET", "HEAD"} and (path in PAGES or path.startswith(FILES))


def _unknown() -> Response:
    refusal = make_problem_response(
        401, "token", "A token is needed", "Send one that is valid here, as Authorization: Bearer TOKEN."
    )
    refusal.headers["WWW-Authenticate"] = 'Bearer realm="epsilog"'
    return refusal
