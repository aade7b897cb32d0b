"""What still fits: the headroom on a path of budgets, and a refusal that says what would pass instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance, allows_charge, compute_available, list_cost_quantities, require_terms
from epsilog.ledger.cost import Cost, ProvenClaim, check_charge_certificate, compute_cost
from epsilog.ledger.fields import ChargeRequest
from epsilog.ledger.filters import get_privacy_filter
from epsilog.ledger.partitions import count_budgets_covered_by_partition
from epsilog.mechanisms import Repeated
from epsilog.terms import BudgetExceededError, EpsilogError, check


@dataclass(frozen=True, slots=True)
class Headroom:
    """The available amount of a scope.

    Attributes:
        available: the least that any budget on the path still has, by quantity.
        charges: how many more of the given charge fit, each as a separate entry; None without a charge or if it costs
            nothing.
        repetitions: of a repeated release, how many repetitions fit as one plan; None if it is not a repeated one.
    """

    available: Amounts
    charges: int | None = None
    repetitions: int | None = None


def list_available(path: Sequence[Balance]) -> list[tuple[Balance, Amounts]]:
    """Each budget that a charge at the end of a path counts in, with what it may cost there; and any that is retired.

    Budgets above the charge's partition are not compared again. A path that ends at a partition leads into no block, so
    nothing fits. Nothing fits either if a sum exceeds a cap that was lowered.
    """
    zeros = [Amounts.zero(one.caps) for one, _ in _counting(path)]
    return [
        (one, compute_available(one, below) if allows_charge(one, zero, below) else zero)
        for (one, below), zero in zip(_counting(path), zeros, strict=True)
    ]


def _counting(path: Sequence[Balance]) -> list[tuple[Balance, Sequence[Balance]]]:
    """Return the budgets of ``list_available``, each with those under it on the path."""
    beyond = min(count_budgets_covered_by_partition(path), len(path) - 1)
    return [
        (balance, path[depth + 1 :])
        for depth, balance in enumerate(path)
        if depth >= beyond or balance.retired is not None
    ]


def compute_min_available(path: Sequence[Balance]) -> Amounts:
    """Return the headroom on a path of budgets: for each quantity the least that any of them still has."""
    return _least(list_available(path))


def _least(found: Sequence[tuple[Balance, Amounts]]) -> Amounts:
    left: dict[str, int] = {}
    for _, available in found:
        for quantity, units in available.units.items():
            left[quantity] = min(units, left.get(quantity, units))
    return Amounts(left)


def compute_headroom(request: ChargeRequest, path: Sequence[Balance]) -> Headroom:
    """Return the headroom on a path, counted in charges like ``request`` and in repetitions of what it repeats.

    The cost grows with the count, so bisection finds the largest count that fits; every returned count was computed. At
    least one charge fits, or any number, if and only if the ledger would accept one now.
    """
    nearest = path[-1]
    request = replace(request.under(nearest.relation, nearest.privacy_unit), simulation=nearest.simulation)
    for balance, _ in () if any(one.retired is not None for one in path) else _counting(path):
        require_terms(
            balance, relation=request.relation, privacy_unit=request.privacy_unit, simulation=request.simulation
        )
    count = None
    if request.release.repeats and request.amount is None:
        count = max_repetitions(request, path)
    return Headroom(compute_min_available(path), _charges(request, path), count)


def _charges(request: ChargeRequest, path: Sequence[Balance]) -> int | None:
    """Return how many times the request's cost fits the available amount."""
    counts = []
    for balance, below in _counting(path):
        cost = compute_cost(request, balance.kind, orders=list_budget_orders(balance))
        if not cost.is_finite or not allows_charge(balance, cost.amounts, below):
            return 0
        counts.append(_times(balance, compute_available(balance, below), cost.amounts))
    return min((count for count in counts if count is not None), default=None)


