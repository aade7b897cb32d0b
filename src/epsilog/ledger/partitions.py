"""Partitions: disjoint blocks below a scope; the budgets above count one of them, whichever holds a unit.

The payment is made when a partition is declared, and is the most that any block may cost. From then on a charge in a
block goes up to the block's own budget and stops there. So every balance stays a sum, a charge reads its path alone,
and no block knows of another. Why that bounds the budgets above, and by which hypotheses of the owner, is in
docs/ledger.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet

from epsilog.ledger import scopes
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance, build_refusal
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.scopes import get_parent, list_ancestors
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.terms import CheckError, ConflictError, NeighboringRelation

_TERMS = ("kind", "relation", "privacy_unit", "simulation")


def count_budgets_covered_by_partition(path: Sequence[Balance]) -> int:
    """Return how many budgets of a path do not count a charge at its end, because they count its partition."""
    for depth in range(len(path), 0, -1):
        if path[depth - 1].partition is not None:
            return depth
    return 0


def require_block(path: Sequence[Balance], scope: str) -> None:
    """Require that a charge below a partition is in a block with a budget; otherwise no budget would count it."""
    if not path or path[-1].partition is None:
        return
    top = path[-1].scope
    if scope == top:
        raise ConflictError(
            f"scope {top!r} is a partition and takes no charge itself: charge one of its blocks, or, for a release of "
            f"several blocks, {get_parent(top)!r} above it"
        )
    block = next(one for one in list_ancestors(scope) if get_parent(one) == top)
    raise ConflictError(
        f"block {block!r} of the partition {top!r} has no budget: its owner must create one before a charge"
    )


def require_path(path: Sequence[Balance], scope: str) -> Sequence[Balance]:
    """Return the budgets at and above the scope of a charge, at least one, of which the nearest takes charges."""
    scopes.require_budget(scope, path)
    require_block(path, scope)
    require_child_budget(path, scope)
    return path


def require_child_budget(path: Sequence[Balance], scope: str) -> None:
    """Refuse a charge where the nearest budget takes charges only under a budget below it."""
    if path and path[-1].requires_child_budget:
        top = path[-1].scope
        raise ConflictError(
            f"the budget of {top!r} takes charges only under a budget below it, and {scope!r} has none: its owner must "
            "create one before a charge"
        )


def check_partition(parents: Sequence[Balance], made: Balance) -> None:
    """Require a partition that the budgets above can count in their own terms, and that can have disjoint blocks."""
    if made.relation is NeighboringRelation.REPLACE_ONE:
        allowed = "add-or-remove-one or zero-out (a unit that is replaced can leave one block and join another)"
        raise CheckError("relation", allowed, made.relation.value)
    if made.privacy_unit is None:
        raise CheckError("privacy_unit", "stated by the budget above a partition: each unit is in one block", "None")
    if not parents:
        raise ConflictError(f"partition of {made.scope!r} requires a budget above it that counts it")
    for parent in parents:
        _require_same(parent, made, "a partition")
        if not set(parent.caps) <= set(made.caps):
            raise ConflictError(f"orders of a partition must name {list(parent.caps)}, got {list(made.caps)}")
    _require_every(made, "a partition")


def check_block(partition: Balance, block: Balance) -> None:
    """Require of a budget below a partition that it is a block's, in the partition's terms and within its cap."""
    if get_parent(block.scope) != partition.scope or block.partition is not None:
        raise ConflictError(
            f"under the partition {partition.scope!r} each block has its budget directly below it, and further "
            f"budgets come under that, got {block.scope!r}"
        )
    if block.quota is not None:
        raise ConflictError(f"block {block.scope!r} cannot be a quota: blocks are disjoint")
    _require_same(partition, block, "a block")
    if set(block.caps) != set(partition.caps):
        raise ConflictError(f"orders of a block must be {list(partition.caps)}, got {list(block.caps)}")
    _require_every(block, "a block")
    if not partition.filter.fits(partition.caps, held=Amounts.zero(block.caps), asked=block.caps):
        hint = "the budgets above count that much for any one block, and no more"
        found = build_refusal(partition, block.caps, Amounts.zero(partition.caps))
        raise found.with_remedy(hint=hint, owners=(partition.scope,))


def _require_same(above: Balance, below: Balance, what: str) -> None:
    for name in _TERMS:
        if getattr(below, name) != getattr(above, name):
            raise ConflictError(
                f"{name} of {what} must be that of the budget of {above.scope!r} ({getattr(above, name)}), "
                f"got {getattr(below, name)}"
            )


def _require_every(made: Balance, what: str) -> None:
    if made.filter.one_is_enough:
        raise ConflictError(
            f"{what} states a cap at each order: if any one order is enough, other orders exceed their counted amounts"
        )


def compute_cap_increase(partition: Balance, caps: Amounts) -> Amounts:
    """Return what the budgets above must count in addition, if blocks may cost more than before."""
    if set(caps) != set(partition.caps):
        raise ConflictError(f"caps of the partition {partition.scope!r} are {list(partition.caps)}, got {list(caps)}")
    if any(units < partition.caps.units[quantity] for quantity, units in caps.units.items()):
        raise ConflictError(
            f"cap of the partition {partition.scope!r} ({dict(partition.caps)}) counts above and cannot be lowered: "
            f"some block may have spent it; lower the caps of its blocks, got {dict(caps)}"
        )
    return caps - partition.caps


def counts_towards_parent(entry: Entry, scope: str, partitions: AbstractSet[str]) -> bool:
    """Return whether a budget above includes the cost of an entry, without a partition between them."""
    between = {one for one in list_ancestors(entry.scope) if len(one) >= len(scope)}
    if entry.key is None:  # the partition's own payment, which those above it make
        between.discard(entry.scope)
    return bool(between) and between.isdisjoint(partitions)


def held_under(entries: Iterable[Entry], scope: str) -> Amounts:
    """Return epsilon and delta counted against a cap of a scope: spent, or reserved and not cancelled.

    The scope needs no budget itself. A budget of (epsilon, delta) must exist at or above it.
    """
    held, partitions = Amounts.zero(("epsilon", "delta")), set()
    for entry in entries:
        if not f"{entry.scope}/".startswith(f"{scope}/"):
            continue
        if entry.verb is Verb.PARTITION_DECLARED:
            partitions.add(entry.scope)
        rule = TRANSITIONS[entry.verb]
        if (rule.credit is None) == (rule.debit is None) or not counts_towards_parent(entry, scope, partitions):
            continue
        amounts = entry.amounts["approximate"]
        held = held + amounts if rule.debit is None else held - amounts
    return held
