"""Who is asking: every route that reads or changes the ledger asks here first, and then what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from epsilog.server.needs import needed
from epsilog.server.roles import LOOPBACK, MAY, Act, Holder, Role, require
from epsilog.terms import AccessError

__all__ = ["HOLDER", "LOOPBACK", "MAY", "Act", "Asker", "Guest", "Holder", "Role", "guest", "holder", "require"]

HOLDER = "epsilog.holder"  # where the doorkeeper notes who comes in, in an ASGI scope


@dataclass(frozen=True, slots=True)
class Guest:
    """Who asks, and what for.

    Attributes:
        holder: who.
        act: what the address they ask is for; they may do it somewhere.
    """

    holder: Holder
    act: Act

    def require(self, scope: str | None) -> None:
        """Refuses them where they may not do it; None is the whole ledger."""
        require(self.holder, self.act, scope)


async def holder(request: Request) -> Holder:
    """Who sends a request: the holder of its token, where the server has tokens."""
    if request.app.state.entrance.tokens is None:
        return LOOPBACK
    found = request.scope.get(HOLDER)
    if not isinstance(found, Holder):
        raise HTTPException(401, "A token is needed")
    return found


async def guest(request: Request, who: Annotated[Holder, Depends(holder)]) -> Guest:
    """Who sends a request to an address of the table, as the doorkeeper has found already where there are tokens."""
    need = needed(request.method, request.scope["path"])
    if need is None:
        raise AccessError("nobody may come in here")
    need.ask(who)
    return Guest(who, need.act)


Asker = Annotated[Guest, Depends(guest)]
