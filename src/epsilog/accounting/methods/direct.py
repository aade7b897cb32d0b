"""Methods that are one call: closed forms, the largest loss, balls-in-bins, the inversion integral."""

from __future__ import annotations

from contextlib import suppress

from epsilog.accounting.inversion.characteristic import OutOfReachError
from epsilog.accounting.inversion.integral import inversion_bounds
from epsilog.accounting.prepared import Prepared
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.gaussian import gaussian_bounds
from epsilog.numerics.questions import EpsilonAt, Question, anything, at_most, size


def gaussian(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer about Gaussians and statements of mu-GDP; None as soon as one part is something else."""
    return None if prepared.mu is None else gaussian_bounds(prepared.mu, question)


def pure(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds epsilon at delta 0, and other answers from above; None where no loss is the largest."""
    largest = prepared.largest_loss
    if question == EpsilonAt(0):
        return largest
    found = Bounds(0.0, at_most(question, largest.upper))
    return None if found == anything(question) else found


def balls_in_bins(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about epochs of the same bins over Gaussians; None for anything else."""
    return None if prepared.bins is None else search.bounds(*prepared.bins, question, gap=gap)


def inversion(prepared: Prepared, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about several releases with pairs; None where no useful bound on the error is known."""
    if prepared.has_pairs and prepared.orderings(size(question))[0].rounds > 1:
        with suppress(OutOfReachError):
            return inversion_bounds(prepared.orderings(size(question)), question, gap)
    return None
