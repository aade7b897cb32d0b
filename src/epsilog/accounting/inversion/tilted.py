"""PLDs tilted by e^(theta L) with a known characteristic function, and the decay of their product.

``get_tilting`` returns the tilted PLD of a pair: Gaussian, Laplace, atoms; the Poisson-sampled Gaussian has a separate
module. ``find_decay_frequency`` proves from which frequency on the composed modulus is small. sqrt(1 - |phi|^2) is
subadditive in the frequency and at most spread * w. So a bound at one frequency holds, slightly reduced, on both sides
of it. Far out the decay of each part takes over. All errors are bounded: docs/accounting/spectral.md, sections 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from epsilog.accounting.inversion.sampled import (
    MU_TOLERANCE,
    Characteristic,
    InversionInfeasibleError,
    Moments,
    TiltedDistribution,
    TiltedSampledGaussian,
    TiltMoments,
    characteristic_minus_one,
)
from epsilog.numerics.distributions.base import Array, DiscretePair, GaussianPair, LaplacePair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.rounding import BOUND, ELEMENTARY, SECOND_ORDER, TINY, TWICE, gamma, round_down, round_up

_LEAST_TILT = -0.499  # of a Laplace distribution: nearer to -1/2 its closed form loses its digits
_EXTREME = 1e100  # a mu with a square, and an inverse square, in double range

Tilt = Callable[[float], TiltedDistribution]
_DECAY = 62  # roundings of an exponential of a product with a condition below 1, and of six operations
_HALF = 6  # more than half a difference takes
_TURN = 16  # of e^(i w (l - mean)) - 1, by w and the sizes of both: a difference, a product, two functions
_FALL = 14  # of a difference of what ``_SQUARE`` covers: one, and a product
_SQUARE = 8  # of x^2 for |phi - 1| = x <= 2, by x: hypot errs by less than an ulp, so that x^2 errs by 4 x + 2 <= 8 x


def get_tilting(pair: DominatingPair) -> Tilt:
    """Return the function from a tilt to the tilted PLD of ``pair``.

    Raises:
        InversionInfeasibleError: its characteristic function has no proven form here.
    """
    if isinstance(pair.base, GaussianPair) and not 1 / _EXTREME < pair.base.mu < _EXTREME:
        raise InversionInfeasibleError(f"mu = {pair.base.mu:g} leaves the numbers when squared")
    match pair:
        case DominatingPair(base=GaussianPair(mu=mu), direction=AdjacencyType.PLAIN):
            return lambda theta: TiltedGaussian(mu, theta)
        case DominatingPair(base=GaussianPair(mu=mu), sampling_probability=share, direction=AdjacencyType.REMOVE):
            return lambda theta: TiltedSampledGaussian(mu, share, theta + 1, 1.0)
        case DominatingPair(base=GaussianPair(mu=mu), sampling_probability=share, direction=AdjacencyType.ADD):
            return lambda theta: TiltedSampledGaussian(mu, share, -theta, -1.0)
        case DominatingPair(base=LaplacePair(epsilon=epsilon, top=0.5), direction=AdjacencyType.PLAIN):
            return lambda theta: _tilted_laplace(epsilon, theta)
        case DominatingPair(base=DiscretePair(p=p, u=u) as pld, direction=AdjacencyType.PLAIN) if (p > 0).any():
            present = replace(pld, u=u[p > 0], p=p[p > 0])
            return lambda theta: TiltedDiscrete(present, theta)
        case _:
            raise InversionInfeasibleError(
                f"no proven characteristic function for {pair.base!r}, {pair.direction.value}"
            )


def get_approximate_tilting(pair: DominatingPair, count: int) -> Callable[[float], Moments]:
    """Return the function from a tilt to about the moments of ``pair``, good enough to plan ``count`` rounds by.

    Raises:
        InversionInfeasibleError: as for ``get_tilting``.
    """
    tilt = get_tilting(pair)
    if isinstance(pair.base, GaussianPair) and pair.direction is not AdjacencyType.PLAIN:
        sign = 1.0 if pair.direction is AdjacencyType.REMOVE else -1.0
        return TiltMoments(pair.base.mu, pair.sampling_probability, sign, count)
    return lambda theta: tilt(theta).moments


@dataclass(frozen=True)
class TiltedGaussian:
    """N(mu^2 (theta + 1/2), mu^2): everything in closed form."""

    mu: float
    theta: float
    infinite: float = 0.0

    @property
    def moments(self) -> Moments:
        """Return closed forms; what mu may be off by is part of the error."""
        square = self.mu * self.mu
        total = self.theta * (self.theta + 1) * square / 2
        return Moments(total, 4 * MU_TOLERANCE * abs(total), square * (self.theta + 0.5), square)

    @property
    def spread(self) -> float:
        """Return mu."""
        return self.mu * (1 + MU_TOLERANCE)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Return e^(-mu^2 w^2 / 2); what mu is off by moves the mean, which turns it."""
        exponent = (self.mu * frequencies) ** 2 / 2
        turn = np.abs(frequencies) * abs(self.moments.mean)
        error = 4 * MU_TOLERANCE * (np.minimum(exponent, 1.0) + np.exp(-exponent) * turn)
        return Characteristic(np.expm1(-exponent).astype(complex), error)

    def decay(self, frequency: Array) -> Array:
        """Return the modulus itself, which falls."""
        return np.asarray(np.exp(-((self.mu * frequency) ** 2) / 2 * (1 - 4 * MU_TOLERANCE)))


