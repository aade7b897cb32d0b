"""What every request must pass and every answer carries: Host allow-list, body limit, Content-Security-Policy."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epsilog.web.problems import problem

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
LONGEST_BODY = 64 * 1024  # bytes
LONGEST_REPORT_BODY = 10 * 1024 * 1024  # bytes of a report in JSON, quotes and all
REPORTS = "/api/v1/verify"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


def host_of(header: str) -> str:
    """The host of a Host header, without its port.

    >>> host_of("[::1]:8080"), host_of("localhost:8080")
    ('[::1]', 'localhost')
    """
    if header.startswith("["):
        return header[: header.find("]") + 1]
    return header.partition(":")[0].lower()


class Guard:
    """ASGI middleware. A foreign Host gets 421 (DNS rebinding), a foreign Origin 403, a long body 413."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] = HOSTS) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                _stamp(MutableHeaders(scope=message), scope["path"])
            await send(message)

        refusal = self._refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, stamped)
            return
        body, longest = b"", LONGEST_REPORT_BODY if scope["path"] == REPORTS else LONGEST_BODY
        if scope["method"] in {"POST", "PUT", "PATCH"}:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > longest:
                    too_long = problem(413, "too-long", "Too long", f"a body may have {longest} bytes")
                    await too_long(scope, receive, stamped)
                    return
            sent = False

            async def replay() -> Message:
                nonlocal sent
                if sent:
                    return await receive()
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}

            await self.app(scope, replay, stamped)
            return
        await self.app(scope, receive, stamped)

    def _refusal(self, headers: Headers) -> ASGIApp | None:
        host = headers.get("host", "")
        if host_of(host) not in self.hosts:
            return problem(421, "host", "Wrong host", "this server answers to loopback names only")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return problem(403, "origin", "Wrong origin", "other pages may frame /embed/*, not call the API")
        return None


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
