"""The interface of tilted PLDs, and the Poisson-sampled Gaussian, by a rule with a proven error.

Let y be normal, u = mu y - mu^2 / 2 and l(y) = ln(1 - q + q e^u). The loss of the removal pair is l under Q, and that
of the add pair -l under P. M(z) = E e^(z L) is E e^(s l) with s = z + 1 or s = -z. The integrand's size on a strip
bounds the rule's error; far out the density's variation bounds the rest: docs/accounting/spectral.md, 3, 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from epsilog.numerics.distributions.base import Array
from epsilog.numerics.rounding import BOUND, MU, SECOND_ORDER, TINY, TWICE, gamma

Complex = npt.NDArray[np.complex128]

MU_TOLERANCE = gamma(3.0 * MU)  # how far, relatively, the mus of the two sides may be apart

_MOST_TERMS = 1_500_000  # of one sum
_OF_LOSS, _OF_FALL = 10, 6  # roundings of a loss, by its size and by e^-l - 1: docs/accounting/spectral.md, 5
_AWAY = 4  # of a frequency times a loss less the mean, by both: two products, a difference, the mean's own sign


class InversionInfeasibleError(Exception):
    """The inversion would be too long, or its error has no useful bound: the lattice has to answer."""


class Moments(NamedTuple):
    """K(theta) = ln E e^(theta L) with a bound on its error, and the tilted loss' mean and variance (plans only)."""

    log_total: float
    log_total_error: float
    mean: float
    variance: float


class Characteristic(NamedTuple):
    """Tilted characteristic functions less one, E e^(i w (L - mean)) - 1, shape (k,), and how far each may be off.

    Less one, since many rounds leave each of them close to 1: its distance from 1 is what the power is made of.
    """

    less_one: Complex
    error: Array
    terms: int = 1  # of the sums that made it


class TiltedDistribution(Protocol):
    """One PLD at one tilt.

    Attributes:
        moments: K and the tilted moments.
        spread: bounds the tilted standard deviation of the loss from above.
        infinite: the mass that gives everything away.
    """

    @property
    def moments(self) -> Moments: ...  # noqa: D102

    @property
    def spread(self) -> float: ...  # noqa: D102

    @property
    def infinite(self) -> float: ...  # noqa: D102

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:
        """Return characteristic functions about ``moments.mean``, to about e^-nats, with their proven error."""
        ...

    def decay(self, frequency: Array) -> Array:
        """Bound the modulus of the characteristic function at all frequencies from each on, at most 1; shape (k,)."""
        ...


def characteristic_minus_one(frequencies: Array, away: Array, weight: Array) -> Complex:
    """E e^(i w a) - 1 without cancellation, for each w; shape (k,)."""
    if len(frequencies) * len(away) > _MOST_TERMS:
        raise InversionInfeasibleError(f"{len(frequencies)} frequencies of {len(away)} nodes")
    half = np.sin(np.outer(frequencies / 2, away))
    return np.asarray(-2 * (half * half) @ weight + 1j * (np.sin(np.outer(frequencies, away)) @ weight))


_HALF_WIDTHS = np.geomspace(0.003, 3.0, 40)  # of strips, in radians of u; below pi
_LOG_COSINES = np.log(np.cos(_HALF_WIDTHS / 2))
_GROWTH = np.geomspace(0.002, 1.0, 48)
_NEAR = 16.0  # deviations that the tilted mass may be away from the center and is not looked for
_MOST_NODES = 400_000
_MOST_SHARED = 2_000  # by a sketch's tilts
_CUTS = 300  # cells of the certified decay bound, at least
_PLAN, _FULL = 12.0, 40.0  # nats of quadrature accuracy: to look around, and to answer


