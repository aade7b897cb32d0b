"""What a release costs under each kind of budget: a certified upper bound, or an amount that is at least that.

Costs come from ``accounting``; the bound of the whole schedule is one charge. A release that is known only by a
statement (pure, approximate, zCDP, GDP) is charged the stated values. An amount stated by the caller is charged if the
accountant proves that the release costs no more; an owner may allow less, with a reason.

A budget may require a certificate, which the checker proves before any transaction; its entry keeps the SHA-256 of the
text alone. A verification computes lower bounds of all costs again.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from epsilog.ledger.amounts import Amounts, Number, get_decimals, get_renyi_order, round_charge_up
from epsilog.ledger.cap_conversion import round_down_to_float, round_up_to_float
from epsilog.ledger.entries import Entry
from epsilog.ledger.fields import ChargeRequest
from epsilog.ledger.filters import get_privacy_filter
from epsilog.terms import (
    OUTCOME_SHARE,
    CheckError,
    LedgerIntegrityError,
    NeighboringRelation,
    UnsupportedMechanismError,
)
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_STATED = Message("method/stated-cost@1")
_LARGEST = 1e9  # dearer than any cap can be


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request costs under one kind of budget.

    Attributes:
        values: the cost by quantity, before rounding up; ``inf`` without a guarantee.
        method: how it was found.
    """

    values: Mapping[str, Number]
    method: Message

    @property
    def is_finite(self) -> bool:
        """Return whether any budget could cover it."""
        return all(float(value) <= _LARGEST for value in self.values.values())

    def part(self, quantities: Iterable[str]) -> Cost:
        """Return the same, of some quantities only."""
        return replace(self, values={quantity: self.values[quantity] for quantity in quantities})

    @property
    def amounts(self) -> Amounts:
        """Return what is charged: rounded up."""
        return Amounts.from_charge(self.values)


def compute_cost(request: ChargeRequest, kind: str, orders: Sequence[str] = (), overridden: bool = False) -> Cost:
    """Compute the cost of a request under a kind of budget.

    Args:
        request: what is asked.
        kind: of the budget.
        orders: the quantities of an rdp budget; other kinds declare none.
        overridden: whether an owner has allowed the stated amount, so that nothing needs to prove it.

    Raises:
        UnsupportedMechanismError: no proven cost for this release under this kind.
        ValueError: ``delta`` or a part of ``amount`` is missing, or ``amount`` is below what the accountant proves.
    """
    if bool(orders) != get_privacy_filter(kind).by_order:
        raise CheckError("orders", "named for an rdp budget, and for no other", f"{list(orders)} for {kind}", verb="be")
    stated = None if request.amount is None else _stated_amount(request.amount, kind, orders)
    if stated is not None and overridden:
        return replace(stated, method=Message("method/cost-override@1"))
    try:
        if stated is None:
            return _proven(request, kind, orders)
        _refuse_unproven(request, kind, stated, orders)
    except UnsupportedMechanismError as error:
        reason = f"{error.reason}; " if error.reason else ""
        reason += "an owner can allow an amount, with a reason (override_cost)"
        raise UnsupportedMechanismError(error.term, method=error.method, reason=reason) from None
    return stated


def compute_stated_cost(
    request: ChargeRequest, kind: str, *, orders: Sequence[str] = (), overridden: bool = False
) -> Cost | None:
    """Return a cost that needs no computation: an owner's override, or the release's own statement."""
    if request.amount is not None:
        return compute_cost(request, kind, orders=orders, overridden=True) if overridden else None
    return _by_statement(request, kind, orders)


def has_stated_cost(request: ChargeRequest) -> bool:
    """Return whether the cost of a request is likely immediate, under budgets of its release's kind."""
    return request.amount is None and bool(request.release.statement)


def _by_statement(request: ChargeRequest, kind: str, orders: Sequence[str]) -> Cost | None:
    """Return what a release states of itself, where a budget of this kind is charged just that."""
    stated = {quantity: repr(number) for quantity, number in request.release.statement.items()}
    match kind, stated:
        case "pure", {"epsilon": _} if "delta" not in stated:
            return Cost(stated, _STATED)
        case "approximate", {"epsilon": _} if request.delta is None:
            return Cost(stated | {"delta": stated.get("delta", "0")}, _STATED)
        case "zcdp", {"rho": _}:
            return Cost(stated, _STATED)
        case "gdp", {"mu": mu}:
            return Cost({"mu_squared": Fraction(mu) ** 2}, _STATED)
        case "rdp", {"rho": rho}:
            return _at_each(orders, Fraction(rho))
        case "rdp", {"mu": mu}:
            return _at_each(orders, Fraction(mu) ** 2 / 2)
    return None


