"""One value of any library, checked and made Python's own: ``delta must be in (0, 1), got 1.5``.

A rule checks a value and returns it as Python's own kind, in one act, so that nothing else is ever stored or computed
with: ``delta = check.in_open_interval(0, 1)(delta=delta)``. The value is given by keyword, and the message names it. A
frozen dataclass states the rule of each field in its annotation and checks them with ``check_fields``.

A number is a known value: Python's numbers and their subclasses (without calling their methods), NumPy's scalars,
arrays of NumPy, JAX and PyTorch without an axis, and registered real numbers that give their ratio. A float rule
converts each to its double, which is then checked, stored, shown and accounted. A value between two doubles becomes the
one on the safe side, ``toward``, and is refused if a rule names no side. A decimal that is the shortest text of a
double is that double (``Decimal("0.1")`` is 0.1, as in JSON). Refused are values that would round to 0 or overflow,
NaN, text, complex numbers, dates, arrays with an axis or of a subclass (masked ones, ones with a unit), and traced
values. The sides of an interval are rounded outwards. An integer rule takes only integers, not 2.0. Booleans are not
numbers here, and numbers are not booleans.

No library is imported here: a library that is not loaded has no values.

>>> in_open_interval(0, 1)(delta=1.5)
Traceback (most recent call last):
epsilog.terms.errors.CheckError: delta must be in (0, 1), got 1.5
"""

from __future__ import annotations

import dataclasses
import math
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from numbers import Integral, Rational, Real
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

from epsilog.terms.errors import CheckError

LARGEST_INTEGER = 2**53 - 1  # the largest integer that JSON carries exactly (RFC 8785)
UP, DOWN = math.inf, -math.inf
_LONGEST = 200  # characters of a value in a message
_MOST_DIGITS = 10_000  # of a decimal, before its point or after it
NUMPY_KINDS = "iufV"  # of NumPy: whole numbers, floats, and floats that others have added (bfloat16)

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=Enum)


def format_value(value: object) -> str:
    """A value as a message shows it: its own words, cut, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - others', or a whole number of more digits than Python writes
        return "a number of thousands of digits" if type(value) is int else f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def exact(name: str, value: object, bound: str = "a number") -> int | float | Decimal | Fraction:
    """Return the number that a value holds, without rounding; ``bound`` says in errors what is meant.

    Raises:
        CheckError: it holds no number, or more than one.

    >>> class Loud(float):
    ...     def __float__(self):
    ...         return 0.0
    >>> exact("delta", Loud(0.5))
    0.5
    """
    kind = type(value)
    if kind is float or kind is int:
        return value  # type: ignore[return-value]
    if not issubclass(kind, bool):
        if issubclass(kind, float):
            return float.__pos__(value)  # type: ignore[arg-type]
        if issubclass(kind, int):
            return int.__pos__(value)  # type: ignore[arg-type]
        if issubclass(kind, Decimal):
            return Decimal(value)  # type: ignore[arg-type]
        if issubclass(kind, Fraction):
            return _ratio(name, value, lambda: (_slot(value, "_numerator"), _slot(value, "_denominator")))
        held = _unwrap_scalar(name, value)
        if held is not value:
            return exact(name, held, bound)
        if issubclass(kind, Real):
            return _rational(name, value)
    raise CheckError(name, bound, format_value(value))


def _rational(name: str, value: Any) -> int | Fraction:
    if isinstance(value, Integral):
        return _ratio(name, value, lambda: (value, 1)).numerator
    if isinstance(value, Rational):
        return _ratio(name, value, lambda: (value.numerator, value.denominator))
    return _ratio(name, value, lambda: value.as_integer_ratio())  # noqa: PLW0108 - a method that is missing, too


def _ratio(name: str, value: Any, parts: Callable[[], tuple[Any, Any]]) -> Fraction:
    """Return the number that a value shows as a ratio of two whole numbers; a part is never cut to a whole number."""
    try:
        above, below = parts()
    except Exception:  # noqa: BLE001 - theirs, of infinities and NaN among them
        raise CheckError(name, "a finite number", format_value(value)) from None
    try:
        return Fraction(_part(above), _part(below))
    except Exception:  # noqa: BLE001 - theirs, and a denominator of 0
        raise CheckError(name, "a number that is a ratio of two whole numbers", format_value(value)) from None


def _part(value: Any) -> int:
    """A part of a ratio: whatever Python takes as a whole number, but a flag of any library."""
    held = _unwrap_scalar("part", value)
    found = operator.index(held)
    if isinstance(held, bool) or isinstance(found, bool):
        raise TypeError
    return int.__pos__(found)


def _slot(value: Any, part: str) -> Any:
    return vars(Fraction)[part].__get__(value)


def _unwrap_scalar(name: str, value: Any) -> Any:
    """Return what a scalar of NumPy, or an array without an axis, holds, as Python's own; any other value as it is."""
    kind = type(value)
    homes = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "jax" in homes and any(base.__name__ == "Tracer" for base in kind.__mro__):
        bound = "a number that is known now, not a value that JAX traces (jit, grad, vmap)"
        raise CheckError(name, bound, kind.__name__)
    try:
        if "jaxlib" in homes and kind.__name__ == "ArrayImpl":
            return _of_numpy(sys.modules["numpy"].asarray(value)) if value.shape == () else value
        if "torch" in homes:
            return _of_torch(value)
        if "numpy" in homes:
            return _of_numpy(value)
    except CheckError:
        raise
    except Exception:  # noqa: BLE001 - theirs: a deleted array, a tensor without data, a key
        raise CheckError(name, "a number that can be read now", f"a {kind.__name__}") from None
    return value


