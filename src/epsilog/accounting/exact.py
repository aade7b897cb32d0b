"""Numbers without round-off: fractions, rounded once, to the side that is safe."""

from __future__ import annotations

from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.mechanisms.composition import Composition
from epsilog.terms import NeighboringRelation


def pure_loss(bag: Bag, relation: NeighboringRelation) -> Fraction | None:
    """The largest loss of a mix."""
    return Composition(bag, relation).pure_loss
