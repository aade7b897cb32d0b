"""Composition of parts with a bound but no pair: each is read off its privacy profile, which then composes.

One rule covers all parts that a method refuses: a part with a bound alone has one in a composition. The profile of such
a part, with all its repetitions if they have a bound, becomes a pair (``release_from_profile``). Outside double range,
and for compositions at the smallest deltas, parts are added one by one, each with its share of delta (Dwork & Roth
2014, Theorem 3.16). docs/boundaries.md.

To build a pair from a profile, let delta(e) bound both orders of the neighbors at each of some e_0 = 0 < e_1 < ... <
e_n. In the variable t = exp(e) it is a convex function D. The least convex function through those points, (t_i, D_i),
bounds D between them. Beyond e_n its last value does, and below t = 1 the mirror image D(t) = 1 - t + t D(1 / t), since
it covers both orders. Such a function is the profile of a symmetric pair with losses at most e_n, which then composes
(docs/accounting/certified-bounds.md, 1.12).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import LARGEST_LOSS, DiscretePair
from epsilog.numerics.pairs import BasePairs, pure
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, trivial_bounds
from epsilog.numerics.rounding import LEAST, gamma, round_outward, round_up, rounded_sum
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.messages import Message

Ask = Callable[[Composition, Question, bool], Bounds]  # bounds an answer; with True from above only

CURVES = Message("method/parts-by-curves@1")
ADDED = Message("method/basic-composition@1")

_TAILS = (1e-3, 1e-1, 0.5)  # of a share of delta: what a curve may leave where it is read no further
_PASSES = 3  # to find out how small a delta is
_SMALLEST = -300  # the decimal exponent of a delta that curves are read for
_FIRST = 1e-10  # a delta that is looked for first
_SMALL = 1e-250  # what tails of many rounds are cut by begins to count

Upper = Callable[[Composition, Question, float], float]  # bounds an answer from above by the other methods


@dataclass(frozen=True)
class _Split:
    """A composition split into parts with pairs and parts with separate bounds, each with its count."""

    paired: dict[Release, int]
    separate: list[tuple[Composition, int]] = field(default_factory=list)


def bounds(composition: Composition, question: Question, *, above: bool, ask: Ask) -> tuple[Bounds, Message] | None:
    """Bound the answer about several releases, of which some have no pair; None where each has one, or there is one.

    Raises:
        UnsupportedMechanismError: a part has no bound alone under this relation.
    """
    if composition.rounds < 2:
        return None
    split = _split(composition, ask)
    if not split.separate:
        return None
    upper, name = _upper(split, composition, question, ask)
    if above:
        return Bounds(0.0, upper), name
    lowers = [ask(one, question, False).lower for one, _ in split.separate]
    if split.paired:
        lowers.append(ask(Composition(split.paired, composition.relation), question, False).lower)
    return Bounds(min(max(lowers), upper), upper), name


def _split(composition: Composition, ask: Ask) -> _Split:
    split = _Split({})
    for part, count in composition.counts.items():
        if _has_pairs(Composition({part: 1}, composition.relation)):
            split.paired[part] = count
            continue
        together = Composition({part: count}, composition.relation)
        if count > 1 and (len(composition.counts) == 1 or not _has_cost(together, ask)):
            split.separate.append((Composition({part: 1}, composition.relation), count))
        else:
            split.separate.append((together, 1))
    return split


def _has_pairs(one: Composition) -> bool:
    if one.uncut is not None:
        return True  # asked in several ways, of which pairs are one
    with suppress(UnsupportedMechanismError, OverflowError):
        return one.has_pairs and bool(one.orderings())
    return False


def _has_cost(one: Composition, ask: Ask) -> bool:
    with suppress(UnsupportedMechanismError):
        return math.isfinite(ask(one, EpsilonAt(_FIRST), True).upper)
    return False


def _upper(split: _Split, composition: Composition, question: Question, ask: Ask) -> tuple[float, Message]:
    match question:
        case EpsilonAt(delta):
            found = ask(_with_pairs(split, composition, delta, ask), question, True).upper
        case DeltaAt():
            found, looked = 1.0, _FIRST
            for _ in range(_PASSES):
                found = min(found, ask(_with_pairs(split, composition, looked, ask), question, True).upper)
                if found > looked / 10 or found <= LEAST:
                    break
                looked = found
    if found < trivial_bounds(question).upper or question == EpsilonAt(0):
        return found, CURVES
    return _add_epsilons(split, composition, question, ask), ADDED


def _with_pairs(split: _Split, composition: Composition, delta: float, ask: Ask) -> Composition:
    """Return the same with a pair for each part, good for a delta of this size."""
    size = 10.0 ** max(math.floor(math.log10(max(delta, LEAST))), _SMALLEST)
    if size not in composition.curves:
        counts = dict(split.paired)
        for one, count in split.separate:
            pair = _read(one, size / (count * len(split.separate)), ask)
            counts[pair] = counts.get(pair, 0) + count
        composition.curves[size] = Composition(counts, composition.relation)
    return composition.curves[size]


def _read(one: Composition, share: float, ask: Ask) -> ProfileRelease:
    tops = (ask(one, EpsilonAt(tail * share), True).upper for tail in _TAILS)
    top = next((top for top in tops if math.isfinite(top)), LARGEST_LOSS)
    return release_from_profile(lambda loss: ask(one, DeltaAt(loss), True).upper, top)


def _add_epsilons(split: _Split, composition: Composition, question: Question, ask: Ask) -> float:
    """Return the sum of all parts' epsilons, each at the same share of delta."""
    if not isinstance(question, EpsilonAt):
        return trivial_bounds(question).upper
    parts = [*split.separate, *([(Composition(split.paired, composition.relation), 1)] if split.paired else [])]
    return add_epsilons(parts, question.delta, lambda one, at: ask(one, at, True).upper)


