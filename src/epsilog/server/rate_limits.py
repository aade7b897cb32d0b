"""How often a client may ask: token buckets, and the address that stands for a client."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import final

from starlette.datastructures import Headers
from starlette.types import Scope


@final
class TokenBuckets:
    """One bucket for each key: full at first, emptied by requests, filled again with time.

    Args:
        rate: how much flows in, per second.
        burst: how much a bucket holds.
        most: how many buckets are kept; beyond that the least recently used one is dropped, as if it were full.
        clock: seconds from any origin.
    """

    def __init__(
        self, *, rate: float, burst: float, most: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
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
    """Return the address that requests are counted by: of IPv6 the /64 network, which one client has to itself.

    Args:
        scope: of the request.
        trust_proxy: believe the last address in X-Forwarded-For, which the proxy itself wrote; the client can write
            those before it.
    """
    client = scope.get("client")
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
