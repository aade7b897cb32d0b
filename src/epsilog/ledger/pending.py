"""What waits for owners: reservations and caps with fewer approvals than the budgets on their path require."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from epsilog.ledger import scopes
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.budget_path import count_required_approvals, list_valid_approvals
from epsilog.ledger.entries import Verb
from epsilog.ledger.partitions import count_budgets_covered_by_partition
from epsilog.ledger.store import LedgerSnapshot
from epsilog.ledger.transitions import ChargeState

_PAGE = 100  # entries that are read at a time


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A reservation or a cap that waits for owners.

    Attributes:
        scope: where it is charged, or the budget of the cap.
        key: of the charge; None for a cap.
        amounts: what the charge costs, by kind of budget; or the cap, by the kind of its budget.
        required: how many owners must approve it.
        approved: who has.
        actor: who reserved it, if known; None for a cap.
        until: when it expires, UTC; of a cap the first of its approvals. None for never.
    """

    scope: str
    key: str | None
    amounts: Mapping[str, Amounts]
    required: int
    approved: tuple[str, ...]
    actor: str | None
    until: str | None

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain JSON values."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        amounts = {kind: dict(amount) for kind, amount in self.amounts.items()}
        return plain | {"amounts": amounts, "approved": list(self.approved)}


def list_pending_approvals(
    session: LedgerSnapshot, scope: str | None, *, now: datetime, covers: Callable[[str], bool]
) -> list[PendingApproval]:
    """Return what waits at and under a scope, newest first; see ``LedgerView.list_pending_approvals``."""
    found = session.balances(None) if scope is None else [*session.balances([scope]), *session.below(scope)]
    above = [] if scope is None else session.balances(scopes.list_ancestors(scope)[:-1])
    budgets = {one.scope: one for one in (*above, *found)}
    pending = [one for one in (_read_cap(budget, budgets, now) for budget in found) if one is not None]
    if scope is not None and count_required_approvals(above):
        tops = [scope]
    else:
        requiring = {one.scope for one in found if one.requires_approvals}
        tops = [one for one in requiring if requiring.isdisjoint(scopes.list_ancestors(one)[:-1])]
    for top in sorted(tops):
        pending += _list_reservations(session, top, budgets)
    return [one for one in pending if covers(one.scope) and not _is_over(one, now)]


def _is_under(scope: str, other: str) -> bool:
    return f"{scope}/".startswith(f"{other}/")


def _path(scope: str, budgets: Mapping[str, Balance]) -> list[Balance]:
    return [budgets[one] for one in scopes.list_ancestors(scope) if one in budgets]


def _read_cap(budget: Balance, budgets: Mapping[str, Balance], now: datetime) -> PendingApproval | None:
    """Return the cap of a budget that some owners have approved and nobody has set yet, if there is one."""
    if budget.cap_approval is None or not (valid := list_valid_approvals(budget.cap_approval, now)):
        return None
    required = count_required_approvals(_path(budget.scope, budgets))
    amounts = {budget.kind: budget.cap_approval.limit}
    return PendingApproval(budget.scope, None, amounts, required, tuple(valid), None, min(valid.values()))


def _list_reservations(session: LedgerSnapshot, top: str, budgets: Mapping[str, Balance]) -> list[PendingApproval]:
    """Return the reservations at and under a scope that wait.

    It reads back until all that the budgets there hold reserved is found. Where no budget is at the scope itself, it
    reads all reservations.
    """
    found: list[PendingApproval] = []
    left = {one.scope: one.reserved for one in budgets.values() if _is_under(one.scope, top)}
    before = session.head()[0] + 1
    while top not in left or any(any(one.units.values()) for one in left.values()):
        page = session.page(before=before, limit=_PAGE, scope=top, verb=Verb.RESERVED)
        for entry in page:
            assert entry.charge_id is not None, "a reservation is of a charge"
            charge, path = session.charge(entry.charge_id), _path(entry.scope, budgets)
            if charge is None or charge.state is not ChargeState.RESERVED or charge.opened != entry.index:
                continue
            for balance in path[count_budgets_covered_by_partition(path) :]:
                if balance.scope in left:
                    left[balance.scope] -= balance.cost(charge.amounts)
            required, given = count_required_approvals(path), charge.approvals or ()
            if len(given) < required:
                what = charge.scope, charge.key, charge.amounts
                found.append(PendingApproval(*what, required, given, charge.actor, charge.until))
        if len(page) < _PAGE:
            break
        before = page[-1].index
    return found


def _is_over(pending: PendingApproval, now: datetime) -> bool:
    """Return whether the reservation has expired, so that no approval helps."""
    return pending.key is not None and pending.until is not None and datetime.fromisoformat(pending.until) <= now
