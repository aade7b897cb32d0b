"""Rules with one voice: ``delta must be in (0, 1), got 1.5``.

A rule checks a value and returns it as Python's own kind, in one act, so that nothing else is ever stored or computed
with: ``delta = check.between(0, 1)(delta=delta)``. The value is given by keyword, and the message names it. A frozen
dataclass settles its fields at birth with ``check.fields``.

Numbers of any library are as welcome as Python's (``scalars`` says which, and converts them). Where a float is meant,
each becomes the double that it is, which is then checked, stored, shown and accounted. What lies between two doubles
becomes the one on the safe side, ``toward``, and is refused where a rule names no side; a decimal that is the shortest
text of a double is that double (``Decimal("0.1")`` is 0.1, as in JSON). What would round to 0 or overflow is refused,
and so is NaN. The sides of an interval are rounded outwards. Where a whole number is meant, only integers are taken:
2.0 is none. Booleans are not numbers here, and numbers are not booleans.

>>> in_open_interval(0, 1)(delta=1.5)
Traceback (most recent call last):
epsilog.terms.errors.CheckError: delta must be in (0, 1), got 1.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar

from epsilog.terms import scalars
from epsilog.terms.errors import CheckError
from epsilog.terms.scalars import DOWN, UP
from epsilog.terms.scalars import format_value as _shown

__all__ = [
    "DOWN",
    "LARGEST_INTEGER",
    "UP",
    "Validator",
    "at_least",
    "boolean",
    "doubles",
    "enum_member",
    "exact_rational",
    "finite",
    "greater_than",
    "in_closed_interval",
    "in_half_open_interval",
    "in_open_interval",
    "in_unit_interval",
    "instance_of",
    "integer",
    "lower_bound",
    "one_of",
    "optional",
    "pair_of",
    "positive",
    "real",
    "sequence_of",
    "text",
    "upper_bound",
    "validate_fields",
]

LARGEST_INTEGER = 2**53 - 1  # the largest integer that JSON carries exactly (RFC 8785)

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Validator(Generic[T]):
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


def validate_fields(born: object, **rules: Validator[Any]) -> None:
    """Settles fields of a frozen dataclass, for its ``__post_init__``: each becomes what its rule returns."""
    for name, rule in rules.items():
        object.__setattr__(born, name, rule(**{name: getattr(born, name)}))


def exact_rational() -> Validator[Fraction]:
    """The finite number as it is, without rounding: for money, and for sampling exactly."""
    return Validator(scalars.fraction)


def real() -> Validator[float]:
    """Any real number, infinities and NaN included."""
    return Validator(scalars.double)


def _finite(bound: str, holds: Callable[[float], bool], toward: float | None) -> Validator[float]:
    read = scalars.double if toward is None else partial(scalars.double, toward=toward)
    return Validator(read, lambda x: math.isfinite(x) and holds(x), bound)


def finite(toward: float | None = None) -> Validator[float]:
    """A finite real number."""
    return _finite("finite", lambda _: True, toward)


def positive(toward: float | None = None) -> Validator[float]:
    """A finite number above zero."""
    return _finite("finite and above 0", lambda x: x > 0, toward)


def at_least(low: float, toward: float | None = None) -> Validator[float]:
    """A finite number, at least ``low``."""
    return _finite(f"finite and at least {low:g}", lambda x: x >= low, toward)


def greater_than(low: float, toward: float | None = None) -> Validator[float]:
    """A finite number above ``low``."""
    return _finite(f"finite and above {low:g}", lambda x: x > low, toward)


def in_open_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number strictly between ``low`` and ``high``."""
    return _finite(f"in ({low:g}, {high:g})", lambda x: low < x < high, toward)


def in_closed_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number between ``low`` and ``high``, both allowed."""
    return _finite(f"in [{low:g}, {high:g}]", lambda x: low <= x <= high, toward)


def in_half_open_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number in ``[low, high)``."""
    return _finite(f"in [{low:g}, {high:g})", lambda x: low <= x < high, toward)


