"""The balance of a budget: its caps, the sums compared with them, the available amount, and refusals.

A quota reserves a part of the nearest budget above it. That budget sets the unused part aside. Quotas only reduce what
is available to other charges: the sums compared with a cap stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Self

from epsilog.ledger.amounts import Amounts, add_amounts
from epsilog.ledger.cap_conversion import require_target_guarantee
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.filters import PrivacyFilter, get_privacy_filter
from epsilog.ledger.state_json import FOLLOW_UP_VERBS, serialize_state
from epsilog.terms import BudgetExceededError, ConflictError, NeighboringRelation
from epsilog.terms.charts import draw_budget_gauge
from epsilog.terms.notebook import render_html_table

_SUMS = ("caps", "reserved", "spent", "available")
_PARALLEL = (
    "the budgets above count one block; its owner declares that each privacy unit is in one block, fixed beforehand by "
    "that unit alone, and that a release under a block reads that block alone (proof in docs/ledger.md); in a block:"
)


@dataclass(frozen=True, slots=True)
class CapApproval:
    """The approvals of one other cap of a budget.

    Attributes:
        limit: the approved caps, or the guarantee from which they are computed.
        until: when the approval of each owner expires, in UTC.
    """

    limit: Amounts
    until: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain JSON values."""
        return {"limit": dict(self.limit), "until": dict(self.until)}

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Read what ``to_json`` wrote."""
        return cls(Amounts.parse(data["limit"]), data["until"])


@dataclass(frozen=True, slots=True)
class Balance:
    """A budget with the sums of its charges. All amounts read as decimal strings by quantity.

    Attributes:
        scope: its path.
        kind: pure, approximate, zcdp, gdp or rdp.
        relation: the neighboring relation of all its charges.
        privacy_unit: the entity in which two neighbors differ; None if not stated.
        simulation: whether it accepts charges of simulations, and only those.
        caps: the limit of each quantity.
        reserved: held for charges that have not started.
        started: spent by charges that are running, or ended without a commit.
        committed: spent by closed charges.
        quota: the scope of the parent budget if this is a quota, else None.
        set_aside: the unused part of its quotas; None without quotas.
        decommissioned: the part of ``committed`` that is no longer in use; None while that is nothing.
        retired: index of the entry that retired the scope; None before.
        target_guarantee: the epsilon and delta from which the caps were computed; None if the caps were stated.
        partition: index of the entry that declared the scope a partition; its caps are those of any one block, and it
            takes no charge itself. None for every other budget.
        requires_certificate: True where each charge at or under it presents a certificate, else None.
        requires_approvals: how many owners must approve each charge at or under it; None where none need to.
        requires_child_budget: True where it takes charges only under a budget below it, else None.
        valid_from: the first moment, in UTC, at which a charge at or under it may be made or reserved; None for any.
        valid_until: the moment, in UTC, from which none may; None for never.
        cap_approval: the cap that owners approved last, until a cap is set; None without any.
    """

    scope: str
    kind: str
    relation: NeighboringRelation
    privacy_unit: str | None
    simulation: bool
    caps: Amounts
    reserved: Amounts
    started: Amounts
    committed: Amounts
    quota: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    set_aside: Amounts | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    decommissioned: Amounts | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    retired: int | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    target_guarantee: Amounts | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    partition: int | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    requires_certificate: bool | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    requires_approvals: int | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    requires_child_budget: bool | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    valid_from: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    valid_until: str | None = field(default=None, metadata=FOLLOW_UP_VERBS)
    cap_approval: CapApproval | None = field(default=None, metadata=FOLLOW_UP_VERBS)

    @property
    def spent(self) -> Amounts:
        """Return the lifetime total of all charges that started."""
        return self.started + self.committed

    @property
    def active(self) -> Amounts:
        """Return the spent amount that is still in use; no cap is compared with it."""
        return self.spent if self.decommissioned is None else self.spent - self.decommissioned

    @property
    def total_reserved(self) -> Amounts:
        """Return the sum compared with the cap: spent or reserved."""
        return add_amounts(self.started, self.committed, self.reserved)

    @property
    def available(self) -> Amounts:
        """Return the most that another charge may cost, without other scopes' quotas; zero if none is accepted."""
        return compute_available(self, ())

    @property
    def closed(self) -> bool:
        """Return whether it accepts no charge at any cost: it is retired, or a partition."""
        return self.retired is not None or self.partition is not None

    @property
    def remaining_quota(self) -> Amounts:
        """Return the unused part of this quota, which its parent budget sets aside."""
        return Amounts.zero(self.caps) if self.retired is not None else self.caps.compute_remaining(self.total_reserved)

    @property
    def terms(self) -> tuple[object, ...]:
        """Return the terms that a repeated creation of this budget must match."""
        limit = (
            self.caps if self.target_guarantee is None else self.target_guarantee
        )  # of which a later release may find larger caps
        made = self.relation, self.privacy_unit, self.simulation, self.quota, self.partition is not None
        required = self.requires_certificate, self.requires_approvals, self.requires_child_budget
        return self.kind, tuple(self.caps), limit, *made, *required, self.valid_from, self.valid_until

    @property
    def is_limited_in_time(self) -> bool:
        """Return whether it takes charges only at some times."""
        return self.valid_from is not None or self.valid_until is not None

    def is_valid_at(self, time: str) -> bool:
        """Return whether a charge may be made or reserved at a time, with its offset from UTC."""
        moment = datetime.fromisoformat(time)
        begun = self.valid_from is None or datetime.fromisoformat(self.valid_from) <= moment
        return begun and (self.valid_until is None or moment < datetime.fromisoformat(self.valid_until))

    @property
    def settings(self) -> tuple[object, ...]:
        """Return all but its sums: budgets of equal settings treat a charge alike, as long as it fits."""
        return _read_settings(self)

    @property
    def filter(self) -> PrivacyFilter:
        """Return the privacy filter that accepts or refuses charges."""
        return get_privacy_filter(self.kind, promised=self.target_guarantee is not None)

    @property
    def theorem(self) -> str:
        """Return the theorem by which these sums may be compared with the cap."""
        return self.filter.theorem if self.partition is None else f"{_PARALLEL} {self.filter.theorem}"

    def cost(self, amounts: Mapping[str, Amounts]) -> Amounts:
        """Return the part of a charge's amounts, stated by kind of budget, that this budget counts."""
        return amounts[self.kind].part(self.caps)

    def _repr_html_(self) -> str:
        rows = [(name, *(getattr(self, part)[name] for part in _SUMS)) for name in self.caps]
        drawn = "".join(self._format_reserved(name) for name in self.caps)
        return drawn + render_html_table(f"{self.scope}: {self.kind}, {self.relation}", rows, ["", "cap", *_SUMS[1:]])

    def _format_reserved(self, name: str) -> str:
        """Return how much of one cap is held."""
        held = [(part, float(getattr(self, part)[name])) for part in ("spent", "reserved")]
        sums = ", ".join(f"{part} {getattr(self, part)[name]}" for part in ("spent", "reserved"))
        return draw_budget_gauge(held, float(self.caps[name]), title=f"{name}: {sums}, of a cap of {self.caps[name]}")

    def document(self) -> str:
        """Return the JSON that is stored."""
        return serialize_state(self)

    @classmethod
    def parse(cls, document: str) -> Self:
        """Read what ``document`` wrote."""
        data = json.loads(document)
        amounts = {name: Amounts.parse(data.pop(name)) for name in ("caps", "reserved", "started", "committed")}
        amounts |= {
            name: Amounts.parse(data.pop(name))
            for name in ("set_aside", "decommissioned", "target_guarantee")
            if name in data
        }
        if "cap_approval" in data:
            data["cap_approval"] = CapApproval.parse(data["cap_approval"])
        return cls(**data | amounts | {"relation": NeighboringRelation(data["relation"])})


