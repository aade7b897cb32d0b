"""Hints for the checker's inversion integral: tilt, step, smoothing and terms, found in doubles.

The bound holds for every hint, so nothing here needs to be exact: better hints make the bound tighter, or its sum
shorter. Formulas: docs/accounting/certificates.md, lemma 14.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

UNIT = 1 << 30  # of tilt, step and smoothing
MOST_TERMS = 20_000
_SHARES = (1.0, 0.93, 0.86, 0.79, 0.72, 0.6)  # of the saddle point: a smaller tilt moves weight between the aliases
_SMOOTHING, _TAIL, _ALIASES = 0.7, 0.1, 0.15  # of the margin
_LARGEST = 1e6  # tilt


def logsumexp(exponents: Array, axis: int | None = None) -> Array:
    """The logarithm of the sum of exponentials."""
    return np.asarray(np.logaddexp.reduce(exponents, axis=axis), float)


@dataclass(frozen=True)
class LossDistribution:
    """A distribution of one privacy loss, composed ``count`` times."""

    losses: Array  # shape (k,), in nats
    log_masses: Array  # logarithms of their probabilities, shape (k,)
    count: int  # how often it is composed

    def tilt(self, theta: float) -> tuple[float, Array]:
        """The logarithm of its moment at a tilt, and the tilted distribution."""
        exponents = theta * self.losses + self.log_masses
        total = float(logsumexp(exponents))
        return total, np.exp(exponents - total)


LossDistributions = Sequence[LossDistribution]


def log_moment(distributions: LossDistributions, theta: float) -> float:
    """The logarithm of E[exp(theta L)] of the composed loss L."""
    return sum(distribution.count * distribution.tilt(theta)[0] for distribution in distributions)


def chernoff(distributions: LossDistributions, epsilon: float, theta: float) -> float:
    """The logarithm of an upper bound on delta: E[exp(theta (L - epsilon))] times the largest kernel ratio."""
    return log_moment(distributions, theta) - theta * epsilon - (theta + 1) * math.log1p(1 / theta) - math.log(theta)


def find_tilt(distributions: LossDistributions, epsilon: float) -> float:
    """The tilt with the least Chernoff bound on delta at an epsilon, by golden sections on a logarithmic grid."""
    grid = np.linspace(-6, math.log(_LARGEST), 60)
    values = [chernoff(distributions, epsilon, math.exp(u)) for u in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(25):
        left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
        if chernoff(distributions, epsilon, math.exp(left)) < chernoff(distributions, epsilon, math.exp(right)):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


@dataclass(frozen=True)
class Weights:
    """Where the weight of a bound on delta lies, about.

    A cell of width w keeps the masses of both data sets. It raises delta by w^2 / 12 times the joint density that one
    loss is in the cell and the sum of all losses is epsilon. The reason: for the density f of the sum at epsilon,
    delta'' + delta' = f, since the kernel (1 - e^(epsilon - x))+ has one kink.
    """

    log_delta: float  # the logarithm of delta at epsilon
    curvature: float  # f / delta; at least theta (theta + 1), since a loss with atoms has no density
    shares: list[Array]  # of each distribution: the distribution of one loss, given that the whole loss is epsilon


def weigh(distributions: LossDistributions, epsilon: float, theta: float) -> Weights:
    """Compose tilted distributions on a grid, by Fourier transforms."""
    tilted = [distribution.tilt(theta)[1] for distribution in distributions]
    means = [float(weights @ distribution.losses) for weights, distribution in zip(tilted, distributions, strict=True)]
    variance = sum(
        distribution.count * float(weights @ (distribution.losses - mean) ** 2)
        for weights, distribution, mean in zip(tilted, distributions, means, strict=True)
    )
    center = sum(distribution.count * mean for mean, distribution in zip(means, distributions, strict=True))
    blur = 0.25 / (1 + theta)
    reach = (
        14 * math.sqrt(variance)
        + abs(epsilon - center)
        + 20 * blur
        + max(np.ptp(distribution.losses) for distribution in distributions)
    )
    size = 1 << min(17, max(9, math.ceil(math.log2(4 * reach / blur))))
    step = 2 * reach / size
    turns = 2 * math.pi * np.fft.rfftfreq(size, step)
    transforms = []
    for distribution, weights in zip(distributions, tilted, strict=True):
        transforms.append(np.fft.rfft(_spread(distribution.losses / step, weights, size)))
    smooth = np.exp(-((blur * turns) ** 2) / 2)
    whole = smooth * np.prod(
        [found**distribution.count for found, distribution in zip(transforms, distributions, strict=True)], axis=0
    )
    shares = []
    for one, (distribution, weights) in enumerate(zip(distributions, tilted, strict=True)):
        others = smooth * np.prod(
            [
                found ** (other.count - (one == k))
                for k, (found, other) in enumerate(zip(transforms, distributions, strict=True))
            ],
            axis=0,
        )
        density = np.maximum(np.fft.irfft(others, size), 0)
        share = weights * density[np.rint((epsilon - distribution.losses) / step).astype(int) % size]
        shares.append(share / share.sum() if share.sum() > 0 else weights)
    density = np.maximum(np.fft.irfft(whole, size), 0) / step
    above = epsilon + step * np.arange(1, size // 2)
    found = density[np.rint(above / step).astype(int) % size]
    delta = step * float((found * np.exp(-theta * (above - epsilon)) * -np.expm1(epsilon - above)).sum())
    here = float(density[round(epsilon / step) % size])
    if not (delta > 0 and here > 0):
        return Weights(chernoff(distributions, epsilon, theta), theta * (theta + 1), shares)
    return Weights(
        log_moment(distributions, theta) - theta * epsilon + math.log(delta),
        max(here / delta, theta * (theta + 1)),
        shares,
    )


def _spread(places: Array, weights: Array, size: int) -> Array:
    """Weights at places on a circle of integers, shared among the three nearest: mean and variance stay as they are."""
    nearest = np.rint(places)
    rest = places - nearest
    shares = ((-1, rest * (rest - 1) / 2), (0, 1 - rest * rest), (1, rest * (rest + 1) / 2))
    found = np.zeros(size)
    for shift, share in shares:
        found += np.bincount((nearest.astype(int) + shift) % size, weights * share, size)
    return found


def find_line(
    distributions: LossDistributions, epsilon: float, delta: float, *, theta: float, curvature: float, margin: float
) -> tuple[list[int], float]:
    """Find the shortest sum with an excess of about ``margin``, relative to delta.

    Args:
        distributions: what is composed.
        epsilon: where delta is bounded.
        delta: what is claimed.
        theta: the best tilt.
        curvature: of ``Weights``.
        margin: by how much the logarithm of the bound may exceed that of the composition's delta.

    Returns:
        Tilt, step, smoothing and number of terms in the certificate's units, and the logarithm of the bound over delta.
    """
    smoothing = 2 * _SMOOTHING * margin / curvature
    tilts = theta * np.geomspace(0.5, 30, 80)
    moments = np.array([log_moment(distributions, tilt) for tilt in tilts])
    goal = math.log(_ALIASES * margin * delta)

    def period_of(tilt: float) -> float:
        """A period at which the first alias on each side is small, by Chernoff bounds."""
        period = -goal / tilt  # below: delta(epsilon - p) e^(-tilt p) is at most e^(-tilt p)
        for _ in range(40):
            above = moments - tilts * (epsilon + period) - (tilts + 1) * np.log1p(1 / tilts) - np.log(tilts)
            if float(above.min()) + tilt * period <= goal:
                break
            period *= 1.1
        return period

    tilt = min((share * theta for share in _SHARES), key=period_of)
    period = period_of(tilt)
    height = log_moment(distributions, tilt) + smoothing * tilt * (tilt + 1) / 2 - tilt * epsilon
    width = _find_width(smoothing, height - math.log(_TAIL * margin * math.pi * delta))
    best = _bound(distributions, epsilon, delta, (tilt, 2 * math.pi / period, smoothing), width)
    for _ in range(12):  # the aliases were bounded, not computed: shorter periods often do
        shorter = _bound(distributions, epsilon, delta, (tilt, 2 * math.pi / (0.92 * period), smoothing), width)
        if not shorter[1] <= best[1] + _ALIASES * margin / 3:
            break
        period, best = 0.92 * period, shorter
    return best


def _find_width(smoothing: float, goal: float) -> float:
    """The least frequency w at which smoothing w^2 / 2 + ln w reaches a goal."""
    low, high = 1e-9, math.sqrt(2 * max(goal, 1.0) / smoothing) + 1 + math.exp(min(goal, 0))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if smoothing * middle**2 / 2 + math.log(middle) >= goal else (middle, high)
    return high


def _bound(
    distributions: LossDistributions, epsilon: float, delta: float, hints: tuple[float, float, float], width: float
) -> tuple[list[int], float]:
    """Hints in units, and the logarithm of the checker's bound over delta, without its rounding."""
    relative = (hints[0], hints[1], hints[2] * hints[0] * (hints[0] + 1))
    units = [min(1 << 52, max(1, round(hint * UNIT))) for hint in relative]
    theta, step, smoothing = (unit / UNIT for unit in units)
    smoothing /= theta * (theta + 1)
    terms = max(2, math.ceil(width / step))
    if terms > MOST_TERMS:
        return [*units, MOST_TERMS], math.inf
    frequencies = step * np.arange(1, terms + 1)
    log_values = np.zeros(terms, complex)
    moment = 0.0
    for distribution in distributions:
        found, weights = distribution.tilt(theta)
        moment += distribution.count * found
        keep = weights > 1e-25
        phases = np.exp(1j * np.outer(frequencies, distribution.losses[keep])) @ weights[keep]
        log_values += distribution.count * np.log(np.where(phases == 0, 1e-300, phases))
    rest, z = theta * (theta + 1), theta + 1j * frequencies
    log_values -= 1j * frequencies * (epsilon - smoothing * (2 * theta + 1) / 2) + smoothing * frequencies**2 / 2
    line = 1 + 2 * float((np.exp(log_values) * rest / (z * (z + 1))).real.sum())
    last = terms * step
    tail = 2 * rest * math.exp(-smoothing * last * last / 2) / last
    value = (step * line + tail) / (2 * math.pi * rest)
    height = moment + smoothing * rest / 2 - theta * epsilon
    return [*units, terms], height + math.log(value) - math.log(delta) if value > 0 else math.inf
