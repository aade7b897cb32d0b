"""HTTP connections with limits on their number, per address and in all, and on the head and the queue of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from epsilog.server.middleware import get_client_address

HEADER_TIMEOUT_SECONDS = 10.0  # for the head of a request, however slowly it arrives
MAX_HEAD_BYTES = 64 * 1024  # that arrive after the first bytes of a head
MAX_PIPELINED = 8  # requests of a connection that wait for the answer to an earlier one
MAX_CONNECTIONS = 256
MAX_CONNECTIONS_PER_ADDRESS = 100


class ConnectionLimits(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it; where too many connections are open, the one that has been idle longest is closed.

    So clients that open connections and send nothing do not lock others out, not even at their own address, which many
    people or a health check may share.
    """

    max_per_address = MAX_CONNECTIONS_PER_ADDRESS
    _timer: asyncio.TimerHandle | None = None
    _last_request, _is_aborted, _address = 0.0, False, "unknown"
    _in_head, _head_bytes = False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, unless this connection exceeds a limit and no other is idle."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._address = get_client_address({"client": self.client, "headers": []}, trust_proxy=False)
        self._last_request = self.loop.time()
        others = [
            one
            for one in self.connections
            if isinstance(one, ConnectionLimits) and one is not self and not one._is_aborted
        ]
        same_address = [one for one in others if one._address == self._address]
        if len(same_address) >= self.max_per_address:
            _close_idlest(same_address, self)
        elif self.limit_concurrency is not None and len(others) >= self.limit_concurrency - 1:
            _close_idlest(_find_idlest_address(others), self)
        if not self._is_aborted:
            self._set_timer()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and stop the timer once there is a request."""
        self._head_bytes += len(data) if self._in_head else 0
        if self._is_aborted or self._head_bytes > MAX_HEAD_BYTES:
            self._abort()
            return
        super().data_received(data)
        if not self.is_idle:
            self._last_request = self.loop.time()
        self._set_timer()

    def on_message_begin(self) -> None:
        """Take a request, unless too many of this connection wait: the parser reports the error."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError(f"at most {MAX_PIPELINED} requests of a connection may wait")
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; one after the body, which no check would see, is dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request on."""
        self._in_head = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; close the connection at once where it would answer an earlier request."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self._abort()

    @property
    def is_idle(self) -> bool:
        """Whether the server has no whole request of it to answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _set_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADER_TIMEOUT_SECONDS, self._abort)

    def _abort(self) -> None:
        self._is_aborted = True
        self._stop_timer()
        self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class JoinedWrites:
    """A transport that sends two writes of one turn of the event loop together: the head and the body of a response.

    Each send takes a system call, and often wakes the client for half of a response.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self._flushing: asyncio.Handle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Hold a first write until the next one, or until the end of this turn."""
        if self._flushing is None:
            self._held, self._flushing = data, self._loop.call_soon(self._flush)
            return
        self._held += data
        self._flushing.cancel()
        self._flush()

    def close(self) -> None:
        """Close the connection once all is sent."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection now; what is held is lost with it."""
        self._held = b""
        self._transport.abort()

    def _flush(self) -> None:
        data, self._held, self._flushing = self._held, b"", None
        if data:
            self._transport.write(data)


class ProxyConnectionLimits(ConnectionLimits):
    """The same behind a proxy, which limits connections per address itself."""

    max_per_address = MAX_CONNECTIONS


def _close_idlest(others: Sequence[ConnectionLimits], newcomer: ConnectionLimits) -> None:
    """Close the connection that has been idle longest; the newcomer if none is idle."""
    min((one for one in others if one.is_idle), key=lambda one: one._last_request, default=newcomer)._abort()


def _find_idlest_address(others: Sequence[ConnectionLimits]) -> list[ConnectionLimits]:
    """Return the idle connections of the address that has most of them."""
    by_address: dict[str, list[ConnectionLimits]] = {}
    for one in others:
        if one.is_idle:
            by_address.setdefault(one._address, []).append(one)
    return max(by_address.values(), key=len, default=[])
