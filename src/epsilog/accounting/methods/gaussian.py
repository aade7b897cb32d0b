"""Gaussians alone are one Gaussian, whose answers are closed forms."""

from __future__ import annotations

from epsilog.accounting.prepared import Prepared
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.gaussian import gaussian_bounds
from epsilog.numerics.questions import Question


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer about Gaussians and statements of mu-GDP; None as soon as one part is something else."""
    return None if prepared.mu is None else gaussian_bounds(prepared.mu, question)