def _tilted_laplace(largest: float, theta: float) -> TiltedLaplace:
    """The loss is symmetric: K(theta) = K(-1 - theta), least at -1/2, where a little more stands for it."""
    if theta < -0.5:
        return TiltedLaplace(largest, max(-1 - theta, _LEAST_TILT), -1.0)
    return TiltedLaplace(largest, max(theta, _LEAST_TILT))


@dataclass(frozen=True)
class TiltedLaplace:
    """The loss of one Laplace release: M(z) = ((z + 1) e^(z a) + z e^(-(z + 1) a)) / (2 z + 1), a the largest loss."""

    largest: float
    theta: float  # above -1/2
    sign: float = 1.0
    infinite: float = 0.0

    @cached_property
    def _top(self) -> float:
        """M(theta) e^(-theta a), which cannot overflow."""
        theta, a = self.theta, self.largest
        return ((theta + 1) + theta * math.exp(-(2 * theta + 1) * a)) / (2 * theta + 1)

    @cached_property
    def moments(self) -> Moments:
        """Return K, and K' and K'' by the quotient rule."""
        theta, a = self.theta, self.largest
        far = math.exp(-(2 * theta + 1) * a)
        total = theta * a + math.log(self._top)
        # numerator over e^(theta a) and its derivatives in theta, the factor e^(theta a) included
        n0 = (theta + 1) + theta * far
        n1 = (1 + (theta + 1) * a) + far * (1 - theta * a)
        n2 = (2 * a + (theta + 1) * a * a) + far * (-2 * a + theta * a * a)
        first, second, d = n1 / n0, n2 / n0, 2 / (2 * theta + 1)
        mean = first - d
        variance = max(second - first * first + d * d, 1e-6 * a * a)
        error = gamma(32 + 2 * a + 8 * abs(theta) * a + 32 / (2 * theta + 1))
        return Moments(total, error, self.sign * mean, variance)

    @property
    def spread(self) -> float:
        """Return half the range of the loss (Popoviciu)."""
        return round_up(self.largest, TWICE)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Return M(theta + i w) / M(theta) about the mean."""
        theta, a, mean = self.theta, self.largest, self.moments.mean  # of a PLD that was not mirrored
        z = theta + 1j * frequencies
        near = np.exp(1j * frequencies * (a - mean))
        far = math.exp(-(2 * theta + 1) * a) * np.exp(-1j * frequencies * (a + mean))
        value = ((z + 1) * near + z * far) / (2 * z + 1) / self._top
        return Characteristic(value - 1, gamma(64 + 16 * np.abs(frequencies) * (a + abs(mean)) + 16 * theta * a))

    def decay(self, frequency: Array) -> Array:
        """Add the two atoms to what the density between them has left: twice its largest value over w."""
        theta, a = self.theta, self.largest
        atoms = (1 + math.exp(-(2 * theta + 1) * a)) / (2 * self._top)
        density = 0.25 / self._top  # of e^((theta + 1/2) u), at its upper end, tilted and normalized
        return np.minimum(round_up(atoms + 2 * density / frequency, _DECAY), 1.0)


@dataclass(frozen=True)
class TiltedDiscrete:
    """Finitely many losses: everything is a sum. Nothing is known of its decay."""

    pair: DiscretePair
    theta: float

    @property
    def infinite(self) -> float:
        """Return the mass of P or Q alone."""
        return self.pair.infinity_mass

    @cached_property
    def _weights(self) -> tuple[float, Array]:
        exponent = np.log(self.pair.p) + self.theta * self.pair.u
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        return top + math.log(total), weight / total

    @cached_property
    def _rounding(self) -> float:
        far = np.abs(np.log(self.pair.p)) + np.abs(self.theta * self.pair.u)
        rounding = gamma(16 + len(self.pair.u) + 8 * float(np.sum(self._weights[1] * far)))
        return self.pair.relative_error + abs(self.theta) * self.pair.ratio_error + rounding

    @cached_property
    def moments(self) -> Moments:
        """Return sums over the atoms."""
        total, weight = self._weights
        mean = float(np.sum(weight * self.pair.u))
        variance = float(np.sum(weight * (self.pair.u - mean) ** 2))
        return Moments(total, self._rounding + gamma(ELEMENTARY) * abs(total), mean, variance)

    @cached_property
    def spread(self) -> float:
        """Return the tilted standard deviation, a little more, or half the range if that is less."""
        half = float(self.pair.u[-1] - self.pair.u[0]) / 2
        far = max(float(np.abs(self.pair.u).max()), TINY)
        return min(round_up(half, _HALF), math.sqrt(self.moments.variance) * SECOND_ORDER + 1e-6 * far)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Return the sum itself."""
        away = self.pair.u - self.moments.mean
        less_one = characteristic_minus_one(frequencies, away, self._weights[1])
        far = float(np.sum(self._weights[1] * (np.abs(self.pair.u) + abs(self.moments.mean))))
        return Characteristic(
            less_one, 2 * self._rounding + (self.pair.ratio_error + gamma(_TURN) * far) * np.abs(frequencies)
        )

    def decay(self, frequency: Array) -> Array:
        """Return 1: a sum of waves may come back."""
        return np.ones(len(frequency))