_MOVED = ("reserved", "started", "committed", "set_aside", "decommissioned")
_read_settings = attrgetter(*(name for name in Balance.__dataclass_fields__ if name not in _MOVED))


def open_balance(entry: Entry, *, quota: str | None = None) -> Balance:
    """Return the balance of a new budget; ``quota`` is the scope of its parent budget if it is a quota."""
    caps = Amounts.parse(entry.body["caps"])
    zero = Amounts.zero(caps)
    return Balance(
        scope=entry.scope,
        kind=entry.body["kind"],
        relation=NeighboringRelation(entry.body["relation"]),
        privacy_unit=entry.body["privacy_unit"],
        simulation=entry.body["simulation"],
        caps=caps,
        reserved=zero,
        started=zero,
        committed=zero,
        quota=quota,
        target_guarantee=get_target_guarantee(entry, entry.body["kind"]),
        partition=entry.index if entry.verb is Verb.PARTITION_DECLARED else None,
        requires_certificate=entry.body.get("requires_certificate"),
        requires_approvals=entry.body.get("requires_approvals"),
        requires_child_budget=entry.body.get("requires_child_budget"),
        valid_from=entry.body.get("valid_from"),
        valid_until=entry.body.get("valid_until"),
    )


def get_target_guarantee(entry: Entry, kind: str) -> Amounts | None:
    """Return the target guarantee that an entry states for the caps of a budget, if any."""
    if "target_guarantee" not in entry.body:
        return None
    promise = Amounts.parse(entry.body["target_guarantee"])
    require_target_guarantee(kind, promise)
    return promise


