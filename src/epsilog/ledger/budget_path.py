"""Budgets on a path as folds over entries: what each entry does to their balances, or why it is refused.

Above the last partition of a path no budget is touched: see ``partitions``.

``Ledger`` folds one entry onto the stored state before it writes; ``replay`` folds all of them from nothing and
compares. Both call ``apply_along_path``, a pure function that reads the table in ``transitions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import is_

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import (
    Balance,
    CapApproval,
    allows_charge,
    build_refusal,
    compute_committed,
    get_target_guarantee,
    list_remaining_quotas,
    open_balance,
    require_terms,
)
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.partitions import (
    check_block,
    check_partition,
    compute_cap_increase,
    count_budgets_covered_by_partition,
    require_block,
    require_child_budget,
)
from epsilog.ledger.state_json import replace_fields
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.terms import CheckError, ConflictError

CREATION_VERBS = (Verb.BUDGET_CREATED, Verb.QUOTA_CREATED, Verb.PARTITION_DECLARED)


def apply_along_path(path: Sequence[Balance], entry: Entry) -> list[Balance]:
    """Return what an entry does to the budgets at and above its scope, from the top; with the one that it makes."""
    _refuse_retired(path, entry)
    if entry.verb in (Verb.CAP_APPROVED, Verb.CAP_CHANGED, Verb.PARTITION_RAISED):
        _check_cap_approvals(path, entry)
    if entry.key is not None:
        require_block(path, entry.scope)
    if TRANSITIONS[entry.verb].reserves:
        require_child_budget(path, entry.scope)
        require_valid_time(path, entry.time)
        require_certificate(path, given="certificate" in entry.body)
    creates = entry.verb in CREATION_VERBS
    made = [_create_balance(path, entry)] if creates else []
    beyond = count_budgets_covered_by_partition(
        path if creates or entry.key is not None else path[:-1]
    )  # else it is about the last of them
    after = [
        balance if depth < beyond else apply_to_balance(balance, entry, below=path[depth + 1 :])
        for depth, balance in enumerate(path)
    ]
    if entry.key is not None and all(map(is_, path, after)):
        return after  # it moves nothing, and so no share
    after += made
    if entry.key is None and len(after) > 1 and after[-2].partition is not None:
        check_block(after[-2], after[-1])
    return set_aside_for_quotas(path, after)


def list_owned_scopes(path: Sequence[Balance], entry: Entry) -> tuple[str, ...]:
    """Return the scopes of all owners that an act needs, from the top: its own, and every other budget that counts it.

    An unproven cost and the amount of a partition count in budgets further up, so their owners must act. An approval
    is given by an owner of each budget that requires some. The size of a
    share is decided by the owner of the budget that it belongs to. Cancelling or closing a charge sets no cost.
    """
    rule = TRANSITIONS[entry.verb]
    if not rule.owned:
        return ()
    above = [one for one in path if one.scope != entry.scope]
    counting: Sequence[Balance] = ()
    if entry.verb in (Verb.APPROVED, Verb.CAP_APPROVED):
        counting = [one for one in above if one.requires_approvals]
    elif rule.unproven:
        counting = (
            path[count_budgets_covered_by_partition(path) :]
            if entry.key is not None
            else above[count_budgets_covered_by_partition(above) :]
        )
    elif entry.key is None and (entry.verb is Verb.QUOTA_CREATED or any(one.quota for one in path[len(above) :])):
        counting = above[-1:]
    return (*(one.scope for one in counting if one.scope != entry.scope), entry.scope)


def apply_to_balance(balance: Balance, entry: Entry, *, below: Sequence[Balance] = ()) -> Balance:
    """What an entry at or under ``balance.scope`` does to its sums; ``below`` are the budgets further on the path."""
    rule = TRANSITIONS[entry.verb]
    if entry.key is None and entry.scope == balance.scope:
        return _apply_owner_act(balance, entry)
    if not rule.changes_balance:
        return balance
    amount = balance.cost(entry.amounts)
    if rule.debit is None and rule.credit is not None:
        _admit(balance, entry, amount, below)
    moved = {} if rule.debit is None else {rule.debit: getattr(balance, rule.debit) - amount}
    for name in filter(None, (rule.credit, rule.memo)):
        before = getattr(balance, name)
        moved[name] = amount if before is None else before + amount
    return replace_fields(balance, **moved)


def _apply_owner_act(balance: Balance, entry: Entry) -> Balance:
    """Return what an owner's act on a budget does to it; nothing that was spent or promised comes back."""
    if entry.verb is Verb.CAP_APPROVED:
        _with_caps(balance, entry)
        return replace_fields(balance, cap_approval=_add_approval(balance, entry))
    if entry.verb in (Verb.CAP_CHANGED, Verb.PARTITION_RAISED):
        caps = Amounts.parse(entry.body["caps"])
        if (balance.partition is not None) != (entry.verb is Verb.PARTITION_RAISED):
            what = (
                "no partition"
                if balance.partition is None
                else "a partition, with a cap that rises with its counted amount"
            )
            raise ConflictError(f"scope {balance.scope!r} is {what}, got {entry.verb}")
        if balance.partition is not None:
            _require_cover(entry, balance.kind, compute_cap_increase(balance, caps))
        return replace_fields(_with_caps(balance, entry), cap_approval=None)
    return replace_fields(balance, retired=entry.index) if entry.verb is Verb.SCOPE_RETIRED else balance