def _of_numpy(value: Any) -> Any:
    numpy = sys.modules["numpy"]
    kind = type(value)
    if kind is numpy.ndarray:
        if value.ndim or value.dtype.kind not in (*NUMPY_KINDS, "b"):
            return value
        item = value[()]
        return item if item.dtype.kind == "b" else _of_numpy(item)
    if not issubclass(kind, numpy.generic) or value.dtype.kind not in NUMPY_KINDS:
        return value
    if issubclass(kind, numpy.longdouble):
        wide = numpy.longdouble
        if not numpy.isfinite(value):
            return wide.__float__(value)
        return Fraction(*wide.as_integer_ratio(value)) if value else wide.__float__(value)
    item = numpy.generic.item(value)
    return item if type(item) in (int, float) else value


def _of_torch(value: Any) -> Any:
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.dim():
        return value
    item = value.detach().item()
    return item if type(item) in (int, float, bool) else value


def double(name: str, value: object, toward: float | None = None, *, decimals: bool = True) -> float:
    """Return the double that a value holds, or the next one towards the safe side.

    Args:
        name: what it is, for errors.
        value: a number.
        toward: the safe side, ``UP`` or ``DOWN``; None where no side is safe.
        decimals: whether a decimal that is the shortest text of a double stands for it, as it does in JSON and TOML.

    Raises:
        CheckError: no number; one that would round to zero or is beyond every double; one between two doubles where
            no side is safe.

    >>> double("epsilon", Decimal("0.1")), double("epsilon", Fraction(1, 3), DOWN) < Fraction(1, 3)
    (0.1, True)
    """
    if type(value) is float:  # what most are
        return value + 0.0  # no negative zero
    given = exact(name, value)
    if type(given) is float:
        return given + 0.0
    try:
        number = float(given)
    except (OverflowError, ValueError):  # past every double; a signaling NaN
        raise CheckError(name, "a finite number", format_value(value)) from None
    if isinstance(given, Decimal) and not given.is_finite():
        return number
    if math.isinf(number):
        raise CheckError(name, "a finite number", format_value(value))
    if number == 0:
        if given:
            raise CheckError(name, "0 or a number that does not round to it", format_value(value))
        return 0.0
    held: Any = Decimal.from_float(number) if isinstance(given, Decimal) else Fraction(number)
    if held == given or (decimals and isinstance(given, Decimal) and Decimal(repr(number)) == given):
        return number
    if toward is None:
        raise CheckError(name, f"a number that a double holds, such as {number!r}", format_value(value))
    return number if (held > given) == (toward > 0) else math.nextafter(number, toward)


def parse_integer(name: str, value: object) -> int:
    """Return the integer that a value holds; 2.0 is not one."""
    if type(value) is int:
        return value
    found = exact(name, value, "a whole number")
    if type(found) is not int:
        raise CheckError(name, "a whole number", format_value(value))
    return found


def fraction(name: str, value: object, bound: str = "a number") -> Fraction:
    """Return the finite number that a value holds, without rounding."""
    given = exact(name, value, bound)
    try:
        if isinstance(given, Decimal) and given.is_finite() and abs(given.adjusted()) > _MOST_DIGITS:
            raise CheckError(
                name, f"a number of at most {_MOST_DIGITS} digits", format_value(value)
            )  # it fills the memory
        return Fraction(given)
    except CheckError:
        raise
    except (OverflowError, ValueError):  # infinities and NaN
        raise CheckError(name, "finite", format_value(value)) from None


