"""Delta as an integral along a bent path, for slowly decaying transforms: few rounds or many different ones.

The losses of Poisson-sampled Gaussians are bounded on one side, and their transform is entire. So the path may bend to
that side, where the integrand falls exponentially. Gauss' rule sums straight pieces; its error follows from bounds of
the integrand on ellipses. Beyond its end the path goes straight up. docs/accounting/spectral.md, section 6, derives
each bound.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from epsilog.accounting.inversion.profile import TURNS, Places, Profiles
from epsilog.accounting.inversion.sampled import Complex, InversionInfeasibleError
from epsilog.numerics.distributions.base import Array, GaussianPair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, Parts
from epsilog.numerics.questions import Bounds, Readable
from epsilog.numerics.rounding import BOUND, ELEMENTARY, LEAST, SECOND_ORDER, gamma, round_down, round_up

_AIM = 1e-10  # relative error of delta to plan for
_SLOPES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)  # of a line, to the right
_CLEARANCE = 0.15  # about a corner, over its height, for ellipses
_FIRST = 0.5  # of the path's height, over a tilt or the inverse deviation
_GROWTH = 1.5  # of the path's height, line by line
_MOST_LINES = 60
_SPREADS = (1.4, 2.0, 3.0, 5.0, 8.0)  # of ellipses: the sum of their half axes, over half a piece
_LENGTHS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.06, 0.03, 0.01)  # of a piece, over that of the last
_SHORTEST = 1e-4  # of a piece, over the tilt
_SLICES = 4  # of an ellipse
_MOST_POINTS = 64  # of one piece
_MOST_NODES = 4_000
_MAX_PROFILES = 32  # each with a separate rule and curves
_PLANNED_TURNS = (0.1, 0.3, 0.7, 1.3, 2.0, 2.6)
_GRID = 10  # places on the real axis for one tilt, and for one doubling
_LEVELS = 8  # of bounds, in one e-fold of height
_MARGIN = 4.0  # nats of accuracy of one piece, more than of the whole
_ROUGH = 6.0  # nats above the start from which on a better bound is worth its time
_WEIGHTS = 65_536.0 + 64  # roundings of a weight of Gauss' rule, and of what it multiplies
_LEAST_TILT = 1e-3
_HIGHEST = 690.0  # logarithm of a number, about the largest: what is more, is infinite
# roundings, each derived in docs/accounting/rounding.md, 4, or spectral.md, 6
_POINT = 32  # of a point of the path, by its magnitude
_QUOTIENT = 32  # of 1 / (s (s - 1)): a complex product and a complex quotient, fewer than 16
_SQUARE = 128  # of m s (s - 1) / 2, by the squared sizes: m takes 2 MU and a sum, two complex products fewer than 16
_ADDED = 4  # of a sum of two logarithms, by both: the product before it, and the sum
_LAMBDA = 16  # of Lambda
_TURNED = _POINT + 8  # of s a: the point's, and a complex product
_EXPONENT = 4 + ELEMENTARY  # of the exponential of a sum of three terms, by their sizes
_FRONT = 16  # of the factor before the sum: three sums and two products, by the sizes of the terms
_SCALED = ELEMENTARY + 4  # of an exponential times a sum over pi: a sum, a product, a quotient, and pi itself


class _Slice(NamedTuple):
    """Part of an ellipse: its real parts, and ln|H| at most at either end for all imaginary parts of the slice."""

    low: float
    high: float
    size_low: float
    size_high: float

    def most(self, a: float) -> float:
        """Bound ln|H e^(-s a)| on the slice, up to rounding: it is convex in the real part."""
        return max(self.size_low - self.low * a, self.size_high - self.high * a)

    def slack(self, a: float) -> float:
        """Bound what rounding moves ``most`` by."""
        sizes = abs(self.size_low) + abs(self.size_high)
        return BOUND * (1 + sizes + (abs(self.low) + abs(self.high)) * a)


class _Piece(NamedTuple):
    """A straight piece of the path, summed at some points, and what bounds the integrand on an ellipse about it.

    Attributes:
        start: its first end, from where the path starts.
        end: its second end, likewise.
        points: how many the sum has.
        slices: cover the ellipse.
        log_scale: ln of what the error is of the integrand's bound without 1 / (s (s - 1)).
    """

    start: complex
    end: complex
    points: int
    slices: tuple[_Slice, ...]
    log_scale: float

    def log_error(self, a: float) -> float:
        """Bound ln of the sum's error."""
        return max(one.most(a) + one.slack(a) for one in self.slices) + self.log_scale