@dataclass(frozen=True)
class TiltedSampledGaussian:
    """The loss of a Poisson-sampled Gaussian; ``power`` is s, and ``sign`` turns l into the loss."""

    mu: float
    share: float
    power: float
    sign: float
    infinite: float = 0.0

    @cached_property
    def moments(self) -> Moments:
        """Return K with its proven error."""
        rule = _TrapezoidRule(self, 0.0, _FULL)
        found, (log_total, error) = rule.moments(), rule.log_total()
        return found._replace(log_total=log_total, log_total_error=error)

    @cached_property
    def spread(self) -> float:
        """Bound the tilted standard deviation by the second moment about a point, in the cells and beyond."""
        return self._far.spread

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:
        """Sum over the nodes of a rule made for the largest frequency."""
        rule = _TrapezoidRule(self, float(np.abs(frequencies).max()), nats)
        mean = self.sign * self.moments.mean
        away = rule.loss - mean
        less_one = characteristic_minus_one(frequencies, self.sign * away, rule.weight)
        # the weights sum to 1, before and after rounding: so their errors count by how far e^(i w a) is from 1
        weight_error, loss_error = rule.errors()
        weight_error = weight_error + float(np.sum(rule.weight * weight_error)) + gamma(len(away) + 16.0)
        far = np.abs(away)
        turn = float(np.sum(rule.weight * (weight_error * far + loss_error + gamma(_AWAY) * (np.abs(rule.loss) + far))))
        turn += gamma(TWICE) * abs(mean)
        alias = rule.aliasing(frequencies) + rule.aliasing(np.zeros(1))
        error = SECOND_ORDER**2 * (np.abs(frequencies) * turn + 2 * rule.tail_mass + alias)
        return Characteristic(less_one, np.minimum(error, 2.0), less_one.size * len(away))

    def decay(self, frequency: Array) -> Array:
        """Cut the distribution at some y; above it the loss density has bounded variation V: at most V / w remains."""
        left = 1 - self._far.above + self._far.variation / frequency[:, None]
        return np.asarray(np.minimum(left.min(axis=1), 1.0))

    @cached_property
    def _far(self) -> _Far:
        return _far(self)

    def losses(self, y: Array) -> tuple[Array, Array]:
        """Return l and u at each y; both grow with y."""
        u = self.mu * y - self.mu * self.mu / 2
        bounded = np.log1p(self.share * np.expm1(np.minimum(u, 600.0)))
        return np.where(u < 600, bounded, np.logaddexp(math.log1p(-self.share), u + math.log(self.share))), u

    def loss_errors(self, y: Array, loss: Array, u: Array) -> Array:
        """Bound the rounding of l, and what the error of mu makes of it, at each y."""
        in_sample = self.share * np.exp(np.minimum(u - loss, 700.0))  # the posterior chance of having been sampled
        moved = 2 * MU_TOLERANCE * in_sample * (self.mu * np.abs(y) + self.mu * self.mu)
        return np.asarray(gamma(_OF_LOSS) * np.abs(loss) + gamma(_OF_FALL) * np.expm1(np.maximum(-loss, 0.0)) + moved)

    def finite_range(self, rate: float) -> tuple[float, float]:
        """Return y beyond which ln of the tilted density falls at a rate of at least ``rate``, on either side."""
        return min(self.power, 0.0) * self.mu - rate, max(self.power, 0.0) * self.mu + rate

    def outline(self, rate: float, nats: float) -> _Outline:
        """Locate the tilted mass with coarse cells; no cell outside can hold e^-nats of a peak."""
        if abs(self.power) * self.mu < _NEAR:  # all of it is not much more
            ends = np.array(self.finite_range(rate))
            log_density = self.power * self.losses(ends)[0] - ends * ends / 2
            return _Outline(float(ends[0]), float(ends[1]), np.full(2, 1 / rate), log_density)
        low, high = self.finite_range(rate)
        inner = np.linspace(-rate, rate, 48)
        edge = np.concatenate((-rate - _growing(-rate - low)[::-1], inner, rate + _growing(high - rate)))
        loss, _ = self.losses(edge)
        log_density = self.power * loss - edge * edge / 2
        peak = float(log_density.max())
        most = self.power * (loss[1:] if self.power >= 0 else loss[:-1]) - _nearest(edge) ** 2 / 2
        inside = np.flatnonzero(most > peak - nats)
        first, last = int(inside[0]), int(inside[-1]) + 1
        outside = np.concatenate((most[:first], most[last:], log_density[[0, -1]]))
        widths = np.concatenate((np.diff(edge)[:first], np.diff(edge)[last:], [1 / rate, 1 / rate]))
        return _Outline(float(edge[first]), float(edge[last]), widths, outside)