def truth(name: str, value: object) -> bool:
    """Return the flag that a value holds; a number is not one."""
    if isinstance(value, bool):
        return value
    try:
        held = _unwrap_scalar(name, value)
    except CheckError:
        held = None
    numpy = sys.modules.get("numpy")
    if isinstance(held, bool) or (numpy is not None and type(held) is numpy.bool_):
        return bool(held)
    raise CheckError(name, "True or False", format_value(value))


def is_series(value: object) -> bool:
    """Return whether it holds numbers in an order: a list, a range, an array."""
    if getattr(value, "shape", None) == ():  # an array without an axis, of any library
        return False
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Set)


@dataclass(frozen=True, slots=True)
class Validator(Generic[T]):
    """What a value must be: the rule of an argument, or in an annotation that of a field.

    Attributes:
        read: turns a named value into Python's own kind, or says why not.
        holds: whether what was read is in bounds.
        bound: the bound in words.
    """

    read: Callable[[str, Any], T]
    holds: Callable[[T], bool] | None = None
    bound: str = ""
    le_field: ClassVar[str] = ""

    def __call__(self, **named: object) -> T:
        """Check the one value given by keyword and returns it as Python's own kind."""
        ((name, value),) = named.items()
        return self.apply(name, value)

    def apply(self, name: str, value: Any) -> T:
        """Return the same of a value and its name."""
        found = self.read(name, value)
        if self.holds is not None and not self.holds(found):
            raise CheckError(name, self.bound, format_value(value))
        return found

    def rule(self, _: Any) -> Validator[T]:
        """Itself, as a field's: whatever the type that the annotation states."""
        return self


def check_fields(instance: Any) -> None:
    """Check a frozen dataclass, for its ``__post_init__``: each field becomes what the rule in its annotation returns.

    Raises:
        CheckError: a value is not what its field allows.
    """
    of_what: type = type(instance)
    for name, rule, le_field in _list_rules(of_what):
        one = rule(most=getattr(instance, le_field)) if le_field else rule
        object.__setattr__(instance, name, one.apply(name, getattr(instance, name)))


@cache
def _list_rules(kind: Any) -> tuple[tuple[str, Any, str], ...]:
    """Each field's rule; after those of all others, and still to be made, that of a field which another one bounds."""
    found = []
    for name, (stated, one) in list_annotations(kind).items():
        rule = partial(one.rule, stated) if one.le_field else one.rule(stated)
        found.append((name, rule, one.le_field))
    return tuple(sorted(found, key=lambda each: bool(each[2])))


@cache
def list_annotations(kind: Any) -> dict[str, tuple[Any, Any]]:
    """Return each field with a rule in its annotation, with its type and that rule."""
    hints = get_type_hints(kind, include_extras=True)
    found = {each.name: hints[each.name] for each in dataclasses.fields(kind)}
    annotated = {name: get_args(hint)[:2] for name, hint in found.items() if get_origin(hint) is Annotated}
    return {name: (stated, one) for name, (stated, one) in annotated.items() if hasattr(one, "le_field")}


def exact_rational() -> Validator[Fraction]:
    """Return a rule for a finite number without rounding: for exact amounts and exact sampling."""
    return Validator(fraction)


def real() -> Validator[float]:
    """Any real number, infinities and NaN included."""
    return Validator(double)


