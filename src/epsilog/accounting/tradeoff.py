"""The best test between two neighbors: its true positive rate at a false positive rate, bounded from both sides.

For one ordered pair (P, Q), with D(t) = sup over A of P(A) - t Q(A),

    TPR(fpr) = min over t >= 0 of D(t) + t fpr.

D is delta at ln t for t >= 1, and 1 - t (1 - delta of (Q, P) at -ln t) below. So a pair has one curve from both its
directions; the larger delta of two pairs is not the curve of a pair. Any t bounds the rate from above. From below D is
convex, so chords bound it near the known points. docs/accounting/certified-bounds.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from epsilog.accounting.inversion.integral import bound_by_inversion
from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.distributions.base import LARGEST_LOSS, DiscretePair
from epsilog.numerics.gaussian import bound_gaussian, gaussian_delta
from epsilog.numerics.lattice.discretize import WorkCounter
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition, Parts, bound_infinity_mass
from epsilog.numerics.questions import FAINT, Bounds, DeltaAt
from epsilog.numerics.rounding import ELEMENTARY, LEAST, MU, TINY, gamma, round_down, round_up

_NOTHING, _LEAST = 1e-9, 1e-100  # of the false positive rate, and at all: a delta that is not looked at closely
_MOST_CUTS = 32
_STALLED = 5  # cuts without a tenth less between the bounds: what is left is delta's own width
_A_CUT = 20_000  # of composed frequencies: what an inversion costs, about
_INSIDE = 0.05  # of a cell, in ln t: a new cut keeps so far from its ends
_FIRST = (-1.0, 0.0)  # ln t
_NARROW = 1e-7  # a cell, in ln t, that is not cut again
_LOWEST = -40.0  # ln t: the part below is less than a rounding error of 1
_AT_ERROR = gamma(float(ELEMENTARY))  # relative: of t, an exponential
_LINE_ERROR = gamma(16.0)  # of what a line adds up: two slopes of up to three operations, and their products
_RATE_ERROR = gamma(1024.0)  # relative: the error of lines through cuts, in addition to their own

Curve = Callable[[float], Bounds]  # bounds on delta at an epsilon, 0 or more


class OrderedPair(NamedTuple):
    """One ordered pair: delta of (P, Q), delta of (Q, P), and a mass that P alone has (rounded down)."""

    forward: Curve
    backward: Curve
    certain: float = 0.0


class RateBounds(NamedTuple):
    """Bounds on a true positive rate, and the ln t of the line that bounds it best from above."""

    bounds: Bounds
    at: float


class _TprSearch(NamedTuple):
    """The false positive rate, the relative width to aim for, and what all curves together have cost."""

    fpr: float
    relative_width: float
    work: WorkCounter


class _Cut(NamedTuple):
    """Bounds on D(t) + t fpr at one t."""

    t: float
    low: float
    high: float


def bound_tprs(composition: Composition, fpr: float, *, relative_width: float, work: WorkCounter) -> list[RateBounds]:
    """Bound the rate of the best test for each order of the neighbors; the worst counts.

    Raises:
        UnsupportedMechanismError: a part has no proven pair under this relation.
    """
    if (mu := composition.mu) is not None:

        def normal(epsilon: float) -> Bounds:
            return bound_gaussian(mu, DeltaAt(epsilon))

        return [bound_tpr(OrderedPair(normal, normal), fpr, relative_width=relative_width)]
    if composition.bins is not None:
        removed, added = (
            _bound_balls_in_bins(*composition.bins, direction, fpr, relative_width)
            for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD)
        )
        first = bound_tpr(OrderedPair(removed, added), fpr, relative_width=relative_width)
        return [
            first,
            bound_tpr(OrderedPair(added, removed), fpr, relative_width=relative_width, known=first.bounds.lower),
        ]
    asked = _TprSearch(fpr, relative_width, work)
    orderings = composition.orderings(0.1 * max(fpr, 1e-10))
    if len(orderings) == 1:
        instances = [(low, _reverse_parts(low)) for low in orderings[0].lowers]
        instances += [(b, a) for a, b in instances if a is not b]
        return [_rate((orderings[0].upper,) * 2, instances, asked)]
    one, other = orderings
    both = list(zip(one.lowers, other.lowers, strict=True))
    first = _rate((one.upper, other.upper), [(a, _swap_bases(b)) for a, b in both], asked)
    second = _rate((other.upper, one.upper), [(b, _swap_bases(a)) for a, b in both], asked, first.bounds.lower)
    return [first, second]


def _bound_balls_in_bins(bins: int, mu: float, direction: AdjacencyType, fpr: float, relative_width: float) -> Curve:
    """Delta of balls-in-bins in one direction; where the bins hide nothing that matters, without them."""

    def curve(epsilon: float) -> Bounds:
        free = gaussian_delta(round_up(mu, MU), epsilon)[1]
        least = max(_NOTHING * fpr, _LEAST)
        if free < least:
            return Bounds(0.0, free)
        return search.bound_balls_in_bins(
            bins, mu, DeltaAt(epsilon), relative_width=relative_width, directions=(direction,), least=least
        )

    return curve


def _rate(
    upper: tuple[Parts, Parts], instances: Sequence[tuple[Parts, Parts]], asked: _TprSearch, known: float = 0.0
) -> RateBounds:
    """Bound one order: above by the dominating pair, below by the instance that is worst about there."""
    one, turned = instances[0]
    fpr, relative_width, work = asked
    order = OrderedPair(_curve(upper[0], one, asked), _curve(upper[1], turned, asked), bound_infinity_mass(one))
    found = bound_tpr(order, fpr, relative_width=relative_width, known=known, work=work)
    if len(instances) == 1 or found.bounds.upper <= known or work.done:
        return found

    owns = [OrderedPair(_curve(a, a, asked), _curve(b, b, asked), bound_infinity_mass(a)) for a, b in instances]
    lines, tried, at, lower = [math.inf] * len(owns), set[int](), found.at, found.bounds.lower
    for _ in owns:  # the instance that is best where the others were worst, until it is one of them
        lines = [min(line, _cut(one, at, fpr).low) for line, one in zip(lines, owns, strict=True)]
        best = max(range(len(owns)), key=lines.__getitem__)
        if best in tried or work.done:
            break
        tried.add(best)
        own = bound_tpr(owns[best], fpr, relative_width=relative_width, work=work)
        lower, at = max(lower, own.bounds.lower), own.at
    return found._replace(bounds=Bounds(lower, found.bounds.upper))


def _curve(upper: Parts, lower: Parts, asked: _TprSearch) -> Curve:
    """Delta of one direction: above that of dominating parts, below that of attained ones."""
    relative_width, work = asked.relative_width, asked.work
    order = PairComposition(upper, (lower,))

    def curve(epsilon: float) -> Bounds:
        question = DeltaAt(epsilon)
        if epsilon >= order.largest_loss:
            return Bounds(0.0, 0.0)
        if order.rounds > 1:
            work.add(_A_CUT)
            with suppress(InversionInfeasibleError):
                found = bound_by_inversion((order,), question)
                if found.within(relative_width, least=FAINT):
                    return found
        return bound_on_lattice((order,), question, relative_width=relative_width, work=work)

    return curve


def bound_tpr(
    order: OrderedPair, fpr: float, *, relative_width: float, known: float = 0.0, work: WorkCounter | None = None
) -> RateBounds:
    """Bound min over t of D(t) + t fpr by cutting planes: the next cut is where the lines below meet the lowest.

    If it is no more than is ``known`` of the other order, it is not looked at any closer; nor if ``work`` is done.
    """
    most = min(-math.log(fpr), LARGEST_LOSS) if fpr > 0 else LARGEST_LOSS  # beyond it the line alone is above 1
    cuts = {at: _cut(order, at, fpr) for at in _FIRST if at <= most}
    while (end := max(cuts)) < most:  # past the lowest point
        further = min(max(3 * end, 1.0), most)
        cuts[further] = _cut(order, further, fpr)
        if cuts[further].high >= cuts[end].high and cuts[end].high < 1:  # a delta of 1 is a bound that says nothing yet
            break
    upper, lower, idle, best = 1.0, 0.0, 0, math.inf
    while True:
        points = sorted(cuts)
        upper = min(1.0, *(cut.high for cut in cuts.values()))
        lower, (left, right), at = _lowest([cuts[point] for point in points], fpr, order.certain)
        lower = max(lower, fpr)
        width = math.log(upper / lower) if lower > 0 else upper
        idle, best = (0, width) if width < 0.9 * best else (idle + 1, best)
        if (
            upper - lower <= 0.5 * relative_width * upper
            or len(cuts) >= _MOST_CUTS
            or idle >= _STALLED
            or upper <= known
        ):
            break
        if work is not None and work.done:
            break
        start = points[left] if left >= 0 else max(3 * points[0], _LOWEST)
        end = points[right] if right < len(points) else min(max(3 * points[-1], 1.0), most)
        inside = _INSIDE * (end - start)
        following = (
            min(max(math.log(at), start + inside), end - inside) if at > 0 and idle % 2 == 0 else (start + end) / 2
        )
        if left < 0 or right == len(points):
            following = start if left < 0 else end
        if following in cuts or end - start < _NARROW:
            break
        cuts[following] = _cut(order, following, fpr)
    at = min(cuts, key=lambda point: cuts[point].high)
    return RateBounds(Bounds(max(fpr, lower * (1 - _RATE_ERROR)), min(upper * (1 + _RATE_ERROR) + LEAST, 1.0)), at)


def _cut(order: OrderedPair, at: float, fpr: float) -> _Cut:
    t = math.exp(at)
    if at >= 0:
        delta = order.forward(at)
        return _Cut(
            t, delta.lower + round_down(t * fpr, 1 + ELEMENTARY), delta.upper + round_up(t * fpr, 1 + ELEMENTARY)
        )
    delta = order.backward(-at)
    low, high = (1 - t * (1 - side - fpr) for side in (delta.lower, delta.upper))
    return _Cut(t, low - gamma(ELEMENTARY + 4.0), high + gamma(ELEMENTARY + 4.0))


def _lowest(cuts: Sequence[_Cut], fpr: float, certain: float) -> tuple[float, tuple[int, int], float]:
    """Return the least value that the curve can have, between which two cuts, and at which t.

    A convex curve is above the line through one cut (its upper bound) and the next (its lower bound), beyond that next
    one. Its slope is between fpr - 1 and fpr, and its value at least the mass of P alone.
    """
    known = [_Cut(0.0, 1.0, 1.0), *cuts]
    falls = [fpr - 1, *(max(fpr - 1, -_steepest(a.high - b.low, a, b)) for a, b in pairwise(known))]
    rises = [*(min(fpr, _steepest(b.high - a.low, a, b)) for a, b in pairwise(known)), fpr]
    found = []
    for i, (a, b) in enumerate(pairwise(known)):
        fall, rise, width = falls[i], rises[i + 1], b.t - a.t + _AT_ERROR * b.t
        start = b.low - rise * width  # of the right line, at a
        step = min(max((a.low - start) / (rise - fall), 0.0), width) if rise != fall else width
        value = max(a.low + fall * step, start + rise * step)
        value = min(value, max(a.low, start), max(a.low + fall * width, b.low))
        error = _LINE_ERROR * (abs(b.low) + abs(rise) * width)
        value -= error + _LINE_ERROR * (abs(a.low) + abs(fall) * step)
        value = max(value, min(start, b.low) - error)  # by the right line alone
        found.append((max(value, certain + fpr * a.t), (i - 1, i), a.t + step))
    last, fall = known[-1], falls[-1]
    beyond, floor = last.low, certain + fpr * last.t
    if fall < 0:
        beyond = floor + fpr * max(last.low - floor, 0.0) / (fpr - fall)
    found.append((max(min(beyond, last.low), floor), (len(cuts) - 1, len(cuts)), last.t))
    return min(found)


def _steepest(rise: float, a: _Cut, b: _Cut) -> float:
    """Return the largest slope that may lie between two cuts, each of which may be a little off its t."""
    return rise / (b.t - a.t - math.copysign(_AT_ERROR * b.t, rise))


def _swap_bases(parts: Parts) -> Parts:
    """Exchange P and Q of base pairs; only those of exponential mechanisms are not symmetric."""
    return tuple((_reverse_pair(pair), count) for pair, count in parts)


def _reverse_parts(parts: Parts) -> Parts:
    """Return the pair (Q, P) of a composition of pairs (P, Q); itself if it is symmetric."""
    directions = {AdjacencyType.REMOVE: AdjacencyType.ADD, AdjacencyType.ADD: AdjacencyType.REMOVE}
    turned = [(_reverse_pair(pair), count) for pair, count in parts]
    if all(now is pair and pair.direction not in directions for (now, _), (pair, _) in zip(turned, parts, strict=True)):
        return parts
    return tuple(
        (replace(pair, direction=directions.get(pair.direction, pair.direction)), count) for pair, count in turned
    )


def _reverse_pair(pair: DominatingPair) -> DominatingPair:
    base = pair.base
    if (
        not isinstance(base, DiscretePair)
        or len(base.u) == 0
        or np.allclose(base.u, -base.u[::-1], rtol=1e-12, atol=TINY)
    ):
        return pair
    return replace(pair, base=replace(base, u=-base.u[::-1], p=(base.p * np.exp(-base.u))[::-1]))
