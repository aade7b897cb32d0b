"""Rules with one voice: ``delta must be in (0, 1), got 1.5``.

A rule checks a value and returns it as Python's own kind, in one act, so that nothing else is ever stored or computed
with: ``delta = check.between(0, 1)(delta=delta)``. The value is given by keyword, and the message names it. A frozen
dataclass settles its fields at birth with ``check.fields``.

numpy's scalars, ``Decimal`` and ``Fraction`` are as welcome as Python's numbers. Where a float is meant, each becomes
the double nearest to it, as ``float(x)`` does (``Decimal("0.1")`` is 0.1), and that double is what is checked, stored,
shown and accounted; what would round to 0 or overflow is refused, and so is NaN. Only the sides of an interval are
rounded outwards. Where a whole number is meant, only integers are taken: 2.0 is none. Booleans are not numbers here,
and numbers are not booleans.

>>> between(0, 1)(delta=1.5)
Traceback (most recent call last):
epsilog.terms.errors.CheckError: delta must be in (0, 1), got 1.5
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

from epsilog.terms.errors import CheckError

__all__ = [
    "LARGEST_INTEGER",
    "Rule",
    "above",
    "at_least",
    "between",
    "each",
    "fields",
    "finite",
    "flag",
    "half_open",
    "instance",
    "integer",
    "lower_side",
    "member",
    "number",
    "one_of",
    "optional",
    "pair",
    "positive",
    "ratio",
    "share",
    "text",
    "upper_side",
    "within",
]

LARGEST_INTEGER = 2**53 - 1  # the largest integer that JSON carries exactly (RFC 8785)

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """What a value must be.

    Attributes:
        read: turns a named value into Python's own kind, or says why not.
        holds: whether what was read is in bounds.
        bound: the bound in words.
    """

    read: Callable[[str, Any], T]
    holds: Callable[[T], bool] = lambda _: True
    bound: str = ""

    def __call__(self, **named: object) -> T:
        """Checks the one value given by keyword and returns it as Python's own kind."""
        ((name, value),) = named.items()
        found = self.read(name, value)
        if not self.holds(found):
            raise CheckError(name, self.bound, _shown(value))
        return found


def fields(born: object, **rules: Rule[Any]) -> None:
    """Settles fields of a frozen dataclass, for its ``__post_init__``: each becomes what its rule returns."""
    for name, rule in rules.items():
        object.__setattr__(born, name, rule(**{name: getattr(born, name)}))


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"