class TiltMoments:
    """K and the tilted mean and variance at many tilts, from nodes that serve all of them; for plans only.

    A rule's step and reach depend on the tilt little enough; where the tilted mass moves far, each tilt has its own.
    """

    def __init__(self, mu: float, share: float, sign: float, count: int) -> None:
        self._mu, self._share, self._sign, self._nats = mu, share, sign, _PLAN + math.log(count)
        cosines = -_LOG_COSINES * (_NEAR / mu if sign < 0 else 0.0)
        need = self._nats + _HALF_WIDTHS**2 / (2 * mu * mu) + cosines
        step = 2 * math.pi * float(np.max(_HALF_WIDTHS / need)) / mu
        reach = math.sqrt(2 * self._nats) + 2
        self._farthest = _NEAR if (2 * reach + _NEAR) / step < _MOST_SHARED else 0.0
        low, high = (-self._farthest, 0.0) if sign < 0 else (0.0, self._farthest)
        y = np.arange(low - reach, high + reach, step) if self._farthest else np.zeros(0)
        self._loss = self._tilt(0.0).losses(y)[0]
        self._log_weight = math.log(step / math.sqrt(2 * math.pi)) - y * y / 2

    def _tilt(self, power: float) -> TiltedSampledGaussian:
        return TiltedSampledGaussian(self._mu, self._share, power, self._sign)

    def __call__(self, theta: float) -> Moments:
        """Return them at one tilt."""
        power = theta + 1 if self._sign > 0 else -theta
        if not 0 <= self._sign * power * self._mu < self._farthest:
            return _TrapezoidRule(self._tilt(power), 0.0, self._nats).moments()
        exponent = power * self._loss + self._log_weight
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        total = float(weight.sum())
        mean = float(weight @ self._loss) / total
        away = self._loss - mean
        variance = float(weight @ (away * away)) / total
        return Moments(peak + math.log(total), math.nan, self._sign * mean, variance)


class _Outline(NamedTuple):
    """The location of the tilted mass, and cells for the rest: widths, and max ln densities (without sqrt(2 pi))."""

    first: float
    last: float
    widths: Array
    outside: Array


class _TrapezoidRule:
    """A trapezoid rule for E e^((s + i w) l), w at most ``top``, to about e^-nats of E e^(s l); its nodes are exact.

    Attributes:
        y: the nodes that matter, shape (n,).
        loss: l there.
        weight: their tilted weights, summing to 1.
        tail_mass: what the other nodes have at most, relative.
    """

    def __init__(self, pld: TiltedSampledGaussian, top: float, nats: float) -> None:
        self._pld, mu, s = pld, pld.mu, pld.power
        cosines = max(-s, 0.0) * -_LOG_COSINES
        need = nats + _HALF_WIDTHS**2 / (2 * mu * mu) + top * _HALF_WIDTHS + cosines
        best = int(np.argmax(_HALF_WIDTHS / need))
        self._width, self._cosine = float(_HALF_WIDTHS[best]), float(cosines[best])
        step = 2 * math.pi * self._width / (mu * float(need[best]))
        scale = 2.0 ** (math.floor(math.log2(step)) - 10)
        self._step = step = math.floor(step / scale) * scale  # ten bits, so that every node is exact
        self._reach = math.sqrt(2 * nats) + 2
        outline = pld.outline(self._reach, nats + 8)
        first, last = math.floor(outline.first / step), math.ceil(outline.last / step)
        if last - first > _MOST_NODES:
            raise InversionInfeasibleError(f"{last - first} nodes")
        y = step * np.arange(first, last + 1, dtype=np.float64)
        loss, u = pld.losses(y)
        exponent = s * loss - y * y / 2
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        keep = exponent > peak - nats - 6
        # number of nodes times their size
        outer = (outline.widths / step + 1) * np.exp(np.minimum(outline.outside - peak, 0.0))
        dropped = float(outer.sum() + weight[~keep].sum())
        self._every = y, loss, u
        self.y, self.loss, self._u, self._exponent = y[keep], loss[keep], u[keep], exponent[keep]
        total = float(weight[keep].sum())
        self.weight = weight[keep] / total
        self._log_sum = peak + math.log(total) + math.log(step / math.sqrt(2 * math.pi))
        self.tail_mass = SECOND_ORDER * dropped / total

    def aliasing(self, frequency: Array) -> Array:
        """Bound the trapezoid rule's error relative to E e^(s l) (Trefethen & Weideman 2014, Theorem 5.1)."""
        mu, width = self._pld.mu, self._width
        gain = width * width / (2 * mu * mu) + np.abs(frequency) * width + self._cosine
        return np.asarray(2 * SECOND_ORDER * np.exp(np.minimum(gain - 2 * math.pi * width / (mu * self._step), 50.0)))

    def moments(self) -> Moments:
        """Return the sums as they are; the error is left to ``log_total``."""
        mean = float(np.sum(self.weight * self.loss))
        variance = float(np.sum(self.weight * (self.loss - mean) ** 2))
        return Moments(self._log_sum, math.nan, self._pld.sign * mean, variance)

    def errors(self) -> tuple[Array, Array]:
        """Bound the relative error of each weight, and the error of each loss."""
        pld, loss, y = self._pld, self.loss, self.y
        loss_error = pld.loss_errors(y, loss, self._u)
        rounding = gamma(16 + 2 * y * y + 4 * np.abs(pld.power * loss) + 2 * np.abs(self._exponent))
        return rounding + abs(pld.power) * loss_error, loss_error

    def log_total(self) -> tuple[float, float]:
        """Return ln E e^(s l) and how far it may be off.

        Many rounds leave it close to 0 in each; then E e^(s l) - 1 is summed by itself, without cancellation.
        """
        pld, found = self._pld, self._log_sum
        error = float(np.sum(self.weight * self.errors()[0])) + gamma(len(self.y) + 16 + 4 * abs(found))
        y, loss, u = self._every  # the tilted distribution may have less than a normal one
        x = pld.power * loss
        if abs(found) < 0.5 and float(x.max()) < 300 and y[0] < -1 and y[-1] > 1:
            normal = self._step / math.sqrt(2 * math.pi) * np.exp(-y * y / 2)
            grown, x_error = np.expm1(x), abs(pld.power) * pld.loss_errors(y, loss, u)
            rounding = gamma(20 + 2 * y * y + len(y)) * np.abs(grown) + (1 + grown) * (
                x_error + gamma(TWICE) * np.abs(x)
            )
            rise, rise_error = float(np.sum(normal * grown)), 2.1 * float(np.sum(normal * rounding))
            rise_error += 4.2 * (math.exp(-y[0] * y[0] / 2) + math.exp(-y[-1] * y[-1] / 2))
            if rise_error < error:
                found, error = math.log1p(rise), rise_error
        return found, SECOND_ORDER * (error + 3 * self.tail_mass + 3 * float(self.aliasing(np.zeros(1))[0]))


class _Far(NamedTuple):
    """For each cut, the tilted mass above it at least, and the variation of the density there at most."""

    above: Array
    variation: Array
    spread: float


