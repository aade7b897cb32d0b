"""The inversion integral of the composed characteristic function, with a proven error."""

from __future__ import annotations

from contextlib import suppress

from epsilog.accounting.inversion.characteristic import OutOfReachError
from epsilog.accounting.inversion.integral import inversion_bounds
from epsilog.accounting.prepared import Prepared
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.questions import Question, size


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about several releases with pairs; None where no useful bound on the error is known."""
    if prepared.has_pairs and prepared.orderings(size(question))[0].rounds > 1:
        with suppress(OutOfReachError):
            return inversion_bounds(prepared.orderings(size(question)), question, gap)
    return None
