"""A release: what was, or will be, computed from private data and shown.

A release says everything an accountant needs and nothing about how it was run. Sensitivities and noise multipliers
refer to *one unit's contribution*: the most that adding or removing a unit (or zeroing it out) moves the sum. Replacing
one unit by another moves it up to twice as far; accountants apply that factor, callers never do.
"""

from __future__ import annotations

from typing import Any

from epsilog.terms import codec
from epsilog.terms.fields import Field, check_fields

SENSITIVITY = "largest change of the sum by one privacy unit, in {} norm"

COUNT_SENSITIVITY = Field("largest change of the count by one privacy unit, a whole number", "Δ", ge=1)

MONOTONE = Field("whether no neighbor changes two scores in opposite directions; the loss is then at most epsilon / 2")

ON_SAMPLE = Field("what is computed on the sample")


class Release:
    """Something that was, or will be, computed from private data and shown. Abstract; every subclass is final."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with a version; ``epsilog.from_json`` reads them."""
        return codec.to_json(self)
