"""Sums of independent likelihood ratios, bounded in the convex order: E f(S) from both sides for every convex f.

One ratio Y = dP/dQ has mean 1 under Q. A lattice distribution replaces it. Above, each outcome is spread over its two
neighboring lattice points. Below, outcomes are merged until their means are lattice points. Mass and mean are
preserved, so every convex function's mean moves to a known side, for each further summand again. The distribution of
the sum is a power of one tilted Fourier transform. Proofs: docs/accounting/balls-in-bins.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from epsilog.numerics.distributions.base import Array, GaussianPair
from epsilog.numerics.lattice.composition import fast_length
from epsilog.numerics.lattice.distribution import (
    Integers,
    LatticeDistribution,
    LatticeTooLargeError,
    find_support_window,
)
from epsilog.numerics.rounding import TINY, gamma, round_down, round_up

_NATS = 44.0  # a tilted sum leaves its window with probability at most e^-44, which counts as an error
_LONGEST = 2**22
_RUN = 32
_REACH = 40.0  # nats below the strike that a payoff keeps
_STARTS = (-12.0, -9.0, -7.0, -5.5, -4.5, -4.0, -3.5, -3.0, -2.5, -2.0, -1.5)  # where merging may start, as quantiles
# roundings; docs/accounting/balls-in-bins.md, 4
_CELL = 4  # of a mass times a lattice point, by the mass: two, and what a difference of such adds
_WEIGHT = 6  # of a weight: three sums, a difference, a quotient, and a sum of two such
_MEAN = 16  # of a quotient of masses, and what is added to it, by the mass
_CONTRACTED = 8  # of a mass times a lattice point less another mass, by both, and of four sums of such
_LOG_TOTAL = 20  # of a logarithm and its product with a count, by its size
_TILT = 16  # of a rate times a value, by its size: two, and those of the value
_STRIKE = 64  # of a strike, by its size: those of its formula
_EXCESS = 96  # of an excess: an exponential, products and sums of terms with errors
_POLAR = 8  # of a complex power by its logarithm: a function, a product


class RatioDistribution(NamedTuple):
    """A distribution on ``offset + step * points`` under Q that bounds the distribution of one ratio."""

    points: Integers  # ascending lattice indices, shape (n,)
    weight: Array  # their masses, shape (n,); rounded to the side of the bound
    offset: float  # the ratio at index 0
    top: float  # the largest ratio on the lattice; larger ones were moved there
    over: float  # E (Y - top)^+, what that move removed; rounded to the side of the bound
    under: float = 0.0  # E (bottom - Y)^+, what moving the ratios below the lattice up to its bottom added; rounded up


def spread_outcomes(base: GaussianPair, *, step: float, low: int, high: int, lifted: bool = False) -> RatioDistribution:
    """Spread each outcome of the ratio over two neighbors among step * (0, low, low + 1, ..., high).

    Mass and mean of every cell are preserved; the mass above the last point moves to it. If ``lifted``, 0 is not a
    point, and the mass below the lattice moves to its first point: at 0 a large tilt would weigh nothing else.
    """
    points = np.arange(max(low, 1), high + 1)
    y: Array = np.asarray(step * points, dtype=np.float64)
    p, q, p_error, q_error = _masses(base, y)
    p_error, q_error = p_error + gamma(_CELL) * p, q_error + gamma(_CELL) * q
    if lifted:
        bottom = float(q[0] + q_error[0])
        under = max(float(y[0] * q[0] - p[0]), 0.0) + float(p_error[0] + y[0] * q_error[0])
        p, q, p_error, q_error = p[1:], q[1:], p_error[1:], q_error[1:]
    else:
        points, y, bottom, under = np.append(0, points), np.append(0.0, y), 0.0, 0.0
    gaps = step * np.diff(points)
    raised = np.maximum(p[:-1] - y[:-1] * q[:-1], 0.0) + p_error[:-1] + y[:-1] * q_error[:-1]
    lowered = np.maximum(y[1:] * q[:-1] - p[:-1], 0.0) + p_error[:-1] + y[1:] * q_error[:-1]
    weight = np.zeros(len(points))
    weight[1:] += raised / gaps
    weight[:-1] += lowered / gaps
    weight[-1] += q[-1] + q_error[-1]
    weight[0] += bottom
    over = max(float(p[-1] - y[-1] * q[-1]), 0.0) + float(p_error[-1] + y[-1] * q_error[-1])
    return RatioDistribution(points, round_up(weight, _WEIGHT), 0.0, float(y[-1]), over, round_up(under, _WEIGHT))


def merge_to_lattice_means(base: GaussianPair, *, step: float, high: float, rising: bool) -> RatioDistribution | None:
    """Merge outcomes so that the means of what each lattice point gets are lattice points.

    The lattice is a + step * integers, with a the mean of the lowest cell; it ends at about ``high``. The result bounds
    means of convex functions that rise (``rising``) or fall with the ratio, and its roundings go that way. The mass
    above the lattice moves to the last point, or is left out. None if some weight might be negative.
    """
    for low in sorted({max(math.exp(base.mu * start - base.mu**2 / 2), 0.5 * step) for start in _STARTS}):
        first = low
        mean, count = _mean_below(base, first), 0
        for _ in range(8):  # the edge is half a step below the second lattice point, and moves the mean below it
            count = count or max(1, round((first - mean) / step + 0.5))
            first = mean + (count - 0.5) * step + float(_center_cells(base, np.array([first]), step)[0])
            mean = _mean_below(base, first)
        offset = mean + (-2 if rising else 2) * _mean_error(base, first)  # the lowest cell moves to the safe side
        points = np.concatenate(([0], np.arange(count, max(math.ceil((high - offset) / step), count + 2) + 1)))
        if not offset < first < offset + step * count:
            continue
        found = _contract(base, points, step=step, offset=offset, first=first, rising=rising)
        if found is not None:
            return found
    return None


def _mean_below(base: GaussianPair, ratio: float) -> float:
    mass = base.masses(np.log(np.array([ratio])))
    return float(mass.p[0] / mass.q[0]) if mass.q[0] > 1e-290 else ratio


def _mean_error(base: GaussianPair, ratio: float) -> float:
    """Return how far the mean of the ratios up to ``ratio`` may be off."""
    p, q, p_error, q_error = (float(m[0]) for m in _masses(base, np.array([ratio])))
    return (p_error + p / q * q_error + gamma(_MEAN) * p) / q if q > 1e-290 else 0.0


def _contract(
    base: GaussianPair, points: Integers, *, step: float, offset: float, first: float, rising: bool
) -> RatioDistribution | None:
    """Build cells around the lattice points y_i; moving mass between neighbors offsets D_i = y_i q_i - p_i."""
    y: Array = np.asarray(offset + step * points, dtype=np.float64)
    gaps: Array = np.asarray(step * np.diff(points), dtype=np.float64)
    edges = np.concatenate(([first], y[1:-1] + step / 2))
    edges[1:] += _center_cells(base, edges[1:], step)
    edges[-1] = y[-1]
    if not np.all(np.diff(edges) > 0):
        return None
    p, q, p_error, q_error = _masses(base, edges)
    short = y[:-1] * q[:-1] - p[:-1]
    short[0] = 0.0
    error = p_error[:-1] + y[:-1] * q_error[:-1] + gamma(_CONTRACTED) * (p[:-1] + y[:-1] * q[:-1])
    error[0] = 0.0
    weight, weight_error = q.copy(), q_error + gamma(_CONTRACTED) * q
    weight[:-1] += np.maximum(short, 0.0) / gaps  # a cell with too low a mean gets mass from the point above
    weight[1:] -= np.maximum(short, 0.0) / gaps
    # a cell with too high a mean gets mass from the point below
    weight[1:-1] += np.maximum(-short[1:], 0.0) / gaps[:-1]
    weight[:-2] -= np.maximum(-short[1:], 0.0) / gaps[:-1]
    weight_error[:-1] += error / gaps
    weight_error[1:] += error / gaps
    weight_error[:-2] += error[1:] / gaps[:-1]
    weight = round_down(weight, _WEIGHT) - round_up(weight_error, _WEIGHT)
    if not rising:
        weight[-1] = 0.0  # the cell before it has only been moved up
    if not np.all(weight >= 0):
        return None
    over = round_down(float(p[-1] - p_error[-1] - y[-1] * (q[-1] + q_error[-1])), _WEIGHT) - gamma(_CONTRACTED) * float(
        p[-1]
    )
    return RatioDistribution(points, weight, offset, float(y[-1]), max(over, 0.0))


def _center_cells(base: GaussianPair, edges: Array, step: float) -> Array:
    """Return the shift of edges that puts the means of cells with falling density on the lattice: -step^2 f' / 12 f."""
    fall = (1.5 + np.log(edges) / base.mu**2) / edges
    return np.clip(step * step * fall / 12, -0.4 * step, 0.4 * step)


