"""How often somebody may ask: buckets that fill again with time, in a table that cannot grow without end."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import final


@final
class TokenBuckets:
    """One bucket for each key: full at first, emptied by asking, filled again with time.

    Args:
        rate: how much flows in, a second.
        burst: how much it holds.
        most: how many are kept; beyond that the one that was asked longest ago is forgotten, as if it were full.
        clock: seconds, from anywhere.
    """

    def __init__(
        self, *, rate: float, burst: float, most: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # how full it was, and when

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, key: Hashable) -> float:
        """Takes one from a key's bucket and returns 0; from an empty one nothing, and says how many seconds to wait."""
        now = self._clock()
        level, then = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + max(0.0, now - then) * self._rate)
        granted = level >= 1
        self._levels[key] = (level - 1 if granted else level, now)
        while len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0 if granted else (1 - level) / self._rate

    def refund(self, key: Hashable) -> None:
        """Undoes a ``take``."""
        if key in self._levels:
            level, then = self._levels[key]
            self._levels[key] = (min(self._burst, level + 1), then)
