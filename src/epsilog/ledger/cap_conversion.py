"""Convert a target (epsilon, delta) to the largest caps in rho, mu squared or Renyi divergence that guarantee it.

In rho, k charges of Gaussian noise cost about sqrt(k) times one; under basic composition they cost k times one. The
conversion happens once, at creation: spent amounts are compared with the cap in its own quantity, and no epsilon is
derived in between.

A budget that sums Renyi divergence has a cap at each of its orders, and a charge must fit at one of them. Each cap
guarantees epsilon at an even share of delta, and a union over the orders gives the target (proof: docs/ledger.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from epsilog.ledger.amounts import DECIMALS, Amounts, get_renyi_order
from epsilog.mechanisms import GaussianDP, Release, ZeroConcentratedDP
from epsilog.terms import CheckError, NeighboringRelation

QUANTITIES = {"zcdp": "rho", "gdp": "mu_squared"}  # the quantity of the cap, where it is one
KINDS = (*QUANTITIES, "rdp")  # kinds of budgets with a target guarantee
PROMISED = frozenset({"epsilon", "delta"})
_SPARE = 1e-9  # relative margin of epsilon, for rounding that may differ at a later check
_BEYOND = 1e12  # above any target epsilon
_MOST = 1e6  # of rho or mu squared: far beyond any useful guarantee


def require_target_guarantee(kind: str, promise: Amounts) -> None:
    """Require a target guarantee that a budget of this kind supports; else raise a ``CheckError``."""
    if kind not in KINDS:
        raise CheckError("target_guarantee", f"of a {' or '.join(KINDS)} budget", repr(kind))
    for quantity in sorted(PROMISED):
        if not promise.units.get(quantity):
            raise CheckError(quantity, f"above 0 for the target guarantee of a {kind} budget", "0")


def convert_guarantee_to_caps(
    kind: str, promise: Amounts, relation: NeighboringRelation, orders: Sequence[str] = ()
) -> Amounts:
    """Return the largest rho, mu squared, or divergence at each order, up to rounding, that is (epsilon, delta)-DP.

    Args:
        kind: ``zcdp``, ``gdp`` or ``rdp``.
        promise: the target epsilon and delta, each above 0.
        relation: the budget's; the conversion is the same under each.
        orders: the quantities of an rdp budget.

    Raises:
        CheckError: no cap guarantees the target, or at some order a divergence of 0 already exceeds it.

    Source:
        The conversions of ``accounting.epsilon``: Asoodeh et al. 2021 (arXiv:2008.06529), over all orders
        (docs/accounting/moments.md); Balle & Wang 2018 (arXiv:1805.06530), Theorem 8.

    >>> cap = convert_guarantee_to_caps("gdp", Amounts.from_cap({"epsilon": "1", "delta": "1e-5"}),
    ... NeighboringRelation.ADD_OR_REMOVE_ONE)
    >>> round(float(cap["mu_squared"]), 6)
    0.071851
    """
    require_target_guarantee(kind, promise)
    if kind == "rdp":
        return _caps_by_order(promise, orders)
    quantity, target = QUANTITIES[kind], float(Fraction(promise["epsilon"])) * (1 - _SPARE)

    def excess(log: float) -> float:
        return math.log1p(min(_epsilon(kind, math.exp(log), promise["delta"], relation), _BEYOND)) - math.log1p(target)

    from scipy.optimize import brentq

    ends = math.log(10.0 ** -DECIMALS[quantity]), math.log(_MOST)
    if excess(ends[0]) > 0:
        raise CheckError(
            "epsilon", f"an epsilon that some {quantity} guarantees at delta {promise['delta']}", promise["epsilon"]
        )
    found = ends[1] if excess(ends[1]) <= 0 else brentq(excess, *ends, xtol=1e-10)
    for back in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4):
        if excess(found - back) <= 0:
            return Amounts.from_cap({quantity: math.exp(found - back)})
    raise ArithmeticError(f"no {quantity} was found that guarantees epsilon {promise['epsilon']} at {promise['delta']}")


def _caps_by_order(promise: Amounts, orders: Sequence[str]) -> Amounts:
    """Return, at each order, the largest divergence that converts to at most epsilon at its share of delta."""
    share, epsilon = Fraction(promise["delta"]) / len(orders), Fraction(promise["epsilon"])
    caps: dict[str, str | float] = {}
    for quantity in orders:
        least = _convert_divergence(quantity, 0.0, share)
        cap = float(epsilon) * (1 - _SPARE) - least
        if cap <= 0:
            raise CheckError(
                "orders",
                f"such that each can guarantee epsilon {promise['epsilon']} at delta {promise['delta']} over "
                f"{len(orders)}: at order {quantity.removeprefix('rdp_')} a divergence of 0 converts to "
                f"{max(least, 0.0):.4g}; omit it",
                ", ".join(one.removeprefix("rdp_") for one in orders),
            )
        caps[quantity] = cap
    found = Amounts.from_cap(caps)
    if max(_at_orders(found, share)) > epsilon:
        raise ArithmeticError(f"no caps were found that guarantee epsilon {promise['epsilon']} at {promise['delta']}")
    return found


def _at_orders(amounts: Amounts, share: Fraction) -> list[float]:
    """Return an upper bound on epsilon by each order alone, at a delta."""
    return [
        max(_convert_divergence(quantity, round_up_to_float(Fraction(amount)), share), 0.0)
        if amounts.units[quantity]
        else 0.0
        for quantity, amount in amounts.items()
    ]


def _convert_divergence(quantity: str, divergence: float, delta: Fraction) -> float:
    """Return epsilon at delta from a divergence, at the double at or below its order; below 0 if that is no bound.

    Source: Canonne et al. 2020 (arXiv:2004.00010v4), Proposition 12.
    """
    import numpy as np

    from epsilog.accounting import rdp_to_epsilon_by_order

    order, most = get_renyi_order(quantity), round_down_to_float(delta)
    assert order is not None, "quantities of an rdp budget are orders"
    if most <= 0:
        return math.inf
    return float(rdp_to_epsilon_by_order(np.array([divergence]), np.array([round_down_to_float(order)]), delta=most)[0])


def get_epsilon_of_caps(kind: str, caps: Amounts, *, delta: str | float, relation: NeighboringRelation) -> float:
    """Return an upper bound on the epsilon that a budget with these caps guarantees at delta.

    If one order is enough, the bound is the largest over the orders, each at its share of delta.
    """
    if kind == "rdp":
        return max(_at_orders(caps, Fraction(delta) / len(caps)))
    return convert_caps_to_epsilon(kind, caps, delta=delta, relation=relation)


def convert_caps_to_epsilon(kind: str, amounts: Amounts, *, delta: str | float, relation: NeighboringRelation) -> float:
    """Return an upper bound on epsilon at a delta, for an amount of a zcdp, gdp or rdp budget.

    The smallest order is selected from the sums, so each order is converted at its share of delta.
    """
    if not any(amounts.units.values()):
        return 0.0
    if kind == "rdp":
        return min(_at_orders(amounts, Fraction(delta) / len(amounts)))
    return _epsilon(kind, round_up_to_float(Fraction(amounts[QUANTITIES[kind]])), delta, relation)


def _epsilon(kind: str, amount: float, delta: str | float, relation: NeighboringRelation) -> float:
    from epsilog.accounting import epsilon

    mu = math.nextafter(math.sqrt(amount), math.inf)
    release: Release = ZeroConcentratedDP(amount) if kind == "zcdp" else GaussianDP(mu)
    return epsilon(release, delta=round_down_to_float(delta), relation=relation).upper


def round_down_to_float(number: str | float | Fraction) -> float:
    """Return the largest double that is not above a decimal.

    >>> Fraction(round_down_to_float("0.1")) < Fraction("0.1") < Fraction(float("0.1"))
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) <= Fraction(number) else math.nextafter(nearest, 0.0)


def round_up_to_float(exact: Fraction) -> float:
    """Return the least double that is not below a fraction."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
