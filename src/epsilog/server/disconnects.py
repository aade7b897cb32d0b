"""Calculations that nobody waits for any more are ended.

A page that asks again while it waits hangs up on what it asked before. The request is then cancelled: it is not
begun if its turn at the desk has not come, and if it has, the process that works on it is ended.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PURE = tuple(f"/api/v1/{name}" for name in ("federated", "queries", "account", "sensitivity"))


class CancelOnDisconnect:
    """ASGI middleware for questions that change nothing, behind a guard that hands over the body in one message."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, unless the asker hangs up first."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(PURE):
            await self.app(scope, receive, send)
            return
        letters = [await receive()]
        failure: list[Exception] = []

        async def inbox() -> Message:
            if letters:
                return letters.pop()
            await anyio.sleep_forever()
            raise AssertionError  # sleep_forever ends by cancellation only

        async with anyio.create_task_group() as group:

            async def answer() -> None:
                try:
                    await self.app(scope, inbox, send)
                except Exception as error:  # noqa: BLE001 (raised again outside the group, as it was)
                    failure.append(error)
                group.cancel_scope.cancel()

            group.start_soon(answer)
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()
        if failure:
            raise failure[0]