Distributions = Sequence[tuple[TiltedDistribution, int]]

_MOST_PASSES = 40
_MOST_EFFORT = 1_500_000  # terms of all sums of a scan; more for many PLDs
_EFFORT_OF_ONE = 40_000  # terms of the sums of each PLD
_FARTHEST = 1e7
_NEAREST = np.array([1.0, 1.15, 1.35, 1.7, 2.3, 3.2, 4.6])  # over the first frequency; then each twice the one before
_STEP, _TRIED = 1.4, 12  # a factor from one frequency that is tried to the next; how many at once
_ENOUGH = 1.2, 1.03  # how far, as a factor, the answer may be above what is seen to be too low; where the sum is long
_LONG = 1 / 16  # of the longest
_OCTAVES = 5  # that share the nodes of their sums
_STRIDE, _MOST_STRIDES = 1.3, 64  # over one by a spread
_ACCURACY = 5.0  # in nats
_CRAWL = 0.002  # of a frequency: what holds no farther than this is of no use
_MOST_INTO = 24  # points at once into one gap


def find_decay_frequency(plds: Distributions, nats: float, *, first: float, most: float) -> float:
    """The frequency, ``first`` or above and up to ``most``, from which on the modulus is proven to be at most e^-nats.

    Raises:
        InversionInfeasibleError: it does not exist, or takes too long to find.
    """
    plain = [(pld, count) for pld, count in plds if not isinstance(pld, TiltedSampledGaussian)]
    if plain and _has_decayed(plain, np.array([1.5 * first]), nats)[0]:
        return 1.5 * first
    spread = math.sqrt(sum(count * pld.spread**2 for pld, count in plds) / sum(count for _, count in plds))
    far = _decayed_from(plds, first, nats)
    new = _laid(first, far, _STRIDE / spread)
    where, reach, effort, safe = np.zeros(0), np.zeros(0), 0, far
    most_effort = max(_MOST_EFFORT, _EFFORT_OF_ONE * len(plds))
    for _ in range(_MOST_PASSES):
        for octaves in _group_octaves(new):
            found, terms = _cover_mass(plds, octaves, nats)
            useful = np.where(found >= _CRAWL * octaves, found, 0.0)  # what is no number is of no use either
            where, reach, effort = np.append(where, octaves), np.append(reach, useful), effort + terms
        order = np.argsort(where)
        where, reach = where[order], reach[order]
        gaps = np.flatnonzero(where[1:] - reach[1:] > where[:-1] + reach[:-1])
        low = int(np.max(np.flatnonzero(reach[:-1] == 0), initial=-1))  # the last place with too little
        begin = max(int(np.max(gaps, initial=-1)), low) + 1  # from there on there is no gap
        safe = float(where[begin] - reach[begin]) if begin else first
        too_low = float(where[low]) if low >= 0 else first
        if safe <= _ENOUGH[safe > _LONG * most] * too_low or too_low > most or effort > most_effort:
            break
        new = np.concatenate([_into(where, reach, at) for at in gaps[gaps >= low]])
    if not safe <= most:
        raise InversionInfeasibleError("the characteristic function falls too slowly")
    return max(safe, first)


