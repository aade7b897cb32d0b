"""Statements of rho-zCDP from below: a Gaussian satisfies them."""

from __future__ import annotations

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.gaussian import gaussian_bounds
from epsilog.accounting.methods.lattice import lattice_bounds
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import Question, anything


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer from below; None without such a statement."""
    least = prepared.attained
    if least is prepared:
        return None
    if least.mu is not None:
        found = gaussian_bounds(least.mu, question)
    else:
        found = lattice_bounds(least.orderings(), question, gap=gap)
    return Bounds(found.lower, anything(question).upper)
