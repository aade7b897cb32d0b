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

>>> between(0, 1)(delta=1.5)
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
from epsilog.terms.scalars import shown as _shown

__all__ = [
    "DOWN",
    "LARGEST_INTEGER",
    "UP",
    "Rule",
    "above",
    "at_least",
    "between",
    "doubles",
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


def ratio() -> Rule[Fraction]:
    """The finite number as it is, without rounding: for money, and for sampling exactly."""
    return Rule(scalars.fraction)


def number() -> Rule[float]:
    """Any real number, infinities and NaN included."""
    return Rule(scalars.double)


def _finite(bound: str, holds: Callable[[float], bool], toward: float | None) -> Rule[float]:
    read = scalars.double if toward is None else partial(scalars.double, toward=toward)
    return Rule(read, lambda x: math.isfinite(x) and holds(x), bound)


def finite(toward: float | None = None) -> Rule[float]:
    """A finite real number."""
    return _finite("finite", lambda _: True, toward)


def positive(toward: float | None = None) -> Rule[float]:
    """A finite number above zero."""
    return _finite("finite and above 0", lambda x: x > 0, toward)


def at_least(low: float, toward: float | None = None) -> Rule[float]:
    """A finite number, at least ``low``."""
    return _finite(f"finite and at least {low:g}", lambda x: x >= low, toward)


def above(low: float, toward: float | None = None) -> Rule[float]:
    """A finite number above ``low``."""
    return _finite(f"finite and above {low:g}", lambda x: x > low, toward)


def between(low: float, high: float, toward: float | None = None) -> Rule[float]:
    """A number strictly between ``low`` and ``high``."""
    return _finite(f"in ({low:g}, {high:g})", lambda x: low < x < high, toward)


def within(low: float, high: float, toward: float | None = None) -> Rule[float]:
    """A number between ``low`` and ``high``, both allowed."""
    return _finite(f"in [{low:g}, {high:g}]", lambda x: low <= x <= high, toward)


def half_open(low: float, high: float, toward: float | None = None) -> Rule[float]:
    """A number in ``[low, high)``."""
    return _finite(f"in [{low:g}, {high:g})", lambda x: low <= x < high, toward)


def share(toward: float | None = None) -> Rule[float]:
    """A number in ``(0, 1]``."""
    return _finite("in (0, 1]", lambda x: 0 < x <= 1, toward)


def lower_side() -> Rule[float]:
    """A lower bound, at least 0 and perhaps infinite; what no double holds is rounded down."""
    return Rule(partial(scalars.double, toward=DOWN, decimals=False), lambda x: x >= 0, "at least 0")


def upper_side() -> Rule[float]:
    """An upper bound, at least 0 and perhaps infinite; what no double holds is rounded up."""
    return Rule(partial(scalars.double, toward=UP, decimals=False), lambda x: x >= 0, "at least 0")


def doubles() -> Rule[Any]:
    """An array of doubles, from any series of numbers that doubles hold; shape (n,) from a list."""
    return Rule(scalars.doubles)


def integer(low: int, high: int = LARGEST_INTEGER) -> Rule[int]:
    """A whole number from ``low`` to ``high``."""

    def read(name: str, value: Any) -> int:
        found = scalars.whole(name, value)
        if not low <= found <= high:
            bound = f"at least {low}" if high == LARGEST_INTEGER and found < low else f"in [{low}, {high}]"
            raise CheckError(name, bound, _shown(value))
        return found

    return Rule(read)


def flag() -> Rule[bool]:
    """True or False, of any library."""
    return Rule(scalars.truth)


def text() -> Rule[str]:
    """A string that is not blank."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not str.strip(value):
            raise CheckError(name, "a string that is not blank", _shown(value))
        return str.__str__(value)  # whatever methods a subclass has

    return Rule(read)


def one_of(choices: Collection[T]) -> Rule[T]:
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