def _laid(first: float, far: float, stride: float) -> Array:
    """Frequencies to look at first: close where the modulus is about to be small enough, then each twice the last.

    No frequency holds for farther than one over a spread, to either side: later they lie a ``stride`` apart.
    """
    doubled = first * np.append(_NEAREST, _NEAREST[-1] * 2.0 ** np.arange(1, 24))
    doubled = doubled[: int(np.argmax(np.diff(doubled, append=math.inf) > stride)) + 1]
    stride = max(stride, (far - doubled[-1]) / _MOST_STRIDES)
    points = np.append(doubled, np.arange(doubled[-1] + stride, far, stride))
    return np.append(points[points < far], far)


def _group_octaves(points: Array) -> list[Array]:
    """Ascending frequencies in groups of a few octaves: a sum takes as many nodes as its largest frequency needs."""
    octave = np.log2(points / points[0]) // _OCTAVES
    return np.split(points, np.flatnonzero(np.diff(octave)) + 1)


def _into(where: Array, reach: Array, at: int) -> Array:
    """Return frequencies to look at in the gap after a place."""
    low, high = float(where[at] + reach[at]), float(where[at + 1] - reach[at + 1])
    if reach[at] == 0:  # the answer is in here
        return np.geomspace(low, high, 5)[1:-1]
    count = min(math.ceil(1.1 * (high - low) / float(reach[at] + reach[at + 1])), _MOST_INTO)
    return np.linspace(low, high, count + 2)[1:-1]


def _decayed_from(plds: Distributions, first: float, nats: float) -> float:
    """A frequency from which on the parts' own decay is enough."""
    for start in first * _STEP ** np.arange(0.0, math.log(_FARTHEST, _STEP), _TRIED):
        tried = start * _STEP ** np.arange(float(_TRIED))
        enough = np.flatnonzero(_has_decayed(plds, tried, nats))
        if len(enough):
            return float(tried[enough[0]])
    raise InversionInfeasibleError("the characteristic function is not known to fall")


def _has_decayed(plds: Distributions, frequency: Array, nats: float) -> Array:
    """Return whether the parts' own decay is enough from each frequency on; shape (k,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(sum(count * np.log(pld.decay(frequency)) for pld, count in plds) <= -nats * (1 + BOUND))


def _cover_mass(plds: Distributions, points: Array, nats: float) -> tuple[Array, int]:
    """How far to either side of each point the composed modulus is at most e^-nats, 0 where it is not; and terms."""
    counts = np.array([count for _, count in plds], dtype=np.float64)
    spreads = np.array([pld.spread for pld, _ in plds])
    accuracy = _ACCURACY - math.log(min(nats / counts.sum(), 1.0))  # relative to the decay of one round
    known = [pld.characteristic(points, accuracy) for pld, _ in plds]
    rises, terms = np.stack([_rise(one) for one in known], axis=1), sum(one.terms for one in known)
    if len(counts) == 1:
        needed = math.sqrt(-math.expm1(-2 * nats * (1 + BOUND) / counts[0]))
        return np.asarray(np.maximum(rises[:, 0] - needed, 0.0) / max(spreads[0], TINY)), terms

    def enough(gap: Array) -> Array:
        left = np.maximum(rises - gap[:, None] * spreads, 0.0)
        lost = -0.5 * np.log1p(-np.minimum(left * left, 1 - 1e-15)) @ counts
        return np.asarray(lost >= nats * (1 + BOUND))

    low, high = np.zeros(len(points)), np.max(rises / np.maximum(spreads, TINY), axis=1)
    for _ in range(12):
        middle = (low + high) / 2
        holds = enough(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, terms


def _rise(characteristic: Characteristic) -> Array:
    """Bound sqrt(1 - |phi|^2) from below."""
    size = np.abs(characteristic.less_one)
    fall = round_down(-2 * characteristic.less_one.real - size * size, _FALL)
    return np.asarray(
        np.sqrt(np.maximum(fall - gamma(_SQUARE) * size - 2.1 * characteristic.error - characteristic.error**2, 0.0))
    )