def _masses(base: GaussianPair, ratios: Array) -> tuple[Array, Array, Array, Array]:
    """Return masses between ascending ratios; their errors cover what rounding moves the edges by."""
    u = np.log(ratios)
    p, q, p_error, q_error = base.masses(u)
    x = u / base.mu + base.mu / 2
    misplacement = (gamma(4 + 8 * np.abs(u)) + 2 * base.ratio_error) / base.mu
    for error, center in ((q_error, 0.0), (p_error, base.mu)):
        more = (
            misplacement
            * np.exp(-(np.maximum(np.abs(x - center) - misplacement, 0.0) ** 2) / 2)
            / math.sqrt(2 * math.pi)
        )
        error[1:] += more
        error[:-1] += more
    return p, q, p_error, q_error


class TiltedSum:
    """A one-sided distribution of a sum of ``count`` independent copies of a lattice variable, at one tilt.

    Attributes:
        tilt: the rate of the exponential tilt; sums of the size it favors are seen with relative accuracy.
        size: length of the transform.
        values: the sums inside the window, ascending, shape (size,).
        density: their tilted masses, rounded to the side, shape (size,).
        log_error: what the logarithm of a mass may be off by.
    """

    def __init__(self, ratios: LatticeDistribution, count: int, *, step: float, tilt: float, upper: bool) -> None:
        """Transform and takes the power.

        Raises:
            LatticeTooLargeError: the transform would be too long.
        """
        self.tilt, self._upper, self._origin = tilt, upper, count * ratios.offset
        points, weight, log_total, relative_error = _tilt_masses(ratios, tilt * step)
        low, _, high = find_support_window([(points, weight, count)], _NATS)
        start = math.floor(low)
        self.size = fast_length(math.ceil(high) - start + 8)
        if not self.size <= _LONGEST:
            raise LatticeTooLargeError(self, self.size / _LONGEST)
        density, error = _power(points, weight, relative_error, count, self.size)
        error += 2 * math.exp(-_NATS)
        density = np.roll(density, -(start % self.size))  # now entry j is index start + j
        self.density = np.maximum(density + error if upper else density - error, 0.0)
        self.values: Array = np.asarray(self._origin + step * (start + np.arange(self.size)), dtype=np.float64)
        reach = abs(self._origin) + abs(step * start) + step * self.size
        self.log_error = gamma(32 * (1 + count + abs(tilt) * reach)) + gamma(4.0 * self.size)
        self.log_error += count * (relative_error + gamma(_LOG_TOTAL) * abs(log_total))
        self._log_total = count * log_total

    def log_factor(self, value: Array) -> Array:
        """Return the logarithm of what undoes the tilt at ``value``, rounded to the side."""
        log_error = self.log_error + gamma(_TILT) * abs(self.tilt) * np.abs(value)
        plain = self._log_total + self.tilt * (self._origin - value)
        return np.asarray(plain + log_error if self._upper else plain - log_error)


