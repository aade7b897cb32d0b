"""Where to look: tilt, period and reach of a composition, in doubles. Nothing here is proven, and nothing needs to be.

Every tilt, period, lattice and number of frequencies gives a bound; what is found here decides only how good it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from epsilog.accounting.rigorous.balls import arb, midpoint
from epsilog.accounting.rigorous.profiles import BallProfile, GaussianProfile, PoissonAddProfile, PoissonRemoveProfile
from epsilog.numerics.questions import log_kernel_max

_POINTS = 240
_FAR = 60.0  # deviations of a normal distribution
_FAINT = 1e-200
_SHARES = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)  # of the saddle's tilt
_AFFORDABLE = 8.0  # nats of accuracy that a shorter sum may cost
_RATES = (1.0, 0.6, 0.35, 0.2, 0.12, 0.07, 0.04, 0.02)
Array = npt.NDArray[np.float64]


Cumulant = Callable[[float], tuple[float, float, float]]
"""K of one loss at a tilt, and its two derivatives."""


def _of(losses: Array, log_masses: Array) -> Cumulant:
    """Cumulant of finitely many losses."""

    def cumulant(theta: float) -> tuple[float, float, float]:
        exponent = theta * losses + log_masses
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        total = float(weight.sum())
        weight /= total
        mean = float(weight @ losses)
        return peak + math.log(total), mean, float(weight @ (losses - mean) ** 2)

    return cumulant


def find_negligible_loss(profile: BallProfile, share: float) -> tuple[float, float]:
    """Losses beyond which a pair has next to nothing: ``share`` of delta above, and of its mass below."""
    infinite = midpoint(profile.infinite())
    high = 1e-9
    top = profile.max_loss()
    if bool(top.is_finite()):
        high = max(midpoint(top), 1e-12)
    else:
        while high < 1e7 and midpoint(profile.delta(arb(high))) - infinite > share:
            high *= 1.25
    low = -1e-9
    while low > -1e7 and midpoint(profile.delta(arb(low)) - 1 + arb(low).exp()) > share:
        low *= 1.25
    return low, high


def estimate_truncated_cumulants(profile: BallProfile, share: float) -> Cumulant:
    """About that of a profile that is cut where a ``share`` is left: its dots, connected on a coarse lattice."""
    low, high = find_negligible_loss(profile, share)
    scale = 1e-3 * max(high, -low)
    ends = math.asinh(low / scale), math.asinh(high / scale)
    losses = scale * np.sinh(np.linspace(*ends, _POINTS))
    above = [profile.delta(arb(float(at))) for at in losses]
    x = [arb(float(at)).exp() for at in losses]
    slopes = [(above[0] - 1) / x[0]]
    slopes += [(above[i + 1] - above[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    slopes.append(arb(0))
    masses = np.array([midpoint(x[i] * (slopes[i + 1] - slopes[i])) for i in range(len(x))])
    keep = masses > 0
    return _of(losses[keep], np.log(masses[keep]))


def estimate_profile_cumulants(profile: BallProfile) -> Cumulant:
    """About that of a whole profile."""
    match profile:
        case GaussianProfile():
            square = midpoint(profile.mu_squared())
            return lambda theta: (theta * (theta + 1) * square / 2, (theta + 0.5) * square, square)
        case (
            PoissonRemoveProfile(base=GaussianProfile() as base, share=share)
            | PoissonAddProfile(base=GaussianProfile() as base, share=share)
        ):
            mu, q = midpoint(base.mu()), float(share)
            y = np.linspace(-_FAR, _FAR, 6001)
            losses = np.logaddexp(math.log1p(-q), math.log(q) + mu * (y - mu / 2))
            normal = -y * y / 2 - math.log(math.sqrt(2 * math.pi) / (y[1] - y[0]))
            return _of(losses, normal + losses) if isinstance(profile, PoissonRemoveProfile) else _of(-losses, normal)
        case _:
            return estimate_truncated_cumulants(profile, _FAINT)


@dataclass(frozen=True)
class TiltPlan:
    """A tilt and what the tilted composition looks like.

    Attributes:
        theta: the tilt.
        near: about the epsilon that is looked for.
        deviation: of the tilted total loss.
        period: a length after which the distribution, and the kernel, have fallen by the requested amount.
        kernel: about the tilted expectation of the kernel.
    """

    theta: float
    near: float
    deviation: float
    period: float
    kernel: float


class _TiltEstimate(NamedTuple):
    theta: float
    near: float
    total: float
    deviation: float
    nats: float


class TiltPlanner:
    """Plans for one composition: of some cumulants with their counts."""

    def __init__(self, cumulants: Sequence[tuple[Cumulant, int]], delta: float) -> None:
        self._cumulants, self._delta = cumulants, delta

    def _cumulant(self, theta: float) -> tuple[float, float, float]:
        found = np.array([cumulant(theta) for cumulant, _ in self._cumulants]).T @ np.array(
            [float(count) for _, count in self._cumulants]
        )
        return float(found[0]), float(found[1]), float(found[2])

    def plan(self, nats: float, near: float | None = None) -> TiltPlan:
        """A tilt at which the exponential bound on epsilon is about least; ``near`` is that epsilon, if it is known."""
        goal = math.log(self._delta)

        def bound(log_theta: float) -> float:
            theta = math.exp(log_theta)
            return (self._cumulant(theta)[0] + log_kernel_max(theta) - goal) / theta

        grid = np.linspace(-7.0, 16.0, 93)
        values = [bound(float(at)) for at in grid]
        best = int(np.nanargmin(values))
        log_theta = _least(bound, float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
        saddle, least = round_to_few_bits(math.exp(log_theta)), bound(log_theta)
        found = [self._at(saddle, nats, near)]
        for share in _SHARES:  # rare large losses widen the distribution at the saddle, and not a little below it
            theta = round_to_few_bits(share * saddle)
            if theta * (bound(math.log(theta)) - least) < _AFFORDABLE:
                found.append(self._at(theta, nats, near))
        return min(found, key=lambda plan: plan.period)

    def _at(self, theta: float, nats: float, near: float | None) -> TiltPlan:
        total, _, variance = self._cumulant(theta)
        deviation = max(math.sqrt(max(variance, 0.0)), 1e-9 / theta)
        value = 1 / (theta * (theta + 1) * (deviation * math.sqrt(2 * math.pi) + 1 / theta))
        if near is None:
            near = max((total + math.log(value) - math.log(self._delta)) / theta, 0.0)
        nats -= math.log(min(value, 1.0))
        tail = _TiltEstimate(theta, near, total, deviation, nats)
        below, above = self._reach(tail, -1.0), self._reach(tail, 1.0)
        return TiltPlan(theta, near, deviation, max(below + nats / theta, above, 4 * deviation), value)

    def _reach(self, tail: _TiltEstimate, side: float) -> float:
        """Beyond which distance from where we look Chernoff's bound leaves e^-nats."""
        found = []
        for share in _RATES:
            rate = share * math.sqrt(2 * tail.nats) / tail.deviation
            moved = self._cumulant(tail.theta + side * rate)[0]
            found.append((moved - tail.total - side * rate * tail.near + tail.nats) / rate)
        return max(min(found), 0.0)


def round_to_few_bits(number: float) -> float:
    """A double of ten bits, not above ``number``: its multiples, and its sum with 1, are exact.

    Raises:
        ValueError: it is no positive number.
    """
    if not 0 < number < math.inf:
        raise ValueError(f"no step of {number}")
    mantissa, exponent = math.frexp(number)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Golden section."""
    share = (math.sqrt(5) - 1) / 2
    for _ in range(30):
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (low, right) if function(left) < function(right) else (left, high)
    return (low + high) / 2
