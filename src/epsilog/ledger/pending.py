"""What waits for owners: reservations and caps with fewer approvals than the budgets on their path require."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from epsilog.ledger import scopes
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.budget_path import count_required_approvals, list_valid_approvals
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.fields import ChargeRequest
from epsilog.ledger.partitions import count_budgets_covered_by_partition
from epsilog.ledger.store import LedgerSnapshot, find_newest_entry, find_override
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
        approver_scope: the scope that an approver must own: that of the highest budget on its path that requires some.
        request: what was reserved; None for a cap.
        overridden: whether an owner has allowed the cost, which then has no proof.
        overrider: who has, if known. They cannot approve it.
        reason: why the cost was allowed, or the newest approval of a cap was given; None without one.
    """

    scope: str
    key: str | None
    amounts: Mapping[str, Amounts]
    required: int
    approved: tuple[str, ...]
    actor: str | None
    until: str | None
    approver_scope: str
    request: ChargeRequest | None
    overridden: bool
    overrider: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain JSON values."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        amounts = {kind: dict(amount) for kind, amount in self.amounts.items()}
        request = None if self.request is None else self.request.to_json()
        return plain | {"amounts": amounts, "approved": list(self.approved), "request": request}


def list_pending_approvals(
    session: LedgerSnapshot, scope: str | None, *, now: datetime, covers: Callable[[str], bool]
) -> list[PendingApproval]:
    """Return what waits at and under a scope, newest first; see ``LedgerView.list_pending_approvals``."""
    found = session.balances(None) if scope is None else [*session.balances([scope]), *session.below(scope)]
    above = [] if scope is None else session.balances(scopes.list_ancestors(scope)[:-1])
    budgets = {one.scope: one for one in (*above, *found)}
    pending = [one for one in (_read_cap(session, budget, budgets, now) for budget in found) if one is not None]
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


def _read_cap(
    session: LedgerSnapshot, budget: Balance, budgets: Mapping[str, Balance], now: datetime
) -> PendingApproval | None:
    """Return the cap of a budget that some owners have approved and nobody has set yet, if there is one."""
    if budget.cap_approval is None or not (valid := list_valid_approvals(budget.cap_approval, now)):
        return None
    path = _path(budget.scope, budgets)
    at, before = (budget.scope, Verb.CAP_APPROVED), session.head()[0] + 1
    newest = find_newest_entry(session, *at, lambda one: one.scope == budget.scope, before=before)
    assert newest is not None, "some entry has approved the cap"
    return PendingApproval(
        budget.scope,
        None,
        {budget.kind: budget.cap_approval.limit},
        count_required_approvals(path),
        tuple(valid),
        None,
        min(valid.values()),
        _find_approver_scope(path),
        None,
        overridden=False,
        overrider=None,
        reason=newest.body["reason"],
    )


def _read_reservation(
    session: LedgerSnapshot, entry: Entry, charge: ChargeRecord, path: Sequence[Balance]
) -> PendingApproval:
    override = find_override(session, charge)
    return PendingApproval(
        charge.scope,
        charge.key,
        charge.amounts,
        count_required_approvals(path),
        charge.approvals or (),
        charge.actor,
        charge.until,
        _find_approver_scope(path),
        ChargeRequest.from_json(entry.body["request"]),
        overridden=charge.override_hash is not None,
        overrider=None if override is None else override.body.get("actor"),
        reason=None if override is None else override.body["reason"],
    )


def _find_approver_scope(path: Sequence[Balance]) -> str:
    return next(one.scope for one in path if one.requires_approvals)


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
            if len(charge.approvals or ()) < count_required_approvals(path):
                found.append(_read_reservation(session, entry, charge, path))
        if len(page) < _PAGE:
            break
        before = page[-1].index
    return found


def _is_over(pending: PendingApproval, now: datetime) -> bool:
    """Return whether the reservation has expired, so that no approval helps."""
    return pending.key is not None and pending.until is not None and datetime.fromisoformat(pending.until) <= now