class StopLossTransform:
    """E (Z - k)^+ for the sum Z of ``count`` independent copies of a lattice variable, from one side.

    Attributes:
        tilt: the rate of the exponential tilt; large sums are its bulk.
        size: length of the transform.
    """

    def __init__(
        self, ratios: LatticeDistribution, count: int, *, step: float, tilt: float, strike: float, upper: bool
    ) -> None:
        """Compute the sum's distribution and its cumulative sums from above, once for all strikes near ``strike``.

        Raises:
            LatticeTooLargeError: the transform would be too long.
        """
        self.tilt, self._strike, self._upper = tilt, strike, upper
        total = TiltedSum(ratios, count, step=step, tilt=tilt, upper=upper)
        self.size, values, density = total.size, total.values, total.density
        self._log_scale = float(total.log_factor(np.array(strike)))
        keep = values >= strike - _REACH / tilt
        values, density = values[keep], density[keep]
        if len(values) == 0:
            values, density = np.array([strike]), np.zeros(1)
        density = density * np.exp(-tilt * (values - strike))
        self._values, self._base = values, float(values[0])
        self._mass = np.append(np.cumsum(density[::-1])[::-1], 0.0)
        self._sum = np.append(np.cumsum((density * (values - self._base))[::-1])[::-1], 0.0)
        self._total = math.exp(min(count * math.log(max(float(ratios.weight.sum()), TINY)), 700.0))

    def __call__(self, strike: float) -> float:
        """Bound E (Z - strike)^+ on this side."""
        sign = 1.0 if self._upper else -1.0
        strike -= sign * gamma(_STRIKE) * (abs(strike) + abs(self._base))
        if not self._upper and strike > self._values[-1]:
            return 0.0
        at = max(strike, self._base)
        first = int(np.searchsorted(self._values, at, side="right"))
        reach, rounding = at - self._base, gamma(4.0 * len(self._values))
        total = float(self._sum[first]) - reach * float(self._mass[first])
        total += sign * rounding * (float(self._sum[first]) + reach * float(self._mass[first]))
        value = max(total, 0.0) * math.exp(min(self._log_scale, 700.0))
        if self._upper:  # what leaves the window above it, and strikes below it
            outside = self._log_scale + self.tilt * (self._strike - at) - math.log(self.tilt) - 1
            value += 2 * math.exp(min(outside - _NATS, 700.0)) + (at - strike) * self._total * (1 + 1e-6)
        return round_up(value, _EXCESS) if self._upper else round_down(value, _EXCESS)