def finite(
    toward: float | None = None,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> Validator[float]:
    """A finite number, between the bounds that are given."""
    read = double if toward is None else partial(double, toward=toward)
    low = ge if gt is None else math.nextafter(gt, UP)
    high = le if lt is None else math.nextafter(lt, DOWN)
    least, most = -sys.float_info.max if low is None else low, sys.float_info.max if high is None else high
    return Validator(read, lambda x: least <= x <= most, _describe_bounds(gt, ge, lt, le))


def _describe_bounds(gt: float | None, ge: float | None, lt: float | None, le: float | None) -> str:
    low, high = ge if gt is None else gt, le if lt is None else lt
    if low is not None and high is not None:
        return f"in {'[' if gt is None else '('}{low:g}, {high:g}{']' if lt is None else ')'}"
    named = {"above": gt, "at least": ge, "below": lt, "at most": le}
    return " and ".join(["finite", *(f"{word} {bound:g}" for word, bound in named.items() if bound is not None)])


def positive(toward: float | None = None) -> Validator[float]:
    """A finite number above zero."""
    return finite(toward, gt=0)


def at_least(low: float, toward: float | None = None) -> Validator[float]:
    """A finite number, at least ``low``."""
    return finite(toward, ge=low)


def in_open_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number strictly between ``low`` and ``high``."""
    return finite(toward, gt=low, lt=high)


def in_closed_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number between ``low`` and ``high``, both allowed."""
    return finite(toward, ge=low, le=high)


def in_half_open_interval(low: float, high: float, toward: float | None = None) -> Validator[float]:
    """A number in ``[low, high)``."""
    return finite(toward, ge=low, lt=high)


def in_unit_interval(toward: float | None = None) -> Validator[float]:
    """A number in ``(0, 1]``."""
    return finite(toward, gt=0, le=1)


def bound(toward: float) -> Validator[float]:
    """A lower or an upper bound, at least 0 and perhaps infinite; what no double holds is rounded to its own side."""
    return Validator(partial(double, toward=toward, decimals=False), lambda x: x >= 0, "at least 0")


def integer(low: int, high: int = LARGEST_INTEGER) -> Validator[int]:
    """A whole number from ``low`` to ``high``."""

    def read(name: str, value: Any) -> int:
        found = parse_integer(name, value)
        if not low <= found <= high:
            bound = f"at least {low}" if high == LARGEST_INTEGER and found < low else f"in [{low}, {high}]"
            raise CheckError(name, bound, format_value(value))
        return found

    return Validator(read)


def boolean() -> Validator[bool]:
    """True or False, of any library."""
    return Validator(truth)


def text() -> Validator[str]:
    """A string that is not blank."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not str.strip(value):
            raise CheckError(name, "a string that is not blank", format_value(value))
        return str.__str__(value)  # whatever methods a subclass has

    return Validator(read)


def one_of(choices: Collection[T]) -> Validator[T]:
    """Return a rule for a member of ``choices``, which it returns unchanged."""

    def read(name: str, value: Any) -> T:
        for choice in choices:
            try:
                same: object = value == choice
            except Exception:  # noqa: BLE001 - of an array, or of a library that compares with nothing
                break
            if type(same).__name__ in ("bool", "bool_") and same:
                return choice
        raise CheckError(name, f"one of {', '.join(map(str, choices))}", format_value(value))

    return Validator(read)


def enum_member(kind: type[E]) -> Validator[E]:
    """A member of an enum, given as itself or by its value; code compares members by identity."""
    return one_of(tuple(kind))


def instance_of(kind: type | tuple[type, ...], parse: Callable[[str, Any], Any] | None = None) -> Validator[Any]:
    """Return an instance of ``kind``, as it is; ``parse`` makes one of anything else, or says why not."""
    expected = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)

    def read(name: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if parse is None:
            raise CheckError(name, f"a {expected}", format_value(value))
        return parse(name, value)

    return Validator(read)


def sequence_of(rule: Validator[T]) -> Validator[tuple[T, ...]]:
    """A tuple of what ``rule`` allows, from any ordered series: a list, an array."""

    def read(name: str, value: Any) -> tuple[T, ...]:
        if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
            raise CheckError(name, "a series, such as a list", format_value(value))
        try:
            items = tuple(value)
        except TypeError:  # an array without an axis
            raise CheckError(name, "a series, such as a list", format_value(value)) from None
        try:
            return tuple([rule.apply(name, item) for item in items])
        except CheckError:
            return tuple(rule.apply(f"{name}[{i}]", item) for i, item in enumerate(items))  # says which

    return Validator(read)


def pair_of(first: Validator[T], second: Validator[U]) -> Validator[tuple[T, U]]:
    """A pair of what the two rules allow."""

    def read(name: str, value: Any) -> tuple[T, U]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise CheckError(name, "a pair", format_value(value))
        return first.apply(name, value[0]), second.apply(name, value[1])

    return Validator(read)


def optional(rule: Validator[T]) -> Validator[T | None]:
    """None, or what ``rule`` allows."""
    return Validator(lambda name, value: None if value is None else rule.apply(name, value))


def with_length(rule: Validator[Any], low: int, high: int, of: str) -> Validator[Any]:
    """Return what ``rule`` allows, if it has ``low`` to ``high`` items or characters."""
    return Validator(rule.apply, lambda found: low <= len(found) <= high, f"{low} to {high} {of} long")
