"""Losses of Poisson-sampled Gaussians at complex powers: E e^(s l') with a proven error, and bounds of its modulus.

Let y be standard normal, u = mu y - mu^2 / 2 and w = q e^u / (1 - q). The loss of a sampled Gaussian above its least
value is l' = ln(1 + w) (with a sign), and H(s) = E e^(s l') is entire. The integral over y may run along any curve with
the imaginary part b of u from 0 to below pi. Then e^(s l') has the modulus |1 + w|^Re(s) e^(-Im(s) arg(1 + w)), and the
argument is not negative. So a power with a large imaginary part makes it small (docs/accounting/spectral.md, section
6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from epsilog.accounting.inversion.sampled import MU_TOLERANCE, Complex, InversionInfeasibleError
from epsilog.numerics.distributions.base import Array
from epsilog.numerics.rounding import BOUND, SECOND_ORDER, TINY, gamma

TURNS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0, 2.4, 2.8)  # imaginary parts of u; below pi
_RULES = ((0.05, 0.05), (0.1, 0.1), (0.2, 0.2), (0.35, 0.35), (0.5, 0.5), (0.8, 0.8), (1.2, 1.2), (1.4, 1.4),
          (1.8, 1.0), (2.2, 0.6))  # fmt: skip
_OUTER = 9.0  # deviations that cells reach to, beyond where the tilted mass may be
_HIGH = 12.0  # deviations up to which cells are narrow
_LARGEST = 300.0  # ratios that a node may have
_MOST_NODES = 20_000
_KEPT = 24  # integrals on the real axis
_CONDITION = 3.0  # nats of round-off that fewer nodes may cost


Places = npt.NDArray[np.intp]
_LOG = 16  # roundings of a complex logarithm times a count, by 1 and its size: 2 for hypot, two functions, a product
_CANCELED = 8  # of 1 + w where it cancels, in its logarithm: two functions of the turn; docs/accounting/spectral.md, 6
_POWER = 64  # of ln(1 + w) times an exponent, by its magnitude: 32 of the exponent, the logarithm, a product; the same


class Values(NamedTuple):
    """Of a product of powers of H: its logarithm, how far that may be off, and ln of its modulus, at most."""

    log: Complex
    error: Array
    most: Array


@dataclass(frozen=True)
class Profiles:
    """Several sampled Gaussians with their counts; arrays of shape (k,)."""

    mu: Array
    share: Array
    count: Array
    farthest: float  # the largest real part of a power

    @cached_property
    def _edge(self) -> Array:
        top = max(float(self.mu.max()) * max(self.farthest, 0.0) + _OUTER, _HIGH + 1)
        parts = ((-_OUTER, -4.0, 0.5), (-4.0, 2.5, 0.1), (2.5, _HIGH, 0.05), (_HIGH, top, 0.1))
        cut = [np.linspace(low, high, math.ceil((high - low) / width), endpoint=False) for low, high, width in parts]
        return np.concatenate([*cut, [top]])

    @cached_property
    def _mass(self) -> Array:
        """Return the logarithm of the normal mass of each cell, at most."""
        below, above = log_ndtr(self._edge), log_ndtr(-self._edge)
        upper = self._edge[:-1] >= 0
        large, small = np.where(upper, above[:-1], below[1:]), np.where(upper, above[1:], below[:-1])
        return np.asarray(large + np.log(-np.expm1(np.minimum(small - large, -TINY))) + BOUND)

    @cached_property
    def _log_odds(self) -> Array:
        """Return the logarithm of w at the edges, shape (k, n + 1)."""
        return np.asarray(
            (np.log(self.share) - np.log1p(-self.share) - self.mu**2 / 2)[:, None] + self.mu[:, None] * self._edge
        )

    @cached_property
    def _turned(self) -> dict[float, _Turned]:
        return {}

    def rotate(self, turn: float) -> _Turned:
        """Return the moduli and arguments of 1 + w where u has one imaginary part."""
        if turn not in self._turned:
            self._turned[turn] = _rotate(self._log_odds, turn)
        return self._turned[turn]

    def _logs(self, turn: float, power: float, frequency: float) -> Array:
        """Return ln of the integral of the modulus on a line over each cell and what is above, at most."""
        assert power <= self.farthest
        at, beta = self.rotate(turn), turn / self.mu
        modulus = at.high if power >= 0 else at.low
        inner = self._mass + power * modulus - frequency * at.argument[:, :-1]
        # above the last edge ln|1 + w| grows by at most mu per unit of y, or is at least its least value
        last = float(self._edge[-1])
        modulus = at.last if power >= 0 else np.full(len(self.mu), at.least)
        outer = power * modulus - frequency * at.argument[:, -1] - last * last / 2
        outer = outer - np.log((last - self.mu * max(power, 0.0)) * math.sqrt(2 * math.pi))
        return np.column_stack([inner, outer]) + (beta * beta / 2 + _slack(power, frequency, beta))[:, None]

    def _start(self, power: float, least: float) -> Array:
        """Return the maximum logarithm of the integral below the first edge, without the imaginary part's share."""
        first = self._log_odds[:, 0]
        return np.asarray(
            log_ndtr(-_OUTER) + BOUND + power * (np.logaddexp(0.0, first) if power >= 0 else np.full(len(first), least))
        )

    def line(self, turn: float, power: float, frequency: float) -> Array:
        """Return ln of the integral of the modulus along one line, at most; shape (k,)."""
        beta = turn / self.mu
        start = self._start(power, self.rotate(turn).least) + beta * beta / 2 + _slack(power, frequency, beta)
        return _log_sum(np.column_stack([start, self._logs(turn, power, frequency)]))

    def most(self, powers: Sequence[float], frequency: float, turns: Sequence[float] = TURNS) -> tuple[Array, float]:
        """Bound ln|H|^count, summed, at each real part, for all imaginary parts from ``frequency`` on.

        Each PLD follows one curve: first the real axis, then straight up, then a line. Between two real parts, the
        bound is at most its linear interpolation. Also return the turn that served best.
        """
        if max(powers) > self.farthest:
            return np.full(len(powers), math.inf), 0.0
        real = [self._real(power)[0][:, -1] for power in powers]
        axis = best = np.stack(real)
        best_turn, most_gain = 0.0, 0.0
        for turn in turns if frequency > 0 else ():
            tried = np.stack(self._try_frequency(powers, frequency, turn)[1])
            gain = float(np.maximum(np.log(_middle(axis)) - np.log(_middle(tried)), 0.0) @ self.count)
            if gain > most_gain:
                best_turn, most_gain = turn, gain
            best = np.where(_middle(tried) < _middle(best), tried, best)
        return np.stack([self._total(one) for one in best]), best_turn

    def _try_frequency(self, powers: Sequence[float], frequency: float, turn: float) -> tuple[Places, list[Array]]:
        """Return the best edge where each curve leaves the real axis, at some real parts, and its integrals."""
        found = [self._bent(turn, power, frequency) for power in powers]
        where = np.argmin(_middle(np.stack(found)), axis=1)
        return where, [one[np.arange(len(where)), where] for one in found]

    def leaves(self, powers: Sequence[float], frequency: float, turn: float) -> Places:
        """Return the best edge where each curve leaves the real axis, at some real parts; shape (k,)."""
        where, _ = self._try_frequency(powers, frequency, turn)
        return where

    def along(self, power: float, frequency: float, turn: float, where: Places) -> float:
        """Bound ln|H|^count, summed, along known curves; convex in ``power``."""
        return self._total(self._bent(turn, power, frequency)[np.arange(len(where)), where])

    def on_axis(self, power: float) -> float:
        """Bound ln|H|^count, summed, for all imaginary parts; convex in ``power``."""
        return self._total(self._real(power)[0][:, -1])

    def _total(self, sizes: Array) -> float:
        return float(np.log(sizes + TINY) @ self.count + BOUND * self.count.sum())

    def _real(self, power: float) -> tuple[Array, Array]:
        """The integral of the modulus on the real axis up to each edge and over all of it; and on the way up, each."""
        if power not in self._kept:
            logs = np.column_stack([self._start(power, 0.0), self._logs(0.0, power, 0.0)])
            rising = -(self._edge**2) / 2 - 0.5 * math.log(2 * math.pi) + max(power, 0.0) * self.rotate(0.0).real
            with np.errstate(over="ignore", under="ignore"):
                self._kept[power] = np.cumsum(np.exp(logs), axis=1), np.exp(rising + BOUND * (1 + abs(power)))
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return self._kept[power]

    @cached_property
    def _kept(self) -> dict[float, tuple[Array, Array]]:
        return {}

    def _bent(self, turn: float, power: float, frequency: float) -> Array:
        """Return the integral along each curve, by the edge where it leaves the real axis; shape (k, n + 1)."""
        before, rising = self._real(power)
        beta = turn / self.mu
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            after = np.cumsum(np.exp(self._logs(turn, power, frequency))[:, ::-1], axis=1)[:, ::-1]
            factor = beta * np.exp(beta * beta / 2 + min(power, 0.0) * self.rotate(turn).least)
            found = before[:, :-1] + after + factor[:, None] * rising * (1 + BOUND)
        return np.where(np.isnan(found), np.inf, found)  # of infinite times 0, nothing is known

    def values(self, points: Complex, magnitude: Array, nats: float) -> Values:
        """Evaluate at points in the upper half plane, each off by at most ``gamma(32)`` times its ``magnitude``.

        Raises:
            InversionInfeasibleError: too many nodes, or too little left of round-off.
        """
        low, high = float(points.real.min()), float(points.real.max())
        rules = self._rules(_Region(low, high, float(points.imag.min()), nats))
        log, error = np.zeros(len(points), complex), np.zeros(len(points))
        most, sizes = np.zeros(len(points)), np.zeros(len(points))
        for i, rule in enumerate(rules):
            value, off = rule.sums(points, magnitude)
            size, count = np.abs(value), self.count[i]
            logs = np.log(np.where(size > 0, value, TINY))
            log += count * logs
            sizes += count * np.abs(logs)
            relative = np.where(off < 0.5 * size, off / np.maximum(size - off, 0.5 * size + TINY), 1e6)
            error += count * (relative + gamma(_LOG) * (1 + np.abs(logs)))
            most += count * np.log(size + off + TINY)
        error += gamma(4.0 + len(rules)) * sizes
        return Values(log, error * SECOND_ORDER, most)

    def _rules(self, region: _Region) -> list[_Rule]:
        """Return for each PLD the rule with the fewest nodes among those with little round-off."""
        turns = {turn for middle, half in _RULES for turn in (middle - half, middle, middle + half)}
        ends = region.low, region.high
        lines = {turn: np.maximum(*(self.line(turn, power, region.frequency) for power in ends)) for turn in turns}
        sizes = np.stack([lines[middle] for middle, _ in _RULES])
        aliases = np.stack([np.logaddexp(lines[middle - half], lines[middle + half]) for middle, half in _RULES])
        half = np.array([half for _, half in _RULES])[:, None]
        steps = 2 * math.pi * half / (self.mu * (region.nats + 1 + np.maximum(aliases, 0.0)))
        steps = np.where(sizes <= np.maximum(sizes.min(axis=0), 0.0) + _CONDITION, steps, 0.0)
        best = np.argmax(steps, axis=0)
        chosen = zip(self.mu.tolist(), self.share.tolist(), best.tolist(), strict=True)
        return [
            _Rule(
                _LineDistribution(mu, math.log(share) - math.log1p(-share), *_RULES[k]),
                float(steps[k, i]),
                float(aliases[k, i]),
                region,
            )
            for i, (mu, share, k) in enumerate(chosen)
        ]


