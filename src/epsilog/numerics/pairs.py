"""Dominating pairs of a release by the order of the neighbors, and how those of several releases compose.

docs/accounting/certified-bounds.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import BaseLaw
from epsilog.numerics.laws.pair import Direction, Pair, Parts
from epsilog.numerics.reach import pure
from epsilog.numerics.rounding import union

Laws = tuple[BaseLaw, BaseLaw]
"""A law that dominates, and one that some neighbors attain."""

_EITHER = (Direction.REMOVE, Direction.ADD)
_RAREST = 1e-290  # a sampling probability whose inverse, times any loss, a double holds


class Effort(NamedTuple):
    """How finely pairs are worked out.

    Attributes:
        tail_mass: what cutting the tails of one release may add to delta.
        alone: whether nothing but Gaussians stands beside the release, so that many of its instances are looked at.
    """

    tail_mass: float = 1e-11
    alone: bool = True


@dataclass(frozen=True)
class Ordering:
    """One of the ways in which two neighbors can be ordered, as composed pairs.

    Attributes:
        upper: pairs whose composition dominates the release in this order, with their counts.
        lowers: compositions that some two neighbors attain (or exceed), any of which bounds from below.
    """

    upper: Parts
    lowers: tuple[Parts, ...]

    @cached_property
    def largest_loss(self) -> float:
        """Bounds the largest loss from above."""
        return largest_loss(self.upper)[1]

    @cached_property
    def rounds(self) -> int:
        """Counts the single pairs."""
        return sum(count for _, count in self.upper)


Pairs = Mapping[Direction, Ordering]
"""By direction; ``Direction.PLAIN`` is there if neighbors look the same in either order."""


def single(above: Pair, *below: Pair) -> Ordering:
    """One release: the pair that dominates it, and others that neighbors attain."""
    return Ordering(((above, 1),), tuple(((pair, 1),) for pair in below))


def plain(laws: Laws, instances: Sequence[BaseLaw] = ()) -> Pairs:
    """A release that is not sampled; ``instances`` are laws that neighbors attain, where there are several."""
    above, below = laws
    return dict.fromkeys(Direction, single(Pair(above), *(Pair(law) for law in instances or (below,))))


def sampled(laws: Laws, shares: tuple[float, float], instances: Sequence[BaseLaw] = ()) -> Pairs:
    """A release on a sample that a unit is in with a chance between these two: a pair loses more the larger it is.

    Next to none counts as none below, above as some.
    """
    (above, below), (low, high) = laws, shares
    low, high = low if low >= _RAREST else 0.0, max(high, _RAREST) if high > 0 else 0.0
    nothing = pure(0.0, 0.0)
    belows = (instances or (below,)) if low > 0 else (nothing,)
    return {
        way: single(
            bent(above if high > 0 else nothing, high, way),
            *(bent(law, low, way) for law in belows),
        )
        for way in Direction
        if low == 1 or way is not Direction.PLAIN
    }


def bent(law: BaseLaw, share: float, direction: Direction) -> Pair:
    """What sampling makes of a law in one direction."""
    return Pair(law) if share in (0.0, 1.0) else Pair(law, share, direction)


def composed(parts: Iterable[tuple[Pairs, int]]) -> Pairs:
    """All of several releases, each so often."""
    found = list(parts)
    ways = [way for way in Direction if all(way in pairs for pairs, _ in found)]
    return {way: _composed([(pairs[way], count) for pairs, count in found]) for way in ways}


def _composed(parts: list[tuple[Ordering, int]]) -> Ordering:
    many = max((len(one.lowers) for one, _ in parts), default=1)
    each = [one.lowers if len(one.lowers) == many else one.lowers * many for one, _ in parts]
    counts = [count for _, count in parts]
    return Ordering(
        _times([one.upper for one, _ in parts], counts),
        tuple(_times(lowers, counts) for lowers in zip(*each, strict=True)) if parts else ((),),
    )


def _times(parts: Iterable[Parts], counts: Iterable[int]) -> Parts:
    return tuple((pair, often * n) for part, n in zip(parts, counts, strict=True) for pair, often in part)


def orderings(pairs: Pairs, *, replaced: bool) -> tuple[Ordering, ...]:
    """Every order in which neighbors can differ; the worst of them counts.

    With units that are ``replaced`` either neighbor may come first in each release.
    """
    if Direction.PLAIN in pairs:
        return (pairs[Direction.PLAIN],)
    removed, added = (pairs[way] for way in _EITHER)
    if not replaced:
        return removed, added
    sides = zip(removed.lowers, added.lowers, strict=True)
    lowers = ((first, other, _half_and_half(first, other)) for first, other in sides)
    return (Ordering(pairs[Direction.BOTH].upper, tuple(chain.from_iterable(lowers))),)


def _half_and_half(removed: Parts, added: Parts) -> Parts:
    """The analyst may turn the question round at every other release: then both orders occur."""
    mixed: list[tuple[Pair, int]] = []
    for (first, count), (other, _) in zip(removed, added, strict=True):
        turned = count // 2 if first != other else 0
        mixed += [(first, count - turned)] + ([(other, turned)] if turned else [])
    return tuple(mixed)


def largest_loss(parts: Parts) -> tuple[float, float]:
    """Bounds the largest loss of a composition from below and above: epsilon at delta 0; ``inf`` if none is largest.

    The parts' bounds are added as they are and rounded once, outwards.
    """
    sides, largest = [], [(pair.largest_loss(), count) for pair, count in parts]
    for side in (0, 1):
        if any(math.isinf(losses[side]) for losses, _ in largest):
            sides.append(math.inf)
        else:
            total = sum((Fraction(losses[side]) * count for losses, count in largest), Fraction(0))
            sides.append(rounded(total, up=side == 1))
    return sides[0], sides[1]


def certain_mass(parts: Parts) -> float:
    """The mass under P of what Q cannot produce, rounded down."""
    alone = [
        (0.0 if pair.direction is Direction.ADD else pair.law.only_p * pair.sampling_probability, n)
        for pair, n in parts
    ]
    return union(alone)[0]
