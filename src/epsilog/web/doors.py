"""Who is asking: every route that reads or changes the ledger asks here first, and then what they may do."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from epsilog.web.roles import LOOPBACK, MAY, Act, Holder, Role, require

__all__ = ["HOLDER", "LOOPBACK", "MAY", "Act", "Asker", "Holder", "Role", "holder", "require"]

HOLDER = "epsilog.holder"  # where the doorkeeper notes who comes in, in an ASGI scope


def holder(request: Request) -> Holder:
    """Who sends a request: the holder of its token, where the server has tokens."""
    if request.app.state.entrance.tokens is None:
        return LOOPBACK
    found = request.scope.get(HOLDER)
    if not isinstance(found, Holder):
        raise HTTPException(401, "A token is needed")
    return found


Asker = Annotated[Holder, Depends(holder)]