class _Region(NamedTuple):
    """Where a rule is to serve: between two real parts, from an imaginary part on, to about e^-nats."""

    low: float
    high: float
    frequency: float
    nats: float


class _LineDistribution(NamedTuple):
    """One PLD, with ln(q / (1 - q)), on the line where u has the imaginary part ``turn``, and half a strip's width."""

    mu: float
    odds: float
    turn: float
    half: float

    def w(self, x: Array) -> Array:
        """Return the modulus of w."""
        return np.asarray(np.exp(np.minimum(self.odds + self.mu * x - self.mu * self.mu / 2, _LARGEST)))

    def modulus(self, x: float, region: _Region) -> float:
        """Bound ln|1 + w|^s: at a node where it grows, and anywhere where it falls."""
        least = 0.0 if self.turn <= math.pi / 2 else math.log(math.sin(self.turn))
        falls = min(region.low, 0.0) * least
        rises = max(region.high, 0.0) * math.log1p(float(self.w(np.array(x))))
        return max(falls, rises) + BOUND * (1 + abs(region.low) + abs(region.high))

    def below(self, first: float, step: float, region: _Region) -> float:
        """Bound the nodes below the first, without the imaginary part's share."""
        modulus = self.modulus(first, region)
        return _exp_or_inf(modulus + float(log_ndtr(first))) + step * _exp_or_inf(modulus - first * first / 2)

    def above(self, last: float, region: _Region) -> float:
        """Bound the nodes above the last, without the imaginary part's share."""
        w, rate = float(self.w(np.array(last))), last - self.mu * max(region.high, 0.0)
        if not (rate > 0 and self.mu * last + self.odds < _LARGEST):
            return math.inf
        falls = region.frequency * math.atan2(w * math.sin(self.turn), 1 + w * math.cos(self.turn)) * (1 - BOUND)
        return _exp_or_inf(self.modulus(last, region) - last * last / 2 - falls) / rate

    def top(self, region: _Region, nats: float) -> float:
        """A place above which next to nothing is left."""
        for top in self.mu * max(region.high, 0.0) + np.geomspace(1.0, 60.0, 40):
            if self.above(float(top), region) < math.exp(-nats):
                return float(top)
        raise InversionInfeasibleError("no end to the nodes")