class Bent(Readable):
    """The integral of one composition of sampled and plain Gaussians; answers near the epsilon it was made for.

    Attributes:
        theta: the tilt at which the path starts.
        width: the tilted deviation of the loss, about.
        infinite: the least and the most mass that gives everything away.
    """

    def __init__(
        self, parts: Parts, thinned: Parts, theta: float, deviation: float, near: float, *, aim: float = _AIM
    ) -> None:
        sampled = _select_sampled(parts)
        if not (theta >= _LEAST_TILT and deviation > 0):
            raise InversionInfeasibleError("no useful tilt")
        self.theta, self.width, self.infinite = theta, deviation, (0.0, 0.0)
        self._removal = sampled[0][0].direction is AdjacencyType.REMOVE
        self._start = 1 + theta if self._removal else -theta
        plain = [(pair, count) for pair, count in parts if pair.direction is AdjacencyType.PLAIN]
        self._square = math.fsum(count * _mu(pair) ** 2 for pair, count in plain)
        self._least = math.fsum(-count * math.log1p(-pair.sampling_probability) for pair, count in sampled)
        a = self._rate(near)
        if not a > 1e-6 * self._least:
            raise InversionInfeasibleError("hardly any loss is that large")
        value = 1 / (theta * (theta + 1) * (deviation * math.sqrt(2 * math.pi) + 1 / theta))
        self._nats = -math.log(aim * min(value, 1.0))
        wide = min((self._nats + 5) / a, 100.0 / max(_mu(pair) for pair, _ in sampled))
        self._farthest = self._start + theta + wide
        self._profiles = _profiles(sampled, self._farthest)
        self._known: dict[int, float] = {}
        self._curves: dict[tuple[int, float], Places] = {}
        self._sizes: dict[tuple[int, float, int], float] = {}
        self._lead = self._axis(0)
        self._widest = _MARGIN / a
        corners = self._corners(_profiles(_select_sampled(thinned), self._farthest), a)
        self._end = corners[-1]
        self._end_size = self._size(self._profiles, self._start + self._end.real, self._end.imag, TURNS)[0]
        self._pieces: list[_Piece] = []
        for start, end in itertools.pairwise(corners):
            self._pieces += self._cut(start, end, a)
        self._evaluate()

    def _rate(self, epsilon: float) -> float:
        """How fast e^(-s a) falls: how far the loss is, or may be, from the end that sampling sets to it."""
        return self._least + (epsilon if self._removal else -epsilon)

    def _plain(self, power: float, frequency: float) -> float:
        """Bound ln of the plain Gaussians' part of H, from ``frequency`` on; convex in ``power``."""
        exponent = power * (power - 1) - frequency * frequency
        return self._square * (exponent + BOUND * (abs(power) * (abs(power) + 1) + frequency * frequency)) / 2

    def _size(self, profiles: Profiles, power: float, frequency: float, turns: Sequence[float]) -> tuple[float, float]:
        """Bound ln|H| at a real part, for all imaginary parts from ``frequency`` on; and the turn that served best."""
        sizes, turn = profiles.most((power,), frequency, turns)
        return float(sizes[0]) + self._plain(power, frequency), turn

    def _on_axis(self, power: float) -> float:
        """Bound ln|H| for all imaginary parts: it is convex, so that lines between its values bound it, too."""
        return self._between(power, self._axis)

    def _between(self, power: float, size: Callable[[int], float]) -> float:
        """Bound a convex function of the real part by its values, at most, at the two places of a grid about it."""
        place = (power - self._start) / self.theta
        if place < -1:
            return math.inf
        index = math.floor(place * _GRID) if place < 1 else math.floor((1 + math.log2(place)) * _GRID)
        below, above = self._power(index), self._power(index + 1)
        low, high = size(index), size(index + 1)
        if not max(low, high) < math.inf:
            return math.inf
        share = min(max((power - below) / (above - below), 0.0), 1.0)
        return low + share * (high - low) + BOUND * (1 + abs(low) + abs(high))

    def _power(self, index: int) -> float:
        return self._start + self.theta * (index / _GRID if index < _GRID else 2.0 ** (index / _GRID - 1))

    def _axis(self, index: int) -> float:
        if index not in self._known:
            power = self._power(index)
            known = self._profiles.on_axis(power) + self._plain(power, 0.0) if power <= self._farthest else math.inf
            self._known[index] = known
        return self._known[index]

    def _bound_damping(self, low: float, high: float, bottom: float) -> Iterator[tuple[float, float]]:
        """Bound ln|H| at two real parts for all imaginary parts from ``bottom`` on, along some curves."""
        level = math.floor(math.log(bottom / self._heights[1]) * _LEVELS)
        if level < 0:
            return
        height = self._heights[1] * math.exp(level / _LEVELS) * (1 - BOUND)
        for turn in self._useful(height):
            size = partial(self._along, level, height, turn)
            yield self._between(low, size), self._between(high, size)

    def _along(self, level: int, height: float, turn: float, index: int) -> float:
        """Bound ln|H| at a place of the grid, along the curves for a height."""
        power = self._power(index)
        if power > self._farthest:
            return math.inf
        if (level, turn) not in self._curves:
            here = self._start + float(np.interp(height, self._heights, self._reals))
            self._curves[level, turn] = self._profiles.leaves(
                (here, min(here + self._estimate_reach(height), self._farthest)), height, turn
            )
        if (level, turn, index) not in self._sizes:
            where = self._curves[level, turn]
            found = self._profiles.along(power, height, turn, where) + self._plain(power, height)
            self._sizes[level, turn, index] = found
        return self._sizes[level, turn, index]

    def _corners(self, plan: Profiles, a: float) -> list[complex]:
        """A path along which the bound of the integrand falls fast, until what is left is next to nothing."""
        path, self._turns, self._heights, self._reals = [0j], [(0.0, 0.0)], [0.0], [0.0]
        height = _FIRST * min(self.theta, 1 / self.width)
        for _ in range(_MOST_LINES):
            here, rise = path[-1], height - path[-1].imag
            tried = [here.real + slope * rise for slope in _SLOPES]
            found = [self._falls(plan, away, height, a) for away in tried]
            best = min(range(len(tried)), key=lambda i: found[i][0] + found[i][1])
            path.append(complex(tried[best], height))
            self._turns.append(found[best][2])
            self._heights.append(height)
            self._reals.append(tried[best])
            if found[best][0] - math.log(height) < -self._nats:
                return _merge_corners(path)
            height *= _GROWTH
        raise InversionInfeasibleError("the integrand falls too slowly")

    def _falls(self, plan: Profiles, away: float, height: float, a: float) -> tuple[float, float, tuple[float, float]]:
        """About ln of the integrand's bound over that at the start, what is too much about it, and the best turns."""
        size, turn = self._size(plan, self._start + away, height, _PLANNED_TURNS)
        reach = self._estimate_reach(height)
        around, far_turn = self._size(plan, self._start + away + reach, (1 - _CLEARANCE) * height, _PLANNED_TURNS)
        here = size - away * a - self._lead
        return here, max(around - (away + reach) * a - self._lead - _ROUGH, 0.0), (turn, far_turn)

    def _cut(self, start: complex, end: complex, a: float) -> list[_Piece]:
        """Cut one straight line into pieces that need few points for their length."""
        pieces: list[_Piece] = []
        here, length, left = start, abs(end - start), _MOST_NODES
        while here != end:
            best, best_cost = None, math.inf
            for factor in _LENGTHS:
                share = factor * length / abs(end - here)
                piece = self._piece(here, here + (end - here) * share if share < 0.99 else end, a)
                cost = piece.points / abs(piece.end - here) if piece else math.inf
                if cost < best_cost:
                    best, best_cost = piece, cost
                elif best is not None:
                    break
            left -= best.points if best is not None else left
            if best is None or left <= 0 or abs(best.end - here) < _SHORTEST * self.theta:
                raise InversionInfeasibleError("the path is too long")
            pieces.append(best)
            length, here = abs(best.end - here), best.end
        return pieces

    def _piece(self, start: complex, end: complex, a: float) -> _Piece | None:
        """Bound the integrand on ellipses about one piece, and take the one that asks for fewest points."""
        half, middle = abs(end - start) / 2, self._start + (start + end) / 2
        along = (end - start) / (2 * half)
        best: _Piece | None = None
        for spread in _SPREADS:
            long, short = half * (spread + 1 / spread) / 2, half * (spread - 1 / spread) / 2
            ellipse = _Ellipse(middle, along, long * (1 + BOUND), short * (1 + BOUND))
            distance = ellipse.bound_distance(0.0) * ellipse.bound_distance(1.0) * (1 - BOUND)
            if not distance > 0:
                break
            slices = tuple(self._slice(*one, a) for one in ellipse.slices())
            above = max(one.most(a) for one in slices) - self._lead + self._start * a
            if not above < math.inf:
                break
            log_scale = math.log(8 * half * spread / ((spread - 1) * distance))
            points = max(math.ceil((above + log_scale + self._nats + _MARGIN) / (2 * math.log(spread))), 4)
            if best is not None and points > best.points:
                break  # wider ellipses ask for more again
            if points <= _MOST_POINTS and (best is None or points < best.points):
                best = _Piece(start, end, points, slices, log_scale - 2 * points * math.log(spread))
        return best

    def _slice(self, low: float, high: float, bottom: float, a: float) -> _Slice:
        """Bound the integrand on part of an ellipse."""
        best = _Slice(low, high, self._on_axis(low), self._on_axis(high))
        if bottom > 0 and best.most(a) - self._lead + self._start * a > _ROUGH:
            for sizes in self._bound_damping(low, high, bottom):
                one = _Slice(low, high, *sizes)
                best = one if one.most(a) < best.most(a) else best
        return best

    def _estimate_reach(self, height: float) -> float:
        """Return how far to the right of the path ellipses are likely to reach."""
        return min(_CLEARANCE * height, self._widest)

    def _useful(self, frequency: float) -> tuple[float, ...]:
        """Return the turns that served best about a height, on the path and to its right."""
        index = min(bisect.bisect(self._heights, frequency), len(self._turns) - 1)
        low, high = (bisect.bisect_left(_PLANNED_TURNS, turn) for turn in self._turns[index])
        return tuple(sorted({_PLANNED_TURNS[low], _PLANNED_TURNS[high]}))

    def _evaluate(self) -> None:
        """Evaluate the integrand without e^(-s a), with the error of its logarithm."""
        nats = 34.0 + math.log(float(self._profiles.count.sum()))
        nodes = [_nodes(group, self.theta) for group in _group_pieces(self._pieces)]
        values = [self._profiles.values(self._start + one.away, one.magnitude, nats) for one in nodes]
        self._away = np.concatenate([one.away for one in nodes])
        self._magnitudes = np.concatenate([one.magnitude for one in nodes])
        zero = (1 + self.theta if self._removal else -self.theta) + self._away  # s
        one = (self.theta if self._removal else -self.theta - 1) + self._away  # s - 1
        self._factor = np.concatenate([one.weight for one in nodes]) / (zero * one)
        plain, sizes = self._square * zero * one / 2, np.abs(zero) + np.abs(one)
        self._log = np.concatenate([value.log for value in values]) + plain
        slips = gamma(_POINT) * self._magnitudes * (1 / np.abs(zero) + 1 / np.abs(one)) + gamma(_QUOTIENT)
        slips += self._square * (gamma(_POINT) * self._magnitudes * sizes + gamma(_SQUARE) * sizes**2)
        self._error = np.concatenate([value.error for value in values]) + slips * SECOND_ORDER
        self._error += gamma(_ADDED) * (np.abs(self._log) + np.abs(plain))
        self._most = np.concatenate([value.most for value in values]) + plain.real + slips

    def delta(self, epsilon: float) -> Bounds:
        """Bound delta at ``epsilon``."""
        a = self._rate(epsilon)
        if a <= 0:
            return Bounds(0.0, 1.0)
        lead = self._lead - self._start * a
        exponent = self._log - self._lead - self._away * a
        loss_error = gamma(_LAMBDA) * (self._least + abs(epsilon))
        relative = self._error + self._magnitudes * (gamma(_TURNED) * a + loss_error)
        relative += gamma(_EXPONENT) * (abs(self._lead) + np.abs(exponent)) + gamma(_WEIGHTS + len(exponent))
        known = relative < 0.1
        summands = self._factor * np.exp(np.where(known, exponent, -_HIGHEST))
        most = self._most - self._lead - self._away.real * a
        most += BOUND * (1 + np.abs(most) + abs(self._lead) + self._magnitudes * (1 + a))
        beyond = np.abs(self._factor) * np.where(most < _HIGHEST, np.exp(np.minimum(most, _HIGHEST)), np.inf)
        rounding = np.where(known, np.abs(summands) * np.expm1(np.minimum(relative, 1.0)), 2 * beyond)
        logs = [piece.log_error(a) for piece in self._pieces]
        logs.append(self._end_size - (self._start + self._end.real) * a - math.log(self._end.imag))
        logs = [log - lead + BOUND * (1 + abs(log) + abs(lead)) for log in logs]
        left = [math.exp(log) if log < _HIGHEST else math.inf for log in logs]
        error = SECOND_ORDER * (float(rounding.sum()) + math.fsum(left))
        total = float(summands.sum().imag)
        log_error = gamma(_FRONT) * (1 + abs(lead) + abs(self._lead) + abs(self._start) * a + epsilon)
        log_error += abs(self._start) * loss_error
        front = lead + (epsilon if self._removal else 0.0)
        high, low = (total + error) / math.pi, (total - error) / math.pi
        if not (math.isfinite(high) and math.isfinite(low)):
            raise InversionInfeasibleError("the sum is not a number")
        lower, upper = _exp(front - log_error, low), _exp(front + log_error, high)
        return Bounds(min(max(round_down(lower, _SCALED), 0.0), 1.0), min(round_up(upper, _SCALED) + LEAST, 1.0))


