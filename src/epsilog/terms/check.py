"""Checks with one voice: ``delta must be in (0, 1), got 1.5``.

Each check takes its bound first and the values by keyword, so that the message names the argument. NaN fails all of
them, and so does anything that is not a real number; booleans are not numbers here.

>>> between(0, 1, delta=1.5)
Traceback (most recent call last):
ValueError: delta must be in (0, 1), got 1.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from numbers import Integral, Real

LARGEST_INTEGER = 2**53 - 1  # the largest integer that JSON carries exactly (RFC 8785)


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


def _require(bound: str, holds: Callable[[float], bool], named: dict[str, object]) -> None:
    for name, value in named.items():
        number = _real(name, value)
        if not (math.isfinite(number) and holds(number)):
            raise ValueError(f"{name} must be {bound}, got {value!r}")


def finite(**named: object) -> None:
    """Requires finite real numbers."""
    _require("finite", lambda _: True, named)


def positive(**named: object) -> None:
    """Requires finite numbers above zero."""
    _require("finite and above 0", lambda x: x > 0, named)


def at_least(bound: float, **named: object) -> None:
    """Requires finite numbers, each at least ``bound``."""
    _require(f"finite and at least {bound:g}", lambda x: x >= bound, named)


def above(bound: float, **named: object) -> None:
    """Requires finite numbers, each above ``bound``."""
    _require(f"finite and above {bound:g}", lambda x: x > bound, named)


def between(low: float, high: float, **named: object) -> None:
    """Requires numbers strictly between ``low`` and ``high``."""
    _require(f"in ({low:g}, {high:g})", lambda x: low < x < high, named)


def within(low: float, high: float, **named: object) -> None:
    """Requires numbers between ``low`` and ``high``, both allowed."""
    _require(f"in [{low:g}, {high:g}]", lambda x: low <= x <= high, named)


def half_open(low: float, high: float, **named: object) -> None:
    """Requires numbers in ``[low, high)``."""
    _require(f"in [{low:g}, {high:g})", lambda x: low <= x < high, named)


def integer(low: int, high: int = LARGEST_INTEGER, **named: object) -> None:
    """Requires whole numbers from ``low`` to ``high``."""
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if not low <= int(value) <= high:
            bound = f"at least {low}" if high == LARGEST_INTEGER and int(value) < low else f"in [{low}, {high}]"
            raise ValueError(f"{name} must be {bound}, got {value!r}")


def text(**named: object) -> None:
    """Requires strings that are not blank."""
    for name, value in named.items():
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} must be a string that is not blank, got {value!r}")


def one_of(choices: Collection[object], **named: object) -> None:
    """Requires members of ``choices``."""
    for name, value in named.items():
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")


def instance(kind: type | tuple[type, ...], **named: object) -> None:
    """Requires instances of ``kind``."""
    expected = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
    for name, value in named.items():
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be a {expected}, got {value!r}")
