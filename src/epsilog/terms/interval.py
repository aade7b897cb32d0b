"""Three-sided numbers: what may be claimed, what is certainly lost, and the best guess between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from epsilog.terms import check, codec
from epsilog.terms.charts import draw_interval_bar
from epsilog.terms.check import DOWN, UP
from epsilog.terms.errors import CheckError
from epsilog.terms.formatting import format_bound, format_lower, format_upper
from epsilog.terms.guarantee import NeighboringRelation
from epsilog.terms.messages import Message, message
from epsilog.terms.notebook import render_html_table

_TWO_ENDS = "an interval is not one number: use .upper (what may be claimed or charged) or .lower (how much is slack)"
_DIGITS = 7  # significant ones; an upper bound is rounded up, a lower one down


@codec.register_term("interval")
@dataclass(frozen=True, slots=True)
class Interval:
    """A certified interval: ``lower <= true value <= upper``.

    Only ``upper`` may be claimed or charged; ``lower`` shows how much of it is slack; ``estimate`` is never either.

    Attributes:
        lower: certified lower bound.
        upper: certified upper bound; ``inf`` when nothing is promised.
        estimate: the best guess, if the method has one.
        method: how it was computed, e.g. "exact Gaussian (Balle & Wang 2018)"; text becomes a message.
        relation: the neighboring relation it holds for.
        assumptions: what must be true of the run for it to hold.
        quantity: what is bounded: "epsilon" (nats), "delta", "advantage", ...
        given: the other numbers of the question, e.g. ``(("delta", 1e-5),)``.
    """

    lower: Annotated[float, check.bound(DOWN)]
    upper: Annotated[float, check.bound(UP)]
    method: Annotated[Message, message()]
    relation: Annotated[NeighboringRelation, check.enum_member(NeighboringRelation)]
    estimate: Annotated[float | None, check.optional(check.real())] = None
    assumptions: Annotated[tuple[Message, ...], check.sequence_of(message())] = ()
    quantity: Annotated[str, check.text()] = "epsilon"
    given: Annotated[tuple[tuple[str, float], ...], check.sequence_of(check.pair_of(check.text(), check.real()))] = ()

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.upper < self.lower:
            raise CheckError("upper", f"at least lower = {self.lower!r}", repr(self.upper))
        if self.estimate is not None and not self.lower <= self.estimate <= self.upper:  # so that NaN fails
            raise CheckError("estimate", f"in [{self.lower!r}, {self.upper!r}]", repr(self.estimate))

    @property
    def relative_width(self) -> float:
        """Return the relative width (upper - lower) / upper; 0 for an exact value, ``nan`` if nothing is bounded."""
        if self.upper == self.lower:
            return 0.0
        return (self.upper - self.lower) / self.upper if math.isfinite(self.upper) else math.nan

    def __float__(self) -> float:
        raise TypeError(_TWO_ENDS)

    def _refuse_comparison(self, _: object) -> bool:
        raise TypeError(_TWO_ENDS)

    __lt__ = __le__ = __gt__ = __ge__ = _refuse_comparison

    def __format__(self, spec: str) -> str:
        """Return both bounds, each rounded to its own side: ``.3g`` to digits, ``.2f`` to decimal places.

        >>> from epsilog.terms import NeighboringRelation
        >>> found = Interval(1.2341, 1.2349, "a method", NeighboringRelation.ZERO_OUT)
        >>> f"{found:.2f}", f"{found:.4g}"
        ('[1.23, 1.24]', '[1.234, 1.235]')
        """
        if not spec:
            return str(self)
        return f"[{format_bound(self.lower, spec, upper=False)}, {format_bound(self.upper, spec, upper=True)}]"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with a version; ``epsilog.from_json`` reads them."""
        return codec.to_json(self)

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        at = "".join(f" at {name} {value:.6g}" for name, value in self.given)
        sides = f"[{format_lower(self.lower, _DIGITS)}, {format_upper(self.upper, _DIGITS)}]"
        return f"{self.quantity} in {sides}{at} ({self.relation}; {self.method})"

    def _repr_html_(self) -> str:
        at = ", ".join(f"{name} = {value:.6g}" for name, value in self.given)
        rows = [
            ("upper bound (may be claimed)", format_upper(self.upper, _DIGITS)),
            ("lower bound", format_lower(self.lower, _DIGITS)),
            ("estimate", "-" if self.estimate is None else f"{self.estimate:.6g}"),
            ("method", str(self.method)),
            ("relation", str(self.relation)),
            *((("assumes" if i == 0 else ""), str(text)) for i, text in enumerate(self.assumptions)),
        ]
        title = f"{self.quantity} at {at}" if at else self.quantity
        estimate = None if self.estimate is None else ("estimate", self.estimate)
        says = f"{title}: between {format_lower(self.lower, _DIGITS)} and {format_upper(self.upper, _DIGITS)}"
        return draw_interval_bar(self.lower, self.upper, title=says, estimate=estimate) + render_html_table(title, rows)
