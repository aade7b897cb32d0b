"""A pair for whatever has a price but no pair of its own: it is read off a curve that bounds delta.

Let delta(e) bound both orders of the neighbors at each of some e_0 = 0 < e_1 < ... < e_n, in the variable t = exp(e) a
convex function D. The least convex function through those points, (t_i, D_i), bounds D between them; beyond e_n its
last value does, and below t = 1 the mirror image D(t) = 1 - t + t D(1 / t), since both orders are meant. Such a
function is the profile of a symmetric pair with losses at most e_n, so that composition goes on from there
(docs/accounting/certified-bounds.md, 1.12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epsilog.mechanisms import Release
from epsilog.numerics.laws.base import LARGEST_LOSS, Atoms
from epsilog.numerics.pairs import Laws, pure
from epsilog.numerics.rounding import gamma, up
from epsilog.terms import NeighboringRelation

POINTS = 32
"""Steps of a curve that is read, of even width, from 0 to where what is left does not matter."""

_LEAST = 1e-9  # a loss from which on points are told apart
_ROUNDINGS = 4096.0  # more than the sums, exponentials and quotients of so few masses take


@dataclass(frozen=True, slots=True)
class Profiled(Release):
    """A release known only by a curve; made by ``profiled``, and never written down.

    Attributes:
        losses: ascending, from 0 on.
        deltas: bounds of delta there, in both orders of the neighbors.
    """

    losses: tuple[float, ...]
    deltas: tuple[float, ...]

    def laws(self, relation: NeighboringRelation) -> Laws:  # noqa: ARG002
        """The symmetric pair whose profile is the least convex function above the curve's points."""
        return _law(self.losses, self.deltas), pure(0.0, 0.0)


def profiled(curve: Callable[[float], float], largest: float) -> Profiled:
    """Reads a curve that bounds delta from above, up to a loss beyond which what is left does not matter.

    >>> half = profiled(lambda epsilon: 0.5 if epsilon < 1 else 0.0, 1.0)
    >>> half.losses[-1], half.deltas[-1]
    (1.0, 0.0)
    """
    top = min(largest, LARGEST_LOSS)
    losses = [0.0] if top < _LEAST else [top * i / POINTS for i in range(POINTS)] + [top]
    found: list[float] = []
    for loss in losses:  # a curve that falls; what bounds it at a smaller loss does so at a larger one
        found.append(min(curve(loss), found[-1] if found else 1.0))
    return Profiled(tuple(losses), tuple(found))


def _law(losses: tuple[float, ...], deltas: tuple[float, ...]) -> Atoms:
    """Masses by the slopes: at t = e^loss the slope of D is -Q(a larger loss); a corner has the difference of two.

    P has e^loss as much there (slopes are worked out times e^loss, which no double may hold by itself), and Q's mass is
    the mirror image's under P. The last value is the mass that gives everything away; what is left has no loss. Each
    slope errs by a few roundings of itself, so does D, a sum of slopes times steps; all masses are raised by more.
    """
    hull, error = _hull(losses, deltas), gamma(_ROUNDINGS)
    above: list[tuple[float, float]] = []
    for i, (loss, delta) in enumerate(hull):
        if loss == 0:
            continue
        if i:
            low, more = hull[i - 1]
            falls = (more - delta) / -math.expm1(low - loss)
        else:  # from the mirror image of the first corner
            falls = (1 - delta) / (1 + math.exp(-loss))
        after = (delta - hull[i + 1][1]) / math.expm1(hull[i + 1][0] - loss) if i + 1 < len(hull) else 0.0
        if falls > after:
            above.append((loss, up(falls - after, 64) * (1 + error)))
    infinite = min(up(hull[-1][1], 64) * (1 + error), 1.0)
    below = [(-loss, mass * math.exp(-loss)) for loss, mass in above]
    rest = max(1.0 - math.fsum(mass for _, mass in above + below) - infinite, 0.0) + error
    u, p = zip(*sorted([*above, *below, (0.0, rest)]), strict=True)
    return Atoms(np.array(u), np.array(p), only_p=infinite, relative_error=error)


def _hull(losses: tuple[float, ...], deltas: tuple[float, ...]) -> list[tuple[float, float]]:
    """The corners from loss 0 on of the least convex function of e^loss through the points and their mirror images."""
    hull: list[tuple[float, float]] = []
    for point in zip(losses, deltas, strict=True):
        while len(hull) >= 2 and _over(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    while len(hull) >= 2 and _over((-hull[1][0], _mirrored(*hull[1])), hull[0], hull[1]):
        hull.pop(0)
    return hull


def _mirrored(loss: float, delta: float) -> float:
    return 1 - math.exp(-loss) * (1 - delta)


def _over(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Whether the middle one of three points lies on or above the chord of the others."""
    (a, low), (b, mid), (c, high) = first, middle, last
    near, far = math.expm1(b - c), math.exp(b - c) * math.expm1(a - b)  # nothing cancels where D falls by far
    return mid >= (near * low + far * high) / math.expm1(a - c)