class _Ellipse(NamedTuple):
    """An ellipse: its middle, the direction of its long half axis, and the lengths of both."""

    middle: complex
    along: complex
    long: float
    short: float

    @property
    def _wide(self) -> float:
        return math.hypot(self.long * self.along.real, self.short * self.along.imag)

    @property
    def _tall(self) -> float:
        return math.hypot(self.long * self.along.imag, self.short * self.along.real)

    def bound_distance(self, pole: float) -> float:
        """Bound the distance of a point of the real axis from below."""
        across = max(abs(self.middle.real - pole) - self._wide, 0.0)
        return math.hypot(across, max(self.middle.imag - self._tall, 0.0))

    def slices(self) -> Iterator[tuple[float, float, float]]:
        """Cut it at some heights: the least and largest real part, and the least imaginary part, of each slice."""
        tall = self._tall
        mixed = (self.long**2 - self.short**2) * self.along.real * self.along.imag / tall**2
        width = self.long * self.short / tall
        edges = np.linspace(-tall, tall, _SLICES + 1).tolist()
        for below, above in itertools.pairwise(edges):
            nearest = 0.0 if below < 0 < above else min(abs(below), abs(above))
            wide = width * math.sqrt(max(1 - (nearest / tall) ** 2, 0.0)) + BOUND * (self.long + abs(self.middle))
            left, right = sorted((mixed * below, mixed * above))
            bottom = self.middle.imag + below - BOUND * (tall + abs(self.middle))
            yield self.middle.real + left - wide, self.middle.real + right + wide, bottom