def _at_each(orders: Sequence[str], rho: Fraction) -> Cost:
    """Return what is stated in rho, or in the mu of Gaussians, at each order: that many times as much."""
    return Cost({quantity: rho * _order(quantity) for quantity in orders}, _STATED)


def _order(quantity: str) -> Fraction:
    order = get_renyi_order(quantity)
    assert order is not None, "quantities of an rdp budget are orders"
    return order


def _doubles(orders: Iterable[str], rounded: Callable[[Fraction], float]) -> npt.NDArray[np.float64]:
    import numpy as np

    return np.array([rounded(_order(quantity)) for quantity in orders])


def _proven(request: ChargeRequest, kind: str, orders: Sequence[str]) -> Cost:
    stated = _by_statement(request, kind, orders)
    if stated is not None:
        return stated
    if kind in ("pure", "approximate"):
        return _compute_epsilon_cost(request, kind)
    from epsilog.accounting import mu, rdp, rho
    from epsilog.numerics.rounding import MU, round_up

    relation = _relation(request)
    if kind == "rdp":  # at a double that is not below the order: the divergence grows with it
        found_at = rdp(request.release, _doubles(orders, round_up_to_float), relation=relation)
        return Cost(
            dict(zip(orders, found_at.tolist(), strict=True)),
            Message("method/renyi-divergence@1"),
        )
    if kind == "zcdp":
        return Cost({"rho": rho(request.release, relation)}, Message("method/rho-sum@1"))
    found = mu(request.release, relation)
    if found is None:
        raise UnsupportedMechanismError(request.release, method="gdp pricing", reason="it has no finite mu")
    rounded = round_up(found, MU)  # no fraction is infinite
    squared = Fraction(rounded) ** 2 if math.isfinite(rounded) else math.inf
    return Cost({"mu_squared": squared}, Message("method/gaussian-mu@1"))


def _refuse_unproven(request: ChargeRequest, kind: str, stated: Cost, orders: Sequence[str]) -> None:
    """Accept a stated amount if a proven cost at its delta is at most the amount, in every quantity."""
    proven = _proven_at(request, kind, str(stated.values.get("delta", "0")), orders)
    for cost_ in proven:
        if cost_.is_finite and all(
            units <= stated.amounts.units[quantity] for quantity, units in cost_.amounts.units.items()
        ):
            return
    figures = " or ".join(", ".join(f"{name} {value}" for name, value in one.values.items()) for one in proven)
    raise CheckError(
        "amount",
        f"at least the certified cost under this {kind} budget ({figures}); "
        "an owner can allow less, with a reason (override_cost)",
        repr(dict(stated.amounts)),
    )


def _proven_at(request: ChargeRequest, kind: str, delta: str, orders: Sequence[str]) -> list[Cost]:
    """Yield every proven cost of a release at a delta."""
    bare, found = replace(request, amount=None), []
    if kind in ("pure", "approximate"):
        accounted = _account_request(bare, delta)
        found.append(accounted if kind == "approximate" else accounted.part(("epsilon",)))
    if kind not in ("pure", "approximate") or "epsilon" in request.release.statement:
        found.append(_proven(bare, kind, orders))  # a statement, to its last decimal
    return found


def bound_cost_below(request: ChargeRequest, kind: str, charged: Amounts) -> Amounts | None:
    """Return a proven lower bound on the cost of a charged request, rounded down; None without one.

    The epsilon is the accountant's certified lower bound at the delta that was charged, and that delta is at least what
    was asked for. Under zCDP and GDP budgets it is the rho or mu squared of Gaussians, or of the statement; under RDP
    budgets the divergence that some neighbors attain.
    """
    from epsilog.accounting import epsilon, mu, rdp_lower_bound
    from epsilog.numerics.rounding import MU, round_down

    if kind in ("pure", "approximate"):
        below = round_down_to_float(charged["delta"] if kind == "approximate" else "0")
        delta = math.nextafter(below, 1.0) if below > 0 else 0.0  # not less than what was charged: then a lower bound
        lower = epsilon(request.release, delta=delta, relation=_relation(request)).lower
        least = {"epsilon": _units_below("epsilon", lower)}
        return Amounts(least | ({"delta": round_charge_up("delta", request.delta or "0")} if kind != "pure" else {}))
    if {"rho", "mu"} & request.release.statement.keys():
        return _proven(request, kind, list(charged) if kind == "rdp" else ()).amounts
    if kind == "rdp":
        orders = _doubles(charged, round_down_to_float)
        attained = rdp_lower_bound(request.release, orders, relation=_relation(request))
        if attained is None:
            return None
        return Amounts({q: _units_below(q, lower) for q, lower in zip(charged, attained.tolist(), strict=True)})
    found = mu(request.release, _relation(request))
    if found is None:
        return None
    squared = Fraction(round_down(found, MU)) ** 2
    if kind == "gdp":
        return Amounts({"mu_squared": _units_below("mu_squared", squared)})
    return Amounts({"rho": _units_below("rho", squared / 2)})