def _with_caps(balance: Balance, entry: Entry) -> Balance:
    """Return the budget with the caps that an entry states, which are of the same quantities."""
    caps = Amounts.parse(entry.body["caps"])
    if set(caps) != set(balance.caps):
        raise ConflictError(f"caps of the budget of {balance.scope!r} are {list(balance.caps)}, got {list(caps)}")
    changed = replace_fields(balance, caps=caps, target_guarantee=get_target_guarantee(entry, balance.kind))
    if changed.filter != balance.filter:
        stated = "epsilon and delta" if balance.target_guarantee else "its orders"
        raise ConflictError(f"cap of the budget of {balance.scope!r} must be stated by {stated}, as at its creation")
    return changed


def _get_limit(entry: Entry) -> Amounts:
    """Return the caps that an entry states, or the guarantee from which they were computed."""
    return Amounts.parse(entry.body.get("target_guarantee", entry.body["caps"]))


def list_cap_approvals(balance: Balance, entry: Entry) -> dict[str, str]:
    """Return who approved the cap of an entry, and until when: the approvals that have not expired by its time."""
    found = balance.cap_approval
    if found is None or found.limit != _get_limit(entry):
        return {}
    return list_valid_approvals(found, datetime.fromisoformat(entry.time))


def list_valid_approvals(approval: CapApproval, now: datetime) -> dict[str, str]:
    """Return who approved a cap, and until when: the approvals that have not expired."""
    return {owner: until for owner, until in approval.until.items() if datetime.fromisoformat(until) > now}


def _add_approval(balance: Balance, entry: Entry) -> CapApproval:
    """Return the approvals of a cap with one more; those of another cap no longer count."""
    before = list_cap_approvals(balance, entry)
    return CapApproval(_get_limit(entry), before | {entry.body["actor"]: entry.body["until"]})


def _check_cap_approvals(path: Sequence[Balance], entry: Entry) -> None:
    """Refuse to raise a cap before enough other owners have approved it, where a budget requires approvals."""
    required = count_required_approvals(path)
    if entry.verb is Verb.CAP_APPROVED:
        if not required:
            raise ConflictError(f"no budget at or above {entry.scope!r} requires approvals")
        return
    budget, caps = path[-1], Amounts.parse(entry.body["caps"])
    if not required or all(
        caps.units[name] <= budget.caps.units[name] for name in caps.units.keys() & set(budget.caps)
    ):
        return
    given = [owner for owner in list_cap_approvals(budget, entry) if owner != entry.body["actor"]]
    if len(given) < required:
        by = f" ({', '.join(given)})" if given else ""
        raise ConflictError(
            f"the cap {dict(_get_limit(entry))} of {entry.scope!r} has {len(given)} of {required} approvals{by} by "
            "other owners than who sets it: let owners approve this cap first (approve-cap)"
        )


def _create_balance(path: Sequence[Balance], entry: Entry) -> Balance:
    """A new budget; as a quota, a share of the nearest one above it, in the same quantities."""
    if entry.verb is Verb.BUDGET_CREATED:
        return open_balance(entry)
    if entry.verb is Verb.PARTITION_DECLARED:
        made = open_balance(entry)
        check_partition(path[count_budgets_covered_by_partition(path) :], made)
        _require_cover(entry, made.kind, made.caps)
        return made
    if not path:
        raise ConflictError(f"quota of {entry.scope!r} requires a budget above it")
    made = open_balance(entry, quota=path[-1].scope)
    for name in ("kind", "relation", "privacy_unit", "simulation"):
        if getattr(made, name) != getattr(path[-1], name):
            raise ConflictError(
                f"{name} of a quota must be that of the budget of {made.quota!r} ({getattr(path[-1], name)}), "
                f"got {getattr(made, name)}"
            )
    if set(made.caps) != set(path[-1].caps):
        raise ConflictError(f"orders of a quota must be {list(path[-1].caps)}, got {list(made.caps)}")
    if made.filter.one_is_enough or path[-1].filter.one_is_enough:
        raise ConflictError("a budget with a target guarantee over several orders allows no quota")
    return made


