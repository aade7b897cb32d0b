"""Exact amounts: whole numbers of a small unit, so that sums are exact and no rounding is lost below the cap.

One unit is 1e-9 of epsilon, 1e-15 of rho, of mu squared and of Renyi divergence, 1e-18 of delta. A charge rounds up to
the next unit, a cap rounds down, and stored amounts are plain decimal strings that hold a whole number of units.

Renyi divergence is a separate quantity at each order: ``rdp_2`` at order 2, ``rdp_1.5`` at 1.5.

>>> charged = Amounts.from_charge({"epsilon": "0.1", "delta": "1e-6"})
>>> charged
Amounts(epsilon=0.1, delta=0.000001)
>>> (charged + charged)["epsilon"]
'0.2'
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Self

from epsilog.terms import CheckError, check

Number = str | float | Fraction | Decimal  # a decimal string, or a number (numpy's too)
DECIMALS = {"epsilon": 9, "delta": 18, "rho": 15, "mu_squared": 15}
MAX_RENYI_ORDERS = 32  # that one budget can declare
_ORDER_DECIMALS = 15  # of Renyi divergence, at any order
_LARGEST_ORDER = 65536
_ORDER = re.compile(r"rdp_([1-9]\d{0,4}(?:\.\d{0,3}[1-9])?)", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,3})?|\.\d+([eE][+-]?\d{1,3})?", re.ASCII)
_STORED = re.compile(r"(0|[1-9]\d*)(?:\.(\d*[1-9]))?", re.ASCII)
_LONGEST = 100  # characters of a decimal string
_EXPONENT = 999  # of a decimal number
_LARGEST = 10**9  # of any quantity: no guarantee is left long before


def _exact(quantity: str, value: object) -> Fraction:
    """The value as a fraction; a float stands for the binary number that it is, numpy's numbers for their own value."""
    if isinstance(value, str):
        value = str.__str__(value)  # whatever methods a subclass has
        if len(value) > _LONGEST or not _NUMBER.fullmatch(value):
            raise CheckError(quantity, "a decimal number such as '0.5' or '1e-6'", repr(value[:_LONGEST]))
        exact = Fraction(value)
    elif isinstance(value, Decimal) and value.is_finite() and value and abs(value.adjusted()) > _EXPONENT:
        raise CheckError(quantity, f"an exponent within {_EXPONENT}", repr(value), verb="have")  # it fills the memory
    else:
        exact = check.fraction(quantity, value, "a decimal string or a number")
    if not 0 <= exact <= _LARGEST:
        raise CheckError(quantity, f"in [0, {_LARGEST}]", repr(value))
    return exact


_SCALES: dict[str, int] = {quantity: 10**decimals for quantity, decimals in DECIMALS.items()}


def _scale(quantity: str) -> int:
    scale = _SCALES.get(quantity)
    return 10 ** get_decimals(quantity) if scale is None else scale


def get_decimals(quantity: str) -> int:
    """Return how many decimals a unit of a quantity has; a ``ValueError`` for what is no quantity."""
    if quantity in DECIMALS:
        return DECIMALS[quantity]
    if get_renyi_order(quantity) is None:
        raise CheckError("quantity", f"one of {', '.join(DECIMALS)} and rdp_ORDER", repr(quantity)[:_LONGEST])
    return _ORDER_DECIMALS


@lru_cache(1024)
def get_renyi_order(quantity: str) -> Fraction | None:
    """Return the Renyi order that a quantity is of, above 1; None for any other.

    >>> get_renyi_order("rdp_2"), get_renyi_order("rho")
    (Fraction(2, 1), None)
    """
    spelled = _ORDER.fullmatch(quantity) if isinstance(quantity, str) else None
    order = Fraction(spelled[1]) if spelled else Fraction(1)
    return order if 1 < order <= _LARGEST_ORDER else None