def _units_below(quantity: str, lower: float | Fraction) -> int:
    """Whole units that are not above a lower bound; dearer than everything where the bound is infinite."""
    return (
        round_charge_up(quantity, _LARGEST) + 1
        if lower > _LARGEST
        else math.floor(Fraction(lower) * 10 ** get_decimals(quantity))
    )


def _stated_amount(amount: Mapping[str, Number], kind: str, orders: Sequence[str]) -> Cost:
    """Check the caller's figures: a pure budget has no delta, and a missing delta is 0."""
    quantities = get_privacy_filter(kind).quantities or orders
    given = {"delta": "0"} | dict(amount)
    missing = [quantity for quantity in quantities if quantity not in given]
    if missing:
        raise CheckError("amount", f"{', '.join(missing)} for a {kind} budget", repr(dict(amount)), verb="name")
    if kind == "pure" and round_charge_up("delta", given["delta"]):
        raise CheckError("amount", "delta 0 under a pure budget", repr(given["delta"]), verb="have")
    return Cost({quantity: given[quantity] for quantity in quantities}, Message("method/caller-stated@1"))


def _compute_epsilon_cost(request: ChargeRequest, kind: str) -> Cost:
    if kind == "approximate" and request.delta is not None:
        return _account_request(request, str(request.delta))
    interval = _account_request(request, "0")
    if kind == "approximate":
        if not interval.is_finite:
            raise ValueError("delta must be given: under an approximate budget this release has no epsilon at delta 0")
        return interval
    return Cost({"epsilon": interval.values["epsilon"]}, interval.method)


def _account_request(request: ChargeRequest, delta: str) -> Cost:
    """Bound epsilon at a double that is at most the charged delta.

    A run under a registered plan publishes outcomes of checks besides its model: the rest of delta covers them.
    """
    from epsilog.accounting import epsilon

    at = round_down_to_float(delta)
    if request.plan_hash is not None:
        at *= 1 - OUTCOME_SHARE
    interval = epsilon(request.release, delta=at, relation=_relation(request))
    return Cost({"epsilon": interval.upper, "delta": delta}, interval.method)


def _relation(request: ChargeRequest) -> NeighboringRelation:
    assert request.relation is not None, "a request has its budget's relation"
    return request.relation


MOST_EXCESS = 1.01
"""Of what is proven over what is charged or claimed; certificates are made with a slack of .001."""


class ProvenClaim(NamedTuple):
    """What a certificate proves of a charged release."""

    epsilon: str
    delta: str
    relation: NeighboringRelation  # under which the release was compared


def check_charge_certificate(request: ChargeRequest, certificate: str) -> ProvenClaim:
    """Check that a certificate is proven and is about what is charged."""
    from epsilog.certificates import check_certificate, restate_claim, write_claim

    verdict = check_certificate(certificate)
    if not verdict.proven:
        raise CheckError("certificate", "proven by the checker", verdict.message)
    claim = json.loads(certificate)["claim"]
    assert request.relation is not None, "a request has its budget's relation"
    delta = 0.5 if Fraction(claim["delta"]) > 0 else 0.0  # with 0, all is claimed by its largest loss
    due = write_claim(request.release, epsilon="0", delta=delta, relation=request.relation)
    if (restated := restate_claim(due)) and restated["releases"] == claim["releases"]:
        due = restated
    for name in ("relation", "group", "releases"):
        _require_equal(due[name], claim[name], f"certificate.claim.{name}")
    return ProvenClaim(claim["epsilon"], claim["delta"], request.relation)


def _require_equal(due: Any, found: Any, at: str) -> None:
    """Require equal JSON values; an error names the first that differ."""
    if isinstance(due, dict) and isinstance(found, dict) and due.keys() == found.keys():
        for name, value in due.items():
            _require_equal(value, found[name], f"{at}.{name}")
    elif isinstance(due, list) and isinstance(found, list) and len(due) == len(found):
        for i, (value, other) in enumerate(zip(due, found, strict=True)):
            _require_equal(value, other, f"{at}[{i}]")
    elif due != found:
        raise CheckError(at, f"{_format(due)}, as charged", _format(found))