def _tilt_masses(ratios: LatticeDistribution, rate: float) -> tuple[Integers, Array, float, float]:
    """Return the distribution times e^(rate index), normalized; the log of its total; the weights' relative error.

    What is too small to matter by 600 powers of ten is left out.
    """
    seen = ratios.weight > 0
    points, logs = ratios.points[seen], np.log(ratios.weight[seen])
    exponent = rate * points
    top = float((exponent + logs).max())
    weight = np.exp(np.maximum(exponent + logs - top, -745.0))
    total = float(weight.sum())
    weight = weight / total
    relative_error = gamma(8 * (8 + float(weight @ (np.abs(exponent) + np.abs(logs))) + abs(top)))
    return points, weight, top + math.log(total), relative_error


def _power(points: Integers, weight: Array, error: float, count: int, size: int) -> tuple[Array, float]:
    """Return the ``count``-fold convolution modulo ``size``, and a bound on the error of each entry.

    Source:
        Higham 2002, Theorem 24.2, for both transforms; docs/accounting/balls-in-bins.md, section 4.
    """
    rest = weight.copy()
    run = _heaviest_run(points, weight)
    rest[run] = 0.0
    wrapped = np.bincount(np.mod(points, size), weights=rest, minlength=size)
    transform = gamma(16 * math.log2(size))
    error += transform * math.sqrt(size) * float(np.linalg.norm(wrapped)) + gamma(16.0 * _RUN)
    turn = np.exp(-2j * math.pi / size * np.arange(size // 2 + 1))
    peeled = np.zeros(size // 2 + 1, complex)
    for one in weight[run][::-1]:
        peeled = peeled * turn + one
    shift = np.exp(-2j * math.pi / size * ((np.arange(size // 2 + 1) * (int(points[run][0]) % size)) % size))
    values = np.fft.rfft(wrapped) + peeled * shift
    modulus = np.abs(values)
    logs = np.log(np.maximum(modulus, TINY)) + 1j * np.arctan2(values.imag, values.real)
    power = np.exp(count * logs)
    size_of = np.where(modulus < TINY, 0.0, np.abs(power))
    power = np.where(modulus < TINY, 0.0, power)
    most = np.exp(np.minimum(count * np.log(modulus + error), 1.0))
    errors = np.maximum(most - size_of, 0.0) + gamma(_POLAR) * count * (1 + np.abs(logs)) * most
    norm = math.sqrt(2 * float(np.sum(most**2)))
    return np.fft.irfft(power, size), 2 * float(errors.sum()) / size + transform * norm / math.sqrt(size)


def _heaviest_run(points: Integers, weight: Array) -> slice:
    """Where at most ``_RUN`` neighboring points weigh most: summed apart, their size does not drown the others."""
    if len(points) <= _RUN:
        return slice(0, 1)
    total = np.concatenate(([0.0], np.cumsum(weight)))
    first = int(np.argmax(total[_RUN:] - total[:-_RUN]))
    run = points[first : first + _RUN]
    return (
        slice(first, first + _RUN)
        if run[-1] - run[0] == _RUN - 1
        else slice(int(np.argmax(weight)), int(np.argmax(weight)) + 1)
    )