def in_unit_interval(toward: float | None = None) -> Validator[float]:
    """A number in ``(0, 1]``."""
    return _finite("in (0, 1]", lambda x: 0 < x <= 1, toward)


def lower_bound() -> Validator[float]:
    """A lower bound, at least 0 and perhaps infinite; what no double holds is rounded down."""
    return Validator(partial(scalars.double, toward=DOWN, decimals=False), lambda x: x >= 0, "at least 0")


def upper_bound() -> Validator[float]:
    """An upper bound, at least 0 and perhaps infinite; what no double holds is rounded up."""
    return Validator(partial(scalars.double, toward=UP, decimals=False), lambda x: x >= 0, "at least 0")


def doubles() -> Validator[Any]:
    """An array of doubles, from any series of numbers that doubles hold; shape (n,) from a list."""
    return Validator(scalars.doubles)


def integer(low: int, high: int = LARGEST_INTEGER) -> Validator[int]:
    """A whole number from ``low`` to ``high``."""

    def read(name: str, value: Any) -> int:
        found = scalars.parse_integer(name, value)
        if not low <= found <= high:
            bound = f"at least {low}" if high == LARGEST_INTEGER and found < low else f"in [{low}, {high}]"
            raise CheckError(name, bound, _shown(value))
        return found

    return Validator(read)


def boolean() -> Validator[bool]:
    """True or False, of any library."""
    return Validator(scalars.truth)


def text() -> Validator[str]:
    """A string that is not blank."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not str.strip(value):
            raise CheckError(name, "a string that is not blank", _shown(value))
        return str.__str__(value)  # whatever methods a subclass has

    return Validator(read)


def one_of(choices: Collection[T]) -> Validator[T]:
    """A member of ``choices``; returned as it stands there."""

    def read(name: str, value: Any) -> T:
        for choice in choices:
            try:
                same: object = value == choice
            except Exception:  # noqa: BLE001 - of an array, or of a library that compares with nothing
                break
            if type(same).__name__ in ("bool", "bool_") and same:
                return choice
        raise CheckError(name, f"one of {', '.join(map(str, choices))}", _shown(value))

    return Validator(read)


def enum_member(kind: type[E]) -> Validator[E]:
    """A member of an enum, given as itself or by its value; code compares members by identity."""
    return one_of(tuple(kind))


def instance_of(kind: type | tuple[type, ...]) -> Validator[Any]:
    """An instance of ``kind``, as it is."""
    expected = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)

    def read(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise CheckError(name, f"a {expected}", _shown(value))
        return value

    return Validator(read)


def sequence_of(rule: Validator[T]) -> Validator[tuple[T, ...]]:
    """A tuple of what ``rule`` allows, from any ordered series: a list, an array."""

    def read(name: str, value: Any) -> tuple[T, ...]:
        if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
            raise CheckError(name, "a series, such as a list", _shown(value))
        try:
            items = tuple(value)
        except TypeError:  # an array without an axis
            raise CheckError(name, "a series, such as a list", _shown(value)) from None
        try:
            found = tuple([rule.read(name, item) for item in items])
            if all(map(rule.holds, found)):
                return found
        except CheckError:
            pass
        return tuple(rule(**{f"{name}[{i}]": item}) for i, item in enumerate(items))  # says which

    return Validator(read)


def pair_of(first: Validator[T], second: Validator[U]) -> Validator[tuple[T, U]]:
    """A pair of what the two rules allow."""

    def read(name: str, value: Any) -> tuple[T, U]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise CheckError(name, "a pair", _shown(value))
        return first(**{name: value[0]}), second(**{name: value[1]})

    return Validator(read)


def optional(rule: Validator[T]) -> Validator[T | None]:
    """None, or what ``rule`` allows."""
    return Validator(lambda name, value: None if value is None else rule(**{name: value}))
