"""What is promised, to whom and for what: epsilon, delta, relation and unit, never apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epsilog.terms import check, codec
from epsilog.terms.digits import upper_text
from epsilog.terms.notebook import html_table


class NeighboringRelation(StrEnum):
    """Which two data sets must be hard to tell apart.

    Add-or-remove: one has one unit more. Replace-one: one unit differs, the size does not (a sum moves twice as far).
    Zero-out: one unit's contribution is replaced by nothing while its place stays (dp-accounting: REPLACE_SPECIAL).
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@codec.term("guarantee")
@dataclass(frozen=True, slots=True)
class Guarantee:
    """An (epsilon, delta) promise with everything that gives it meaning.

    Attributes:
        epsilon: upper bound, in nats.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbours.
        privacy_unit: what one neighbour differs in: "example", "school", "patient", "device-day".
        population: how many such units there are; declared, and public.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    privacy_unit: str
    population: int

    def __post_init__(self) -> None:
        check.fields(
            self,
            epsilon=check.at_least(0, check.UP),
            delta=check.half_open(0, 1, check.UP),
            relation=check.member(NeighboringRelation),
            privacy_unit=check.text(),
            population=check.integer(1),
        )

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", upper_text(self.epsilon)),
            ("delta", upper_text(self.delta)),
            ("one", self.privacy_unit),
            ("relation", str(self.relation)),
            ("population", f"{self.population:,}"),
        ]
        return html_table("What is promised", rows)