def _format(value: Any) -> str:
    return json.dumps(value)[:200]


def require_no_weaker(proven: ProvenClaim, costs: Iterable[Cost]) -> None:
    """Require a proven epsilon and delta of at most 1% above each charged one.

    Costs in other quantities are not compared, nor is the delta where a release is charged without one.
    """
    for cost in costs:
        charged = cost.amounts
        for name, found in (("epsilon", proven.epsilon), ("delta", proven.delta)):
            known = charged.get(name)
            if known is None or (name, known) == ("delta", "0"):
                continue
            if Fraction(found) > Fraction(MOST_EXCESS) * Fraction(known):
                raise CheckError(f"certificate.claim.{name}", f"at most 1% above the charged {name} of {known}", found)


_UNASKED = {"plan_hash": None, "rounds": None}  # fields that do not affect the cost
_REMEMBERED = 4096


@dataclass(slots=True)
class IdenticalCharges:
    """Reservations that asked the same and were charged the same."""

    asked: str  # their request as JSON, without the fields that do not affect the cost
    charged: Mapping[str, Amounts]  # by kind of budget
    first: int
    count: int = 0
    rechecked: bool | None = None  # whether their cost was recomputed; None: not asked yet, or no time was left


@dataclass(slots=True)
class CostRecheck:
    """Reservations with costs to recompute."""

    _identical: dict[tuple[str, str], IdenticalCharges] = field(default_factory=dict)
    _seen: dict[tuple[int, int], tuple[Entry, IdenticalCharges]] = field(default_factory=dict)  # by what entries share

    def add(self, entry: Entry) -> IdenticalCharges:
        """Take in a reservation, of any index above those before; return all that ask the same."""
        same = id(entry.amounts), id(entry.body)
        if same not in self._seen:
            if len(self._seen) == _REMEMBERED:
                self._seen.clear()
            self._seen[same] = entry, self._find_group(entry)  # the entry too, so that nothing else gets these ids
        found = self._seen[same][1]
        found.count += 1
        return found

    def _find_group(self, entry: Entry) -> IdenticalCharges:
        asked = json.dumps(dict(entry.body["request"]) | _UNASKED, sort_keys=True)
        charged = json.dumps({kind: amount.units for kind, amount in entry.amounts.items()}, sort_keys=True)
        return self._identical.setdefault((asked, charged), IdenticalCharges(asked, entry.amounts, entry.index))

    def judge(self, deadline: float) -> tuple[int, int]:
        """Return how many reservations were rechecked, and how many could not be; what was rechecked stays so."""
        known: dict[tuple[object, ...], Amounts | None] = {}
        counts = {True: 0, False: 0, None: 0}
        for group in self._identical.values():  # in the order of the first of each, which is the one to name
            if group.rechecked is None:
                group.rechecked = _recheck(group, known, deadline)
            counts[group.rechecked] += group.count
        return counts[True], counts[False] + counts[None]


def _recheck(group: IdenticalCharges, known: dict[tuple[object, ...], Amounts | None], deadline: float) -> bool | None:
    """Return whether the cost of a group was recomputed, with the result that it is enough; None if it is too late."""
    if time.monotonic() > deadline:
        return None
    least = [_least(group.asked, kind, charged, known, deadline) for kind, charged in group.charged.items()]
    for charged, proven in zip(group.charged.values(), least, strict=True):
        if proven is not None and any(charged.units[name] < units for name, units in proven.units.items()):
            problem = f"charged {dict(charged)}, but its release costs at least {dict(proven)}"
            raise LedgerIntegrityError(problem, index=group.first)
    if None not in least:
        return True
    return None if time.monotonic() > deadline else False


def _least(
    asked: str, kind: str, charged: Amounts, known: dict[tuple[object, ...], Amounts | None], deadline: float
) -> Amounts | None:
    """Return what a reservation costs at least under one kind of budget; the same question is asked once."""
    question = asked, kind, tuple(charged), charged.get("delta")
    if question not in known:
        try:
            late = time.monotonic() > deadline
            known[question] = (
                None if late else bound_cost_below(ChargeRequest.from_json(json.loads(asked)), kind, charged)
            )
        except (UnsupportedMechanismError, ArithmeticError):
            known[question] = None
    return known[question]
