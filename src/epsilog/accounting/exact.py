"""Numbers without round-off: fractions, rounded once, to the side that is safe."""

from __future__ import annotations

from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.terms import NeighboringRelation


def pure_loss(bag: Bag, relation: NeighboringRelation) -> Fraction | None:
    """The largest loss of a mix of Laplace noises and pure statements, which simply add up; None if a part is no such.

    Neighbors attain it: with Laplace and staircase noise those a whole sensitivity apart, with a statement those of
    randomized response; with noisy maxima and sparse vectors they come as close as one likes
    (docs/accounting/selection.md).

    >>> from epsilog.mechanisms import Laplace
    >>> pure_loss({Laplace(100.0): 40}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    Fraction(2, 5)
    """
    losses = [part.pure_loss(relation) for part in bag]
    known = [count * loss for count, loss in zip(bag.values(), losses, strict=True) if loss is not None]
    return sum(known, Fraction(0)) if len(known) == len(losses) else None
