"""Who is asking: every route that reads or changes the ledger asks here first, and then what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from epsilog.server.needs import find_permission
from epsilog.server.roles import ALLOWED_ACTIONS, LOOPBACK, Action, Holder, Role, require_permission
from epsilog.terms import PermissionDeniedError

__all__ = [
    "ALLOWED_ACTIONS",
    "HOLDER",
    "LOOPBACK",
    "Action",
    "Asker",
    "AuthorizedCaller",
    "Holder",
    "Role",
    "authenticate",
    "authorize",
    "require_permission",
]

HOLDER = "epsilog.holder"  # where the doorkeeper notes who comes in, in an ASGI scope


@dataclass(frozen=True, slots=True)
class AuthorizedCaller:
    """Who asks, and what for.

    Attributes:
        holder: who.
        act: what the address they ask is for; they may do it somewhere.
    """

    holder: Holder
    act: Action

    def require(self, scope: str | None) -> None:
        """Refuses them where they may not do it; None is the whole ledger."""
        require_permission(self.holder, self.act, scope)


async def authenticate(request: Request) -> Holder:
    """Who sends a request: the holder of its token, where the server has tokens."""
    if request.app.state.entrance.tokens is None:
        return LOOPBACK
    found = request.scope.get(HOLDER)
    if not isinstance(found, Holder):
        raise HTTPException(401, "A token is needed")
    return found


async def authorize(request: Request, who: Annotated[Holder, Depends(authenticate)]) -> AuthorizedCaller:
    """Who sends a request to an address of the table, as the doorkeeper has found already where there are tokens."""
    need = find_permission(request.method, request.scope["path"])
    if need is None:
        raise PermissionDeniedError("nobody may come in here")
    need.ask(who)
    return AuthorizedCaller(who, need.act)


Asker = Annotated[AuthorizedCaller, Depends(authorize)]
