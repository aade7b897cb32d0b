"""Pairs of mixtures of Gaussians: docs/accounting/mixtures.md.

Added, removed or zeroed out, a unit shows the mixture sum_i p_i N(c_i, 1) beside N(0, 1) at worst (Ganesh 2024,
arXiv:2401.10294); where that is beyond a lattice's reach, and where units are replaced, stand Poisson samples instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import BaseLaw, Normal
from epsilog.numerics.laws.mixture import GaussianMixture
from epsilog.numerics.laws.pair import Direction, Pair
from epsilog.numerics.laws.replaced import LARGEST_MU, ReplacedSample
from epsilog.numerics.laws.told import ToldWhich
from epsilog.numerics.pairs import Ordering, Pairs, bent
from epsilog.numerics.rounding import up

Chances = Sequence[tuple[float, Fraction]]
"""Distances above 0, ascending, each with its chance; the rest of 1 is the chance of none."""

_FARTHEST = 300.0  # a distance of the mixture's Gaussians
_NEAREST = 1e-6
_MOST = 256  # distances that a lattice is worked out with
_MOST_TOLD = 24  # of them, each of which is a law of its own
_RAREST = 1e-290  # a probability whose product with a small mass a double holds


def mixture_pairs(
    laws: tuple[Chances, Chances], noise: float, samples: tuple[Pairs, Pairs], *, replaced: bool
) -> Pairs:
    """What one such release loses, by direction.

    Args:
        laws: of what a unit contributes, rounded up and down.
        noise: its standard deviation.
        samples: pairs of Poisson samples that lose no less, and no more.
        replaced: whether neighbors replace a unit.
    """
    (over, under), (most, least) = laws, samples
    if replaced:
        law = told(over, noise)
        upper = most[Direction.PLAIN].upper if law is None else ((Pair(law), 1),)
        return dict.fromkeys(Direction, Ordering(upper, least[Direction.PLAIN].lowers))
    found: dict[Direction, Ordering] = {}
    for way in (Direction.REMOVE, Direction.ADD):
        above, below = mixed(over, noise, way, above=True), mixed(under, noise, way, above=False)
        found[way] = Ordering(
            most[way].upper if above is None else ((above, 1),),
            least[way].lowers if below is None else (((below, 1),),),
        )
    return found


def mixed(law: Chances, noise: float, direction: Direction, *, above: bool) -> Pair | None:
    """The mixture with distances and probabilities rounded outwards; None where no distance is within reach.

    It is a sample, with the chance of any distance above 0, of the mixture of those: no small chance cancels.
    Above, a distance beyond reach gives everything away; below, it counts as the farthest within reach.
    """
    near: dict[float, Fraction] = {}
    beyond = Fraction(0)
    for move, chance in law:
        far = rounded(Fraction(move) / Fraction(noise), up=above)
        if far > _FARTHEST and above:
            beyond += chance
            continue
        far = max(far, _NEAREST) if above else min(far, _FARTHEST)
        if far >= _NEAREST:
            near[far] = near.get(far, Fraction(0)) + chance
    total = sum(near.values(), beyond)
    share = rounded(total, up=above)
    if not near or (not above and share < _RAREST) or (above and not beyond and max(near) <= _NEAREST):
        return None
    near = _without_rare({far: chance / total for far, chance in near.items()}, above=above)
    if not near:
        return None
    near = _fewer(near, above=above)
    base = GaussianMixture(
        np.array(list(near)),
        np.array([float(chance) for chance in near.values()]),
        0.0,
        direction,
        beyond=rounded(beyond / total, up=True),
    )
    return bent(base, max(share, _RAREST), direction)


def _without_rare(law: dict[float, Fraction], *, above: bool) -> dict[float, Fraction]:
    """Probabilities that doubles hold in any product: rarer ones count at the next distance, outwards."""
    found: dict[float, Fraction] = {}
    carried, last = Fraction(0), None
    for far in law if above else reversed(law):
        carried += law[far]
        if carried >= _RAREST:
            found[far], carried = carried, Fraction(0)
        last = far
    if above and carried and last is not None:
        found[last] = max(carried, Fraction(_RAREST))
    return dict(sorted(found.items()))


def _fewer(law: dict[float, Fraction], *, above: bool, kept: int = _MOST) -> dict[float, Fraction]:
    """At most so many distances: those that move the mean distance least count at the next, outwards."""
    if len(law) <= kept:
        return law
    far, whole = np.array(list(law)), list(law.values())
    weights = np.array([float(chance) for chance in whole])
    while len(whole) > kept:
        moved = (weights[:-1] if above else weights[1:]) * np.diff(far)
        which = int(np.argmin(moved))  # joins the next distance, or is joined by it
        whole[which] += whole.pop(which + 1)
        far = np.delete(far, which if above else which + 1)
        weights = np.delete(weights, which + 1)
        weights[which] = float(whole[which])
    return dict(zip(far.tolist(), whole, strict=True))


def told(law: Chances, noise: float) -> BaseLaw | None:
    """Replaced units, where it is told what was drawn if it is not 0: a mean of Poisson samples; None beyond reach."""
    near: dict[float, Fraction] = {}
    for move, chance in law:
        far = max(rounded(Fraction(move) / Fraction(noise), up=True), _NEAREST)
        near[far] = near.get(far, Fraction(0)) + chance
    total, so_far, found = sum(near.values(), Fraction(0)), Fraction(0), None
    if total < _RAREST or max(near) >= LARGEST_MU / 2:
        return None
    share = rounded(total, up=True)
    for far, chance in _fewer(near, above=True, kept=_MOST_TOLD).items():
        pair = Pair(Normal(up(2 * far, 1)) if share == 1 else ReplacedSample(far, share))
        so_far += chance
        found = pair if found is None else Pair(ToldWhich(found, pair, rounded(chance / so_far, up=True)))
    return None if found is None else found.law