class _Nodes(NamedTuple):
    """Points of the path, from where it starts, how far rounding may move them, and their weights."""

    away: Complex
    magnitude: Array
    weight: Complex


def bendable(parts: Parts) -> bool:
    """Return whether the path can be bent for these parts: sampled Gaussians of one direction, and plain ones."""
    directions = {pair.direction for pair, _ in parts} - {AdjacencyType.PLAIN}
    return (
        directions in ({AdjacencyType.REMOVE}, {AdjacencyType.ADD})
        and all(isinstance(pair.base, GaussianPair) and 1e-3 < pair.base.mu < 50 for pair, _ in parts)
        and all(1e-12 < pair.sampling_probability < 1 for pair, _ in _select_sampled(parts))
        and len(parts) <= _MAX_PROFILES
    )


def _select_sampled(parts: Parts) -> Parts:
    return tuple(one for one in parts if one[0].direction is not AdjacencyType.PLAIN)


def _mu(pair: DominatingPair) -> float:
    assert isinstance(pair.base, GaussianPair)
    return pair.base.mu


def _profiles(parts: Parts, farthest: float) -> Profiles:
    mu, share, count = zip(*((_mu(pair), pair.sampling_probability, count) for pair, count in parts), strict=True)
    return Profiles(np.array(mu), np.array(share), np.array(count, dtype=np.float64), farthest)


