"""Methods that are one call: closed forms, the largest loss, balls-in-bins, the inversion integral."""

from __future__ import annotations

from contextlib import suppress

from epsilog.accounting.inversion.characteristic import OutOfReachError
from epsilog.accounting.inversion.integral import inversion_bounds
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.gaussian import gaussian_bounds
from epsilog.numerics.questions import Bounds, EpsilonAt, Question, anything, at_most, size


def gaussian(composition: Composition, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer about Gaussians and statements of mu-GDP; None as soon as one part is something else."""
    return None if composition.mu is None else gaussian_bounds(composition.mu, question)


def pure(composition: Composition, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds epsilon at delta 0, and other answers from above; None where no loss is the largest."""
    largest = composition.largest_loss
    if question == EpsilonAt(0):
        return largest
    found = Bounds(0.0, at_most(question, largest.upper))
    return None if found == anything(question) else found


def balls_in_bins(composition: Composition, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about epochs of the same bins over Gaussians; None for anything else."""
    return None if composition.bins is None else search.bounds(*composition.bins, question, gap=gap)


def inversion(composition: Composition, question: Question, gap: float) -> Bounds | None:
    """Bounds the answer about several releases with pairs; None where no useful bound on the error is known."""
    if composition.has_pairs and composition.orderings(size(question))[0].rounds > 1:
        with suppress(OutOfReachError):
            return inversion_bounds(composition.orderings(size(question)), question, gap)
    return None