def _times(balance: Balance, available: Amounts, cost: Amounts) -> int | None:
    """Return how many times a cost fits what is available in a budget; None for any number."""
    if not balance.filter.one_is_enough:
        return min((available.units[name] // units for name, units in cost.units.items() if units), default=None)
    open_ = [name for name, cap in balance.caps.units.items() if balance.total_reserved.units[name] <= cap]
    if any(not cost.units[name] for name in open_):
        return None
    return max((available.units[name] // cost.units[name] for name in open_), default=0)


def list_path_orders(path: Sequence[Balance]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of budgets on a path, each with the orders at which a cost is computed; see ``compute_cost``."""
    return list_orders(sorted(list_cost_quantities(path).items()))


def list_orders(due: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return kinds of budgets, each with the orders at which a cost is computed, from the quantities due in each."""
    return {kind: quantities if get_privacy_filter(kind).by_order else () for kind, quantities in due}


def list_budget_orders(balance: Balance) -> tuple[str, ...]:
    """Return the quantities that a budget declares; none if its kind names them."""
    return tuple(balance.caps) if balance.filter.by_order else ()


def _fit(request: ChargeRequest, path: Sequence[Balance]) -> bool:
    charges = _charges(request, path)
    return charges is None or charges >= 1


def max_repetitions(request: ChargeRequest, path: Sequence[Balance]) -> int:
    """Return how many repetitions of what a request repeats fit as one plan."""
    from epsilog.numerics.roots import find_last_integer  # half of what a command on a ledger would take to start

    repeated = check.instance_of(Repeated)(release=request.release)

    def fit(count: int) -> bool:
        return _fit(replace(request, release=replace(repeated, count=count)), path)

    return find_last_integer(fit, start=repeated.count, limit=_MOST)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The computation of costs and the check of certificates, which may take long: here, or in a server's workers.

    Attributes:
        compute_cost: see ``cost.compute_cost``.
        repetitions: see ``max_repetitions``.
        check_certificate: see ``certificates.check_charge_certificate``.
    """

    compute_cost: Callable[[ChargeRequest, str, Sequence[str], bool], Cost] = compute_cost
    repetitions: Callable[[ChargeRequest, Sequence[Balance]], int] = max_repetitions
    check_certificate: Callable[[ChargeRequest, str], ProvenClaim] = check_charge_certificate


HERE = CostModel()
_MOST = 2**40  # repetitions; above every practical number


def refuse_above_capacity(costs: Mapping[str, Cost], path: Sequence[Balance]) -> None:
    """Refuse a cost above the capacity of a budget, including infinity."""
    if all(cost.is_finite for cost in costs.values()):
        return
    for balance, available in list_available(path):
        cost = costs[balance.kind].part(balance.caps)
        if not cost.is_finite:
            requested = {quantity: str(value) for quantity, value in cost.values.items()}
            short = {quantity: requested[quantity] for quantity in requested if not cost.part([quantity]).is_finite}
            raise BudgetExceededError(
                scope=balance.scope,
                requested=requested,
                available=dict(available),
                caps=dict(balance.caps),
                spent=dict(balance.spent),
                reserved=dict(balance.reserved),
                shortfall=short,
            )


def add_remedy(
    refusal: BudgetExceededError,
    request: ChargeRequest,
    path: Sequence[Balance],
    costs: Mapping[str, Cost],
    repetitions: Callable[[ChargeRequest, Sequence[Balance]], int] = max_repetitions,
) -> BudgetExceededError:
    """Return the refusal with what would fit instead, and the budgets that would have to be larger."""
    if refusal.reason:
        return refusal
    hint = f"at most {format_headroom(path)} fits"
    if request.release.repeats and request.amount is None:
        try:
            count = repetitions(request, path)
        except (EpsilogError, ValueError):  # no cost for fewer
            count = 0
        if count:
            hint += f", or {count} of the {request.release.repeats} repetitions as one plan"
    if (beyond := count_budgets_covered_by_partition(path)) and refusal.scope == path[beyond].scope:
        hint += f" (a block of {path[beyond - 1].scope!r}: the budgets above count the partition, not this charge)"
    if not all(cost.is_finite for cost in costs.values()):
        return refusal.with_remedy(hint=f"{hint}; no cap is high enough", owners=())
    asked = {kind: costs[kind].amounts for kind in {one.kind for one, _ in list_available(path)}}
    return refusal.with_remedy(hint=hint, owners=_tight(path, asked))


def refuse_partition(
    refusal: BudgetExceededError, path: Sequence[Balance], amounts: Mapping[str, Amounts]
) -> BudgetExceededError:
    """Return the refusal of a partition beyond the budgets above, with what they could cover and who can allow more."""
    return refusal.with_remedy(hint=f"at most {format_headroom(path)} can be covered", owners=_tight(path, amounts))


def _tight(path: Sequence[Balance], asked: Mapping[str, Amounts]) -> tuple[str, ...]:
    """Return the scopes of all owners who would have to act, from the top.

    If a block needs a higher cap, its partition is raised, and the budgets above count the difference.
    """
    found = [one for one, below in _counting(path) if not allows_charge(one, one.cost(asked), below)]
    beyond = count_budgets_covered_by_partition(path)
    if beyond and path[beyond] in found:
        partition, block = path[beyond - 1], path[beyond]
        more = (block.total_reserved + block.cost(asked)).compute_remaining(partition.caps)
        if any(more.units.values()):
            return (*_tight(path[: beyond - 1], {block.kind: more}), partition.scope, *(one.scope for one in found))
    return tuple(one.scope for one in found)


def format_headroom(path: Sequence[Balance]) -> str:
    """What fits, in words: the least of all budgets, and of one where an order is enough, what it has at each."""
    strict = [(one, left) for one, left in list_available(path) if not one.filter.one_is_enough]
    parts = [f"{quantity} {amount}" for quantity, amount in _least(strict).items()]
    parts += [
        " or ".join(
            f"{quantity} {amount}"
            for quantity, amount in left.items()
            if left.units[quantity] or not any(left.units.values())
        )
        for one, left in list_available(path)
        if one.filter.one_is_enough
    ]
    return ", ".join(parts)
