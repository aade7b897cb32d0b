"""Privacy filters: the sums of each kind of budget, and the theorem by which they may be compared with a cap.

A charge may depend on the results of earlier charges, and charges may overlap in time. So only *fully adaptive* filters
apply: rules that hold for adaptively chosen parameters. Tight accountants (privacy loss distributions) compute the cost
of one plan with a fixed schedule; they never add plans. Every filter here is a sum per quantity.

>>> caps = Amounts.from_cap({"epsilon": "1", "delta": "1e-5"})
>>> held = Amounts.from_charge({"epsilon": "0.9", "delta": "0"})
>>> fits = get_privacy_filter("approximate").fits
>>> fits(caps, held=held, asked=Amounts.from_charge({"epsilon": "0.1", "delta": "1e-5"}))
True
>>> fits(caps, held=held, asked=Amounts.from_charge({"epsilon": "0.100000001", "delta": "0"}))
False
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from epsilog.ledger.amounts import MAX_RENYI_ORDERS, Amounts, get_renyi_order
from epsilog.terms import check


@dataclass(frozen=True, slots=True)
class PrivacyFilter:
    """A kind of budget: the quantities that are summed, and the theorem that allows it."""

    kind: str  # its name, as stored
    quantities: tuple[str, ...]  # the quantities of a charge under it; empty if each budget declares its orders
    promise: str  # the guarantee while every sum stays within its cap, in words
    theorem: str  # its source
    one_is_enough: bool = False  # whether a charge fits if one of its quantities fits; otherwise all must

    @property
    def by_order(self) -> bool:
        """Return whether its quantities are Renyi divergences, at orders that each budget declares."""
        return not self.quantities

    def measures(self, quantities: Iterable[str]) -> bool:
        """Return whether a budget of this kind can have just these quantities."""
        found = set(quantities)
        if not self.by_order:
            return found == set(self.quantities)
        return 1 <= len(found) <= MAX_RENYI_ORDERS and all(get_renyi_order(quantity) is not None for quantity in found)

    def fits(self, caps: Amounts, *, held: Amounts, asked: Amounts) -> bool:
        """Return whether ``asked`` on top of ``held`` stays within the caps; a sum that meets its cap fits."""
        before, more = held.units, asked.units
        if before.keys() != more.keys():
            held + asked  # which is an error
        within = [before[quantity] + more[quantity] <= cap for quantity, cap in caps.units.items()]
        return any(within) if self.one_is_enough else all(within)


_CONCURRENT = "overlapping charges: Haney et al. 2023 (arXiv:2309.05901)"

PRIVACY_FILTERS = {
    rule.kind: rule
    for rule in (
        PrivacyFilter(
            "pure",
            ("epsilon",),
            "everything together is epsilon-DP",
            f"basic composition as a filter: Rogers et al. 2016 (arXiv:1605.08294); {_CONCURRENT}",
        ),
        PrivacyFilter(
            "approximate",
            ("epsilon", "delta"),
            "everything together is (epsilon, delta)-DP",
            f"basic composition as a filter, sums of epsilon and of delta: Rogers et al. 2016 (arXiv:1605.08294); "
            f"{_CONCURRENT}",
        ),
        PrivacyFilter(
            "zcdp",
            ("rho",),
            "everything together is rho-zCDP",
            "sum of rho: the fixed-order Renyi filter of Feldman & Zrnic 2021 (arXiv:2008.11193) at every order at "
            f"once; Whitehouse et al. 2023 (arXiv:2203.05481); {_CONCURRENT}",
        ),
        PrivacyFilter(
            "gdp",
            ("mu_squared",),
            "everything together is mu-GDP",
            "sum of mu squared over mu-GDP steps: Smith & Thakurta 2022 (arXiv:2210.17520)",
        ),
        PrivacyFilter(
            "rdp",
            (),
            "everything together has at most the capped Renyi divergence, at every declared order",
            "sums of Renyi divergence, each at an order fixed beforehand, and all within their caps: Feldman & Zrnic "
            f"2021 (arXiv:2008.11193); {_CONCURRENT}",
        ),
    )
}

SOME_ORDER = PrivacyFilter(
    "rdp",
    (),
    "everything together is (epsilon, delta)-DP",
    "sums of Renyi divergence, some order within its cap, and delta shared out evenly among the orders: the filter of "
    "Feldman & Zrnic 2021 (arXiv:2008.11193) at each order and a union over them, as Lecuyer 2021 (arXiv:2103.01379); "
    f"the proof is in docs/ledger.md; {_CONCURRENT}",
    one_is_enough=True,
)


def get_privacy_filter(kind: str, *, promised: bool = False) -> PrivacyFilter:
    """Return the filter of a kind of budget; an unknown kind is a ``ValueError``."""
    found = PRIVACY_FILTERS.get(kind) if type(kind) is str else None
    if found is None:
        found = PRIVACY_FILTERS[check.one_of(PRIVACY_FILTERS)(kind=kind)]
    return SOME_ORDER if promised and found.by_order else found
