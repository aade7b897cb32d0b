"""Composition of lattice PLDs: a power of a characteristic function, tilted to keep relative accuracy.

The composed PLD is tilted by e^(theta loss), so that losses near epsilon are its bulk. A Fourier transform over a
window, proven wide enough by Chernoff's bound, gives delta by a closed kernel. It has relative accuracy however small
delta is. Truncation, aliasing, discarded frequencies and round-off are bounded and added (for the upper side) or
subtracted (for the lower); docs/accounting/certified-bounds.md, sections 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from epsilog.numerics.distributions.base import Array
from epsilog.numerics.lattice.distribution import (
    Integers,
    LatticeDistribution,
    LatticeTooLargeError,
    find_support_window,
    merge_sorted_indices,
)
from epsilog.numerics.questions import kernel_max, log_kernel_max
from epsilog.numerics.roots import estimate_root
from epsilog.numerics.rounding import ELEMENTARY, LEAST, TINY, gamma, round_up, union_probability

_DISCARD = 10.0  # nats beyond those of the window: a frequency that weighs less is not summed but bounded
_LONGEST = 2**21
_SHORT = 2**17  # transforms up to this length are not worth shortening
_FEW = 20_000  # terms of a Fourier sum that is cheaper than a transform
_TABLE = 1_200_000  # factors of Fourier sums that are kept for all PLDs but the first
_NONE = np.zeros(0, np.int64)

Waves = npt.NDArray[np.complex128]
_DIRECT = 1_500_000  # terms of a Fourier sum that is still cheaper than a longer transform
_PROBES = 16  # frequencies for finding the smoothest PLD
_MOST_INFLATION = 20.0  # nats by which rounding may inflate a spectrum: with more, a transform says nothing
_ROUGH = 1e-8  # relative error of a power from which on its transform is summed afresh
_MOST_WORK = 3_000_000  # frequencies of one part that a transform, and then its questions, may look at
_ATTEMPTS, _LEAST_ATTEMPTS = 60, 6  # to find a root, and as many nudges past it
_AFFORDABLE = 5.0  # nats of accuracy that a shorter transform may cost
# roundings; docs/accounting/certified-bounds.md, 5
_OFFSET = 8  # of a sum of products that is rounded once, by their sizes
_EXPONENT = 32  # of a tilt times a difference, by the sizes: three, and those of the offset
_CHERNOFF = 62  # of an exponential of what is rounded to its side already, and of the kernel's peak
_PLACE = 8  # of the distance of a lattice point from epsilon, by the sizes of all terms: four
_TOTAL = 128  # of a sum of four waves that turn, by their sizes: fewer than four functions and eight products each


def compose_on_lattice(
    parts: Sequence[tuple[LatticeDistribution, int]],
    *,
    step: float,
    theta: float,
    near: float,
    upper: bool,
    nats: float,
) -> LatticeComposition:
    """Compose lattice PLDs for questions about losses ``near`` a value, with ``theta`` the best tilt.

    Rare large losses can give the tilted PLD a long upper tail, and so a long transform. A smaller tilt needs a shorter
    one, and loses little accuracy.
    """
    best = LatticeComposition(parts, step=step, theta=theta, upper=upper, nats=nats)
    for share in (0.7, 0.5, 0.35):
        if best.size <= _SHORT * len(parts):
            break
        other = LatticeComposition(parts, step=step, theta=share * theta, upper=upper, nats=nats)
        inside = near - best.offset
        loss = (other.log_total - other.theta * inside) - (best.log_total - best.theta * inside)
        if loss > _AFFORDABLE:
            break
        other = LatticeComposition(parts, step=step, theta=share * theta, upper=upper, nats=nats + max(loss, 0.0))
        if other.size >= best.size:
            break
        best = other
    if best.size > _LONGEST:
        raise LatticeTooLargeError(best, best.size / _LONGEST)
    best.prepare()
    return best


class LatticeComposition:
    """The composition of lattice PLDs with one common step, at one tilt; answers delta and epsilon on one side.

    The tilted mass outside the window is below e^-nats on either side, and counts as an error.

    Attributes:
        upper: whether its answers err upwards; otherwise they err downwards.
        theta: the tilt.
        offset: loss of lattice index 0.
        size: length of the transform.
        log_total: logarithm of the composed PLD's total after tilting, before normalizing.
        infinite: the mass that gives everything away, on the same side.
        relative_error: how large a part of the last delta its errors were.
        work: what it has cost, in frequencies of one part that were looked at; about a third of a microsecond each.
    """

    def __init__(
        self,
        parts: Sequence[tuple[LatticeDistribution, int]],
        *,
        step: float,
        theta: float,
        upper: bool,
        nats: float = 24.0,
    ) -> None:
        self.upper, self._step, self.theta, self._nats = upper, step, theta, nats
        self._sign = 1.0 if upper else -1.0
        offset = math.fsum(count * pld.offset for pld, count in parts)
        error = gamma(_OFFSET) * math.fsum(count * abs(pld.offset) for pld, count in parts)
        self.offset = offset + self._sign * error
        self.infinite = union_probability((pld.infinite, count) for pld, count in parts)[upper]
        tilted = [_tilt(pld, theta * step) for pld, _ in parts]
        counts = [count for _, count in parts]
        self.log_total = math.fsum(c * t.log_total for c, t in zip(counts, tilted, strict=True))
        self._log_total_error = math.fsum(
            c * (t.relative_error + gamma(ELEMENTARY) * abs(t.log_total)) for c, t in zip(counts, tilted, strict=True)
        )
        low, self._bulk, high = find_support_window(
            [(t.points, t.weight, c) for t, c in zip(tilted, counts, strict=True)], nats
        )
        self._high = math.floor(high) + 1
        self.size = fast_length(self._high - math.ceil(low) + 8)
        self._log_inflation = math.fsum(c * t.relative_error for c, t in zip(counts, tilted, strict=True))
        self._tilted, self._counts, self._ready, self.relative_error = tilted, counts, False, 0.0
        self._drowned, self.work = False, 0

    def prepare(self) -> None:
        """Multiply the characteristic functions, if that was not done yet.

        Raises:
            LatticeTooLargeError: the sum over frequencies and parts would take too long.
        """
        if not self._ready:
            self._transform()

    def _transform(self) -> None:
        """Multiply the characteristic functions at the frequencies that matter; bounds the others and the errors."""
        size = self.size
        where = np.arange(size // 2 + 1)
        bound, rounding, log_power = (
            np.broadcast_to(np.zeros(1, kind), len(where)) for kind in (float, float, complex)
        )
        parts = sorted(zip(self._tilted, self._counts, strict=True), key=self._estimate_power_left)
        others = merge_sorted_indices(*(pld.points for pld, _ in parts[1:])) if len(parts) > 1 else _NONE
        shared: Array | None = None
        for done, (pld, count) in enumerate(parts):  # the smoothest first: few frequencies survive it
            n = len(pld.points)
            self.work += len(where)
            if self.work > _MOST_WORK:
                raise LatticeTooLargeError(self, 1 + (len(parts) - done) * len(where) / _MOST_WORK)
            if shared is None and pld is not parts[0][0] and len(where) * len(others) <= _TABLE:
                shared = _factors(where, others, size)
            if shared is not None:
                values, error = _sum(pld, shared[np.searchsorted(others, pld.points)])
            else:
                fast = len(where) * n > max(_FEW, size // 4)
                values, error = _fast(pld, where, size) if fast else _sum(pld, _factors(where, pld.points, size))
                keep = bound + count * np.log(np.abs(values) + error) > -self._nats - _DISCARD
                where, values, bound, log_power, rounding = (
                    a[keep] for a in (where, values, bound, log_power, rounding)
                )
                if fast and count * error > _ROUGH and len(where) * n <= _DIRECT:
                    values, error = _sum(pld, _factors(where, pld.points, size))
            modulus = np.maximum(np.abs(values), TINY)  # far below the error
            logs = np.log(modulus) + 1j * np.arctan2(values.imag, values.real)
            bound = bound + count * (logs.real + np.log1p(error / modulus))
            rounding = rounding + count * gamma(8.0 + len(parts)) * (1 + np.abs(logs))
            log_power = log_power + count * logs
        self._ready, self._tilted = True, []
        self._drowned = not float((bound + rounding).max()) <= _MOST_INFLATION
        if self._drowned:
            return
        self._spectrum = _Spectrum(
            where,
            np.exp(log_power),
            np.exp(bound + rounding) * -np.expm1(log_power.real - bound - rounding),  # docs, section 5
        )
        self._kernel = _Kernel(self._spectrum, size, theta=self.theta, step=self._step, end=self._high + 1)

    def _estimate_power_left(self, part: tuple[_Tilted, int]) -> float:
        """Estimate the remaining power of a PLD, in nats over some frequencies, at least 0."""
        if len(self._tilted) == 1:
            return 0.0
        pld, count = part
        probes = np.unique(np.rint(np.geomspace(1, self.size / 2, _PROBES)).astype(np.int64))
        modulus = np.abs(_sum(pld, _factors(probes, pld.points, self.size))[0])
        return float(np.maximum(count * np.log(np.maximum(modulus, TINY)), -self._nats - _DISCARD).sum())

    def delta(self, epsilon: float) -> float:
        """Bound delta at ``epsilon`` on this composition's side; what underflows is the least number, not 0, above."""
        found = self._delta(epsilon)
        return max(found, LEAST) if self.upper else found

    def _lead(self, epsilon: float) -> float:
        """Return the logarithm of the weight of a unit of the tilted kernel, on the safe side."""
        lead = self.log_total - self.theta * (epsilon - self.offset)
        error = self._log_total_error + gamma(_EXPONENT) * self.theta * (abs(epsilon) + abs(self.offset))
        return lead + self._sign * error

    def chernoff(self, epsilon: float) -> float:
        """Bound delta from above without a transform: the tilted PLD is a probability, times its kernel's peak."""
        exponent = self._lead(epsilon) + log_kernel_max(self.theta)
        return min(1.0, max(self.infinite, 0.0) + round_up(math.exp(min(exponent, 0.0)), _CHERNOFF) + LEAST)

    def chernoff_epsilon(self, delta: float) -> float:
        """Bound epsilon from above in the same way; the answer was checked by computing its delta."""
        if not self.infinite < delta:
            return math.inf
        excess = self._lead(0.0) + log_kernel_max(self.theta) - math.log(delta - self.infinite)
        here = max(excess / self.theta, 0.0)
        for nudge in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
            if self.chernoff(candidate := here * (1 + nudge) + nudge * nudge) <= delta:
                return candidate
        return math.inf

    def _delta(self, epsilon: float) -> float:
        self.prepare()
        if self._drowned:
            return self.chernoff(epsilon) if self.upper else min(max(self.infinite, 0.0), 1.0)
        step, theta = self._step, self.theta
        self.work += len(self._spectrum.frequency)
        first = math.floor((epsilon - self.offset) / step) + 1
        # the mass below the window is negligible, and the error counts it
        first = max(first, self._high + 1 - self.size)
        misplacement = gamma(_PLACE) * (abs(epsilon) + abs(self.offset) + step * abs(first))
        start = self.offset + first * step - epsilon + self._sign * misplacement
        lead, most = self._lead(epsilon), kernel_max(theta)
        total, error = self._kernel.total(first, start)
        error += most * 2 * math.exp(self._log_inflation - self._nats) + misplacement
        if first <= self._high:
            kernels = most + 1 / (theta * (theta + 1) * step)  # the kernel is unimodal: its peak and its integral
            error += kernels * math.exp(self._log_inflation - self._nats - _DISCARD)
        value = total + self._sign * error
        self.relative_error = error / max(total, TINY)
        if value <= 0:
            return min(max(self.infinite, 0.0), 1.0)
        log_value = lead + math.log(value)
        return (
            1.0 if log_value >= 0 and self.upper else min(1.0, max(self.infinite + math.exp(min(log_value, 0.0)), 0.0))
        )

    def epsilon(self, delta: float, guess: float) -> float:
        """Bound epsilon at ``delta`` on this composition's side; the answer was checked by computing its delta."""
        if self.infinite >= delta:
            return math.inf
        if self.upper and self.delta(0.0) <= delta:
            return 0.0
        here = self._root(delta, max(guess, self._step * 1e-3))
        nudge = 3e-7 / self.theta
        most = self._attempts()
        for _ in range(most):
            candidate = max(here + self._sign * nudge, 0.0)
            if (self.delta(candidate) <= delta) if self.upper else (self.delta(candidate) >= delta or candidate == 0):
                return candidate
            nudge *= 3 ** (_ATTEMPTS / most)
        return self.chernoff_epsilon(delta) if self.upper else 0.0

    def _attempts(self) -> int:
        """Return how often delta may be looked at in one search."""
        if not self._ready or self._drowned:
            return _ATTEMPTS
        return min(max(_MOST_WORK // (2 * len(self._spectrum.frequency)), _LEAST_ATTEMPTS), _ATTEMPTS)

    def _root(self, delta: float, guess: float) -> float:
        """About where delta is ``delta``, searched in its logarithm; the answer is checked by the caller."""
        goal = math.log(delta)

        def excess(here: float) -> float:
            if (value := self.delta(here)) > 0:
                return math.log(value) - goal
            return 50.0 if here < self.offset + self._step * self._bulk else -50.0  # next to nothing is below the bulk

        return estimate_root(excess, guess, -self.theta, enough=1e-8, attempts=self._attempts())


class _Spectrum(NamedTuple):
    """The powers of characteristic functions at the frequencies that matter, and how far each may be off."""

    frequency: Integers
    power: Waves
    error: Array


class _Kernel:
    """Sums of e^(-theta y) (1 - e^-y) over a composed PLD, from a lattice point on, by its spectrum.

    Let a = e^(i w - theta step), b = e^-step, with n points, the first at y = start; 1 - e^-y is 1 - e^-start plus
    e^-start (1 - b^j). So the transform has a geometric series, G = (1 - a^n) / (1 - a), and one that begins at 0, (a
    (1 - b) G - a^n (1 - b^n)) / (1 - a b). Nothing cancels for small losses. The a^n terms rotate around ``end`` for
    every epsilon: they are summed once, the rest once for all epsilons between two points.
    """

    def __init__(self, spectrum: _Spectrum, size: int, *, theta: float, step: float, end: int) -> None:
        frequency, power, error = spectrum
        self._frequency, self._size, self._theta, self._step, self._end = frequency, size, theta, step, end
        half = np.pi / size * frequency
        sine, cosine = np.sin(half), np.cos(half)
        short, across = 2 * sine * sine, 2 * sine * cosine  # e^(i w) is 1 - short + i across
        one, both = (
            _subtract_from_one(theta * step, short, across),
            _subtract_from_one((theta + 1) * step, short, across),
        )
        self._plain, self._other = 1 / one, 1 / both
        turned = math.exp(-theta * step) * ((1 - short) + 1j * across)
        self._rising = -math.expm1(-step) * turned * self._plain * self._other
        share = np.where((frequency == 0) | (2 * frequency == size), 1.0, 2.0) / size
        self._errors = share * error
        self._terms = [share * power * series for series in (self._plain, self._rising, self._other)]
        self._sizes = [float(np.sum(np.abs(term))) for term in self._terms]
        self._last = self._rotate(end)
        self._ends = [float(np.sum(term * self._last).real) for term in self._terms]
        self._known: tuple[int, Waves, list[float]] | None = None

    def total(self, first: int, start: float) -> tuple[float, float]:
        """Return the sum from lattice point ``first`` on, at y = ``start``, and how far it may be off."""
        length = self._end - first
        if length <= 0:
            return 0.0, 0.0
        fall, every = math.exp(-self._theta * self._step * length), -math.expm1(-self._step * length)
        lead, low, high = math.exp(-self._theta * start), math.exp(-start), -math.expm1(-start)
        last, (plain, rising) = self._from(first)
        total = high * (plain - fall * self._ends[0]) + low * (rising - fall * (self._ends[1] + every * self._ends[2]))
        size = (abs(high) * self._sizes[0] + low * self._sizes[1]) * (1 + fall) + low * every * fall * self._sizes[2]
        kernel = high * self._plain + low * self._rising
        kernel -= fall * last * (kernel + low * every * self._other)
        error = float(self._errors @ np.abs(kernel)) + gamma(_TOTAL) * size
        return lead * total, lead * error

    def _from(self, first: int) -> tuple[Waves, list[float]]:
        """Return what turns from ``first`` to the end, and the sums that turn to ``first``."""
        if self._known is None or self._known[0] != first:
            turned = self._rotate(first)
            sums = [float(np.sum(term * turned).real) for term in self._terms[:2]]
            self._known = first, self._last * turned.conj(), sums
        return self._known[1:]

    def _rotate(self, point: int) -> Waves:
        return np.asarray(_compute_rotations(self._frequency, np.array([-point]), self._size)[0])


def _subtract_from_one(fall: float, short: Array, across: Array) -> Waves:
    """1 - e^(i w - fall), with 1 - e^(i w) as ``short`` - i ``across``: no part of it cancels."""
    kept = math.exp(-fall)
    return np.asarray((-math.expm1(-fall) + kept * short) - 1j * (kept * across))


class _Tilted(NamedTuple):
    """A lattice PLD times e^(rate * points), normalized.

    ``relative_error`` bounds that of all weights together, in total variation.
    """

    points: Integers
    weight: Array
    log_total: float
    relative_error: float


def _fast(pld: _Tilted, where: Integers, size: int) -> tuple[Waves, float]:
    """Return the spectrum at some frequencies by a transform of length ``size``, with its error."""
    wrapped = np.bincount(np.mod(pld.points, size), weights=pld.weight, minlength=size)
    values = np.fft.rfft(wrapped)
    error = pld.relative_error + gamma(16 * math.log2(size)) * math.sqrt(size) * float(np.linalg.norm(wrapped))
    return values if len(values) == len(where) else values[where], error


def _sum(pld: _Tilted, factors: Array) -> tuple[Waves, float]:
    """Return the spectrum by plain sums, which are more accurate; ``factors`` has a row per point."""
    return (pld.weight @ factors).view(np.complex128), pld.relative_error + gamma(2.0 * (32 + len(pld.points)))


def _factors(where: Integers, points: Integers, size: int) -> Array:
    """The factors of a Fourier sum, real and imaginary parts in turn: products of those of two digits of the points."""
    base = math.isqrt(size)
    high, low = np.divmod(np.mod(points, size), base)
    if len(points) < base:
        return _compute_rotations(where, base * high + low, size).view(np.float64)
    of_high, of_low = (
        _compute_rotations(where, digits, size) for digits in (base * np.arange(int(high.max()) + 1), np.arange(base))
    )
    return (of_high[high] * of_low[low]).view(np.float64)


def _compute_rotations(where: Integers, points: Integers, size: int) -> Waves:
    return np.asarray(np.exp(-2j * np.pi / size * ((points[:, None] * where) % size)))


def fast_length(least: int) -> int:
    """The least of 2^k, 3 2^k, 5 2^k that is not below ``least``: lengths that transforms are fast and proven for."""
    return min(odd << max(0, math.ceil(math.log2(max(least, 1) / odd))) for odd in (1, 3, 5))


def _tilt(pld: LatticeDistribution, rate: float) -> _Tilted:
    index, weight = pld.points[pld.weight > 0], pld.weight[pld.weight > 0]
    if len(index) == 0:
        return _Tilted(np.zeros(1, np.int64), np.ones(1), -1e4, 0.0)  # nothing finite is left
    exponent = rate * index
    top = float((exponent + np.log(weight)).max())
    half = np.exp((exponent - top) / 2)  # twice, lest it overflow where a weight is tiny
    tilted = weight * half * half
    seen = tilted > 1e-290  # what is left out is far below the error
    index, exponent, tilted = index[seen], exponent[seen], tilted[seen]
    total = float(tilted.sum())
    tilted = tilted / total
    error = gamma(32 + 4 * float(np.sum(tilted * np.abs(exponent - top))) + 4 * abs(top))
    return _Tilted(index, tilted, top + math.log(total), error)
