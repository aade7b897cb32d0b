"""What every request must pass and every answer carries: Host allow-list, body limit, Content-Security-Policy."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.server.entrance import AccessConfig
from epsilog.server.problems import make_problem_response

LONGEST_BODY = 64 * 1024  # bytes
BODY_WITHIN = 60.0  # seconds from its first byte to its last
PAUSE = 0.25  # seconds before a refusal of what cannot be read
_ONCE = ("idempotency-key", "origin", "content-type")  # headers that decide; two tokens are none, see the doorkeeper
_NONSENSE = frozenset({400, 413})
_DIGITS = 18  # of a length in bytes
LONGEST_REPORT_BODY = 10 * 1024 * 1024  # bytes of a report in JSON, quotes and all
REPORTS = "/api/v1/verify"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


def parse_host(header: str) -> str:
    """The host of a Host header, without its port.

    >>> parse_host("[::1]:8080"), parse_host("localhost:8080")
    ('[::1]', 'localhost')
    """
    if header.startswith("["):
        return header[: header.find("]") + 1]
    return header.partition(":")[0].lower()


class HostGuardMiddleware:
    """ASGI middleware. A foreign Host gets 421 (DNS rebinding), a foreign Origin 403, a proxy nobody told of 421."""

    def __init__(self, app: ASGIApp, entrance: AccessConfig | None = None) -> None:
        self.app, self._entrance = app, entrance or AccessConfig()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                _stamp(MutableHeaders(scope=message), scope["path"])
            await send(message)

        await (self._refusal(Headers(scope=scope)) or self.app)(scope, receive, stamped)

    def _refusal(self, headers: Headers) -> ASGIApp | None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or parse_host(host) not in self._entrance.hosts:
            return make_problem_response(421, "host", "Wrong host", "this server does not answer to that name")
        twice = next((name for name in _ONCE if len(headers.getlist(name)) > 1), None)
        if twice is not None:
            return make_problem_response(
                400, "header", "A header too many", f"{twice} may be given once: which one counts is not known"
            )
        if not self._entrance.behind_proxy and ("x-forwarded-for" in headers or "forwarded" in headers):
            detail = "this server was started without --behind-proxy: it cannot tell a proxy's guests from its own"
            return make_problem_response(421, "proxy", "Unexpected proxy", detail)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return make_problem_response(
                403, "origin", "Wrong origin", "other pages may frame /embed/*, not call the API"
            )
        return None


class BodyLimitMiddleware:
    """ASGI middleware. A body arrives whole and in time, or is refused: with 413 too long, with 408 too late.

    Whoever sends what is too long or cannot be read, as no page does, waits a little for the refusal: one after another
    there are a few such requests a second then, not hundreds, and the waiting costs nothing here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on with its body in one piece."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return

        async def unhurried(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _NONSENSE:
                await anyio.sleep(PAUSE)
            await send(message)

        longest = LONGEST_REPORT_BODY if scope["path"] == REPORTS else LONGEST_BODY
        body = await _read_body(receive, longest, said=Headers(scope=scope).get("content-length", ""))
        if body is None:
            return
        if not isinstance(body, bytes):
            await body(scope, receive, unhurried)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, unhurried)


async def _read_body(receive: Receive, longest: int, *, said: str) -> bytes | Response | None:
    """The body, a refusal, or None where its sender has hung up; one that is said to be too long is not read."""
    too_long = make_problem_response(413, "too-long", "Too long", f"a body may have {longest} bytes")
    if said.isascii() and said.isdigit() and (len(said) > _DIGITS or int(said) > longest):
        return too_long
    body, more = bytearray(), True
    with anyio.move_on_after(BODY_WITHIN):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > longest:
                return too_long
        return bytes(body)
    return make_problem_response(408, "too-slow", "Too slow", f"a body may take {BODY_WITHIN:g} seconds")


def _stamp(headers: MutableHeaders, path: str) -> None:
    embedded = path.startswith("/embed/")
    headers["Content-Security-Policy"] = _POLICY.format(ancestors="*" if embedded else "'none'")
    headers["Cross-Origin-Resource-Policy"] = "cross-origin" if embedded else "same-origin"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    if not embedded:
        headers["X-Frame-Options"] = "DENY"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
    if path.startswith("/api/"):
        headers["Cache-Control"] = "no-store"
