"""A budget promised as (epsilon, delta) and added up in rho or mu squared: the largest cap that keeps the promise.

Sums of rho grow like the square of sums of epsilon, so that k charges of Gaussian noise cost about sqrt(k) of one where
basic composition costs k. The conversion is made once, when the promise is made: what is spent is compared with the
cap in its own quantity, and no epsilon is read off on the way.
"""

from __future__ import annotations

import math
from fractions import Fraction

from epsilog.spend.amounts import DECIMALS, Amounts
from epsilog.terms import CheckError, GaussianDP, NeighboringRelation, Release, ZeroConcentratedDP

QUANTITIES = {"zcdp": "rho", "gdp": "mu_squared"}  # what a promise is kept by, by kind of budget
PROMISED = frozenset({"epsilon", "delta"})
_SPARE = 1e-9  # relatively, of epsilon: for rounding that may differ where the promise is checked again
_BEYOND = 1e12  # more than any promise
_MOST = 1e6  # of rho or mu squared: nothing is left of a guarantee long before


def check_promise(kind: str, promise: Amounts) -> None:
    """Requires a promise that a budget of this kind can make; anything else is a ``CheckError``."""
    if kind not in QUANTITIES:
        raise CheckError("promise", f"of a {' or '.join(QUANTITIES)} budget", repr(kind))
    for quantity in sorted(PROMISED):
        if not promise.units.get(quantity):
            raise CheckError(quantity, f"above 0 where a {kind} budget promises (epsilon, delta)", "0")


def cap_of(kind: str, promise: Amounts, relation: NeighboringRelation) -> Amounts:
    """The largest rho or mu squared, but for rounding, that is (epsilon, delta)-DP.

    Args:
        kind: ``zcdp`` or ``gdp``.
        promise: epsilon and delta, each above 0.
        relation: the budget's; the conversion is the same under each.

    Source:
        The conversions of ``accounting.epsilon``: Canonne et al. 2020 (arXiv:2004.00010), Proposition 12, over all
        orders; Balle & Wang 2018 (arXiv:1805.06530), Theorem 8.

    >>> cap = cap_of("gdp", Amounts.capped({"epsilon": "1", "delta": "1e-5"}), NeighboringRelation.ADD_OR_REMOVE_ONE)
    >>> round(float(cap["mu_squared"]), 6)
    0.071851
    """
    check_promise(kind, promise)
    quantity, target = QUANTITIES[kind], float(Fraction(promise["epsilon"])) * (1 - _SPARE)

    def excess(log: float) -> float:
        return math.log1p(min(_epsilon(kind, math.exp(log), promise["delta"], relation), _BEYOND)) - math.log1p(target)

    from scipy.optimize import brentq

    ends = math.log(10.0 ** -DECIMALS[quantity]), math.log(_MOST)
    if excess(ends[0]) > 0:
        raise CheckError("epsilon", f"what some {quantity} keeps at delta {promise['delta']}", promise["epsilon"])
    found = ends[1] if excess(ends[1]) <= 0 else brentq(excess, *ends, xtol=1e-10)
    for back in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4):
        if excess(found - back) <= 0:
            return Amounts.capped({quantity: math.exp(found - back)})
    raise ArithmeticError(f"no {quantity} was found that keeps epsilon {promise['epsilon']} at {promise['delta']}")


def epsilon_of(kind: str, amounts: Amounts, *, delta: str | float, relation: NeighboringRelation) -> float:
    """An upper bound on epsilon at a delta, for an amount of a zcdp or gdp budget."""
    if not any(amounts.units.values()):
        return 0.0
    return _epsilon(kind, float_above(Fraction(amounts[QUANTITIES[kind]])), delta, relation)


def _epsilon(kind: str, amount: float, delta: str | float, relation: NeighboringRelation) -> float:
    from epsilog.accounting import epsilon

    mu = math.nextafter(math.sqrt(amount), math.inf)
    release: Release = ZeroConcentratedDP(amount) if kind == "zcdp" else GaussianDP(mu)
    return epsilon(release, delta=float_below(delta), relation=relation).upper


def float_below(number: str | float) -> float:
    """The largest double that is not above a decimal.

    >>> Fraction(float_below("0.1")) < Fraction("0.1") < Fraction(float("0.1"))
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) <= Fraction(number) else math.nextafter(nearest, 0.0)


def float_above(exact: Fraction) -> float:
    """The least double that is not below a fraction."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
