"""Privacy loss distributions, composed on a lattice: any release with pairs."""

from __future__ import annotations

from epsilog.accounting import distributions
from epsilog.accounting.bounds import Bounds
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import Question, size


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer; None where a part has no pair of its own."""
    if not prepared.has_pairs:
        return None
    return distributions.bounds(prepared.orderings(size(question)), question, gap=gap)


def above(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """The same from above only: never better than ``bounds``, and several times as fast."""
    if not prepared.has_pairs:
        return None
    return Bounds(0.0, distributions.upper_bound(prepared.orderings(size(question)), question, gap=gap))