def _merge_corners(path: list[complex]) -> list[complex]:
    """Remove straight corners: the path goes straight up before and after."""
    kept = [path[0]]
    for here, following in itertools.pairwise(path[1:]):
        if not kept[-1].real == here.real == following.real:
            kept.append(here)
    return [*kept, path[-1]]


def _group_pieces(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Return pieces with similar heights: one rule serves them."""
    heights = [math.floor(math.log2(max(piece.start.imag, pieces[0].end.imag))) for piece in pieces]
    together = itertools.groupby(zip(heights, pieces, strict=True), key=lambda one: one[0])
    return [[piece for _, piece in group] for _, group in together]


@cache
def gauss(points: int) -> tuple[Array, Array]:
    """Return the nodes and weights of Gauss' rule on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights


def _nodes(pieces: Sequence[_Piece], theta: float) -> _Nodes:
    away, magnitude, weight = [], [], []
    for piece in pieces:
        nodes, weights = gauss(piece.points)
        middle, half = (piece.start + piece.end) / 2, (piece.end - piece.start) / 2
        away.append(middle + half * nodes)
        magnitude.append(np.full(len(nodes), 1 + theta + abs(piece.end)))
        weight.append(half * weights)
    return _Nodes(np.concatenate(away), np.concatenate(magnitude), np.concatenate(weight))


def _exp(lead: float, value: float) -> float:
    return math.exp(min(lead + math.log(value), 1.0)) if value > 0 else 0.0
