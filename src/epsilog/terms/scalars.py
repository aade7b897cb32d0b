"""One number or flag of any library as Python's own: exactly, rounded to the safe side, or not at all.

Every rule of ``check`` reads what it is given through this module, and nothing else in epsilog converts an argument.
What is taken is one number that is known now: Python's and their subclasses (whose methods are not asked), NumPy's
scalars, arrays of NumPy, JAX and PyTorch without an axis, and what is registered as a real number and gives its ratio.
Refused are text, flags, complex numbers, dates, arrays with an axis, arrays of a subclass (masked ones, ones with a
unit), and values that are being traced.

No library is imported here: while nobody has loaded it, no value can be of it.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from epsilog.terms.errors import CheckError

UP, DOWN = math.inf, -math.inf
_LONGEST = 200  # characters of a value in a message
_MOST_DIGITS = 10_000  # of a decimal, before its point or after it
_KINDS = "iufV"  # of NumPy: whole numbers, floats, and floats that others have added (bfloat16)


def format_value(value: object) -> str:
    """A value as a message shows it: its own words, cut, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - others', or a whole number of more digits than Python writes
        return "a number of thousands of digits" if type(value) is int else f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def exact(name: str, value: object, bound: str = "a number") -> int | float | Decimal | Fraction:
    """The number that a value holds, without rounding; ``bound`` says in errors what is meant.

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
    """The number that a value shows as a ratio of two whole numbers; a part is never cut to a whole number."""
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
    """What a scalar of NumPy, or an array without an axis, holds, as Python's own; any other value as it is."""
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
        if value.ndim or value.dtype.kind not in (*_KINDS, "b"):
            return value
        item = value[()]
        return item if item.dtype.kind == "b" else _of_numpy(item)
    if not issubclass(kind, numpy.generic) or value.dtype.kind not in _KINDS:
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
    """The double that a value holds, or the next one towards the safe side.

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


def doubles(name: str, values: Any) -> Any:
    """An array of doubles that hold each number of a series, in the shape of an array; a list has one axis.

    Raises:
        CheckError: no series, or one with a mask; an item that is no number, or that no double holds.
    """
    import numpy as np

    if isinstance(values, np.ndarray) and type(values) is not np.ndarray:
        raise CheckError(name, "an array of numbers, without a mask or a unit", f"a {type(values).__name__}")
    try:
        table = np.asarray(in_reach(values)) if hasattr(values, "__array__") else None
    except Exception:  # noqa: BLE001 - theirs: traced, deleted, without data
        raise CheckError(name, "numbers that can be read now", f"a {type(values).__name__}") from None
    if table is None:
        if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
            raise CheckError(name, "a series, such as a list", format_value(values))
        return np.array([double(f"{name}[{i}]", item) for i, item in enumerate(values)], dtype=np.float64)
    kind, size = table.dtype.kind, table.dtype.itemsize
    if kind in _KINDS and not issubclass(table.dtype.type, np.void):
        found = table.astype(np.float64)
        held = size < found.itemsize or (size == found.itemsize and kind == "f")
        if held or not found.size or (kind in "iu" and np.abs(found).max() < 2.0**53):
            return found
    items = [double(f"{name}[{', '.join(map(str, at))}]", table[at]) for at in np.ndindex(table.shape)]
    return np.array(items, dtype=np.float64).reshape(table.shape)


def is_series(value: object) -> bool:
    """Whether it holds numbers in an order: a list, a range, an array."""
    if getattr(value, "shape", None) == ():  # an array without an axis, of any library
        return False
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Set)


def in_reach(values: Any) -> Any:
    """A tensor of PyTorch as one that NumPy reads, without rounding; anything else as it is."""
    if "torch" not in {base.__module__.partition(".")[0] for base in type(values).__mro__}:
        return values
    values = values.detach().cpu()
    return values.double() if values.is_floating_point() else values  # NumPy has no bfloat16


def parse_integer(name: str, value: object) -> int:
    """The whole number that a value holds; 2.0 is none."""
    if type(value) is int:
        return value
    found = exact(name, value, "a whole number")
    if type(found) is not int:
        raise CheckError(name, "a whole number", format_value(value))
    return found


def fraction(name: str, value: object, bound: str = "a number") -> Fraction:
    """The finite number that a value holds, without rounding."""
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
    """The flag that a value holds; numbers are none."""
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
