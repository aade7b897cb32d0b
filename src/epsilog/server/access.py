"""Who may use a server: roles and their holders, and the access configuration, which refuses unsafe addresses.

A holder has one role, at one scope of the budget tree and everything under it:

| role    | read | spend | own | audit |
| ------- | ---- | ----- | --- | ----- |
| reader  | yes  |       |     |       |
| spender | yes  | yes   |     |       |
| owner   | yes  | yes   | yes | whole ledger only |
| auditor | yes  |       |     | whole ledger only |

Read: see balances, headroom, charges and entries at and under the scope, and the budgets above it, which refusals name
anyway. Spend: register a plan and reserve; hold, start, record rounds of, commit and cancel own charges (an owner: all
charges). Own: create a budget, change its cap, retire it, allow a cost, revoke, abandon. An unproven cost and the
payment of a partition need the owners of all budgets above too; the size of a quota needs the owner of the parent.
Audit: read the whole chain, which cannot be verified in part.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from epsilog.terms import CheckError, PermissionDeniedError, check

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})  # as a Host header has them
RATE = 50.0  # sustained requests per second of one holder
BURST_SECONDS = 4  # of requests that may come in one burst
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


class Role(StrEnum):
    """What a holder is to a scope."""

    READER = "reader"
    SPENDER = "spender"
    OWNER = "owner"
    AUDITOR = "auditor"


class Action(StrEnum):
    """What a request does to a scope."""

    READ = "read"
    SPEND = "spend"
    OWN = "own"
    AUDIT = "audit"


ALLOWED_ACTIONS = {
    Role.READER: frozenset({Action.READ}),
    Role.SPENDER: frozenset({Action.READ, Action.SPEND}),
    Role.OWNER: frozenset(Action),
    Role.AUDITOR: frozenset({Action.READ, Action.AUDIT}),
}


@dataclass(frozen=True, slots=True)
class Holder:
    """The sender of a request: name, role, and where the role holds; no scope is the whole ledger."""

    name: str
    role: Role
    scope: str | None = None

    def contains_scope(self, scope: str | None) -> bool:
        """Return whether a scope is at or under the holder's; None is the whole ledger."""
        return self.scope is None or (scope is not None and f"{scope}/".startswith(f"{self.scope}/"))

    def owns(self, scope: str | None) -> bool:
        """Return whether the holder owns a scope; None is the whole ledger."""
        return Action.OWN in ALLOWED_ACTIONS[self.role] and self.contains_scope(scope)

    def can_read(self, scope: str) -> bool:
        """Return whether a budget is at or under the holder's scope, or above it, where refusals name it anyway."""
        return self.contains_scope(scope) or f"{self.scope}/".startswith(f"{scope}/")


LOCAL_HOLDER = Holder("loopback", Role.OWNER)  # users of this machine can open the ledger's file themselves


def require_permission(holder: Holder, action: Action, scope: str | None) -> None:
    """Refuse an action that the role does not allow, or not at this scope; None is the whole ledger."""
    if action not in ALLOWED_ACTIONS[holder.role]:
        raise PermissionDeniedError(f"a {holder.role} may not {action} here")
    if not holder.contains_scope(scope):
        where = "the whole ledger" if scope is None else repr(scope)
        raise PermissionDeniedError(f"this {holder.role} is one of {holder.scope!r}, and may not {action} {where}")


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """Who may reach a server, and how.

    Attributes:
        tokens: the file that ``epsilog token create`` writes. Without it and ``identity``, users of this machine are
            owners.
        names: hosts that the server is reached by, besides the names of loopback; they need tokens.
        trust_proxy: a proxy on this machine ends TLS and gives the client in X-Forwarded-For; it needs tokens.
        rate: sustained requests per second of one holder.
        access_log: print one line of JSON for each request.
        identity: the file of OpenID Connect issuers and client certificates that are accepted.
    """

    tokens: Path | None = None
    names: tuple[str, ...] = ()
    trust_proxy: bool = False
    rate: Annotated[float, check.positive()] = RATE
    access_log: bool = False
    identity: Path | None = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        object.__setattr__(self, "names", tuple(_normalize_host(name) for name in self.names))
        if not self.requires_token and (self.names or self.trust_proxy):
            raise CheckError("tokens", "given, where others than this machine's can reach the server", "none")

    @property
    def requires_token(self) -> bool:
        """Return whether requests need a token."""
        return self.tokens is not None or self.identity is not None

    @property
    def hosts(self) -> frozenset[str]:
        """The permitted values of a Host header."""
        return LOOPBACK_HOSTS | frozenset(self.names)

    def for_address(self, host: str, *, tls: bool) -> AccessConfig:
        """Return the same for a server that listens at an address, if that is safe.

        Raises:
            CheckError: the address is not loopback, and others could enter, read traffic or rebind a browser's names.
        """
        if host in LOOPBACK_ADDRESSES:
            return self
        if not self.requires_token or not (tls or self.trust_proxy):
            bound = "a loopback address, as long as there are not both tokens and TLS (or a proxy before it)"
            raise CheckError("host", bound, repr(host))
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise CheckError("host", "an IP address, or localhost", repr(host)) from None
        if not address.is_unspecified:
            return replace(self, names=(*self.names, host))
        if not self.names:
            raise CheckError("name", f"given, where the host is {host}: the name that others reach it by", "none")
        return self


def _normalize_host(name: str) -> str:
    """Return a host as a Host header has it, without a port."""
    name = check.text()(name=name).lower()
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        if len(name) > 253 or not _NAME.fullmatch(name):
            raise CheckError("name", "a host, without scheme and port", repr(name[:80])) from None
        return name
    return f"[{address}]" if address.version == 6 else str(address)
