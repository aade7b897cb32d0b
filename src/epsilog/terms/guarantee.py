"""What is promised, to whom and for what: epsilon, delta, relation and unit, never apart."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from epsilog.terms import check, fields
from epsilog.terms.fields import UP, Field
from epsilog.terms.formatting import format_upper
from epsilog.terms.notebook import render_html_table

OUTCOME_SHARE = 2.0**-32
"""Share of delta that a registered plan keeps for the published outcomes of checks on hidden draws."""


class NeighboringRelation(StrEnum):
    """Which two data sets must be hard to tell apart.

    Add-or-remove: one has one unit more. Replace-one: one unit differs, the size does not (a sum moves twice as far).
    Zero-out: one unit's contribution is replaced by nothing while its place stays (dp-accounting: REPLACE_SPECIAL).
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@fields.term("guarantee")
class Guarantee:
    """An (epsilon, delta) guarantee with everything that gives it meaning."""

    epsilon: Annotated[float, Field("upper bound", unit="in nats", ge=0, rounding=UP)]
    delta: Annotated[float, Field("failure probability, in [0, 1)", ge=0, lt=1, rounding=UP)]
    relation: Annotated[NeighboringRelation, Field("the neighboring relation")]
    privacy_unit: Annotated[str, Field('what one neighbor differs in: "example", "school", "patient", "device-day"')]
    population: Annotated[int, Field("number of units; declared, public", ge=1)]

    def __post_init__(self) -> None:
        check.check_fields(self)

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", format_upper(self.epsilon)),
            ("delta", format_upper(self.delta)),
            ("one", self.privacy_unit),
            ("relation", str(self.relation)),
            ("population", f"{self.population:,}"),
        ]
        return render_html_table("What is promised", rows)
