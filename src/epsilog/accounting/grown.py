"""One release as a group meets it, where every distance grows with the group: docs/accounting/groups.md."""

from __future__ import annotations

from epsilog.mechanisms import (
    Release,
)
from epsilog.mechanisms.composition import Bag
from epsilog.terms import NeighboringRelation


def further(bag: Bag, relation: NeighboringRelation, units: int) -> tuple[Bag, Bag] | None:
    """Mixes that bound a group's answer above and below; None if a part has no distance that simply grows."""
    sides = []
    for high in (True, False):
        found: dict[Release, int] = {}
        for part, count in bag.items():
            whole = part.for_group(relation, units, above=high)
            if whole is None:
                return None
            found[whole] = found.get(whole, 0) + count
        sides.append(found)
    return sides[0], sides[1]
