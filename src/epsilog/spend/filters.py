"""Which stopping rule is a theorem: for each kind of budget, what is added up and why that may be compared with a cap.

A charge may depend on what earlier charges showed, and charges may overlap in time. So only *fully adaptive* filters
serve: rules that stay valid when parameters are chosen along the way. Tight accountants (privacy loss distributions)
price one plan whose schedule is fixed beforehand; they never add plans up. Every filter here is a sum per quantity.

>>> caps = Amounts.capped({"epsilon": "1", "delta": "1e-5"})
>>> held = Amounts.charged({"epsilon": "0.9", "delta": "0"})
>>> fits(caps, held=held, asked=Amounts.charged({"epsilon": "0.1", "delta": "1e-5"}))
True
>>> fits(caps, held=held, asked=Amounts.charged({"epsilon": "0.100000001", "delta": "0"}))
False
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.spend.amounts import Amounts
from epsilog.terms import check


@dataclass(frozen=True, slots=True)
class Filter:
    """A kind of budget: the quantities that are summed, and the theorem that allows it.

    Attributes:
        kind: its name, as stored.
        quantities: what a charge under it is made of.
        promise: what holds while every sum stays within its cap, in words.
        theorem: who proved it.
    """

    kind: str
    quantities: tuple[str, ...]
    promise: str
    theorem: str


_CONCURRENT = "overlapping charges: Haney et al. 2023 (arXiv:2309.05901)"

FILTERS = {
    rule.kind: rule
    for rule in (
        Filter(
            "pure",
            ("epsilon",),
            "everything together is epsilon-DP",
            f"basic composition as a filter: Rogers et al. 2016 (arXiv:1605.08294); {_CONCURRENT}",
        ),
        Filter(
            "approximate",
            ("epsilon", "delta"),
            "everything together is (epsilon, delta)-DP",
            f"basic composition as a filter, sums of epsilon and of delta: Rogers et al. 2016 (arXiv:1605.08294); "
            f"{_CONCURRENT}",
        ),
        Filter(
            "zcdp",
            ("rho",),
            "everything together is rho-zCDP",
            "sum of rho: the fixed-order Renyi filter of Feldman & Zrnic 2021 (arXiv:2008.11193) at every order at "
            f"once; Whitehouse et al. 2023 (arXiv:2203.05481); {_CONCURRENT}",
        ),
        Filter(
            "gdp",
            ("mu_squared",),
            "everything together is mu-GDP",
            "sum of mu squared over mu-GDP steps: Smith & Thakurta 2022 (arXiv:2210.17520)",
        ),
    )
}


def filter_of(kind: str) -> Filter:
    """The filter of a kind of budget; an unknown kind is a ``ValueError``."""
    kind = check.one_of(FILTERS)(kind=kind)
    return FILTERS[kind]


def fits(caps: Amounts, *, held: Amounts, asked: Amounts) -> bool:
    """Whether ``asked`` on top of ``held`` stays within every cap; a sum that meets its cap fits."""
    total = held + asked
    return all(total.units[quantity] <= cap for quantity, cap in caps.units.items())
