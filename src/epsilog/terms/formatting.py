"""Bounds as text: a rounded upper bound is never below the bound, a rounded lower one never above it."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

__all__ = ["count_of_thousand", "format_bound", "format_decimal", "format_lower", "format_upper"]

_SPEC = re.compile(r"\.(\d{1,2})([gf])")


def format_upper(value: float, digits: int = 4) -> str:
    """Return an upper bound at ``digits`` significant digits, rounded up.

    >>> format_upper(3.99841), format_upper(1e-5), format_upper(float("inf")), format_upper(2410.0)
    ('3.999', '1e-5', 'inf', '2410')
    """
    return _round_decimal(value, digits, ROUND_CEILING)


def format_lower(value: float, digits: int = 4) -> str:
    """A lower bound at ``digits`` significant digits, rounded down.

    >>> format_lower(3.99891), format_lower(0.0)
    ('3.998', '0')
    """
    return _round_decimal(value, digits, ROUND_FLOOR)


_OUTCOMES = 1e-9  # more than published outcomes of checks can add to a rate: 102 times 2^-63


def count_of_thousand(rate: float) -> int:
    """Return at most how many of 1,000 a bound on a rate allows, with published outcomes of checks.

    >>> count_of_thousand(0.0721), count_of_thousand(1.0), count_of_thousand(0.0)
    (73, 1000, 1)
    """
    return min(1000, math.ceil(1000 * (rate + _OUTCOMES)))


def format_bound(value: float, spec: str, *, upper: bool) -> str:
    """A bound by a format such as ``.3g`` (significant digits) or ``.2f`` (decimal places), rounded to its own side.

    >>> format_bound(1.005, ".2f", upper=True), format_bound(1.005, ".2f", upper=False)
    ('1.01', '1.00')
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(f"format of a bound must be like .3g or .2f, got {spec!r}")
    digits, kind = int(match[1]), match[2]
    if kind == "g":
        return _round_decimal(value, max(digits, 1), ROUND_CEILING if upper else ROUND_FLOOR)
    if not math.isfinite(value):
        return f"{value:g}"
    with localcontext(prec=400):
        return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING if upper else ROUND_FLOOR):f}"


def _round_decimal(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value) or value == 0:
        return "inf" if value == math.inf else f"{value:g}"
    exact = Decimal(repr(value))  # what the shortest decimal of the double says: 1e-5 stays 1e-5
    if rounding == ROUND_CEILING and Decimal(value) > exact and len(exact.as_tuple().digits) > digits:
        exact = Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    if -4 <= rounded.adjusted() < 15:
        return f"{rounded.normalize():f}"
    mantissa, _, power = f"{rounded.normalize():e}".partition("e")
    return f"{mantissa}e{int(power)}"


def format_decimal(number: float) -> str:
    """The shortest decimal of a double from 0 on, as certificates write it.

    >>> format_decimal(1e-05), format_decimal(4.0), format_decimal(1e22)
    ('1e-5', '4', '1e22')
    """
    digits, _, exponent = repr(float(number)).removesuffix(".0").partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits
