"""Balls-in-bins with nothing beside it: sums of likelihood ratios, bounded in the convex order."""

from __future__ import annotations

from epsilog.accounting.prepared import Prepared
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.questions import Question


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about epochs of the same bins over Gaussians; None for anything else."""
    return None if prepared.bins is None else search.bounds(*prepared.bins, question, gap=gap)
