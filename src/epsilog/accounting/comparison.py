"""Compare two privacy profiles, or one and a Gaussian's: which release is easier to attack, where, and by how much.

Let D(t) = sup over A of P(A) - t Q(A). Condition on two releases: D of the first is at most D of the second plus excess
(1 + t) at every t. It is equivalent to a bound on tests: the best test against the first has at most ``excess`` more
power, at ``excess`` more false alarms than the best against the second (docs/accounting/interpretation.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from epsilog.accounting.privacy_profile import PrivacyProfile, profile
from epsilog.mechanisms import Release
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.questions import Bounds
from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import MU, round_down, round_up
from epsilog.terms import CalibrationError, Interval, NeighboringRelation, UnsupportedMechanismError, check

__all__ = ["GaussianDPFit", "PointComparison", "ProfileComparison", "compare_profiles", "fit_gaussian_dp"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_RELATIVE_WIDTH = 0.002
_FIRST, _MOST = 8, 96  # points of a curve that are looked at
_WIDE = 0.3  # of what is asked for: how far a cell's bound may be above what its ends show, before it is cut
_NARROWEST = 1e-4  # a cell, in epsilon, that is not cut again
_ROUNDED = 1e-12  # absolutely: far above what lines through points on a curve are off by
_LARGEST_MU = 1e3


class _Point(NamedTuple):
    """Bounds on D at t = e^epsilon."""

    t: float
    low: float
    high: float


Points = Sequence[_Point]
Curve = Callable[[float], Bounds | Interval]  # delta at an epsilon


@dataclass(frozen=True, slots=True)
class GaussianDPFit:
    """The mu that a release comes close to, and how close; both errors are certified.

    Attributes:
        mu: of mu-GDP, dimensionless; ``inf`` without a guarantee.
        slack: whatever test is made, its true positive rate is at most that of the best test against mu-GDP at a false
            positive rate higher by so much, plus so much. At 0 the release is mu-GDP.
        regret: the same the other way round: by so much at most mu overstates what an attacker gains.
        relation: which data sets are neighbors.
    """

    mu: float
    slack: float
    regret: float
    relation: NeighboringRelation

    @property
    def error(self) -> float:
        """Return the larger of both: the two trade-off curves are nowhere further apart, along the diagonal."""
        return max(self.slack, self.regret)


@dataclass(frozen=True, slots=True)
class PointComparison:
    """How two releases stand to each other at one delta, or at one false positive rate.

    Attributes:
        first: the first release's epsilon, or true positive rate.
        second: the second's.
    """

    first: Interval
    second: Interval

    @property
    def better(self) -> str:
        """Which protects better there: "first" or "second" if the bounds are apart, else "open"."""
        if self.first.upper < self.second.lower:
            return "first"
        if self.second.upper < self.first.lower:
            return "second"
        return "open"


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """Two releases compared as whole curves; made by ``compare_profiles``.

    Attributes:
        at_deltas: epsilon of both at each delta.
        at_fprs: the true positive rate of the best test against each at each false positive rate; none where a release
            has no such reading.
        first_excess: by so much at most the first is easier to attack than the second anywhere, as in
        ``GaussianDPFit``.
        second_excess: the same the other way round.
        tolerance: a negligible excess.
    """

    at_deltas: tuple[PointComparison, ...]
    at_fprs: tuple[PointComparison, ...]
    first_excess: float
    second_excess: float
    tolerance: float

    @property
    def outcome(self) -> str:
        """Which release protects better, for certain.

        "first" or "second": better at some point, and nowhere easier to attack by more than ``tolerance``; "neither":
        each is better somewhere; "alike": neither is easier to attack by more than ``tolerance``; else "open".
        """
        seen = {comparison.better for comparison in (*self.at_deltas, *self.at_fprs)} - {"open"}
        near = (self.first_excess <= self.tolerance, self.second_excess <= self.tolerance)
        if len(seen) == 2:
            return "neither"
        if all(near):
            return "alike"
        if seen == {"first"} and near[0]:
            return "first"
        if seen == {"second"} and near[1]:
            return "second"
        return "open"


def fit_gaussian_dp(
    release: Release,
    *,
    slack: float = 1e-3,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    relative_width: float = _RELATIVE_WIDTH,
    places: int = _MOST,
) -> GaussianDPFit:
    """Return about the least mu that bounds a release up to ``slack``, with its overstatement.

    Args:
        release: what is released.
        slack: the largest excess allowed, in [1e-4, 0.1]; Gaussians alone need none.
        relation: which data sets are neighbors.
        relative_width: the target relative width in each delta.
        places: of the curve that are looked at, at most, from 10 on: fewer are faster, and leave larger errors.

    Raises:
        CalibrationError: no mu up to a thousand keeps to it.
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        Gomez et al. 2025 (arXiv:2503.10945) for reporting mu with its regret, after Kaissis et al. 2024
        (arXiv:2406.08918); bounds and proof in docs/accounting/interpretation.md.

    >>> from epsilog.mechanisms import Gaussian
    >>> fit_gaussian_dp(Gaussian(noise_multiplier=2.0)).mu
    0.5
    """
    slack, places = check.in_closed_interval(1e-4, 0.1)(slack=slack), check.integer(_FIRST + 2)(places=places)
    curve = profile(release, relation=relation, relative_width=relative_width)
    exact = curve.mu()
    if exact is not None:
        return GaussianDPFit(exact, 0.0, 0.0, curve.relation)
    points = _sample_curves([curve.delta], slack, places)[0]

    def beyond(mu: float) -> float:
        return _excess(points, _gaussian(mu, points))

    if beyond(_LARGEST_MU) > slack:
        raise CalibrationError("no mu up to a thousand bounds the curve", bracket=(0.0, _LARGEST_MU))
    mu = 0.0 if beyond(0.0) <= slack else bisect_doubles(lambda one: beyond(one) <= slack, 0.0, _LARGEST_MU)[1]
    return GaussianDPFit(mu, beyond(mu), _excess(_gaussian(mu, points), points), curve.relation)


def compare_profiles(
    first: Release,
    second: Release,
    *,
    deltas: Sequence[float] = (1e-3, 1e-6, 1e-9),
    fprs: Sequence[float] = (0.001, 0.01, 0.1),
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    tolerance: float = 1e-3,
    relative_width: float = _RELATIVE_WIDTH,
) -> ProfileComparison:
    """Says which of two releases protects better, at which deltas and false positive rates, or that neither does.

    One epsilon does not say it: of two releases with the same epsilon at one delta either may be easier to attack.

    Args:
        first: a release.
        second: another, for the same neighbors.
        deltas: where epsilons are compared, each in (0, 1).
        fprs: where true positive rates are compared, each in (0, 1).
        relation: which data sets are neighbors.
        tolerance: a negligible excess, in [1e-4, 0.1].
        relative_width: the target relative width.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part of one under this relation.

    Source:
        docs/accounting/interpretation.md.

    >>> from epsilog.mechanisms import Gaussian
    >>> compare_profiles(Gaussian(2.0), Gaussian(1.0)).outcome
    'first'
    """
    tolerance = check.in_closed_interval(1e-4, 0.1)(tolerance=tolerance)
    asked = check.sequence_of(check.in_open_interval(0, 1))(deltas=deltas)
    rates = check.sequence_of(check.in_open_interval(0, 1))(fprs=fprs)
    one, other = (profile(release, relation=relation, relative_width=relative_width) for release in (first, second))
    ours, theirs = _sample_curves([one.delta, other.delta], tolerance)
    return ProfileComparison(
        tuple(PointComparison(one.epsilon(delta), other.epsilon(delta)) for delta in asked),
        _at_fprs(one, other, rates),
        _excess(ours, theirs),
        _excess(theirs, ours),
        tolerance,
    )


def _at_fprs(one: PrivacyProfile, other: PrivacyProfile, fprs: Sequence[float]) -> tuple[PointComparison, ...]:
    try:
        return tuple(PointComparison(one.tpr(fpr), other.tpr(fpr)) for fpr in fprs)
    except UnsupportedMechanismError:
        return ()


def _sample_curves(curves: Sequence[Curve], enough: float, places: int = _MOST) -> list[list[_Point]]:
    """Return points of curves at the same places: more where a bound between two of them is still wide.

    Beyond 1 / enough no D, which is at most 1, adds more than ``enough`` times 1 + t.
    """

    def points(epsilon: float) -> list[_Point]:
        deltas = (curve(epsilon) for curve in curves)
        return [_Point(math.exp(epsilon), delta.lower, delta.upper) for delta in deltas]

    last = math.log(1 / enough) + 1
    found = {last * i / _FIRST: points(last * i / _FIRST) for i in range(_FIRST + 1)}
    while len(found) < places:
        known = sorted(found)
        width, start, end = max(
            (max(_bend(found, known, i, which) for which in range(len(curves))), a, b)
            for i, (a, b) in enumerate(pairwise(known))
        )
        if width <= _WIDE * enough:
            break
        middle = (start + end) / 2
        found[middle] = points(middle)
    return [[found[place][which] for place in sorted(found)] for which in range(len(curves))]


def _bend(found: dict[float, list[_Point]], places: Sequence[float], i: int, which: int) -> float:
    """Return how far one curve's chord over a cell may be above it, over 1 + t, beyond what its ends leave open."""
    if places[i + 1] - places[i] < _NARROWEST:
        return 0.0
    points = [found[place][which] for place in places[max(i - 1, 0) : i + 3]]
    known = max((end.high - end.low) / (1 + end.t) for end in (found[place][which] for place in places[i : i + 2]))
    return _over_cell(points, points, min(i, 1)) - known


