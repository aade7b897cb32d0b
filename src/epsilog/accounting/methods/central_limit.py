"""Very many rounds: delta by the central limit theorem, tilted, with the Berry-Esseen error.

Let S be the tilted sum of losses. Then delta(e) = e^(K(theta) - theta e) E k(S - e), with k(y) = e^(-theta y) (1 -
e^-y) for y > 0. k rises to its peak and falls again. So replacing S by a normal variable moves the mean by at most
twice the peak times the largest distance of the two distribution functions. K, mean, variance and third moments of a
round are sums over cells, each between its values at the ends. They are of second order in a small loss before any
rounding: no number of rounds and no sampling probability is too extreme. docs/accounting/spectral.md, section 8, has
the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import Array, DiscretePair, GaussianPair, LaplacePair, bound_ratio_misplacement
from epsilog.numerics.distributions.replace_one import ReplaceOneGaussianPair, ReplaceOneLaplacePair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition, Parts
from epsilog.numerics.questions import (
    Bounds,
    DeltaAt,
    EpsilonAt,
    Question,
    bound_from_max_loss,
    kernel_max,
    relevant_delta,
)
from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import (
    BOUND,
    ELEMENTARY,
    LEAST,
    TINY,
    TWICE,
    gamma,
    round_down,
    round_up,
    union_probability,
)

FEWEST = 10_000  # rounds from which on a normal distribution may be close enough
_BERRY_ESSEEN = 0.56  # Shevtsova 2010 (Doklady Mathematics 82(3)): summands need not be alike
_CELLS, _ROUGH = 100_000, 2_000
_LOST = 1e-6  # of delta: what cutting the tails of all rounds together may add
_MOST_LOSS = 300.0  # of a cell's base ratio: its exponential's powers are within reach
_MOST_ATOMS = 300_000
_SMALL = 0.02  # a ratio below which differences are taken as series
_MOST_PARTS = 20  # of different kinds, each with separate cells
_LEAST_TAIL = 1e-290  # that a double can hold
_FAR = 8.0  # deviations from the tilted mean that are looked at
_MEAN = 8  # roundings of the middle of two means and of half their distance, by both: sums, products, halves
_DEVIATION = 8  # of the deviation that the kernel's mean is taken at: a sum, a root, a quotient
_EXPONENT, _KERNEL = 1024, 512  # of an answer's exponent, and of the kernel's mean: docs/accounting/rounding.md, 4
_SCALED = 2 * ELEMENTARY + 8  # of an exponential times a sum, and what is added to it
_ALONE = 6  # of a mass of P or Q alone, times a share and less a product


class _RatioCells(NamedTuple):
    """One pair as cells of its base ratio u, seen under Q: x = q (e^u - 1), and ln(1 + x) is the loss or its negative.

    Attributes:
        x: its values at both ends of each cell.
        log: ln(1 + x) there.
        mass: Q-masses from below and from above.
        short: Q-mass outside the cells, from below and from above.
        drift: the sum of x over the cells, from below and from above.
        infinite: mass under the pair's own P that gives everything away, without and with what was cut off.
        sign: 1 if the loss is ln(1 + x) under P = (1 + x) Q, -1 if it is -ln(1 + x) under Q.
    """

    x: tuple[Array, Array]
    log: tuple[Array, Array]
    mass: tuple[Array, Array]
    short: tuple[float, float]
    drift: tuple[float, float]
    infinite: tuple[float, float]
    sign: float


def bound(composition: Composition, question: Question, relative_width: float) -> Bounds | None:  # noqa: ARG001
    """Bound the answer about 10,000 rounds and more; None for fewer, and for pairs without cells here."""
    if composition.has_pairs and composition.orderings(relevant_delta(question))[0].rounds > 1:
        with suppress(InversionInfeasibleError):
            return bound_by_central_limit(composition.orderings(relevant_delta(question)), question)
    return None


def bound_by_central_limit(orderings: Sequence[PairComposition], question: Question) -> Bounds:
    """Bound the answer over all orderings.

    Raises:
        InversionInfeasibleError: too few rounds, or a pair without cells here.
    """
    lower = upper = 0.0
    for ordering in orderings:
        if not ordering.upper:
            continue
        most = bound_from_max_loss(question, ordering.largest_loss)
        above = _bounds(ordering.upper, question)
        upper = max(upper, min(above.upper, most))
        for parts in ordering.lowers:
            below = above if _same(parts, ordering.upper) else _bounds(parts, question, ordering.upper)
            lower = max(lower, below.lower)
    return Bounds(lower, upper)


def _same(one: Parts, other: Parts) -> bool:
    return len(one) == len(other) and all(
        a.base is b.base and (a.direction, a.sampling_probability, m) == (b.direction, b.sampling_probability, n)
        for (a, m), (b, n) in zip(one, other, strict=True)
    )


def _bounds(parts: Parts, question: Question, above: Parts = ()) -> Bounds:
    """Bound one composition; the pairs ``above`` bound what the pairs below leave out."""
    rounds = sum(count for _, count in parts)
    if rounds < FEWEST or len(parts) > _MOST_PARTS:
        raise InversionInfeasibleError("too few rounds, or too many kinds of them")

    missing = [
        max(over.base.infinity_mass - pair.base.infinity_mass, 0.0)
        for (over, _), (pair, _) in zip(above or parts, parts, strict=True)
    ]

    def cut(delta: float, cells: int) -> list[tuple[_RatioCells, int]]:
        tail = max(_LOST * delta / rounds, _LEAST_TAIL)
        return [(_cells(pair, tail, cells, gone), count) for (pair, count), gone in zip(parts, missing, strict=True)]

    match question:
        case EpsilonAt(delta=delta):
            return TiltedComposition(cut(delta, _CELLS), _tilt_for_delta(cut(delta, _ROUGH), delta)).epsilon(delta)
        case DeltaAt(epsilon=epsilon):
            size = 1e-12
            for _ in range(3):  # how much may be cut off depends on the answer
                theta = _tilt_for_epsilon(cut(size, _ROUGH), epsilon)
                size = min(size, max(TiltedComposition(cut(size, _ROUGH), theta).delta(epsilon).upper, 1e-250))
            return TiltedComposition(cut(size, _CELLS), theta).delta(epsilon)


class TiltedComposition:
    """A composition of many rounds at one tilt.

    Attributes:
        mean: the tilted mean of the summed loss, about.
        deviation: its tilted standard deviation, about.
    """

    def __init__(self, parts: Sequence[tuple[_RatioCells, int]], theta: float) -> None:
        self.theta = theta
        moments = [(_moments(cells, theta), count) for cells, count in parts]
        self._total = [math.fsum(c * m.log_total[side] for m, c in moments) for side in (0, 1)]
        means = [math.fsum(c * m.mean[side] for m, c in moments) for side in (0, 1)]
        low, high = (math.fsum(c * m.variance[side] for m, c in moments) for side in (0, 1))
        third = math.fsum(c * m.third for m, c in moments)
        if not (0 < low <= high < math.inf and all(map(math.isfinite, (*self._total, *means, third)))):
            raise InversionInfeasibleError("nothing moves, or it leaves the numbers")
        self.mean, self.deviation = sum(means) / 2, math.sqrt((low + high) / 2)
        least = math.sqrt(low)
        moved = (means[1] - means[0]) / 2 + gamma(_MEAN) * (abs(means[0]) + abs(means[1]))
        error = _BERRY_ESSEEN * (third / low) / least + moved / (least * math.sqrt(2 * math.pi))
        wide = math.sqrt(high) / least
        self._error = (error + 0.25 * (wide - 1) * wide) * (1 + BOUND) + gamma(_DEVIATION)
        self._peak = kernel_max(theta)
        self._infinite = [
            union_probability((cells.infinite[side], count) for cells, count in parts)[side] for side in (0, 1)
        ]

    def delta(self, epsilon: float) -> Bounds:
        """Bound delta at ``epsilon``."""
        value, error = self._kernel(epsilon)
        log_error = gamma(_EXPONENT) * (1 + abs(self._total[1]) + self.theta * epsilon)
        lower = _exp(self._total[0] - self.theta * epsilon - log_error, value - error)
        upper = _exp(self._total[1] - self.theta * epsilon + log_error, min(value + error, self._peak))
        lower, upper = self._infinite[0] + round_down(lower, _SCALED), round_up(self._infinite[1] + upper, _SCALED)
        return Bounds(min(lower, 1.0), min(upper + LEAST, 1.0))

    def _kernel(self, epsilon: float) -> tuple[float, float]:
        """Return the kernel's mean under the normal distribution, with a bound on the error."""
        away, theta = (self.mean - epsilon) / self.deviation, self.theta
        if abs(away) > _FAR:
            return 0.0, self._peak
        near, far = (
            0.5 * float(erfcx((rate * self.deviation - away) * math.sqrt(0.5))) * math.exp(-away * away / 2)
            for rate in (theta, theta + 1)
        )
        if not math.isfinite(near) or not math.isfinite(far):
            return 0.0, self._peak
        return max(near - far, 0.0), 2 * self._peak * self._error + gamma(_KERNEL) * near

    def epsilon(self, delta: float) -> Bounds:
        """Bound epsilon at ``delta``; either end was checked by computing its delta."""
        upper = math.inf
        if self._infinite[1] < delta:
            excess = self._total[1] + math.log(self._peak) - math.log(delta - self._infinite[1])
            upper = max(excess / self.theta, 0.0) * (1 + BOUND) + TINY
            if not self.delta(upper).upper <= delta:
                upper = math.inf
        if self.delta(0.0).upper <= delta:
            upper = 0.0
        elif math.isfinite(upper):
            _, upper = bisect_doubles(lambda at: self.delta(at).upper <= delta, 0.0, upper)
        if self._infinite[0] >= delta:
            return Bounds(math.inf, upper)
        most = min(upper, self.mean + _FAR * self.deviation)
        if not self.delta(max(most, 0.0)).lower < delta:
            return Bounds(max(most, 0.0), upper)
        start = max(min(self.mean, most), 0.0)
        steps = (max(start - k * self.deviation / 4, 0.0) for k in range(4 * int(_FAR) + 1))
        known = next((at for at in steps if self.delta(at).lower >= delta), None)  # far below nothing is known
        if known is None:
            return Bounds(0.0, upper)
        return Bounds(bisect_doubles(lambda at: self.delta(at).lower < delta, known, max(most, known))[0], upper)


