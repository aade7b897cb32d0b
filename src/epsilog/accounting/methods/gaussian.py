"""Gaussians alone are one Gaussian, whose answers are closed forms."""

from __future__ import annotations

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.gaussian import gaussian_bounds
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import Question


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer about Gaussians and statements of mu-GDP; None as soon as one part is something else."""
    return None if prepared.mu is None else gaussian_bounds(prepared.mu, question)