def _require_cover(entry: Entry, kind: str, due: Amounts) -> None:
    """Require that the budgets above count what a partition allows its blocks."""
    if entry.amounts != {kind: due}:
        amounts = {name: dict(amount) for name, amount in entry.amounts.items()}
        raise ConflictError(f"partition of {entry.scope!r} must state the amounts {dict(due)} ({kind}), got {amounts}")


def set_aside_for_quotas(before: Sequence[Balance], after: list[Balance]) -> list[Balance]:
    """Return the budgets of a path after an entry, with what each sets aside for the quotas on the path."""
    if not any(balance.quota for balance in after):
        return after
    return [_with_shares(before, after, depth) for depth in range(len(after))]


def _with_shares(before: Sequence[Balance], after: Sequence[Balance], depth: int) -> Balance:
    """A budget after an entry, with what it sets aside: less by what was left of shares on the path, more by what is.

    Only a share that grows without a charge can exceed what is available: when it is created, or its cap raised.
    """
    balance = after[depth]
    if all(below.quota != balance.scope for below in after[depth + 1 :]):
        return balance
    was, now = list_remaining_quotas(balance, before[depth + 1 :]), list_remaining_quotas(balance, after[depth + 1 :])
    rest = (balance.set_aside or Amounts.zero(balance.caps)) - was
    if was.units != now.units and balance.total_reserved.units == before[depth].total_reserved.units:
        grown = now.compute_remaining(was)
        committed = balance.total_reserved + rest + was
        if any(grown.units.values()) and not balance.filter.fits(balance.caps, held=committed, asked=grown):
            raise build_refusal(balance, grown, committed)
    return replace_fields(balance, set_aside=rest + now)


def require_certificate(path: Sequence[Balance], *, given: bool) -> None:
    """Refuse a charge without a certificate at or under a scope that requires one, in a block of a partition too."""
    scope = next((one.scope for one in path if one.requires_certificate), None)
    if scope is not None and not given:
        raise CheckError("certificate", f"given: the budget of {scope!r} requires one", "nothing")


def require_valid_time(path: Sequence[Balance], time: str) -> None:
    """Refuse a charge at a time at which a budget above it takes none, in a block of a partition too."""
    for one in path:
        if one.is_limited_in_time and not one.is_valid_at(time):
            start = "" if one.valid_from is None else f" from {_format_moment(one.valid_from)}"
            end = "" if one.valid_until is None else f" until {_format_moment(one.valid_until)}"
            now = _format_moment(time)
            raise ConflictError(f"the budget of {one.scope!r} takes charges{start}{end}, and the time is {now}")


def _format_moment(time: str) -> str:
    return datetime.fromisoformat(time).isoformat()


def count_required_approvals(path: Sequence[Balance]) -> int:
    """Return how many owners must approve a charge, in a block of a partition too: the most that a budget requires."""
    return max((one.requires_approvals or 0 for one in path), default=0)


def require_approvals(path: Sequence[Balance], key: str, given: Sequence[str]) -> None:
    """Refuse to let a charge start, or be made in one step, before enough owners have approved it."""
    required = count_required_approvals(path)
    if len(given) < required:
        scope = next(one.scope for one in path if one.requires_approvals == required)
        by = f" ({', '.join(given)})" if given else ""
        raise ConflictError(
            f"charge {key!r} has {len(given)} of {required} approvals{by} that the budget of {scope!r} "
            "requires: reserve it, let owners approve it, then start it"
        )


def _refuse_retired(path: Sequence[Balance], entry: Entry) -> None:
    """Nothing begins at or under a scope that is retired."""
    if TRANSITIONS[entry.verb].retired:
        return
    for balance in path:
        if balance.retired is None:
            continue
        if entry.key is None:
            raise ConflictError(f"scope {balance.scope!r} is retired (entry {balance.retired})")
        zero = Amounts.zero(balance.caps)
        asked = balance.cost(entry.amounts) if entry.amounts else zero
        raise build_refusal(balance, asked, balance.total_reserved, reason=f"scope retired (entry {balance.retired})")


def _admit(balance: Balance, entry: Entry, amount: Amounts, below: Sequence[Balance]) -> None:
    request = entry.body.get("request")  # a partition was compared when it was declared
    if request is not None:
        require_terms(balance, **{name: request[name] for name in ("relation", "privacy_unit", "simulation")})
    if not allows_charge(balance, amount, below):
        raise build_refusal(balance, amount, compute_committed(balance, below))
