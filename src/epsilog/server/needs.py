"""What each address of the API takes: one table, which the doors enforce and the API's description tells.

The doorkeeper looks here before a word of a body is read, so whoever may not ask learns nothing of what could be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.routing import compile_path

from epsilog.ledger.commands import COMMANDS, WHOLE
from epsilog.server import calculators, elsewhere
from epsilog.server.roles import ALLOWED_ACTIONS, Action, Holder, Role, require_permission
from epsilog.server.routes import PREFIX

SCHEME = "token"  # its name in the API's description


@dataclass(frozen=True, slots=True)
class Permission:
    """What an address takes.

    Attributes:
        act: what is done there.
        whole: whether to the whole ledger; else to a scope that the request names, or to what its sender sees.
    """

    act: Action
    whole: bool = False

    def ask(self, holder: Holder) -> None:
        """Refuses whoever may not do it, wherever it were done."""
        require_permission(holder, self.act, None if self.whole else holder.scope)

    @property
    def roles(self) -> list[Role]:
        """Those that allow it."""
        return [role for role in Role if self.act in ALLOWED_ACTIONS[role]]


_READ, _SPEND = Permission(Action.READ), Permission(Action.SPEND)
_READ_ALL, _AUDIT = Permission(Action.READ, whole=True), Permission(Action.AUDIT, whole=True)

_BY_PATH = {
    "POST /verify": _READ,
    "GET /certificates": _READ,
    "POST /certificates": _SPEND,
    "GET /certificates/{name}": _READ,
    "GET /certificates/{name}/events": _READ,
    "POST /certificates/{name}/{verb}": _SPEND,
    "GET /certificates/{name}/evidence.json": _READ,
    "GET /holder": _READ,
    "GET /ledger": _READ,
    "GET /ledger/cycles": _READ,
    "GET /ledger/entries": _READ,
    "GET /ledger/head": _READ,
    "GET /ledger/balances": _READ,
    "GET /ledger/rows": _READ,
    "GET /ledger/page": _READ,
    "GET /ledger/charges": _READ,
    "GET /ledger/entry": _READ,
    "GET /ledger/spending": _READ,
    "POST /ledger/fits": _READ,
    **{f"POST /ledger/{one.name}": Permission(Action(one.role), whole=one.tells == WHOLE) for one in COMMANDS.values()},
    "POST /ledger/verify": _AUDIT,
    "GET /ledger/verify/{name}": _AUDIT,
    "GET /ledger/verify/{name}/events": _AUDIT,
    "POST /ledger/verify/{name}/cancel": _AUDIT,
    "GET /runs": _READ_ALL,
    "GET /runs/{name}": _READ_ALL,
    "GET /runs/{name}/{file}": _READ_ALL,
}
NEEDS: Mapping[tuple[str, str], Permission] = {
    **{(method, PREFIX + path): need for told, need in _BY_PATH.items() for method, _, path in [told.partition(" ")]},
    ("GET", "/metrics"): _READ,
}
_ASKED = (calculators.calculators, elsewhere.routes, calculators.playground)
QUESTIONS = frozenset(PREFIX + path for routes in _ASKED for path in routes.by_path)
HEALTH = frozenset({"/healthz", "/readyz"})
OPEN = frozenset({("POST", path) for path in QUESTIONS} | {("GET", path) for path in HEALTH})

_PATTERNS = [(method, compile_path(path)[0], path) for method, path in NEEDS if "{" in path]


def match_route(method: str, path: str) -> str | None:
    """The address of the table that a request is for, with its parameters unfilled; None where it is for none."""
    if (method, path) in NEEDS:
        return path
    return next((place for name, pattern, place in _PATTERNS if name == method and pattern.match(path)), None)


def find_permission(method: str, path: str) -> Permission | None:
    """What an address takes; None where it is open to anybody, or nothing is there."""
    place = match_route(method, path)
    return None if place is None else NEEDS[method, place]


def document_permissions(document: dict[str, Any]) -> dict[str, Any]:
    """Says in a description of the API what each address takes.

    Raises:
        KeyError: an address is neither in the table nor open.
    """
    document["components"]["securitySchemes"] = {
        SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "What `epsilog token create` shows, where the server was started with --tokens. The roles "
            "beside it are the token's: any one of those will do, at the scope that is asked for.",
        }
    }
    refusals = {"401": "No token, or none that is good here", "403": "A token that may not do this, or not there"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (method.upper(), path) in OPEN:
                operation["security"] = []
                continue
            need = NEEDS[method.upper(), path]
            operation["security"] = [{SCHEME: [role.value]} for role in need.roles]
            operation["x-act"], operation["x-whole-ledger"] = need.act.value, need.whole
            for status, says in refusals.items():
                operation["responses"][status] = {"description": says}
    return document