class _Turned(NamedTuple):
    """Of 1 + w where u has one imaginary part: ln of its modulus in each cell and its argument at each edge.

    Attributes:
        low, high: ln|1 + w| at least and at most in each cell, shape (k, n).
        last: ln|1 + w| at the last edge, at most, shape (k,).
        least: ln|1 + w| anywhere on or below the line, at least.
        argument: at least, shape (k, n + 1); grows.
        real: ln(1 + w) with the modulus of w at each edge, shape (k, n + 1).
    """

    low: Array
    high: Array
    last: Array
    least: float
    argument: Array
    real: Array


def _rotate(log_odds: Array, turn: float) -> _Turned:
    real = np.logaddexp(0.0, log_odds)
    w = np.exp(np.minimum(log_odds, _LARGEST))
    least = 0.0 if turn <= math.pi / 2 else math.log(math.sin(turn))
    x, y = 1 + w * math.cos(turn), w * math.sin(turn)
    far = log_odds >= _LARGEST
    log = np.where(far, log_odds, 0.5 * np.log(x * x + y * y) if turn else np.log1p(w))
    argument = np.where(far, turn, np.arctan2(y, x)) * (1 - BOUND)
    # |1 + w|^2 is convex in |w|: largest at an edge, least at one or where it is sin^2 b
    low = np.minimum(log[:, :-1], log[:, 1:]) if turn <= math.pi / 2 else np.full(log[:, 1:].shape, least)
    return _Turned(low - BOUND, np.maximum(log[:, :-1], log[:, 1:]) + BOUND, real[:, -1] + BOUND, least, argument, real)