class _Moments(NamedTuple):
    """Of one round, tilted: K, mean and variance from both sides, the third absolute central moment from above."""

    log_total: tuple[float, float]
    mean: tuple[float, float]
    variance: tuple[float, float]
    third: float


def _cells(pair: DominatingPair, tail: float, count: int, missing: float) -> _RatioCells:
    """Cut a pair with an exactly known base pair, except for a mass that may be ``missing`` on each side.

    ``tail`` is what may be cut off on either side, beyond that.
    """
    base, share = pair.base, pair.sampling_probability
    cut = 2 * missing
    if pair.direction is AdjacencyType.BOTH:
        raise InversionInfeasibleError("a glued profile is no pair")
    if isinstance(base, DiscretePair):
        ends, mass = _atoms(base, count)
    elif isinstance(base, GaussianPair | LaplacePair | ReplaceOneGaussianPair | ReplaceOneLaplacePair):
        far = max(abs(end) for end in base.tail_bounds(tail))
        if not far < _MOST_LOSS:
            raise InversionInfeasibleError("losses beyond reach")
        edges = np.unique(np.append(np.linspace(-far, far, count), 0.0))
        found = base.masses(edges)
        misplacement = bound_ratio_misplacement(base, edges)
        ends = (edges - misplacement)[:-1], (edges + misplacement)[1:]
        mass = np.maximum(found.q - found.q_error, 0.0)[1:-1], (found.q + found.q_error)[1:-1]
        outer = (found.p, found.p_error, found.q, found.q_error)
        cut += math.fsum(float(part[0] + part[-1]) for part in outer) * (1 + BOUND)  # under P and under Q together
    else:
        raise InversionInfeasibleError(f"no cells for {base!r}")
    x = share * np.expm1(ends[0]), share * np.expm1(ends[1])
    x = round_down(x[0], 1 + ELEMENTARY), round_up(x[1], 1 + ELEMENTARY)
    x = (np.maximum(x[0], round_down(-share, TWICE)) if share < 1 else x[0]), x[1]
    log = (np.log1p(x[0]), np.log1p(x[1])) if share < 1 else ends
    short, offset = (0.0, cut), 0.0
    if base.infinity_mass > 0 and share < 1:  # what Q alone produces has x = -q
        only, offset = np.array([base.infinity_mass]), -share * base.infinity_mass
        edge = np.array([round_down(-share, TWICE)]), np.array([round_up(-share, TWICE)])
        x = np.append(x[0], edge[0]), np.append(x[1], edge[1])
        log = np.append(log[0], np.log1p(edge[0])), np.append(log[1], np.log1p(edge[1]))
        mass = np.append(mass[0], round_down(only, _ALONE)), np.append(mass[1], round_up(only, _ALONE))
    elif base.infinity_mass > 0:
        short = round_down(base.infinity_mass, _ALONE), round_up(base.infinity_mass, _ALONE) + cut
    sign = -1.0 if pair.direction is AdjacencyType.ADD else 1.0
    infinite = share * base.infinity_mass if sign > 0 else 0.0
    drift = round_down(offset, _ALONE) - share * cut, round_up(offset, _ALONE) + share * cut
    return _RatioCells(x, log, mass, short, drift, (infinite, infinite + cut), sign)