def make_rdp_quantity(order: Number) -> str:
    """Return the quantity of Renyi divergence at an order.

    >>> make_rdp_quantity(2), make_rdp_quantity("1.50")
    ('rdp_2', 'rdp_1.5')
    """
    exact = _exact("order", order)
    found = f"rdp_{format_units('delta', int(exact * 10**18))}" if (exact * 10**4).denominator == 1 else ""
    if get_renyi_order(found) is None:
        bound = f"above 1, at most {_LARGEST_ORDER}, and with at most 4 decimals"
        raise CheckError("order", bound, repr(order)[:_LONGEST])
    return found


def round_charge_up(quantity: str, value: Number) -> int:
    """Round a charge up to whole units.

    >>> round_charge_up("epsilon", "1e-12")
    1
    """
    return _units_above(quantity, value) if type(value) is str else _round_up(quantity, value)


def _round_up(quantity: str, value: Number) -> int:
    return math.ceil(_scale(quantity) * _exact(quantity, value))


_units_above = lru_cache(4096)(_round_up)  # a release that comes again has the same cost


def round_cap_down(quantity: str, value: Number) -> int:
    """Round a cap down to whole units; one that is not zero but below a unit is refused.

    >>> round_cap_down("delta", "1e-19")
    Traceback (most recent call last):
    epsilog.terms.errors.CheckError: delta must be 0 or at least one unit (1e-18), got '1e-19'
    """
    exact = _exact(quantity, value)
    if quantity == "delta" and exact >= 1:
        raise CheckError("delta", "in [0, 1)", repr(value))
    units = math.floor(exact * _scale(quantity))
    if exact > 0 and units == 0:
        raise CheckError(quantity, f"0 or at least one unit (1e-{get_decimals(quantity)})", repr(value))
    return units


def parse_units(quantity: str, text: str) -> int:
    """Read back what ``format_units`` wrote, to the unit; any other spelling is an error."""
    return _units_of(quantity, text) if type(text) is str else _read_units(quantity, text)


def _read_units(quantity: str, text: str) -> int:
    scale, decimals = _scale(quantity), get_decimals(quantity)
    parts = _STORED.fullmatch(text) if isinstance(text, str) else None
    if parts is None or len(parts[2] or "") > decimals or len(text) > _LONGEST:
        raise CheckError(quantity, "a plain decimal of whole units", repr(text))
    return int(parts[1]) * scale + int((parts[2] or "").ljust(decimals, "0"))


_units_of = lru_cache(4096)(_read_units)  # a charge's cost is spelled in each of its entries


@lru_cache(4096)
def format_units(quantity: str, units: int) -> str:
    """Return the one decimal spelling of an amount: no exponent, no trailing zeros.

    >>> format_units("delta", 10**13)
    '0.00001'
    """
    integer, rest = divmod(units, _scale(quantity))
    return f"{integer}.{rest:0{get_decimals(quantity)}d}".rstrip("0").rstrip(".")


@lru_cache(1024)
def _place(quantity: str) -> tuple[int, Fraction]:
    """Return the sort key of a quantity: orders last, in increasing order."""
    order = get_renyi_order(quantity)
    return (list(DECIMALS).index(quantity), Fraction(0)) if order is None else (len(DECIMALS), order)


