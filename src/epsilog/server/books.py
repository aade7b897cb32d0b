"""The ledger of a server: opened once, when it is first asked, and used in threads.

Verbs that may wait for a price have threads of their own, so that a start or a commit never waits behind one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from epsilog.ledger import Ledger, ledger_exists, open_local_ledger, parse_address
from epsilog.server.limits import TokenBuckets
from epsilog.server.prices import PooledCostModel
from epsilog.server.problems import ProblemError, too_many_requests
from epsilog.server.turns import GroupCommitStore
from epsilog.terms import StorageError

T = TypeVar("T")
AT_ONCE = 16  # verbs that wait for the disk; the disk takes one at a time
FREE_BURST, FREE_RATE = (
    200,
    0.2,
)  # charges that cost nothing and plans, of one token: at once, and a second from then on
PRICED_AT_ONCE = 96  # verbs that wait for a price, or for their turn at the desk


class LedgerService:
    """A ledger that a server writes.

    Args:
        url: as ``open_ledger`` takes it; there when it is first asked: no server makes a ledger.
        prices: works prices out for it.
    """

    def __init__(self, url: str, prices: PooledCostModel) -> None:
        self._url, self.prices = url, prices
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._free, self._free_turn = TokenBuckets(rate=FREE_RATE, burst=FREE_BURST), threading.Lock()
        self._quick, self._slow = CapacityLimiter(AT_ONCE), CapacityLimiter(PRICED_AT_ONCE)

    async def do(self, work: Callable[[Ledger], T], *, priced: bool = False) -> T:
        """Does something with the ledger, in another thread; whoever hangs up meanwhile does not end it."""
        return await to_thread.run_sync(
            lambda: work(self._open_ledger()), limiter=self._slow if priced else self._quick
        )

    def _open_ledger(self) -> Ledger:
        with self._lock:
            if self._ledger is None:
                where = self._url if self._url.startswith("sqlite:") else parse_address(self._url)
                if not ledger_exists(where):
                    raise StorageError("the server's ledger is not there")
                self._ledger = open_local_ledger(
                    where, pricing=self.prices.pricing(), within=GroupCommitStore, admit_free=self.admit_free
                )
            return self._ledger

    def admit_free(self, name: str) -> None:
        """Lets the holder of a token open so many charges that cost nothing: no budget would end that."""
        with self._free_turn:
            wait = self._free.take(name)
        if wait:
            raise ProblemError(too_many_requests(wait))

    def close(self) -> None:
        """Closes the ledger for this process."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()


async def _get_ledger_service(request: Request) -> LedgerService:
    found: LedgerService | None = request.app.state.books
    if found is None:
        raise HTTPException(404, "This server was started without a ledger")
    return found


ItsBooks = Annotated[LedgerService, Depends(_get_ledger_service)]
