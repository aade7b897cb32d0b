"""Connections that must come to the point, and of one address not too many: else one would keep all others out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from uvicorn.protocols.http.h11_impl import H11Protocol

from epsilog.server.peers import get_client_address

HEADER_TIMEOUT_SECONDS = 10.0  # seconds for the head of a request, however slowly it drips
MAX_CONNECTIONS = 256  # connections
MAX_CONNECTIONS_PER_ADDRESS = 100  # of one address


class ConnectionLimits(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, hanging up on heads that do not come to an end."""

    at_once_from_one = MAX_CONNECTIONS_PER_ADDRESS
    _ends: asyncio.TimerHandle | None = None
    _asked, _aborted = 0.0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first head. Where too many are open, the one that has asked nothing for longest gives way.

        So whoever opens connections and asks nothing keeps nobody out, of their own address neither, which may be that
        of many people, or of the machine whose health is asked for.
        """
        super().connection_made(transport)
        self._asked = self.loop.time()
        others = [
            one
            for one in self.connections
            if isinstance(one, ConnectionLimits) and one is not self and not one._aborted
        ]
        mine = [one for one in others if _address(one) == _address(self)]
        if len(mine) >= self.at_once_from_one:
            _give_way(mine, self)
        elif self.limit_concurrency is not None and len(others) >= self.limit_concurrency - 1:
            _give_way(_of_the_most_idle(others), self)
        if not self._aborted:
            self._look()

    def data_received(self, data: bytes) -> None:
        """Waits on, or stops waiting once there is a request."""
        super().data_received(data)
        if not self.is_idle:
            self._asked = self.loop.time()
        self._look()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being done for it: no request is there, or not all of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._ends is None:
            self._ends = self.loop.call_later(HEADER_TIMEOUT_SECONDS, self._abort)

    def _abort(self) -> None:
        self._aborted = True
        self._stop()
        self.transport.abort()

    def _stop(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None


class ProxyConnectionLimits(ConnectionLimits):
    """The same behind a proxy, whose address is everybody's: who has how many connections is the proxy's to say."""

    at_once_from_one = MAX_CONNECTIONS


def _give_way(others: Sequence[ConnectionLimits], newcomer: ConnectionLimits) -> None:
    """Hangs up on the connection that has asked nothing for longest; on the newcomer where all have asked something."""
    min((one for one in others if one.is_idle), key=lambda one: one._asked, default=newcomer)._abort()


def _of_the_most_idle(others: Sequence[ConnectionLimits]) -> list[ConnectionLimits]:
    """The idle connections of the address that has most of them."""
    by_address: dict[str, list[ConnectionLimits]] = {}
    for one in others:
        if one.is_idle:
            by_address.setdefault(_address(one), []).append(one)
    return max(by_address.values(), key=len, default=[])


def _address(protocol: object) -> str:
    return get_client_address({"client": getattr(protocol, "client", None), "headers": []}, behind_proxy=False)
