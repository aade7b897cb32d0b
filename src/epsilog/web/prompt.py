"""Connections that must come to the point, and of one address not too many: else one would keep all others out."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from epsilog.web.peers import peer_of

HEAD_WITHIN = 10.0  # seconds for the head of a request, however slowly it drips
AT_ONCE = 256  # connections
AT_ONCE_FROM_ONE = 100  # of one address


class Prompt(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, hanging up on heads that do not come to an end."""

    at_once_from_one = AT_ONCE_FROM_ONE
    _ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first head, unless its address has too many connections open."""
        super().connection_made(transport)
        mine = _address(self)
        if sum(_address(other) == mine for other in self.connections) > self.at_once_from_one:
            transport.abort()
        else:
            self._look()

    def data_received(self, data: bytes) -> None:
        """Waits on, or stops waiting once there is a request."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._ends is None:
            self._ends = self.loop.call_later(HEAD_WITHIN, self.transport.abort)

    def _stop(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None


class Proxied(Prompt):
    """The same behind a proxy, whose address is everybody's: who has how many connections is the proxy's to say."""

    at_once_from_one = AT_ONCE


def _address(protocol: object) -> str:
    return peer_of({"client": getattr(protocol, "client", None), "headers": []}, behind_proxy=False)
