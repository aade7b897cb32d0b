"""HTTP connections with a limit on their number, per address and in all, and on the time of a request's head."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from uvicorn.protocols.http.h11_impl import H11Protocol

from epsilog.server.middleware import get_client_address

HEADER_TIMEOUT_SECONDS = 10.0  # for the head of a request, however slowly it arrives
MAX_CONNECTIONS = 256
MAX_CONNECTIONS_PER_ADDRESS = 100


class ConnectionLimits(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; where too many connections are open, the one that has been idle longest is closed.

    So clients that open connections and send nothing do not lock others out, not even at their own address, which many
    people or a health check may share.
    """

    max_per_address = MAX_CONNECTIONS_PER_ADDRESS
    _timer: asyncio.TimerHandle | None = None
    _last_request, _is_aborted, _address = 0.0, False, "unknown"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, unless this connection exceeds a limit and no other is idle."""
        super().connection_made(transport)
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
        """Stop the timer once there is a request."""
        super().data_received(data)
        if not self.is_idle:
            self._last_request = self.loop.time()
        self._set_timer()

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
