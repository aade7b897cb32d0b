"""Owners' commands on budgets (create, partition, cap, retire), and on a ledger that came out of a backup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Annotated, Any

from epsilog.ledger import balances, budget_path, cap_conversion, headroom, scopes
from epsilog.ledger.amounts import MAX_RENYI_ORDERS, Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.cap_conversion import PROMISED
from epsilog.ledger.commands.base import BUDGET, OWN, At, Command, LedgerWideCommand, require_measured
from epsilog.ledger.entries import Verb
from epsilog.ledger.fields import (
    MOMENT,
    Arg,
    BudgetKind,
    BudgetRelation,
    By,
    Caps,
    Kind,
    Orders,
    Reason,
    Scope,
    parse_timestamp,
)
from epsilog.ledger.filters import get_privacy_filter
from epsilog.ledger.headroom import CostModel
from epsilog.ledger.partitions import compute_cap_increase
from epsilog.terms import BudgetExceededError, CheckError, ConflictError, NeighboringRelation, check

_CAPS = Kind(lambda name, value: dict(Amounts.from_cap(check.instance_of(Mapping)(**{name: value}))))
_StoredCaps = Annotated[Mapping[str, str], Arg("amounts by quantity", kind=_CAPS)]
_PrivacyUnit = Annotated[str | None, Arg("what two neighboring data sets differ in", none_means="not stated")]
_Simulations = Annotated[bool, Arg("accepts charges of simulations only")]
_RequiresCertificate = Annotated[bool, Arg("each charge at or under it must present a certificate")]
_RequiresApprovals = Annotated[int, Arg("how many owners must approve each charge at or under it", ge=0, le=9)]
_RequiresChildBudget = Annotated[bool, Arg("it takes charges only under a budget below it")]
_ValidFrom = Arg("from when charges may be made or reserved, in UTC", kind=MOMENT, none_means="at any time before")
_ValidUntil = Arg("until when charges may be made or reserved, in UTC", kind=MOMENT, none_means="for ever")
_ApprovedUntil = Annotated[str, Arg("when the approval expires, in UTC", kind=MOMENT)]
APPROVED_FOR = timedelta(days=7)  # unless an approval of a cap states when it expires
_BUDGET_BODY = {
    "kind": BudgetKind,
    "caps": _StoredCaps,
    "relation": BudgetRelation,
    "privacy_unit": _PrivacyUnit,
    "simulation": _Simulations,
}
_PROMISE = {"target_guarantee": _StoredCaps}  # what the caps are to keep, where that was said in other quantities


class OfScope(Command, subject=BUDGET):
    """An act on the budget of a scope."""

    scope: Scope = field(kw_only=False)

    def scope_at(self, at: At) -> str:  # noqa: ARG002, D102
        return self.scope

    def there(self, at: At) -> Balance | None:
        """Return the budget of exactly this scope, if there is one."""
        return at.path[-1] if at.path and at.path[-1].scope == self.scope else None

    def budget(self, at: At) -> Balance:
        """Return the budget of exactly this scope, which there must be."""
        found = self.there(at)
        if found is None:
            raise CheckError("scope", "a budget", repr(self.scope), verb="have")
        return found

    def is_as(self, at: At, there: Balance) -> bool:
        """Whether a budget has, or was created with, the requested terms, regardless of later changes of its cap."""
        asked = balances.open_balance(self.entry(at), quota=there.quota).terms
        return asked in (there.terms, balances.open_balance(at.creation_entry(), quota=there.quota).terms)

    @classmethod
    def check_body(cls, body: Mapping[str, Any]) -> None:
        """Require the quantities of a kind, and a promise of epsilon and delta."""
        if "kind" in body:
            require_measured(body["kind"], body["caps"])
        if not body.get("caps", True):
            raise CheckError("caps", "amounts by quantity", repr(body["caps"]))
        if not body.get("requires_certificate", True):  # what it does not require is left out
            raise CheckError("requires_certificate", "true or left out", "false")
        if not body.get("requires_approvals", True):
            raise CheckError("requires_approvals", "at least 1 or left out", "0")
        if not body.get("requires_child_budget", True):
            raise CheckError("requires_child_budget", "true or left out", "false")
        _require_order(body.get("valid_from"), body.get("valid_until"))
        if "target_guarantee" in body and set(body["target_guarantee"]) != PROMISED:
            raise CheckError("target_guarantee", "epsilon and delta", repr(body["target_guarantee"]))


class CreateBudget(
    OfScope,
    name="create",
    verb="budget-created",
    role=OWN,
    variants={Verb.QUOTA_CREATED: {}},
    stored=_BUDGET_BODY,
    may_store=_PROMISE
    | {"actor": By, "requires_certificate": _RequiresCertificate, "requires_approvals": _RequiresApprovals}
    | {"requires_child_budget": _RequiresChildBudget}
    | {"valid_from": Annotated[str, _ValidFrom], "valid_until": Annotated[str, _ValidUntil]},
):
    """Create a budget, before any charge at or under its scope.

    Creating the same budget again changes nothing. The owner's command; it creates the ledger too if needed.

    Example: epsilog ledger create acme/claims --kind approximate --epsilon 3 --delta 1e-5
    """

    kind: BudgetKind
    caps: Caps
    relation: BudgetRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    privacy_unit: _PrivacyUnit = None
    simulation: _Simulations = False
    quota: Annotated[bool, Arg("it is a share of the budget above, set aside: others there cannot use it")] = False
    orders: Orders = None
    requires_certificate: _RequiresCertificate = False
    requires_approvals: _RequiresApprovals = 0
    requires_child_budget: _RequiresChildBudget = False
    valid_from: Annotated[datetime | str | None, _ValidFrom] = None
    valid_until: Annotated[datetime | str | None, _ValidUntil] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_order(self.valid_from, self.valid_until)

    def verb_at(self, at: At) -> Verb:  # noqa: ARG002, D102
        return Verb.QUOTA_CREATED if self.quota else Verb.BUDGET_CREATED

    def at_once(self) -> bool:  # noqa: D102
        return False

    def prepare(self, at: At) -> Callable[[CostModel], Any] | None:  # noqa: D102
        if at.prepared is not None:
            return None
        return lambda _: limits(self.kind, self.caps, self.relation, self.orders)

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        return {
            "kind": self.kind,
            **at.prepared,
            "relation": self.relation.value,
            "privacy_unit": self.privacy_unit,
            "simulation": self.simulation,
            **({"requires_certificate": True} if self.requires_certificate else {}),
            **({"requires_approvals": self.requires_approvals} if self.requires_approvals else {}),
            **({"requires_child_budget": True} if self.requires_child_budget else {}),
            **({} if self.valid_from is None else {"valid_from": self.valid_from}),
            **({} if self.valid_until is None else {"valid_until": self.valid_until}),
        }

    def was_done(self, at: At) -> bool:  # noqa: D102
        there = self.there(at)
        return there is not None and self.quota == (there.quota is not None) and self.is_as(at, there)


class DeclarePartition(
    OfScope,
    name="declare-partition",
    verb="partition-declared",
    role=OWN,
    spends=True,
    unproven=True,
    stored=_BUDGET_BODY | {"actor": By, "reason": Reason},
    may_store=_PROMISE,
):
    """Declare the scopes under a scope disjoint blocks.

    The budgets above are charged for one block, now and once.

    The caps are the most that one block may cost; each is then a budget directly below.

    Example: epsilog ledger declare-partition acme/claims/quarters --epsilon 1 --actor dora --reason "dates are public"
    """

    caps: Caps
    actor: By
    reason: Reason

    def at_once(self) -> bool:  # noqa: D102
        return False

    def prepare(self, at: At) -> Callable[[CostModel], Any] | None:  # noqa: D102
        nearest = self._above(at)[-1]
        terms = nearest.kind, nearest.relation
        if at.prepared is not None and at.prepared[0] == terms:
            return None
        return lambda _: (terms, limits(nearest.kind, self.caps, nearest.relation, None))

    def _above(self, at: At) -> list[Balance]:
        above = [one for one in at.path if one.scope != self.scope]
        scopes.require_budget(self.scope, above)
        return above

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        nearest = self._above(at)[-1]
        return {
            "kind": nearest.kind,
            **at.prepared[1],
            "relation": nearest.relation.value,
            "privacy_unit": nearest.privacy_unit,
            "simulation": nearest.simulation,
            "actor": self.actor,
            "reason": self.reason,
        }

    def amounts(self, at: At) -> Mapping[str, Amounts]:  # noqa: D102
        return {self._above(at)[-1].kind: Amounts.parse(at.prepared[1]["caps"])}

    def was_done(self, at: At) -> bool:  # noqa: D102
        there = self.there(at)
        return there is not None and self.is_as(at, there)

    def explain_refusal(self, refusal: BudgetExceededError, at: At, cost_model: CostModel) -> BudgetExceededError:  # noqa: ARG002, D102
        return headroom.refuse_partition(refusal, self._above(at), self.amounts(at))


class CapCommand(OfScope):
    """A command on another cap of a budget."""

    caps: Caps

    def at_once(self) -> bool:  # noqa: D102
        return False

    def prepare(self, at: At) -> Callable[[CostModel], Any] | None:  # noqa: D102
        if at.prepared is not None:  # its kind and relation are for ever
            return None
        there = self.budget(at)
        orders = headroom.list_budget_orders(there) if there.filter.one_is_enough else None
        return lambda _: limits(there.kind, self.caps, there.relation, orders)


class ApproveCap(
    CapCommand,
    name="approve-cap",
    verb="cap-approved",
    role=OWN,
    stored={"caps": _StoredCaps, "actor": By, "reason": Reason, "until": _ApprovedUntil},
    may_store=_PROMISE,
):
    """Approve another cap, where a budget requires approvals before a cap may rise.

    Once enough other owners have approved exactly this cap, an owner sets it with set-cap. Over HTTP the approval is by
    the token's holder.

    Example: epsilog ledger approve-cap acme/claims --epsilon 4 --delta 1e-5 --actor dora --reason "board, 3 May"
    """

    actor: By
    reason: Reason
    until: Annotated[
        datetime | str | None, Arg("when the approval expires", kind=MOMENT, none_means="seven days from now")
    ] = None

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        until = self.until or parse_timestamp(until=datetime.fromisoformat(at.now) + APPROVED_FOR)
        return {**at.prepared, "actor": at.caller.actor or self.actor, "reason": self.reason, "until": until}

    def was_done(self, at: At) -> bool:  # noqa: D102
        entry = self.build_entry(at, {}, self.body(at))
        given = budget_path.list_cap_approvals(self.budget(at), entry)
        return entry.body["actor"] in given and self.until in (None, given[entry.body["actor"]])


class SetCap(
    CapCommand,
    name="set-cap",
    verb="cap-changed",
    role=OWN,
    repeatable=False,
    variants={Verb.PARTITION_RAISED: {"spends": True, "unproven": True}},
    stored={"caps": _StoredCaps, "actor": By, "reason": Reason},
    may_store=_PROMISE,
):
    """Set another cap, higher or lower.

    What is spent or reserved does not change. The cap of a partition can only rise. Where a budget requires approvals,
    a cap rises only after other owners have approved it (approve-cap).

    A client sends it once: later it could undo what another has set.

    Example: epsilog ledger set-cap acme/claims --epsilon 4 --delta 1e-5 --actor dora --reason "board, 3 May"
    """

    actor: By
    reason: Reason

    def verb_at(self, at: At) -> Verb:  # noqa: D102
        return Verb.CAP_CHANGED if self.budget(at).partition is None else Verb.PARTITION_RAISED

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        by = at.caller.actor if at.caller.actor and budget_path.count_required_approvals(at.path) else self.actor
        return {**at.prepared, "actor": by, "reason": self.reason}

    def amounts(self, at: At) -> Mapping[str, Amounts]:  # noqa: D102
        budget = self.budget(at)
        if budget.partition is None:
            return {}
        return {budget.kind: compute_cap_increase(budget, Amounts.parse(at.prepared["caps"]))}

    def was_done(self, at: At) -> bool:  # noqa: D102
        budget = self.budget(at)
        promise = budget.target_guarantee and dict(budget.target_guarantee)
        return (dict(budget.caps), promise) == (at.prepared["caps"], at.prepared.get("target_guarantee"))

    def explain_refusal(self, refusal: BudgetExceededError, at: At, cost_model: CostModel) -> BudgetExceededError:  # noqa: ARG002, D102
        if self.budget(at).partition is None:
            return refusal
        return headroom.refuse_partition(refusal, at.path[:-1], self.amounts(at))


class Retire(OfScope, name="retire", verb="scope-retired", role=OWN):
    """Retire a scope: it accepts no new charge, ever.

    This includes scopes under it. Charges that have started may finish.

    Example: epsilog ledger retire acme/claims/2026-Q4 --actor dora --reason "the quarter is over"
    """

    actor: By
    reason: Reason

    def was_done(self, at: At) -> bool:  # noqa: D102
        return self.budget(at).retired is not None


def _require_order(start: Any, end: Any) -> None:
    """Require that a budget takes charges at some time."""
    if start is not None and end is not None and datetime.fromisoformat(start) >= datetime.fromisoformat(end):
        raise CheckError("valid_until", f"after valid_from ({start})", end)


def limits(
    kind: str, caps: Mapping[str, Any], relation: NeighboringRelation, orders: Sequence[str] | None
) -> dict[str, dict[str, str]]:
    """What an entry says of the caps of a budget: all of its quantities, rounded down, and what they are to keep."""
    rule = get_privacy_filter(kind)
    if kind in cap_conversion.KINDS and set(caps) == PROMISED and rule.by_order == (orders is not None):
        if orders is not None and not (rule.measures(orders) and len(set(orders)) == len(orders)):
            raise CheckError("orders", f"1 to {MAX_RENYI_ORDERS}, each once", ", ".join(orders)[:200] or "none")
        promise = Amounts.from_cap({quantity: caps[quantity] for quantity in sorted(caps)})
        return {
            "caps": dict(cap_conversion.convert_guarantee_to_caps(kind, promise, relation, orders or ())),
            "target_guarantee": dict(promise),
        }
    if orders is not None or not rule.measures(caps):
        wanted = ", ".join(rule.quantities) or f"rdp_2 for order 2 and so on, 1 to {MAX_RENYI_ORDERS} of them"
        if kind in cap_conversion.KINDS:
            wanted += " (or epsilon, delta, and orders)" if rule.by_order else " (or epsilon, delta)"
        given = ", ".join([*caps, *(() if orders is None else ("orders",))])
        raise ValueError(f"caps of a {kind} budget must be {wanted}, got {given or 'none'}")
    return {"caps": dict(Amounts.from_cap(caps))}


class MarkRestored(LedgerWideCommand, name="mark-restored", verb="ledger-restored", role=OWN, repeatable=False):
    """Record that a ledger was restored from a backup.

    It accepts no command until its owner accepts the restore.

    Example: epsilog ledger mark-restored --actor dora --reason "the disk is as it was on Monday"
    """

    actor: By
    reason: Reason


class AcceptRestored(
    LedgerWideCommand,
    name="accept-restore",
    verb="restore-accepted",
    role=OWN,
    stored={"actor": By, "reason": Reason, "restored": Annotated[int, Arg("the entry that is accepted", ge=1)]},
):
    """Accept a restored ledger, and what may be missing.

    Then charge again the missing charges that are known.

    Example: epsilog ledger accept-restore --actor dora --reason "two answers of that day, a-7 and a-8"
    """

    actor: By
    reason: Reason

    def body(self, at: At) -> dict[str, Any]:  # noqa: D102
        if at.restore_state.accepted:
            raise ConflictError("no restoration of this ledger awaits acceptance")
        return {"actor": self.actor, "reason": self.reason, "restored": at.restore_state.restored}
