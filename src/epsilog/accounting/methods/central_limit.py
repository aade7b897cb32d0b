"""The central limit theorem at a tilt, with the Berry-Esseen error."""

from __future__ import annotations

from contextlib import suppress

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.many import many_bounds
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import Question, size
from epsilog.accounting.waves import OutOfReachError


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer about 10,000 rounds and more; None for fewer, and for laws that have no cells there."""
    if prepared.has_pairs and prepared.orderings(size(question))[0].rounds > 1:
        with suppress(OutOfReachError):
            return many_bounds(prepared.orderings(size(question)), question)
    return None