def _excess(one: Points, other: Points) -> float:
    """Bound sup over t >= 1 of (D of one - D of the other) / (1 + t) from above; 0 is the least."""
    cells = (_over_cell(one, other, i) for i in range(len(one) - 1))
    beyond = one[-1].high / (1 + one[-1].t)
    return max(0.0, *cells, beyond) + _ROUNDED


def _over_cell(one: Points, other: Points, i: int) -> float:
    """Return the same between two points: a chord from above, two lines that a convex curve cannot fall below.

    The chord less the larger of two lines is linear between their crossing and the ends, and so is at its largest, over
    1 + t, at one of these three.
    """
    a, b = one[i], one[i + 1]
    start, end = other[i], other[i + 1]
    before, after = other[i - 1] if i else None, other[i + 2] if i + 2 < len(other) else None
    falls = (start.low - before.high) / (start.t - before.t) if before else -1.0
    falls = max(falls, -1.0)
    rises = min((after.high - end.low) / (after.t - end.t), 0.0) if after else 0.0
    width = end.t - start.t
    places = [start.t, end.t]
    if rises > falls:
        cross = start.t + (start.low - (end.low - rises * width)) / (rises - falls)
        if start.t < cross < end.t:
            places.append(cross)

    def value(t: float) -> float:
        chord = a.high + (b.high - a.high) * ((t - a.t) / width)
        under = max(start.low + falls * (t - start.t), end.low + rises * (t - end.t), 0.0)
        return (chord - under) / (1 + t)

    return max(value(t) for t in places)


def _gaussian(mu: float, points: Points) -> list[_Point]:
    """Return the curve of a Gaussian at the same places."""
    low, high = round_down(mu, MU), round_up(mu, MU)
    return [
        _Point(point.t, gaussian_delta(low, math.log(point.t))[0], gaussian_delta(high, math.log(point.t))[1])
        for point in points
    ]