def _slack(power: float, frequency: float, beta: Array) -> Array:
    return np.asarray(BOUND * (1 + abs(power) + abs(frequency) + beta * beta))


def _middle(sizes: Array) -> Array:
    """Return the root of the product, or something very large."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.prod(np.sqrt(sizes), axis=0), 1 / TINY) + TINY)


def _exp_or_inf(log: float) -> float:
    """Return the exponential, or infinity where it is very large."""
    return math.exp(log) if log < _LARGEST else math.inf


def _log_sum(logs: Array) -> Array:
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) + BOUND)


class _Rule:
    """A trapezoid rule for H along a line; its nodes' real parts are exact."""

    def __init__(self, line: _LineDistribution, step: float, alias: float, region: _Region) -> None:
        if not step > 0:
            raise InversionInfeasibleError("no rule")
        scale = 2.0 ** (math.floor(math.log2(step)) - 10)
        step = math.floor(step / scale) * scale  # ten bits
        mu, beta = line.mu, line.turn / line.mu
        rise = beta * beta / 2  # what the imaginary part of y adds
        top = line.top(region, region.nats + rise)
        first, last = math.floor(-math.sqrt(2 * (region.nats + rise + 2)) / step), math.ceil(top / step)
        if last - first > _MOST_NODES:
            raise InversionInfeasibleError(f"{last - first} nodes")
        x = step * np.arange(first, last + 1, dtype=np.float64)
        w, cos, sin = line.w(x), math.cos(line.turn), math.sin(line.turn)
        self._real = 0.5 * np.log1p(w * (2 * cos + w))
        self._imag = np.arctan2(w * sin, 1 + w * cos)
        self._log = math.log(step / math.sqrt(2 * math.pi)) + rise - x * x / 2
        self._phase = -x * beta
        modulus = np.abs(1 + w * complex(cos, sin))
        ratio = gamma(24.0 + 4 * abs(line.odds)) + 2 * MU_TOLERANCE * (mu * (np.abs(x) + beta) + mu * mu)
        lost = gamma(_CANCELED) * w * (1 + w) / modulus**2  # where 1 + w cancels
        self._of_power = ratio * w / modulus + lost + gamma(_POWER) * (np.abs(self._real) + self._imag)
        self._of_node = gamma(len(x) + 32.0 + 4 * x * x + 4 * beta * beta + 4 * np.abs(x) * beta)
        decay = 2 * math.pi * line.half / (mu * step) * (1 - BOUND)
        left = line.below(float(x[0]), step, region) + line.above(float(x[-1]), region)
        self._left = SECOND_ORDER * (2 * _exp_or_inf(alias - decay) + left * _exp_or_inf(rise))

    def sums(self, points: Complex, magnitude: Array) -> tuple[Complex, Array]:
        """Return H at some points, and how far it may be off; shape (k,)."""
        s, w = points.real[:, None], points.imag[:, None]
        weight = np.exp(s * self._real - w * self._imag + self._log)
        phase = w * self._real + s * self._imag + self._phase
        value = (weight * np.cos(phase)).sum(axis=1) + 1j * (weight * np.sin(phase)).sum(axis=1)
        error = weight @ self._of_node + magnitude * (weight @ self._of_power) + self._left
        return value, SECOND_ORDER * error
