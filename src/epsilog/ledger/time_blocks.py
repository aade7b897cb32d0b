"""Time blocks: budgets such as ``acme/claims/2026-Q4``, created for the present and the next periods.

A new block has the terms of the latest one before it, and so have the budgets of teams or analysts below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from epsilog.ledger.balances import Balance
from epsilog.terms import CheckError, ConflictError, check

if TYPE_CHECKING:
    from epsilog.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class _Period:
    """How a calendar is cut.

    Attributes:
        start: returns the first day of the period that a day is in.
        days: at least as many as the longest period has.
        name: returns the name of the block that starts on a day.
        pattern: of such names.
    """

    start: Callable[[date], date]
    days: int
    name: Callable[[date], str]
    pattern: re.Pattern[str]

    def following(self, start: date) -> date:
        """Return the first day of the next period."""
        return self.start(start + timedelta(days=self.days))


def _start_quarter(day: date) -> date:
    return day.replace(month=day.month - (day.month - 1) % 3, day=1)


PERIODS = {
    "day": _Period(lambda day: day, 1, date.isoformat, re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    "week": _Period(
        lambda day: day - timedelta(days=day.weekday()),
        7,
        lambda day: "{}-W{:02}".format(*day.isocalendar()[:2]),
        re.compile(r"\d{4}-W\d\d", re.ASCII),
    ),
    "month": _Period(
        lambda day: day.replace(day=1), 31, lambda day: day.isoformat()[:7], re.compile(r"\d{4}-\d\d", re.ASCII)
    ),
    "quarter": _Period(
        _start_quarter,
        92,
        lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}",
        re.compile(r"\d{4}-Q[1-4]", re.ASCII),
    ),
    "year": _Period(
        lambda day: day.replace(month=1, day=1), 366, lambda day: f"{day.year:04}", re.compile(r"\d{4}", re.ASCII)
    ),
}
MAX_PERIODS = 60


def create_time_blocks(
    ledger: Ledger, scope: str, *, period: str, next_periods: int = 1, now: datetime | None = None
) -> list[Balance]:
    """Create the budgets of the present period and of the next ones under a scope; what exists stays as it is.

    Each has the terms and the caps of the latest block before it, also of a retired one. If that takes charges only at
    some times (``valid_from``, ``valid_until``), the new one takes them in its own period. A budget below that block is
    created below the new one too, unless it is retired, or the new block has charges already. Periods are of UTC. To
    run it again changes nothing, so a timer may run it often.

    Args:
        ledger: on behalf of an owner of the scope; for quotas, of the budget above too.
        scope: above the blocks, with at least one block that is not after the present period.
        period: ``day`` (2026-11-29), ``week`` (2026-W48), ``month`` (2026-11), ``quarter`` (2026-Q4) or ``year``
            (2026).
        next_periods: how many periods after the present one, 0 to 60.
        now: with an offset from UTC; None is the time of this machine.

    Returns:
        What was created, in order.

    Raises:
        ConflictError: there is no earlier block, it is a partition or has one below it, or the ledger refuses a block.
    """
    calendar = PERIODS[check.one_of(PERIODS)(period=period)]
    next_periods = check.integer(0, MAX_PERIODS)(next_periods=next_periods)
    if now is not None and now.utcoffset() is None:
        raise CheckError("now", "a datetime with its offset from UTC", repr(now))
    start = calendar.start((now or datetime.now(UTC)).astimezone(UTC).date())
    budgets = {one.scope: one for one in ledger.budgets()}
    created: list[Balance] = []
    for _ in range(next_periods + 1):
        block = f"{scope}/{calendar.name(start)}"
        if block not in budgets or _is_unused(budgets[block]):  # a run that ended early left a part of it
            template = _find_template(budgets, block, calendar.pattern)
            times = budgets[template].valid_from, budgets[template].valid_until
            present = _format_day(start), _format_day(calendar.following(start))
            for one in _list_copied(budgets, template):
                at = block + one.scope.removeprefix(template)
                if at not in budgets:
                    budgets[at] = _copy_budget(ledger, one, at, times, present)
                    created.append(budgets[at])
        start = calendar.following(start)
    return created


def _is_unused(block: Balance) -> bool:
    """Return whether a block has no charge, and may have some."""
    return not block.closed and not any(block.total_reserved.units.values())


def _find_template(budgets: Mapping[str, Balance], block: str, pattern: re.Pattern[str]) -> str:
    """Return the latest block before another one; itself, if it is the first."""
    above, _, name = block.rpartition("/")
    names = [one.removeprefix(f"{above}/") for one in budgets if one.startswith(f"{above}/")]
    earlier = [one for one in names if pattern.fullmatch(one) and one < name]
    if not earlier and block in budgets:
        return block
    if not earlier:
        raise ConflictError(f"there is no block before {block!r} whose terms it could have: create it by hand")
    return f"{above}/{max(earlier)}"


def _list_copied(budgets: Mapping[str, Balance], template: str) -> list[Balance]:
    """Return a block and what is in use below it, each after the budgets above it."""
    below = [one for scope, one in budgets.items() if scope.startswith(f"{template}/") and one.retired is None]
    found = [budgets[template], *sorted(below, key=lambda one: one.scope.count("/"))]
    if parts := [one.scope for one in found if one.partition is not None]:
        raise ConflictError(f"{parts[0]!r} is a partition, which only an owner can declare: create that block by hand")
    return found


def _format_day(day: date) -> str:
    """Return the first moment of a day of UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat(timespec="microseconds")


def _copy_budget(
    ledger: Ledger, one: Balance, scope: str, times: tuple[str | None, str | None], present: tuple[str, str]
) -> Balance:
    """Create a budget in the terms of another; one that takes charges at the times of its block takes them now."""
    start, end = one.valid_from, one.valid_until
    if one.is_limited_in_time:
        if (start, end) != times:
            raise ConflictError(f"{one.scope!r} takes charges at other times than its block: create {scope!r} by hand")
        start, end = present
    promised = one.target_guarantee is not None and one.filter.by_order
    limit: Mapping[str, str] = one.caps if one.target_guarantee is None else one.target_guarantee
    orders = [name.removeprefix("rdp_") for name in one.caps] if promised else None
    return ledger.create_budget(
        scope,
        kind=one.kind,
        relation=one.relation,
        privacy_unit=one.privacy_unit,
        simulation=one.simulation,
        quota=one.quota is not None,
        orders=orders,
        requires_certificate=bool(one.requires_certificate),
        requires_approvals=one.requires_approvals or 0,
        requires_child_budget=bool(one.requires_child_budget),
        valid_from=start,
        valid_until=end,
        **limit,
    )