def add_epsilons(
    parts: Sequence[tuple[Composition, int]], delta: float, upper: Callable[[Composition, EpsilonAt], float]
) -> float:
    """Return the sum of the epsilons of all parts with counts, all at the same share of delta, rounded down."""
    share = round_outward(Fraction(delta) / sum(count for _, count in parts), up=False)
    return rounded_sum((upper(one, EpsilonAt(share)), count) for one, count in parts)


def one_by_one(composition: Composition, question: Question, relative_width: float, *, upper: Upper) -> Bounds | None:
    """Bound epsilon by those of each kind of part, or of each round of one kind; None where delta is not tiny."""
    if not isinstance(question, EpsilonAt) or not 0 < question.delta < _SMALL or composition.rounds < 2:
        return None
    kinds = list(composition.counts.items())
    alone = [(Composition({part: 1}, composition.relation), count) for part, count in kinds]
    together = (
        [(Composition({part: count}, composition.relation), 1) for part, count in kinds] if len(kinds) > 1 else alone
    )

    def ask(one: Composition, at: EpsilonAt) -> float:
        return upper(one, at, relative_width)

    return Bounds(0.0, min(add_epsilons(parts, question.delta, ask) for parts in (alone, together)))


POINTS = 32
"""Steps of a curve that is read, of even width, from 0 to where what is left does not matter."""

_LEAST = 1e-9  # a loss from which on points are distinct
_SLOPE = 64  # roundings of a difference of two slopes, each of a few functions and a quotient
_ROUNDINGS = 4096.0  # more than the sums, exponentials and quotients of so few masses take


@dataclass(frozen=True, slots=True)
class ProfileRelease(Release):
    """A release known only by a curve; made by ``release_from_profile``, and never written down.

    Attributes:
        losses: ascending, from 0 on.
        deltas: bounds of delta there, in both orders of the neighbors.
    """

    losses: tuple[float, ...]
    deltas: tuple[float, ...]

    def base_pairs(self, relation: NeighboringRelation) -> BasePairs:  # noqa: ARG002
        """Build the symmetric pair with the least convex function above the curve's points as its profile."""
        return _build_profile_pair(self.losses, self.deltas), pure(0.0, 0.0)


def release_from_profile(curve: Callable[[float], float], largest: float) -> ProfileRelease:
    """Read a curve that bounds delta from above, up to a loss beyond which what is left does not matter.

    >>> half = release_from_profile(lambda epsilon: 0.5 if epsilon < 1 else 0.0, 1.0)
    >>> half.losses[-1], half.deltas[-1]
    (1.0, 0.0)
    """
    top = min(largest, LARGEST_LOSS)
    losses = [0.0] if top < _LEAST else [top * i / POINTS for i in range(POINTS)] + [top]
    found: list[float] = []
    for loss in losses:  # a curve that falls; what bounds it at a smaller loss does so at a larger one
        found.append(min(curve(loss), found[-1] if found else 1.0))
    return ProfileRelease(tuple(losses), tuple(found))


def _build_profile_pair(losses: tuple[float, ...], deltas: tuple[float, ...]) -> DiscretePair:
    """Masses by the slopes: at t = e^loss the slope of D is -Q(a larger loss); a corner has the difference of two.

    P has e^loss as much there (slopes include the factor e^loss, which may exceed double range), and Q's mass is the
    mirror image. The last value is the infinity mass; the rest has loss 0. Each slope errs by a few relative roundings,
    and so does D, a sum of slopes times steps; all masses are raised by more.
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
            above.append((loss, round_up(falls - after, _SLOPE) * (1 + error)))
    infinite = min(round_up(hull[-1][1], _SLOPE) * (1 + error), 1.0)
    below = [(-loss, mass * math.exp(-loss)) for loss, mass in above]
    rest = max(1.0 - math.fsum(mass for _, mass in above + below) - infinite, 0.0) + error
    u, p = zip(*sorted([*above, *below, (0.0, rest)]), strict=True)
    return DiscretePair(np.array(u), np.array(p), infinity_mass=infinite, relative_error=error)


def _hull(losses: tuple[float, ...], deltas: tuple[float, ...]) -> list[tuple[float, float]]:
    """The corners from loss 0 on of the least convex function of e^loss through the points and their mirror images."""
    hull: list[tuple[float, float]] = []
    for point in zip(losses, deltas, strict=True):
        while len(hull) >= 2 and _over(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    while len(hull) >= 2 and _over((-hull[1][0], _mirror_delta(*hull[1])), hull[0], hull[1]):
        hull.pop(0)
    return hull


def _mirror_delta(loss: float, delta: float) -> float:
    return 1 - math.exp(-loss) * (1 - delta)


def _over(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Return whether the middle one of three points is on or above the chord of the others."""
    (a, low), (b, mid), (c, high) = first, middle, last
    near, far = math.expm1(b - c), math.exp(b - c) * math.expm1(a - b)  # nothing cancels where D falls by far
    return mid >= (near * low + far * high) / math.expm1(a - c)