def _numpy(name: str) -> Any:
    """A type of NumPy's; none at all while nobody has loaded it, since then no value can be of it."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else getattr(numpy, name)


def _is_number(value: object) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, (bool, _numpy("timedelta64")))


def _real(name: str, value: Any) -> float:
    if type(value) is float:  # what most are
        return value + 0.0
    if not _is_number(value):
        raise CheckError(name, "a number", _shown(value))
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an integer or a fraction past every double; a signalling NaN
        raise CheckError(name, "a finite number", _shown(value)) from None
    if math.isinf(number) and value not in (math.inf, -math.inf):
        raise CheckError(name, "a finite number", _shown(value))
    if number == 0 and value != 0:
        raise CheckError(name, "0 or a number that does not round to it", _shown(value))
    return number + 0.0  # no negative zero


def _whole(name: str, value: Any) -> int:
    if type(value) is int:  # what most are
        return value
    if not _is_number(value) or not isinstance(value, Integral):
        raise CheckError(name, "a whole number", _shown(value))
    return int(value)


def _outward(toward: float) -> Callable[[str, Any], float]:
    """Reads a side of an interval: a value between two doubles becomes the one of them that is nearer ``toward``."""

    def read(name: str, value: Any) -> float:
        number = _real(name, value)
        if math.isnan(number):
            return number
        exact = int(value) if isinstance(value, Integral) else value  # numpy's integers compare as floats do
        inside = number > exact if toward < 0 else number < exact
        return math.nextafter(number, toward) if inside else number

    return read


def _ratio(name: str, value: Any) -> Fraction:
    if not _is_number(value):
        raise CheckError(name, "a number", _shown(value))
    if isinstance(value, Integral):
        return Fraction(int(value))
    try:
        return Fraction(*value.as_integer_ratio())  # all of Python's and numpy's have it
    except (OverflowError, ValueError):
        raise CheckError(name, "finite", _shown(value)) from None


def ratio() -> Rule[Fraction]:
    """The finite number as it is, without rounding: for money, and for sampling exactly."""
    return Rule(_ratio)


def number() -> Rule[float]:
    """Any real number, infinities and NaN included."""
    return Rule(_real)


def _finite(bound: str, holds: Callable[[float], bool]) -> Rule[float]:
    return Rule(_real, lambda x: math.isfinite(x) and holds(x), bound)


def finite() -> Rule[float]:
    """A finite real number."""
    return _finite("finite", lambda _: True)


def positive() -> Rule[float]:
    """A finite number above zero."""
    return _finite("finite and above 0", lambda x: x > 0)


def at_least(low: float) -> Rule[float]:
    """A finite number, at least ``low``."""
    return _finite(f"finite and at least {low:g}", lambda x: x >= low)


def above(low: float) -> Rule[float]:
    """A finite number above ``low``."""
    return _finite(f"finite and above {low:g}", lambda x: x > low)


def between(low: float, high: float) -> Rule[float]:
    """A number strictly between ``low`` and ``high``."""
    return _finite(f"in ({low:g}, {high:g})", lambda x: low < x < high)


def within(low: float, high: float) -> Rule[float]:
    """A number between ``low`` and ``high``, both allowed."""
    return _finite(f"in [{low:g}, {high:g}]", lambda x: low <= x <= high)


def half_open(low: float, high: float) -> Rule[float]:
    """A number in ``[low, high)``."""
    return _finite(f"in [{low:g}, {high:g})", lambda x: low <= x < high)


def share() -> Rule[float]:
    """A number in ``(0, 1]``."""
    return _finite("in (0, 1]", lambda x: 0 < x <= 1)


def lower_side() -> Rule[float]:
    """A lower bound, at least 0 and perhaps infinite; what no double holds is rounded down."""
    return Rule(_outward(-math.inf), lambda x: x >= 0, "at least 0")


def upper_side() -> Rule[float]:
    """An upper bound, at least 0 and perhaps infinite; what no double holds is rounded up."""
    return Rule(_outward(math.inf), lambda x: x >= 0, "at least 0")


def integer(low: int, high: int = LARGEST_INTEGER) -> Rule[int]:
    """A whole number from ``low`` to ``high``."""

    def read(name: str, value: Any) -> int:
        found = _whole(name, value)
        if not low <= found <= high:
            bound = f"at least {low}" if high == LARGEST_INTEGER and found < low else f"in [{low}, {high}]"
            raise CheckError(name, bound, _shown(value))
        return found

    return Rule(read)


def flag() -> Rule[bool]:
    """True or False, Python's or numpy's."""

    def read(name: str, value: Any) -> bool:
        if not isinstance(value, (bool, _numpy("bool_"))):
            raise CheckError(name, "True or False", _shown(value))
        return bool(value)

    return Rule(read)


def text() -> Rule[str]:
    """A string that is not blank."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise CheckError(name, "a string that is not blank", _shown(value))
        return str(value)

    return Rule(read)


def one_of(choices: Collection[T]) -> Rule[T]:
    """A member of ``choices``; returned as it stands there."""

    def read(name: str, value: Any) -> T:
        for choice in choices:
            if value == choice:
                return choice
        raise CheckError(name, f"one of {', '.join(map(str, choices))}", _shown(value))

    return Rule(read)


def member(kind: type[E]) -> Rule[E]:
    """A member of an enum, given as itself or by its value; code compares members by identity."""
    return one_of(tuple(kind))


def instance(kind: type | tuple[type, ...]) -> Rule[Any]:
    """An instance of ``kind``, as it is."""
    expected = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)

    def read(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise CheckError(name, f"a {expected}", _shown(value))
        return value

    return Rule(read)


def each(rule: Rule[T]) -> Rule[tuple[T, ...]]:
    """A tuple of what ``rule`` allows, from any ordered series: a list, an array."""

    def read(name: str, value: Any) -> tuple[T, ...]:
        shapeless = isinstance(value, _numpy("ndarray")) and value.ndim == 0
        if isinstance(value, str | bytes | Mapping | Set) or shapeless or not isinstance(value, Iterable):
            raise CheckError(name, "a series, such as a list", _shown(value))
        items = tuple(value)
        try:
            found = tuple([rule.read(name, item) for item in items])
            if all(map(rule.holds, found)):
                return found
        except CheckError:
            pass
        return tuple(rule(**{f"{name}[{i}]": item}) for i, item in enumerate(items))  # says which

    return Rule(read)


def pair(first: Rule[T], second: Rule[U]) -> Rule[tuple[T, U]]:
    """A pair of what the two rules allow."""

    def read(name: str, value: Any) -> tuple[T, U]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise CheckError(name, "a pair", _shown(value))
        return first(**{name: value[0]}), second(**{name: value[1]})

    return Rule(read)


def optional(rule: Rule[T]) -> Rule[T | None]:
    """None, or what ``rule`` allows."""
    return Rule(lambda name, value: None if value is None else rule(**{name: value}))