@lru_cache(1024)
def _in_order(quantities: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(quantities, key=_place))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Amounts(Mapping[str, str]):
    """A vector of amounts by quantity: reads as decimal strings, adds and compares in whole units.

    Attributes:
        units: whole units by quantity, each at least 0.
    """

    units: Mapping[str, int]
    _text: str | None = field(default=None, init=False)  # its JSON, once it was asked for

    def __post_init__(self) -> None:
        for quantity, units in self.units.items():
            _scale(quantity)
            if units < 0:
                raise CheckError(quantity, "at least 0 units", f"{units}")

    @classmethod
    def from_charge(cls, values: Mapping[str, Number]) -> Self:
        """Return amounts to charge: rounded up."""
        return cls({quantity: round_charge_up(quantity, value) for quantity, value in values.items()})

    @classmethod
    def from_cap(cls, values: Mapping[str, Number]) -> Self:
        """Return amounts that cap: rounded down."""
        return cls({quantity: round_cap_down(quantity, value) for quantity, value in values.items()})

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Return amounts as they were written; refuse any spelling but the canonical one."""
        return cls({quantity: parse_units(quantity, text) for quantity, text in texts.items()})

    @classmethod
    def zero(cls, quantities: Iterable[str]) -> Self:
        """Nothing of each quantity."""
        return cls(dict.fromkeys(quantities.units if isinstance(quantities, Amounts) else quantities, 0))

    def __getitem__(self, quantity: str) -> str:
        return format_units(quantity, self.units[quantity])

    def to_json(self) -> dict[str, str]:
        """Return decimal strings by quantity."""
        return {quantity: format_units(quantity, units) for quantity, units in self.units.items()}

    def json_text(self) -> str:
        """Return ``to_json`` as ``json.dumps`` writes it with sorted names; most amounts are written many times."""
        if (text := self._text) is None:
            text = (
                "{"
                + ", ".join([f'"{name}": "{format_units(name, self.units[name])}"' for name in sorted(self.units)])
                + "}"
            )
            _set_text(self, text)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(_in_order(tuple(self.units)))

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return f"Amounts({', '.join(f'{quantity}={amount}' for quantity, amount in self.items())})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Amounts):  # a unit has one spelling
            return self.units == other.units
        return Mapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]  # as of all mappings

    def __add__(self, other: Amounts) -> Amounts:
        mine, its = self.units, other.units
        if mine.keys() != its.keys():
            raise _unlike(self, other)
        return _make_amounts({quantity: units + its[quantity] for quantity, units in mine.items()})

    def __sub__(self, other: Amounts) -> Amounts:
        mine, its = self.units, other.units
        if mine.keys() != its.keys():
            raise _unlike(self, other)
        left = {quantity: units - its[quantity] for quantity, units in mine.items()}
        return _make_amounts(left) if min(left.values(), default=0) >= 0 else Amounts(left)  # which is an error

    def part(self, quantities: Iterable[str]) -> Amounts:
        """Return the same, of some quantities only; each of which must be there."""
        if isinstance(quantities, Amounts) and quantities.units.keys() == self.units.keys():
            return self
        wanted = set(quantities)
        if wanted == self.units.keys():
            return self
        if not wanted <= self.units.keys():
            raise CheckError("amounts", f"of {', '.join(sorted(wanted))}", f"{list(self)}")
        return Amounts({quantity: self.units[quantity] for quantity in wanted})

    def compute_remaining(self, taken: Amounts) -> Amounts:
        """Return the difference of each quantity, at least 0."""
        mine, its = self.units, taken.units
        if mine.keys() != its.keys():
            raise _unlike(self, taken)
        return _make_amounts({quantity: max(units - its[quantity], 0) for quantity, units in mine.items()})


_new, _set_units, _set_text = object.__new__, vars(Amounts)["units"].__set__, vars(Amounts)["_text"].__set__


def add_amounts(first: Amounts, second: Amounts, third: Amounts) -> Amounts:
    """Return ``first + second + third``: what a budget holds, which each charge asks for several times."""
    one, two, three = first.units, second.units, third.units
    if not one.keys() == two.keys() == three.keys():
        return first + second + third  # which is an error
    return _make_amounts({quantity: units + two[quantity] + three[quantity] for quantity, units in one.items()})


def _make_amounts(units: Mapping[str, int]) -> Amounts:
    """Build amounts from checked amounts without checking again: most amounts of a ledger are sums."""
    made = _new(Amounts)
    _set_units(made, units)
    _set_text(made, None)
    return made


def _unlike(one: Amounts, other: Amounts) -> CheckError:
    return CheckError("amounts", "of the same quantities", f"{list(one)} and {list(other)}")
