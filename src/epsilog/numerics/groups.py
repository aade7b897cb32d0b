"""What group privacy multiplies delta by."""

from __future__ import annotations

import math

GROUPED = 2048
"""Roundings of a delta times ``group_factor``: docs/accounting/rounding.md, 4."""


def group_factor(share: float, units: int) -> float:
    """At least 1 + e^share + ... + e^((units - 1) share), but for roundings."""
    whole = units * share
    if share == 0:
        return float(units)
    if whole < 700:
        return math.expm1(whole) / math.expm1(share)
    grown = (units - 1) * share  # units e^((units - 1) share) is no less, and overflows later
    return units * math.exp(grown) if grown < 700 else math.inf
