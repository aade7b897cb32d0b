"""Deterministic delta of balls-in-bins with independent noise (C = I), to about ten digits in milliseconds.

The integrals, their paths and the estimated error: docs/accounting/balls-in-bins.md, 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw, log_ndtr

from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.rounding import BOUND, LEAST, TINY, gamma
from epsilog.terms import CalibrationError, check

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

DIRECTIONS = (AdjacencyType.REMOVE, AdjacencyType.ADD)
_ROUND_OFF = 2e-15  # relative error of one phi, in units of the bin count
_SCAN = 12  # order of the rules that only look for a saddle
_ANGLE = 0.6 * math.pi  # direction of the arcs: e^(zK) and e^(b z^2) both decay along it
_GAIN = 128  # roundings of what an event gains, by its largest term: derived where it is taken off


@dataclass(frozen=True, slots=True)
class OracleDelta:
    """A delta with an estimated error, inside proven brackets.

    Attributes:
        value: the computed delta.
        lower: ``value`` less its error, at least the proven cube lower bound.
        upper: ``value`` plus its error, at most the proven unamplified Gaussian delta.
    """

    value: float
    lower: float
    upper: float


def compute_balls_in_bins_delta(
    *, bins: int, noise_stddev: float, epsilon: float, direction: AdjacencyType = AdjacencyType.REMOVE, epochs: int = 1
) -> OracleDelta:
    """Compute delta(epsilon) of balls-in-bins over independent Gaussian noise, in one direction.

    Args:
        bins: rounds in an epoch.
        noise_stddev: noise standard deviation over the clip norm (independent noise: the noise multiplier).
        epsilon: in nats, at least 0.
        direction: remove or add.
        epochs: how often the same assignment is gone through.

    Returns:
        The value with its estimated error; 1 without noise; the bare brackets where the integral is out of reach.

    Raises:
        CalibrationError: the value left its proven brackets; nothing is returned then.

    Source:
        Choquette-Choo et al., ICLR 2025, Lemma 3.2 (arXiv:2410.06266); docs/accounting/balls-in-bins.md, 9.

    >>> value = compute_balls_in_bins_delta(bins=16, noise_stddev=1.0, epsilon=1.0)
    >>> f"{value.value:.10e}"
    '6.8762519118e-04'
    """
    bins = check.integer(1)(bins=bins)
    epochs = check.integer(1)(epochs=epochs)
    noise_stddev = check.at_least(0)(noise_stddev=noise_stddev)
    epsilon = check.at_least(0)(epsilon=epsilon)
    direction = check.one_of(DIRECTIONS)(direction=direction)
    if noise_stddev == 0:
        return OracleDelta(1.0, 1.0, 1.0)
    stddev = noise_stddev / math.sqrt(epochs)
    low = cube_lower_bound(bins=bins, noise_stddev=stddev, epsilon=epsilon, direction=direction)
    high = gaussian_delta(1 / stddev, epsilon)[1]
    if bins == 1:
        return OracleDelta(high, min(low, high), high)
    value, error = _evaluate_method(_remove if direction == AdjacencyType.REMOVE else _add, bins, 1 / stddev, epsilon)
    if direction == AdjacencyType.REMOVE and not error < 1e-9 * value:
        value, error = min(
            (value, error), _evaluate_method(_direct, bins, 1 / stddev, epsilon), key=lambda pair: pair[1]
        )
    if not math.isfinite(error):  # out of reach (delta below 1e-300, say): the brackets are still proven
        return OracleDelta(high, low, high)
    if value + error < low * (1 - BOUND) or value - error > high * (1 + BOUND):
        raise CalibrationError(f"balls-in-bins oracle found {value:.6g} outside its brackets", bracket=(low, high))
    lower, upper = max(value - error, low), min(value + error, high)
    return OracleDelta(min(max(value, lower), upper), lower, max(upper, lower))


def _evaluate_method(method: Any, bins: int, t: float, epsilon: float) -> tuple[float, float]:
    """Return the value of a method and its estimated error from two resolutions and rounding; ``inf`` if it fails."""
    try:
        with np.errstate(all="ignore"):
            coarse, _ = method(bins, t, epsilon, 16)
            value, size = method(bins, t, epsilon, 24)
    except (ValueError, IndexError, OverflowError):
        return math.nan, math.inf
    error = 4 * abs(value - coarse) + size * bins * _ROUND_OFF + 1e-14 * abs(value) + LEAST  # nor is what underflows 0
    return (value, error) if math.isfinite(error) and value >= 0 else (math.nan, math.inf)


def cube_lower_bound(*, bins: int, noise_stddev: float, epsilon: float, direction: AdjacencyType) -> float:
    """Bound delta from below by the events "some coordinate exceeds c" (remove) and "none does" (add).

    Source:
        Chua et al., AISTATS 2025, lower bound of section 4 (arXiv:2412.16802): P(max <= c) = Phi((c - 1) / s)
        Phi(c / s)^(b - 1), Q(max <= c) = Phi(c / s)^b; any event bounds delta from below.
    """
    s = noise_stddev
    threshold = np.linspace(-8 * s, 1 + 12 * s + s * s * (epsilon + math.log(bins)), 4001)
    log_q = bins * log_ndtr(threshold / s)
    log_p = log_ndtr((threshold - 1) / s) + (bins - 1) * log_ndtr(threshold / s)
    if direction == AdjacencyType.REMOVE:
        gain = -np.expm1(log_p) + math.exp(min(epsilon, 700.0)) * np.expm1(log_q)
    else:
        gain = np.exp(log_q) - math.exp(min(epsilon, 700.0)) * np.exp(log_p)
    # b ln Phi(x) errs by what the tail does, 8 + 5 x^2 roundings; times Phi(x)^b that is at most e^-1 of them
    return max(0.0, float(gain.max()) * (1 - BOUND) - gamma(_GAIN) * math.exp(min(epsilon, 700.0)))


# ---- the transform of one lognormal ----------------------------------------------------------------------------------


def _log_phi(radius: Array, angle: Array, t: float, order: int) -> Complex:
    """Log of E exp(-z Y) at z = radius e^(-i angle), angle in [0, pi], by 20 ``order`` nodes; shapes (n,).

    The integration path over X passes the inner saddle -W_0 / t and rises to angle / t behind the outer one -W_-1 / t.
    """
    strength = radius * math.exp(-t * t / 2)
    zeta = t * t * strength * np.exp(1j * angle)
    inner = -lambertw(zeta, 0).conj() / t
    outer = -lambertw(zeta, -1).conj().real / t
    top = angle / t
    height = np.clip(inner.imag, 0, top)
    left, right = np.minimum(inner.real, 0) - 10, np.maximum(inner.real, 0) + 10 + t
    x = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, 20 * order)
    width = 0.35 / t
    ramp = 1 / (1 + np.exp(-np.clip((x - (outer + 1.5 / t)[:, None]) / width, -700, 700)))
    rise = (top - height)[:, None] * ramp
    y = height[:, None] + rise
    slope = rise * (1 - ramp) / width
    growth = np.exp(np.clip(t * x, -700, 600)) * np.exp(1j * (t * y - angle[:, None]))
    exponent = -((x + 1j * y) ** 2) / 2 - strength[:, None] * growth
    exponent = np.where(exponent.real < -1e5, -1e5, exponent)
    peak = exponent.real.max(1)
    total = (np.exp(exponent - peak[:, None]) * (1 + 1j * slope)).sum(1)
    result: Complex = peak + np.log(total * (right - left) / (20 * order - 1) / math.sqrt(2 * math.pi))
    return result


def _log_jump(radius: Array, t: float) -> Array:
    """Log of Im E exp(-z Y) at z = radius e^(-i pi), below the branch point; steepest descent from the outer saddle."""
    nu = np.linspace(0, math.pi, 129)[1:-1]  # t times the height of the path
    x = -lambertw(-t * t * math.exp(-t * t / 2) * radius[:, None] * np.sinc(nu / math.pi), -1).real / t
    start = -lambertw(-t * t * math.exp(-t * t / 2) * radius, -1).real / t
    exponent = -(x**2 - (nu / t) ** 2) / 2 + x * nu / t / np.tan(nu)
    peak = -(start**2) / 2 + start / t
    total = 0.5 + np.exp(exponent - peak[:, None]).sum(1)
    result: Array = peak + np.log(total * math.pi / 128 / t / math.sqrt(2 * math.pi))
    return result


# ---- the two integrals -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _panels(order: int, panels: int) -> tuple[Array, Array]:
    """Composite Gauss-Legendre rule on [0, 1]: nodes and weights."""
    node, weight = np.polynomial.legendre.leggauss(order)
    edges = np.arange(panels)[:, None]
    return ((edges + (node + 1) / 2) / panels).ravel(), np.tile(weight / 2 / panels, panels)


def _arc(bins: int, t: float, strike: float, order: int, *, start: float, scale: float) -> tuple[float, float, float]:
    """Im of the integral of phi^b e^(zK) / z^2 / pi from ``start`` up to infinity: (log unit, value, size)."""

    def integrand(y: Array, order: int) -> tuple[Array, Complex]:
        step = scale * np.sinh(y)
        z = start + step * np.exp(1j * _ANGLE)
        # the lower half-plane is the mirror image of the upper one: take phi at conj(z) and conjugate
        log_value = bins * _log_phi(np.abs(z), np.angle(z), t, order).conj() + z * strike - 2 * np.log(z)
        return log_value.real, np.exp(1j * (log_value.imag + _ANGLE)) * scale * np.cosh(y)

    scan = np.linspace(0, 40, 81)
    log_size = np.array(integrand(scan, _SCAN)[0]) + np.log(np.cosh(scan))
    unit = float(log_size.max())
    end = float(scan[min(len(scan) - 1, int(np.flatnonzero(log_size > unit - 46)[-1]) + 1)])
    node, weight = _panels(order, max(4, math.ceil(end)))
    log_value, phase = integrand(node * end, order)
    terms = np.exp(log_value - unit) * phase * weight * end / math.pi
    return unit, float(terms.imag.sum()), float(np.abs(terms).sum())


def _scale(exponent: Any, point: float) -> float:
    """Return the width of the saddle at ``point``: 1 / sqrt of the second derivative, or the distance to 0."""
    step = point * 1e-2
    low, mid, high = (float(v) for v in exponent(np.array([point - step, point, point + step])))
    curvature = abs(low - 2 * mid + high) / step**2
    return min(abs(point), 1 / math.sqrt(curvature) if curvature > 0 else abs(point))


def _below(bins: int, t: float, strike: float, order: int) -> tuple[float, float]:
    """E[(K - S)^+], and the size of what was summed."""

    def exponent(c: Array) -> Array:
        value: Array = bins * _log_phi(c, np.zeros_like(c), t, _SCAN).real + c * strike - 2 * np.log(c)
        return value

    grid = np.geomspace(1e-6 / strike, 1e8 / min(strike, 1.0), 160)
    start = float(grid[int(np.argmin(exponent(grid)))])
    unit, value, size = _arc(bins, t, strike, order, start=start, scale=_scale(exponent, start))
    return value * math.exp(unit), size * math.exp(unit)


def _add(bins: int, t: float, epsilon: float, order: int) -> tuple[float, float]:
    """Delta of the add direction, and the size of what was summed."""
    factor = math.exp(epsilon) / bins
    value, size = _below(bins, t, bins * math.exp(-epsilon), order)
    return value * factor, size * factor


def _direct(bins: int, t: float, epsilon: float, order: int) -> tuple[float, float]:
    """Delta of the remove direction as E[(K - S)^+] / b - (e^epsilon - 1): good while delta is not small."""
    excess = math.expm1(epsilon)
    value, size = _below(bins, t, bins * math.exp(epsilon), order)
    return value / bins - excess, size / bins + excess


def _remove(bins: int, t: float, epsilon: float, order: int) -> tuple[float, float]:
    """Delta of the remove direction from the cut and an arc (nothing cancels), and the size of what was summed."""
    strike = bins * math.exp(epsilon)
    branch_point = math.exp(t * t / 2 - 1) / (t * t)

    def log_modulus(x: Array) -> Array:
        value: Array = bins * _log_phi(x, np.full_like(x, math.pi), t, _SCAN).real - x * strike - 2 * np.log(x)
        return value

    def log_cut(x: Array, order: int) -> tuple[Array, Array]:
        """Log size and sign of the integrand over d(log x)."""
        modulus = _log_phi(x, np.full_like(x, math.pi), t, order).real
        log_angle = math.log(bins) + _log_jump(x, t) - modulus
        angle = bins * np.arcsin(np.minimum(np.exp(log_angle) / bins, 1.0))
        log_sine = np.where(log_angle < -18, log_angle, np.log(np.abs(np.sin(angle)) + TINY))
        return bins * modulus - x * strike - np.log(x) + log_sine, np.where(np.sin(angle) < 0, -1.0, 1.0)

    scan = np.geomspace(math.exp(-t * (t + 10)) * 1e-4 * min(branch_point, 1 / strike), 0.95 * branch_point, 240)
    modulus, log_size = log_modulus(scan), log_cut(scan, _SCAN)[0]
    settled = np.flatnonzero(modulus + np.log(scan) < np.maximum.accumulate(log_size) - 50)
    stop = min(int(np.argmin(modulus)), int(settled[0]) if settled.size else len(scan))
    start = float(scan[stop])
    unit, arc, arc_size = _arc(bins, t, strike, order, start=-start, scale=_scale(log_modulus, start))
    peak = float(log_size[: stop + 1].max())
    first = max(0, int(np.flatnonzero(log_size[: stop + 1] > peak - 46)[0]) - 1)
    low, high = math.log(scan[first]), math.log(start)
    node, weight = _panels(order, max(6, math.ceil(high - low)))
    log_value, sign = log_cut(np.exp(low + (high - low) * node), order)
    top = max(peak, unit)
    cut = float((np.exp(log_value - top) * sign * weight).sum()) * (high - low) / math.pi
    shift = math.exp(unit - top)
    factor = math.exp(top - math.log(bins))
    return (cut + arc * shift) * factor, (abs(cut) + arc_size * shift) * factor