def list_cost_quantities(path: Sequence[Balance]) -> dict[str, tuple[str, ...]]:
    """Return the quantities in which a charge on a path needs costs, by kind of budget."""
    found = {balance.kind: get_privacy_filter(balance.kind).quantities for balance in path}
    for kind in (kind for kind, quantities in found.items() if not quantities):
        found[kind] = tuple(Amounts.zero(name for balance in path if balance.kind == kind for name in balance.caps))
    return found


def list_remaining_quotas(balance: Balance, below: Sequence[Balance]) -> Amounts:
    """Return the unused part of those quotas of a budget that lie on one path."""
    shares = [each.remaining_quota for each in below if each.quota == balance.scope]
    return sum(shares, Amounts.zero(balance.caps))


def compute_available(balance: Balance, below: Sequence[Balance]) -> Amounts:
    """Return the most that a charge may cost one budget of its path: not spent, reserved, or set aside for others.

    The amount set aside is a sum over all quotas, including those on the path, and none is negative. So the available
    amount is at most the cap minus the held amount: a charge that fits here fits the cap, whatever the quotas.
    """
    if balance.closed:
        return Amounts.zero(balance.caps)
    return balance.caps.compute_remaining(compute_committed(balance, below))


def compute_committed(balance: Balance, below: Sequence[Balance]) -> Amounts:
    """Return the sum compared with a cap for a charge: spent, reserved, or a quota off the charge's path."""
    if balance.set_aside is None:
        return balance.total_reserved
    return balance.total_reserved + (balance.set_aside - list_remaining_quotas(balance, below))


def allows_charge(balance: Balance, asked: Amounts, below: Sequence[Balance]) -> bool:
    """Return whether one budget of a path accepts a charge, as headroom and charges compare it with the cap."""
    return not balance.closed and balance.filter.fits(balance.caps, held=compute_committed(balance, below), asked=asked)


def require_terms(
    balance: Balance, *, relation: NeighboringRelation | str | None, privacy_unit: str | None, simulation: bool
) -> None:
    """Require the relation, privacy unit and simulation flag of the budget; else raise a ``ConflictError``."""
    for name, asked in (("relation", relation), ("privacy_unit", privacy_unit), ("simulation", simulation)):
        if asked != (stated := getattr(balance, name)):
            raise ConflictError(
                f"{name} must be that of the budget of {balance.scope!r} ({stated}), got {asked}: "
                "losses of different kinds do not add up"
            )


def build_refusal(balance: Balance, asked: Amounts, committed: Amounts, *, reason: str = "") -> BudgetExceededError:
    """Return the error for an amount that exceeds the budget."""
    left = Amounts.zero(balance.caps) if reason else balance.caps.compute_remaining(committed)
    over = committed.compute_remaining(balance.caps)  # of a cap that was lowered
    short = {name: amount for name, amount in (asked.compute_remaining(left) + over).items() if amount != "0"}
    aside = committed - balance.total_reserved if committed.units != balance.total_reserved.units else Amounts({})
    return BudgetExceededError(
        scope=balance.scope,
        requested=dict(asked),
        available=dict(left),
        caps=dict(balance.caps),
        spent=dict(balance.spent),
        reserved=dict(balance.reserved),
        set_aside=dict(aside),
        shortfall=short,
        reason=reason,
        owners=() if reason else None,
    )
