"""Bounds as text: a rounded upper bound is never below the bound, a rounded lower one never above it."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

__all__ = ["bound_text", "lower_text", "upper_text"]

_SPEC = re.compile(r"\.(\d{1,2})([gf])")


def upper_text(value: float, digits: int = 4) -> str:
    """An upper bound at ``digits`` significant digits, rounded up.

    >>> upper_text(3.99841), upper_text(1e-5), upper_text(float("inf")), upper_text(2410.0)
    ('3.999', '1e-5', 'inf', '2410')
    """
    return _rounded(value, digits, ROUND_CEILING)


def lower_text(value: float, digits: int = 4) -> str:
    """A lower bound at ``digits`` significant digits, rounded down.

    >>> lower_text(3.99891), lower_text(0.0)
    ('3.998', '0')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def bound_text(value: float, spec: str, *, upper: bool) -> str:
    """A bound by a format such as ``.3g`` (significant digits) or ``.2f`` (decimal places), rounded to its own side.

    >>> bound_text(1.005, ".2f", upper=True), bound_text(1.005, ".2f", upper=False)
    ('1.01', '1.00')
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(f"format of a bound must be like .3g or .2f, got {spec!r}")
    digits, kind = int(match[1]), match[2]
    if kind == "g":
        return _rounded(value, max(digits, 1), ROUND_CEILING if upper else ROUND_FLOOR)
    if not math.isfinite(value):
        return f"{value:g}"
    with localcontext(prec=400):
        return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING if upper else ROUND_FLOOR):f}"


def _rounded(value: float, digits: int, rounding: str) -> str:
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
