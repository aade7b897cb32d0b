"""What every request must pass and every response carries: host and origin checks, limits, security headers.

A calculation is cancelled when its client disconnects: a page that asks again drops its earlier request.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import final

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.server.access import AccessConfig
from epsilog.server.problems import make_problem_response

MAX_BODY_BYTES = 64 * 1024
MAX_REPORT_BODY_BYTES = 10 * 1024 * 1024
REPORTS = "/api/v1/verify"
STREAMED = "/api/v1/verify/bundle"  # its route bounds the body, and holds none of it in memory
BODY_TIMEOUT_SECONDS = 60.0  # from the first byte of a body to its last
REFUSAL_DELAY_SECONDS = 0.25  # before a body that cannot be read is refused
CANCELLABLE = tuple(f"/api/v1/{name}" for name in ("federated", "queries", "account", "sensitivity", "verdict"))
_SINGLE_HEADERS = (b"idempotency-key", b"origin", b"content-type")  # with two values it would be unclear which counts
_UNREADABLE = frozenset({400, 413})
_MAX_LENGTH_DIGITS = 18

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


@final
class TokenBuckets:
    """One bucket for each key: full at first, emptied by requests, filled again with time."""

    def __init__(
        self, *, rate: float, burst: float, most: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # beyond ``most`` buckets the least recently used one is dropped, as if it were full
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # level and its time

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, key: Hashable) -> float:
        """Take one from a key's bucket and return 0; if it is empty take nothing, and return the seconds to wait."""
        now = self._clock()
        level, then = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + max(0.0, now - then) * self._rate)
        granted = level >= 1
        self._levels[key] = (level - 1 if granted else level, now)
        while len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0 if granted else (1 - level) / self._rate

    def refund(self, key: Hashable) -> None:
        """Undo a ``take``."""
        if key in self._levels:
            level, then = self._levels[key]
            self._levels[key] = (min(self._burst, level + 1), then)


def get_client_address(scope: Scope, *, trust_proxy: bool) -> str:
    """Return the address that requests are counted by: of IPv6 the /64 network, which one client has to itself."""
    client = scope.get("client")
    # the proxy itself wrote the last address there; its client can write those before it
    forwarded = Headers(scope=scope).getlist("x-forwarded-for") if trust_proxy else []
    for text in (*(line.rpartition(",")[2] for line in forwarded[-1:]), client[0] if client else ""):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if isinstance(address, ipaddress.IPv6Address):
            if address.ipv4_mapped is None:
                return str(ipaddress.ip_network((address.packed, 64), strict=False))
            address = address.ipv4_mapped
        return str(address)
    return "unknown"


def parse_host(header: str) -> str:
    """Return the host of a Host header, without its port.

    >>> parse_host("[::1]:8080"), parse_host("localhost:8080")
    ('[::1]', 'localhost')
    """
    if header.startswith("["):
        return header[: header.find("]") + 1]
    return header.partition(":")[0].lower()


class HostGuardMiddleware:
    """ASGI middleware. Answers 421 to an unknown host (DNS rebinding) or proxy, and 403 to another page's origin."""

    def __init__(self, app: ASGIApp, access: AccessConfig | None = None) -> None:
        self.app, self._access = app, access or AccessConfig()
        self._hosts = self._access.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_security_headers(message, scope["path"])
            await send(message)

        await (self._refusal(scope["headers"]) or self.app)(scope, receive, send_with_headers)

    def _refusal(self, given: Sequence[tuple[bytes, bytes]]) -> ASGIApp | None:
        names = [name for name, _ in given]
        headers = dict(given)
        host = headers.get(b"host", b"").decode("latin-1")
        if names.count(b"host") != 1 or parse_host(host) not in self._hosts:
            return make_problem_response(421, "host", "Host not allowed", "This server does not serve that host name.")
        repeated = next((name for name in _SINGLE_HEADERS if names.count(name) > 1), None)
        if repeated is not None:
            detail = f"{repeated.decode()} must be given once"
            return make_problem_response(400, "header", "Repeated header", detail)
        if not self._access.trust_proxy and (b"x-forwarded-for" in headers or b"forwarded" in headers):
            detail = "The server runs without --trust-proxy, so it cannot identify a proxy's clients."
            return make_problem_response(421, "proxy", "Unexpected proxy", detail)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            detail = "Other sites may embed /embed/* but not call the API."
            return make_problem_response(403, "origin", "Origin not allowed", detail)
        return None


class BodyLimitMiddleware:
    """ASGI middleware. A body arrives whole and in time, or is refused: with 413 too long, with 408 too late.

    The refusal of a body that is too long or cannot be read is delayed a little, which costs nothing here: one client
    sends a few such requests per second, not hundreds.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on with its body in one piece."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"} or scope["path"] == STREAMED:
            await self.app(scope, receive, send)
            return

        async def send_delayed(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _UNREADABLE:
                await anyio.sleep(REFUSAL_DELAY_SECONDS)
            await send(message)

        longest = MAX_REPORT_BODY_BYTES if scope["path"] == REPORTS else MAX_BODY_BYTES
        body = await _read_body(receive, longest, stated=Headers(scope=scope).get("content-length", ""))
        if body is None:
            return
        if not isinstance(body, bytes):
            await body(scope, receive, send_delayed)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send_delayed)


async def _read_body(receive: Receive, longest: int, *, stated: str) -> bytes | Response | None:
    """The body, a refusal, or None after a disconnect; a body with a stated length above the limit is not read."""
    if stated.isascii() and stated.isdigit() and (len(stated) > _MAX_LENGTH_DIGITS or int(stated) > longest):
        return _refuse_length(longest)
    body, more = bytearray(), True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > longest:
                    return _refuse_length(longest)
            return bytes(body)
    detail = f"The body must arrive within {BODY_TIMEOUT_SECONDS:g} seconds."
    return make_problem_response(408, "too-slow", "Request too slow", detail)


def _refuse_length(longest: int) -> Response:
    return make_problem_response(413, "too-long", "Request too large", f"The limit is {longest} bytes.")


def _write_security_headers(*, embedded: bool, api: bool) -> dict[bytes, bytes]:
    found = {
        "Content-Security-Policy": _POLICY.format(ancestors="*" if embedded else "'none'"),
        "Cross-Origin-Resource-Policy": "cross-origin" if embedded else "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
    if not embedded:
        found |= {"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}
    if api:
        found |= {"Cache-Control": "no-store"}
    return {name.lower().encode(): value.encode() for name, value in found.items()}


_EMBEDDED, _API, _PAGE = (
    _write_security_headers(embedded=embedded, api=api)
    for embedded, api in ((True, False), (False, True), (False, False))
)


def _add_security_headers(message: Message, path: str) -> None:
    """Set the headers of every response; they replace those of the same names."""
    added = _EMBEDDED if path.startswith("/embed/") else _API if path.startswith("/api/") else _PAGE
    own = [one for one in message.get("headers", ()) if one[0].lower() not in added]
    message["headers"] = [*own, *added.items()]


class CancelOnDisconnect:
    """ASGI middleware for questions that change nothing; a guard before it has the body arrive in one message."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless its client disconnects first."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(CANCELLABLE):
            await self.app(scope, receive, send)
            return
        messages = [await receive()]
        failure: list[Exception] = []

        async def receive_once() -> Message:
            if messages:
                return messages.pop()
            await anyio.sleep_forever()
            raise AssertionError  # sleep_forever ends by cancellation only

        async with anyio.create_task_group() as group:

            async def answer() -> None:
                try:
                    await self.app(scope, receive_once, send)
                except Exception as error:  # noqa: BLE001 (raised again outside the group, as it was)
                    failure.append(error)
                group.cancel_scope.cancel()

            group.start_soon(answer)
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()
        if failure:
            raise failure[0]
