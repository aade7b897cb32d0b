"""Losses that have a largest: it is epsilon at delta 0, bounds epsilon elsewhere, and at it delta is 0."""

from __future__ import annotations

from epsilog.accounting.prepared import Prepared
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.questions import EpsilonAt, Question, anything, at_most


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds epsilon at delta 0, and other answers from above; None where no loss is the largest."""
    largest = prepared.largest_loss
    if question == EpsilonAt(0):
        return largest
    found = Bounds(0.0, at_most(question, largest.upper))
    return None if found == anything(question) else found
