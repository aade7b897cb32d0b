"""What holders of a role may do, and where.

A holder has one role, at one scope of the tree and all that lies under it:

| role    | read | spend | own | audit |
| ------- | ---- | ----- | --- | ----- |
| reader  | yes  |       |     |       |
| spender | yes  | yes   |     |       |
| owner   | yes  | yes   | yes | whole ledger only |
| auditor | yes  |       |     | whole ledger only |

To read is to see balances, what fits, charges and entries at and under the scope, and the budgets above it, which its
refusals name anyway. To spend is to register a plan and to reserve, and to hold, start, note rounds, commit and cancel
what the same holder reserved; an owner may go on with everybody's. To own is every owner's act: to create a budget,
change its cap, retire it, allow a price, revoke, abandon. What counts in budgets above takes their owners too: a price
that nothing proves and what a partition pays, of every budget that it counts in, and how large a quota is, of the one
above. To audit is to read the whole chain, word for word: it cannot be checked in part, so it takes a holder of the
whole ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import PermissionDeniedError


class Role(StrEnum):
    """What somebody is to a scope."""

    READER = "reader"
    SPENDER = "spender"
    OWNER = "owner"
    AUDITOR = "auditor"


class Action(StrEnum):
    """What is done to a scope."""

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
    """Who asks.

    Attributes:
        name: for people and the log.
        role: what they are.
        scope: where, and everywhere under it; None for the whole ledger.
    """

    name: str
    role: Role
    scope: str | None = None

    def covers(self, scope: str | None) -> bool:
        """Whether a scope lies at or under the holder's; None is the whole ledger."""
        return self.scope is None or (scope is not None and f"{scope}/".startswith(f"{self.scope}/"))

    def owns(self, scope: str | None) -> bool:
        """Whether they own a scope; None is the whole ledger."""
        return Action.OWN in ALLOWED_ACTIONS[self.role] and self.covers(scope)

    def can_read(self, scope: str) -> bool:
        """Whether a budget lies at or under the holder's scope, or above it, where its refusals name it anyway."""
        return self.covers(scope) or f"{self.scope}/".startswith(f"{scope}/")


LOOPBACK = Holder("loopback", Role.OWNER)  # whoever is on this machine may open the file itself


def require_permission(holder: Holder, act: Action, scope: str | None) -> None:
    """Refuses what a role does not allow, or not at this scope; None is the whole ledger."""
    if act not in ALLOWED_ACTIONS[holder.role]:
        raise PermissionDeniedError(f"a {holder.role} may not {act} here")
    if not holder.covers(scope):
        where = "the whole ledger" if scope is None else repr(scope)
        raise PermissionDeniedError(f"this {holder.role} is one of {holder.scope!r}, and may not {act} {where}")
