"""Budgets, entries and charges of a ledger, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from epsilog.ledger import Balance, Entry, LedgerVerification, PendingApproval


def budget_to_json(budget: Balance) -> dict[str, Any]:
    """Return a budget as plain JSON values."""
    sums = ("caps", "reserved", "spent", "active", "available", "set_aside")
    amounts = {name: None if (sum_ := getattr(budget, name)) is None else dict(sum_) for name in sums}
    return {
        "scope": budget.scope,
        "kind": budget.kind,
        "relation": budget.relation.value,
        "privacy_unit": budget.privacy_unit,
        "simulation": budget.simulation,
        "requires_certificate": bool(budget.requires_certificate),
        "requires_approvals": budget.requires_approvals or 0,
        "requires_child_budget": bool(budget.requires_child_budget),
        "valid_from": budget.valid_from,
        "valid_until": budget.valid_until,
        "cap_approval": None if budget.cap_approval is None else budget.cap_approval.to_json(),
        "quota": budget.quota,
        "retired": budget.retired,
        "partition": budget.partition,
        "target_guarantee": budget.target_guarantee and dict(budget.target_guarantee),
        **amounts,
        "theorem": budget.theorem,
    }


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain JSON values."""
    return {
        "index": entry.index,
        "time": entry.time,
        "verb": entry.verb.value,
        "scope": entry.scope,
        "key": entry.key,
        "amounts": {kind: dict(amount) for kind, amount in entry.amounts.items()},
        "body": dict(entry.body),
    }


def charges_to_json(charges: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the scope and key of each charge as plain JSON values."""
    return [{"scope": scope, "key": key} for scope, key in charges]


def format_charges(charges: Iterable[tuple[str, str]]) -> str:
    """Return the key and scope of each charge in one line of text."""
    return ", ".join(f"{key} at {scope}" for scope, key in charges)


def format_amounts(amounts: Mapping[str, str]) -> str:
    """Return amounts in one line."""
    return ", ".join(f"{quantity} {amount}" for quantity, amount in amounts.items())


def format_sums(budget: Balance) -> list[str]:
    """Return caps, spent, reserved and available amounts, each in one line."""
    return [format_amounts(sums) for sums in (budget.caps, budget.spent, budget.reserved, budget.available)]


def format_scope(budget: Balance) -> str:
    """Return the scope of a budget, with what sets it apart from an ordinary one."""
    flags = {
        "simulation": budget.simulation,
        f"quota of {budget.quota}": budget.quota,
        "retired": budget.retired,
        "requires certificates": budget.requires_certificate,
        f"approvals required: {budget.requires_approvals}": budget.requires_approvals,
        "takes charges only under a budget below it": budget.requires_child_budget,
        f"from {(budget.valid_from or '')[:16]}": budget.valid_from,
        f"until {(budget.valid_until or '')[:16]}": budget.valid_until,
        "partition: cap of each block, charged above": budget.partition,
    }
    marks = [name for name, holds in flags.items() if holds]
    return budget.scope + (f" ({', '.join(marks)})" if marks else "")


def list_cells(entry: Entry, *, several: bool) -> list[str]:
    """Return an entry in columns; a key belongs to its scope, which is shown where there are ``several``."""
    charge = entry.scope if entry.key is None else f"{entry.key} at {entry.scope}" if several else entry.key
    return [str(entry.index), entry.time[:19], entry.verb.value, charge, _format_body(entry.body)]


def format_entry(entry: Entry) -> str:
    """Return an entry in one line, in fixed columns."""
    index, at, verb, charge, detail = list_cells(entry, several=True)
    costs = "; ".join(format_amounts(amount) for amount in entry.amounts.values())
    return f"{index:>7}  {at}  {verb:<16}  " + "  ".join(filter(None, (charge, costs, detail)))


def list_pending_cells(pending: PendingApproval) -> list[str]:
    """Return what waits for approval in columns; a cost that an owner allowed is marked."""
    from epsilog.mechanisms import describe_release

    release = "" if pending.request is None else str(describe_release(pending.request.release))
    amounts = ", ".join(map(format_amounts, pending.amounts.values()))
    owner = pending.overrider or "an owner"
    approved = f"{len(pending.approved)} of {pending.required}"
    return [
        pending.scope,
        pending.key or "(cap)",
        release,
        f"{amounts}, allowed by {owner} without proof" if pending.overridden else amounts,
        f"{approved} ({', '.join(pending.approved)})" if pending.approved else approved,
        pending.actor or "",
        pending.until or "",
    ]


def _format_body(body: Mapping[str, Any]) -> str:
    if "output_hash" in body:
        return f"round {body['round']} -> {body['output_hash'][:12]}..."
    if "round" in body:
        return f"round {body['round']}"
    caps = format_amounts(body["caps"]) if "caps" in body else ""
    caps += f" (for {format_amounts(body['target_guarantee'])})" if "target_guarantee" in body else ""
    plan = f"plan {body['plan_hash'][:12]}..." if "plan_hash" in body else ""
    reason = legible(": ".join(filter(None, (body.get("actor"), body.get("reason")))))
    return "; ".join(filter(None, (caps, plan, body.get("until"), reason)))


def list_unchecked(found: LedgerVerification) -> list[str]:
    """Return what was not recomputed, in sentences."""
    notes = []
    if found.since:
        notes.append(
            f"It begins with the {found.since} entries of the checkpoint. Their costs were not recomputed: they are "
            "attested by its signer. Every hash, rule and balance was recomputed."
        )
    if not found.charges_compared:
        notes.append("The server does not show its stored charges, so they were not compared with the entries.")
    if found.unchecked:
        notes.append(
            f"The costs of {found.unchecked} of {found.rechecked + found.unchecked} charges were not recomputed."
        )
    return notes


def list_attested(found: LedgerVerification) -> list[str]:
    """Return what only the owner attests, in sentences."""
    notes = []
    if found.overridden:
        notes.append(f"Costs attested by the owner, without proof: {format_charges(found.overridden)}")
    if found.partitions:
        notes.append(f"Disjoint blocks attested by the owner, charged once: {', '.join(found.partitions)}")
    if found.restored:
        notes.append(f"Restored from a backup, and later entries are missing: entries {[*found.restored]}")
    return notes