def _atoms(base: DiscretePair, count: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Atoms are their own cells; for planning a few in a row are one."""
    seen = base.p > 0
    u = base.u[seen]
    if len(u) == 0 or float(np.abs(u).max()) > 2 * _MOST_LOSS or len(u) > _MOST_ATOMS:
        raise InversionInfeasibleError("atoms beyond reach")
    mass = base.p[seen] * np.exp(-u)
    error = base.relative_error + gamma(16 + 8 * float(np.abs(u).max()))
    if count <= _ROUGH < len(u):
        first = np.arange(0, len(u), -(-len(u) // _ROUGH))
        u, mass = u[first], np.add.reduceat(mass, first)
    misplacement = base.ratio_error * (u != 0)
    return (u - misplacement, u + misplacement), (mass * (1 - error), mass * (1 + error))


def _moments(cells: _RatioCells, theta: float) -> _Moments:
    """Sum over the cells; of second order in x before anything is rounded, since the sum of x itself is known."""
    power = 1 + theta if cells.sign > 0 else -theta
    (low, high), log = cells.x, cells.log
    across = (low < 0) & (high > 0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rise = _between(_rise(low, log[0], power), _rise(high, log[1], power), across)
        turn = _between(_turn(low, log[0], power), _turn(high, log[1], power), across)
        square = _between(log[0] ** 2, log[1] ** 2, across)
        weights = np.exp(power * log[0]), np.exp(power * log[1])
        weight = np.minimum(*weights), np.maximum(*weights)
        drift = sorted((power * cells.drift[0], power * cells.drift[1]))
        total = (
            -cells.short[1] + drift[0] + _sum(cells, rise[0], 0),
            -cells.short[0] + drift[1] + _sum(cells, rise[1], 1),
        )
        if not (total[0] > -1 and math.isfinite(total[1])):
            raise InversionInfeasibleError("a tilt beyond reach")
        mean = _over(
            (cells.drift[0] + _sum(cells, turn[0], 0), cells.drift[1] + _sum(cells, turn[1], 1)),
            (1 + total[0], 1 + total[1]),
        )
        squares = _over(
            (_sum(cells, weight[0] * square[0], 0), _sum(cells, weight[1] * square[1], 1)), (1 + total[0], 1 + total[1])
        )
        center = (mean[0] + mean[1]) / 2
        away = np.maximum(np.abs(log[0] - center), np.abs(log[1] - center))
        cubes = _sum(cells, weight[1] * away**3, 1) / (1 + total[0])
    nearest = 0.0 if mean[0] <= 0 <= mean[1] else min(mean[0] ** 2, mean[1] ** 2)
    variance = squares[0] - round_up(max(mean[0] ** 2, mean[1] ** 2), TWICE), squares[1] - round_down(nearest, TWICE)
    third = (cubes ** (1 / 3) + (mean[1] - mean[0]) / 2) ** 3 * (1 + BOUND)
    logs = math.log1p(total[0]), math.log1p(total[1])
    return _Moments(
        (round_down(logs[0], ELEMENTARY), round_up(logs[1], ELEMENTARY)),
        mean if cells.sign > 0 else (-mean[1], -mean[0]),
        variance,
        third,
    )


def _sum(cells: _RatioCells, values: Array, side: int) -> float:
    """Return masses times values, from below (side 0) or from above."""
    positive = float(cells.mass[side] @ np.maximum(values, 0.0))
    negative = float(cells.mass[1 - side] @ np.maximum(-values, 0.0))
    rounding = (2 * side - 1) * gamma(4.0 * len(values) + 16_384)
    return positive * (1 + rounding) - negative * (1 - rounding)


def _between(one: Array, other: Array, across: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the least and the largest value in each cell of what is monotone on either side of 0, and 0 there."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    return np.where(across, np.minimum(low, 0.0), low), np.where(across, np.maximum(high, 0.0), high)


def _over(top: tuple[float, float], bottom: tuple[float, float]) -> tuple[float, float]:
    """Divide an interval by a positive one."""
    low, high = top[0] / bottom[top[0] > 0], top[1] / bottom[top[1] <= 0]
    return round_down(low, TWICE), round_up(high, TWICE)


def _exp(lead: float, value: float) -> float:
    return math.exp(min(lead + math.log(value), 0.0)) if value > 0 else 0.0


def _rise(x: Array, log: Array, power: float) -> Array:
    """(1 + x)^power - 1 - power x: at least 0, growing on either side of 0."""
    series = np.ones_like(x)
    for k in range(9, 2, -1):
        series = 1 + (power - k + 1) / k * x * series
    small = (np.abs(x) < _SMALL) & (np.abs(power * x) < _SMALL)
    return np.where(small, power * (power - 1) / 2 * x * x * series, np.expm1(power * log) - power * x)


def _turn(x: Array, log: Array, power: float) -> Array:
    """(1 + x)^power ln(1 + x) - x: of one sign, monotone on either side of 0."""
    series = np.ones_like(x)
    for k in range(10, 2, -1):
        series = 1 - (k - 1) / k * x * series
    curve = np.where(np.abs(x) < _SMALL, -x * x / 2 * series, log - x)
    return np.asarray(log * np.expm1(power * log) + curve)


# ---- planning: any tilt is valid -----------------------------------------------------------------------------------


def _try(parts: Sequence[tuple[_RatioCells, int]], theta: float) -> TiltedComposition | None:
    try:
        return TiltedComposition(parts, theta)
    except InversionInfeasibleError:
        return None


def _tilt_for_epsilon(parts: Sequence[tuple[_RatioCells, int]], epsilon: float) -> float:
    """Where the tilted mean is ``epsilon``, and no less than one over the deviation."""
    low, high = 1e-9, 1e18
    for _ in range(50):
        theta = math.sqrt(low * high)
        crowd = _try(parts, theta)
        up = crowd is not None and (crowd.mean < epsilon or theta * crowd.deviation < 1)
        low, high = (theta, high) if up else (low, theta)
        if high < 1.01 * low:
            break
    return low


def _tilt_for_delta(parts: Sequence[tuple[_RatioCells, int]], delta: float) -> float:
    """Where the answer is the tilted mean, about."""
    low, high = 1e-9, 1e18
    for _ in range(50):
        theta = math.sqrt(low * high)
        crowd = _try(parts, theta)
        up = crowd is not None and (crowd.delta(max(crowd.mean, 0.0)).upper > delta or theta * crowd.deviation < 1)
        low, high = (theta, high) if up else (low, theta)
        if high < 1.01 * low:
            break
    return low