def _far(pld: TiltedSampledGaussian) -> _Far:
    """Bound masses and densities cell by cell; l grows with y (docs/accounting/spectral.md, section 4)."""
    mu, s = pld.mu, pld.power
    edge = _cells(pld)
    loss, u = pld.losses(edge)
    left, right = (loss[:-1], loss[1:]) if s >= 0 else (loss[1:], loss[:-1])  # where e^(s l) is least, and largest
    log_total, error = pld.moments.log_total, pld.moments.log_total_error + BOUND
    mass = _log_normal_cells(edge)
    least = np.exp(np.minimum(mass + s * left - log_total - error, 0.0))
    most = np.exp(np.minimum(mass + s * right - log_total + error, 690.0))
    slope = math.log(mu * pld.share) + (u - loss)[:-1]  # ln of dl/dy at the lower edge, where it is least
    density = np.exp(np.minimum(s * right - _nearest(edge) ** 2 / 2 - slope - log_total + error, 690.0))
    # maxima of the density lie between -mu and s mu; there are two at most, and one if the second derivative has a sign
    peaks = 2.0 if (s + 1) * mu * mu <= 4 else 4.0
    above = np.cumsum(least[::-1])[::-1] * (1 - BOUND)
    largest = np.maximum.accumulate(density[::-1])[::-1] * (1 + BOUND) / math.sqrt(2 * math.pi)
    middle = pld.sign * pld.moments.mean
    around = np.maximum(np.abs(loss[:-1] - middle), np.abs(loss[1:] - middle))
    second = float(np.sum(most * around**2)) + _beyond(pld, float(edge[0]), float(edge[-1]), middle)
    return _Far(np.minimum(above, 1.0), peaks * largest, math.sqrt(second) * (1 + BOUND))


def _cells(pld: TiltedSampledGaussian) -> Array:
    """Return edges from beyond all maxima of the density below to beyond them above: fine where the mass is."""
    mu, s = pld.mu, pld.power
    low, high = pld.finite_range(9.0)
    low = min(low, -mu - 9)
    first, last = pld.outline(9.0, _FULL)[:2]
    steep = min(abs(s) * mu * pld.share * math.exp(min(mu * last, 700.0)) + mu, (abs(s) + 1) * mu)
    steep += max(abs(first), abs(last))  # about the steepest that the logarithm of a factor of the density can be
    fine = np.linspace(first, last, int(min(20_000, _CUTS + 4 * (last - first) * steep)))
    return np.concatenate((first - _growing(first - low)[::-1], fine, last + _growing(high - last)))


def _growing(length: float) -> Array:
    """Ascending distances from 0, not included, to ``length``, ever further apart."""
    if length <= 0:
        return np.zeros(0)
    return np.asarray(length * _GROWTH)


def _nearest(edge: Array) -> Array:
    """Return the least distance from 0 in each cell."""
    inside = (edge[:-1] < 0) & (edge[1:] > 0)
    return np.where(inside, 0.0, np.minimum(np.abs(edge[:-1]), np.abs(edge[1:])))


def _log_normal_cells(edge: Array) -> Array:
    """Return the logarithms of the normal masses between edges, each taken on its smaller side."""
    below, above = log_ndtr(edge), log_ndtr(-edge)
    upper = edge[:-1] >= 0
    large, small = np.where(upper, above[:-1], below[1:]), np.where(upper, above[1:], below[:-1])
    return np.asarray(large + np.log(-np.expm1(np.minimum(small - large, -TINY))))


def _beyond(pld: TiltedSampledGaussian, low: float, high: float, middle: float) -> float:
    """Bound the second moment about ``middle`` beyond ``low`` and ``high``, nine deviations away.

    There ln of the density falls at a rate r of at least 9, and (l - middle)^2 grows by at most mu per unit of y. So
    the tail is at most density (a^2 / r + 2 a mu / r^2 + 2 mu^2 / r^3), a the distance at its start.
    """
    total, mu = 0.0, pld.mu
    for at, rate in ((low, min(pld.power, 0.0) * mu - low), (high, high - max(pld.power, 0.0) * mu)):
        loss = float(pld.losses(np.array([at]))[0][0])
        away = abs(loss - middle)
        exponent = pld.power * loss - at * at / 2 - pld.moments.log_total + pld.moments.log_total_error
        moment = away**2 / rate + 2 * away * mu / rate**2 + 2 * mu * mu / rate**3
        total += math.exp(min(exponent, 600.0)) * moment
    return total * SECOND_ORDER
