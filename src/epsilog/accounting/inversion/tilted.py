"""Loss laws tilted by e^(theta L) whose characteristic function is known: Gaussian, Laplace, atoms.

``tilt_of`` finds the tilted law of a pair; the Poisson-sampled Gaussian has a module of its own. All errors are
bounded: docs/accounting/spectral.md, sections 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from epsilog.accounting.inversion.characteristic import (
    MU_APART,
    Characteristic,
    Moments,
    OutOfReachError,
    TiltedLaw,
    mean_less_one,
)
from epsilog.accounting.inversion.sampled import Sketch, TiltedSampled
from epsilog.numerics.laws.base import Array, Atoms, Normal, Tent
from epsilog.numerics.pairs import Direction, Pair
from epsilog.numerics.rounding import SECOND_ORDER, TINY, gamma, up

_LEAST_TILT = -0.499  # of a Laplace law: nearer to -1/2 its closed form loses its digits
_EXTREME = 1e100  # a mu whose square, and whose inverse's, a double can still hold

Tilt = Callable[[float], TiltedLaw]


def tilt_of(pair: Pair) -> Tilt:
    """Returns the function from a tilt to the tilted law of ``pair``.

    Raises:
        OutOfReachError: its characteristic function has no proven form here.
    """
    if isinstance(pair.law, Normal) and not 1 / _EXTREME < pair.law.mu < _EXTREME:
        raise OutOfReachError(f"mu = {pair.law.mu:g} leaves the numbers when squared")
    match pair:
        case Pair(law=Normal(mu=mu), direction=Direction.PLAIN):
            return lambda theta: TiltedGaussian(mu, theta)
        case Pair(law=Normal(mu=mu), sampling_probability=share, direction=Direction.REMOVE):
            return lambda theta: TiltedSampled(mu, share, theta + 1, 1.0)
        case Pair(law=Normal(mu=mu), sampling_probability=share, direction=Direction.ADD):
            return lambda theta: TiltedSampled(mu, share, -theta, -1.0)
        case Pair(law=Tent(epsilon=epsilon, top=0.5), direction=Direction.PLAIN):
            return lambda theta: _tilted_laplace(epsilon, theta)
        case Pair(law=Atoms(p=p, u=u) as law, direction=Direction.PLAIN) if (p > 0).any():
            present = replace(law, u=u[p > 0], p=p[p > 0])
            return lambda theta: TiltedAtoms(present, theta)
        case _:
            raise OutOfReachError(f"no proven characteristic function for {pair.law!r}, {pair.direction.value}")


def planned(pair: Pair, count: int) -> Callable[[float], Moments]:
    """Returns the function from a tilt to about the moments of ``pair``, good enough to plan ``count`` rounds by.

    Raises:
        OutOfReachError: as for ``tilt_of``.
    """
    tilt = tilt_of(pair)
    if isinstance(pair.law, Normal) and pair.direction is not Direction.PLAIN:
        sign = 1.0 if pair.direction is Direction.REMOVE else -1.0
        return Sketch(pair.law.mu, pair.sampling_probability, sign, count)
    return lambda theta: tilt(theta).moments


@dataclass(frozen=True)
class TiltedGaussian:
    """N(mu^2 (theta + 1/2), mu^2): everything in closed form."""

    mu: float
    theta: float
    infinite: float = 0.0

    @property
    def moments(self) -> Moments:
        """Returns closed forms; what mu may be off by is part of the error."""
        square = self.mu * self.mu
        total = self.theta * (self.theta + 1) * square / 2
        return Moments(total, 4 * MU_APART * abs(total), square * (self.theta + 0.5), square)

    @property
    def spread(self) -> float:
        """Returns mu."""
        return self.mu * (1 + MU_APART)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Returns e^(-mu^2 w^2 / 2); what mu is off by moves the mean, which turns it."""
        exponent = (self.mu * frequencies) ** 2 / 2
        turn = np.abs(frequencies) * abs(self.moments.mean)
        error = 4 * MU_APART * (np.minimum(exponent, 1.0) + np.exp(-exponent) * turn)
        return Characteristic(np.expm1(-exponent).astype(complex), error)

    def decay(self, frequency: Array) -> Array:
        """Returns the modulus itself, which falls."""
        return np.asarray(np.exp(-((self.mu * frequency) ** 2) / 2 * (1 - 4 * MU_APART)))


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
        """Returns K, and K' and K'' by the quotient rule."""
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
        """Returns half the range of the loss (Popoviciu)."""
        return up(self.largest, 2)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Returns M(theta + i w) / M(theta) about the mean."""
        theta, a, mean = self.theta, self.largest, self.moments.mean  # of a law that was not mirrored
        z = theta + 1j * frequencies
        near = np.exp(1j * frequencies * (a - mean))
        far = math.exp(-(2 * theta + 1) * a) * np.exp(-1j * frequencies * (a + mean))
        value = ((z + 1) * near + z * far) / (2 * z + 1) / self._top
        return Characteristic(value - 1, gamma(64 + 16 * np.abs(frequencies) * (a + abs(mean)) + 16 * theta * a))

    def decay(self, frequency: Array) -> Array:
        """Adds the two atoms to what the density between them has left: twice its largest value over w."""
        theta, a = self.theta, self.largest
        atoms = (1 + math.exp(-(2 * theta + 1) * a)) / (2 * self._top)
        density = 0.25 / self._top  # of e^((theta + 1/2) u), at its upper end, tilted and normalised
        return np.minimum(up(atoms + 2 * density / frequency, 62), 1.0)


@dataclass(frozen=True)
class TiltedAtoms:
    """Finitely many losses: everything is a sum. Nothing is known of its decay."""

    law: Atoms
    theta: float

    @property
    def infinite(self) -> float:
        """Returns what one law alone can produce."""
        return self.law.only_p

    @cached_property
    def _weights(self) -> tuple[float, Array]:
        exponent = np.log(self.law.p) + self.theta * self.law.u
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        return top + math.log(total), weight / total

    @cached_property
    def _rounding(self) -> float:
        far = np.abs(np.log(self.law.p)) + np.abs(self.theta * self.law.u)
        rounding = gamma(16 + len(self.law.u) + 8 * float(np.sum(self._weights[1] * far)))
        return self.law.relative_error + abs(self.theta) * self.law.misplacement + rounding

    @cached_property
    def moments(self) -> Moments:
        """Returns sums over the atoms."""
        total, weight = self._weights
        mean = float(np.sum(weight * self.law.u))
        variance = float(np.sum(weight * (self.law.u - mean) ** 2))
        return Moments(total, self._rounding + gamma(4.0) * abs(total), mean, variance)

    @cached_property
    def spread(self) -> float:
        """Returns the tilted standard deviation, a little more, or half the range if that is less."""
        half = float(self.law.u[-1] - self.law.u[0]) / 2
        far = max(float(np.abs(self.law.u).max()), TINY)
        return min(up(half, 6), math.sqrt(self.moments.variance) * SECOND_ORDER + 1e-6 * far)

    def characteristic(self, frequencies: Array, nats: float) -> Characteristic:  # noqa: ARG002
        """Returns the sum itself."""
        away = self.law.u - self.moments.mean
        less_one = mean_less_one(frequencies, away, self._weights[1])
        far = float(np.sum(self._weights[1] * (np.abs(self.law.u) + abs(self.moments.mean))))
        return Characteristic(
            less_one, 2 * self._rounding + (self.law.misplacement + gamma(16.0) * far) * np.abs(frequencies)
        )

    def decay(self, frequency: Array) -> Array:
        """Returns 1: a sum of waves may come back."""
        return np.ones(len(frequency))
