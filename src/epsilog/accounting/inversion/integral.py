"""Delta as a Laplace inversion with a proven error: two-sided bounds a millionth wide, in milliseconds.

For any tilt theta > 0, with K the sum of the parts' cumulants and phi their tilted characteristic function,

    delta(e) = e^(K(theta) - theta e) (1 / 2 pi) Int phi(w) e^(-i w e) / ((theta + i w) (theta + 1 + i w)) dw.

A trapezoid sum over w is delta plus copies of itself one period apart: all positive, and small by Chernoff's bound. The
frequencies left out are small because the modulus of phi is: that is scanned up to where its decay is known. Nothing is
estimated; docs/accounting/spectral.md derives each bound. Where they are of no use (few rounds with tiny sampling
probabilities, atoms alone) ``InversionInfeasibleError`` sends the caller to the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from epsilog.accounting.inversion.bent import Bent, bendable
from epsilog.accounting.inversion.sampled import MU_TOLERANCE, Complex, InversionInfeasibleError, Moments
from epsilog.accounting.inversion.tilted import Tilt, find_decay_frequency, get_approximate_tilting, get_tilting
from epsilog.numerics.distributions.base import Array, DiscretePair, GaussianPair
from epsilog.numerics.pairs import DominatingPair, PairComposition, Parts
from epsilog.numerics.questions import FAINT, Bounds, DeltaAt, EpsilonAt, Question, Readable, kernel_max, log_kernel_max
from epsilog.numerics.rounding import (
    BOUND,
    LEAST,
    SECOND_ORDER,
    TINY,
    TWICE,
    gamma,
    round_down,
    round_up,
    union_probability,
)

_AIM, _ROUGH = 1e-9, 1e-3  # relative errors of delta to plan for, of an answer and of where it is about
_CLOSE = 1e-5  # a relative width from which on a lattice is sooner there than a bent path
_CLOSER = 1e-2  # along a bent path: delta relative to the integrand is less accurate there
_MOST_FREQUENCIES = 6_000
_MOST_TERMS = 50_000_000  # of all characteristic functions
_RATES = (3.0, 1.2, 0.4)  # exponents of Chernoff's bound, over the deviation, next to a normal distribution's best
_FEW = 25  # sampled rounds; with fewer the sum is too long, where it ends at all
_NEWTON = 60
_SHARES = (0.85, 0.7, 0.5)  # of the saddle's tilt
_ENOUGH = 16  # parts of one kind that a plan looks at
_AFFORDABLE = 6.0  # nats of accuracy that a shorter sum may cost
# roundings, at least as many as counted
_PRODUCT = 4.0  # of a product that ``fsum`` adds, or of 1 + z and its size by ``hypot``: two or three
_EXPONENT = 8.0  # of a sum of a logarithm and a product: three, and those of the factors
_LOGARITHM = 16.0  # of ln(1 + z) or ln of the peak by up to three functions, times a count or another number
_SIZE = 8.0  # of the logarithm of the size of 1 + z, and its angle
_LAST = 14  # of an exponential of a quotient of a difference: two functions and three operations
_SIDE = 6  # of an exponential times a sum, with what gives everything away added


def bound_by_inversion(orderings: Sequence[PairComposition], question: Question, relative_width: float = 1.0) -> Bounds:
    """Bound the answer over all orderings, unless a lattice reaches ``relative_width`` sooner than a bent path.

    Raises:
        InversionInfeasibleError: no useful bound on the error is known for these pairs.
    """
    lower = upper = 0.0
    for ordering in orderings:
        largest = ordering.largest_loss
        if largest <= (question.epsilon if isinstance(question, DeltaAt) else lower):
            continue  # the direction found before loses more; or this one never loses so much
        sides = [ordering.upper, *ordering.lowers]
        if all(_same(ordering.upper, parts) for parts in ordering.lowers):
            sides = sides[:1]
        found = [_bounds(parts, question, lower, relative_width) for parts in sides]
        upper = max(upper, found[0].upper)
        lower = max(lower, *(one.lower for one in found[-len(ordering.lowers) :]))
    return Bounds(lower, upper)


def _same(one: Parts, other: Parts) -> bool:
    """Return whether two lists of pairs differ by at most the tolerance of the tilted PLDs in mu."""
    return len(one) == len(other) and all(
        count == times and _near(a, b) for (a, count), (b, times) in zip(one, other, strict=True)
    )


def _near(one: DominatingPair, other: DominatingPair) -> bool:
    if (one.sampling_probability, one.direction) != (other.sampling_probability, other.direction):
        return False
    match one.base, other.base:
        case GaussianPair(mu=mu), GaussianPair(mu=nu):
            return abs(mu - nu) <= MU_TOLERANCE * mu
        case DiscretePair() as a, DiscretePair() as b:
            return a.infinity_mass == b.infinity_mass and np.array_equal(a.u, b.u) and np.array_equal(a.p, b.p)
        case a, b:
            return a == b


def _bounds(parts: Parts, question: Question, known: float, relative_width: float) -> Bounds:
    """Bound the answer in one direction; if it is no more than is ``known`` of another, Chernoff's bound will do."""
    if all(isinstance(pair.base, DiscretePair) for pair, _ in parts):
        raise InversionInfeasibleError("the characteristic function of atoms does not fall")
    bent = relative_width < _CLOSE and bendable(parts)
    few = all(pair.sampling_probability < 1 for pair, _ in parts) and sum(count for _, count in parts) < _FEW
    cumulant = estimate_cumulants(parts)
    if few and bent:
        return _answer(parts, cumulant, question, known, bent=True)
    if few:
        raise InversionInfeasibleError("so few sampled rounds leave a characteristic function that falls too slowly")
    try:
        return _answer(parts, cumulant, question, known, bent=False)
    except InversionInfeasibleError:
        if not bent:
            raise
    return _answer(parts, cumulant, question, known, bent=True)


def _answer(parts: Parts, cumulant: Cumulant, question: Question, known: float, *, bent: bool) -> Bounds:
    """Bound the answer by the sum, or along a bent path."""
    tilts = [(get_tilting(pair), count) for pair, count in parts]

    def integral(theta: float, near: float, aim: float) -> Readable:
        if not bent:
            return LaplaceInversion(tilts, cumulant, _shortest(cumulant, theta, near), near, aim=aim)
        return Bent(parts, _thin_parts(parts), theta, math.sqrt(max(cumulant(theta)[2], 0.0)), near, aim=aim * _CLOSER)

    match question:
        case EpsilonAt(delta=delta):
            theta, near = _saddle_at_delta(cumulant, delta)
            if near < known and (most := _most(tilts, theta, question)) <= known:
                return Bounds(0.0, most)
            if bent and (near := integral(theta, near, _ROUGH).epsilon(delta, near).upper) < math.inf:
                theta = _saddle_at_epsilon(cumulant, near)  # the saddle was far from where the answer is
            return integral(theta, near, _AIM).epsilon(delta, near)
        case DeltaAt(epsilon=epsilon):
            theta = _saddle_at_epsilon(cumulant, epsilon)
            if (most := _most(tilts, theta, question)) <= max(known, FAINT):
                return Bounds(0.0, max(most, LEAST))
            return integral(theta, epsilon, _AIM).delta(epsilon)


def _most(tilts: Sequence[tuple[Tilt, int]], theta: float, question: Question) -> float:
    """Bound the answer from above by the exponential bound at one tilt: V is at most the kernel's peak."""
    plds = [(tilt(theta), count) for tilt, count in tilts]
    if any(pld.infinite > 0 for pld, _ in plds):
        return math.inf
    total = math.fsum(count * _upper(pld.moments) for pld, count in plds) + log_kernel_max(theta)
    total += gamma(_LOGARITHM) * (abs(total) + 1)
    if isinstance(question, EpsilonAt):
        return max(round_up((total - math.log(question.delta)) / theta, _LAST) + TINY, 0.0)
    return round_up(math.exp(min(total - round_down(theta * question.epsilon, TWICE), 0.0)), _LAST)


def _thin_parts(parts: Parts) -> Parts:
    """Some of many parts of one kind, with larger counts, for planning: parts in a row are much alike."""
    kinds: dict[object, list[tuple[DominatingPair, int]]] = {}
    for pair, count in parts:
        kinds.setdefault((type(pair.base), pair.direction), []).append((pair, count))
    kept: list[tuple[DominatingPair, int]] = []
    for similar in kinds.values():
        stride = max(1, len(similar) // _ENOUGH)
        groups = [similar[i : i + stride] for i in range(0, len(similar), stride)]
        kept += [(group[len(group) // 2][0], sum(count for _, count in group)) for group in groups]
    return tuple(kept)


Cumulant = Callable[[float], tuple[float, float, float]]


class LaplaceInversion(Readable):
    """The inversion integral of one composition at one tilt; answers near the epsilon it was made for.

    ``aim`` is the relative error of delta to plan for; the error that is stated is what came out.

    Attributes:
        theta: the tilt.
        width: the tilted deviation of the loss.
        mean: sum of the parts' tilted mean losses.
        log_total: K(theta).
        infinite: the least and the most mass that gives everything away.
    """

    def __init__(
        self, tilts: Sequence[tuple[Tilt, int]], cumulant: Cumulant, theta: float, near: float, *, aim: float = _AIM
    ) -> None:
        self.theta, self._tilts, self._cumulant = theta, tilts, cumulant
        self._plds = [(tilt(theta), count) for tilt, count in tilts]
        moments = [(pld.moments, count) for pld, count in self._plds]
        self.log_total = math.fsum(count * one.log_total for one, count in moments)
        self._log_total_error = math.fsum(
            count * (one.log_total_error + gamma(_PRODUCT) * abs(one.log_total)) for one, count in moments
        )
        self.mean = math.fsum(count * one.mean for one, count in moments)
        self._mean_error = gamma(_PRODUCT) * math.fsum(count * abs(one.mean) for one, count in moments)
        self.width = math.sqrt(math.fsum(count * one.variance for one, count in moments))
        self.infinite = union_probability((pld.infinite, count) for pld, count in self._plds if pld.infinite < 1)
        if not (self._log_total_error < 0.1 and self.width > 0 and math.isfinite(self.mean)):
            raise InversionInfeasibleError("round-off would drown the answer")
        self._lay(near, aim)

    def _lay(self, near: float, aim: float) -> None:
        """Choose the period and the last frequency, evaluate the PLDs there, and bound the remainder."""
        theta = self.theta
        value = 1 / (theta * (theta + 1) * (self.width * math.sqrt(2 * math.pi) + 1 / theta))
        nats = -math.log(aim * min(value, 1.0))
        self._below = self._chernoff(-1.0, near, nats)
        self._beyond = self._chernoff(1.0, near, nats)
        self._period = max(self._below.reach + nats / theta, self._beyond.reach)
        step = 2 * math.pi / self._period
        scale = 2.0 ** (math.floor(math.log2(step)) - 20)
        step = math.floor(step / scale) * scale  # twenty bits: so every frequency is exact
        self._period = 2 * math.pi / step
        most = step * _MOST_FREQUENCIES
        first = 1.1 * math.sqrt(2 * nats) / self.width
        last = find_decay_frequency(self._plds, nats, first=first, most=most)
        if not last <= most:
            raise InversionInfeasibleError(f"{last / step:g} frequencies")
        frequency = step * np.arange(1, math.ceil(last / step) + 1, dtype=np.float64)
        self._step, self._frequency = step, frequency
        self._transform(frequency)
        self._tail = math.exp(-nats) * min(1 / last, math.pi / (2 * theta)) / math.pi

    def _transform(self, frequency: Array) -> None:
        """Multiply the characteristic functions; each product carries its error."""
        log_power = np.zeros(len(frequency), complex)
        log_bound, relative = np.zeros(len(frequency)), np.zeros(len(frequency))
        terms = 0
        for pld, count in self._plds:
            characteristic = pld.characteristic(frequency, _nats(count))
            terms += characteristic.terms
            if terms > _MOST_TERMS:
                raise InversionInfeasibleError(f"{terms} terms of {len(frequency)} frequencies for some of the PLDs")
            logs, modulus = _log1p(characteristic.less_one), np.abs(1 + characteristic.less_one)
            log_bound += count * np.log(np.minimum(modulus + characteristic.error + gamma(_PRODUCT), 1.0))
            log_power += count * logs
            least = np.maximum(modulus - characteristic.error, TINY)
            rounding = np.where(np.abs(characteristic.less_one) > 0.5, gamma(_SIZE), 0.0)
            relative += count * np.minimum(
                (characteristic.error + rounding) / least + gamma(_LOGARITHM) * np.abs(logs), 1e6
            )
        power, bound = np.exp(log_power), np.exp(log_bound)
        relative += frequency * (self._mean_error + gamma(_EXPONENT) * (abs(self.mean) + 1))
        known = relative < 0.1
        power = np.where(known, power, 0.0)
        error = np.where(known, np.abs(power) * np.expm1(np.minimum(relative, 1.0)), bound)
        z = self.theta + 1j * frequency
        self._summands = power / (z * (z + 1))
        size = np.abs(self._summands)
        self._sizes = _Sizes(float(size.sum()), float(frequency @ size), float(np.sum(error / np.abs(z * (z + 1)))))

    def _chernoff(self, sign: float, near: float, nats: float) -> _ChernoffTail:
        """Return the nearest distance from ``near`` beyond which the tilted PLD has at most e^-nats on one side.

        Unlike ``find_support_window``: a continuous PLD has no weights, only its cumulant at other tilts.
        """
        rates = [rate / self.width for rate in (math.sqrt(2 * nats), *_RATES)]
        moments = [self._cumulant(self.theta + sign * rate)[0] - self._cumulant(self.theta)[0] for rate in rates]
        tails = [_ChernoffTail(sign, rate, moment, near, nats) for rate, moment in zip(rates, moments, strict=True)]
        for tail in sorted(tails, key=lambda one: one.reach):
            plds = [(tilt(self.theta + sign * tail.rate), count) for tilt, count in self._tilts]
            total = math.fsum(count * _upper(pld.moments) for pld, count in plds)
            proven = tail._replace(log_moment=total - self.log_total + self._log_total_error)
            if math.isfinite(proven.reach):
                return proven
        raise InversionInfeasibleError("no tail bound")

    def _copies(self, epsilon: float) -> float:
        """Bound what the trapezoid sum adds: the copies of the kernel, one period apart."""
        theta, period = self.theta, self._period
        share = min(self._below.reach / period, 0.9)
        near = math.exp(-theta * (1 - share) * period) / -math.expm1(-theta * period)
        most = kernel_max(theta) + 1 / (period * theta * (theta + 1))
        outside = self._below.mass(epsilon, share * period) + self._beyond.mass(epsilon, period)
        return (near + most * outside) * SECOND_ORDER

    def delta(self, epsilon: float) -> Bounds:
        """Bound delta at ``epsilon``."""
        theta, sizes = self.theta, self._sizes
        share, turns = self._step / math.pi, np.exp(1j * self._frequency * (self.mean - epsilon))
        total = share * (0.5 / (theta * (theta + 1)) + float(np.dot(self._summands, turns).real))
        rounding = gamma(2.0 * len(turns) + 64.0) * (1 / (theta * (theta + 1)) + sizes.summands)
        error = share * (sizes.errors + rounding + gamma(_EXPONENT) * abs(epsilon) * sizes.turned) + self._tail
        lead = self.log_total - theta * epsilon
        log_error = self._log_total_error + gamma(_EXPONENT) * (1 + abs(self.log_total) + abs(theta * epsilon))
        high, low = total + error, total - error - self._copies(epsilon)
        if not (math.isfinite(high) and math.isfinite(low) and math.isfinite(lead)):
            raise InversionInfeasibleError("the sum is not a number")
        upper = self.infinite[1] + _exp(lead + log_error, high)
        lower = self.infinite[0] + _exp(lead - log_error, low)
        return Bounds(min(max(round_down(lower, _SIDE), 0.0), 1.0), min(round_up(upper, _SIDE) + LEAST, 1.0))


class _Sizes(NamedTuple):
    """What the errors of the sum are relative to: the summands' sizes, those by their frequencies, and their errors."""

    summands: float
    turned: float
    errors: float


class _ChernoffTail(NamedTuple):
    """P(sign (L - e) >= r) <= e^(excess + sign rate e - rate r) under the tilted PLD: Chernoff's bound."""

    sign: float
    rate: float
    log_moment: float
    near: float
    nats: float

    @property
    def reach(self) -> float:
        """Return the distance at which the mass is e^-nats."""
        return max((self.log_moment - self.sign * self.rate * self.near + self.nats) / self.rate, 0.0)

    def mass(self, epsilon: float, distance: float) -> float:
        """Bound the mass at least ``distance`` from ``epsilon`` on this side."""
        exponent = self.log_moment - self.sign * self.rate * epsilon - self.rate * distance
        return math.exp(min(exponent + BOUND * (1 + abs(exponent)), 0.0))


def _upper(moments: Moments) -> float:
    return moments.log_total + moments.log_total_error + gamma(_PRODUCT) * abs(moments.log_total)


def _exp(lead: float, value: float) -> float:
    return math.exp(min(lead + math.log(value), 1.0)) if value > 0 else 0.0


def _log1p(less_one: Complex) -> Complex:
    """ln(1 + z), accurate to a few units of itself where z is small, and of 1 / (1 + z) where it is not."""
    x, y = less_one.real, less_one.imag
    with np.errstate(divide="ignore"):
        large = np.log(np.maximum(np.abs(1 + less_one), TINY))
        size = np.where(np.abs(less_one) > 0.5, large, 0.5 * np.log1p(np.maximum(2 * x + x * x + y * y, -0.9)))
    return np.asarray(size + 1j * np.arctan2(y, 1 + x))


def _nats(count: int) -> float:
    """How accurate a characteristic function has to be for its power to be accurate."""
    return 30.0 + math.log(count)


def _entropy(theta: float) -> tuple[float, float, float]:
    """Return the logarithm of the kernel's peak and its derivatives."""
    return log_kernel_max(theta), -math.log1p(1 / theta), 1 / (theta * (theta + 1))


def estimate_cumulants(parts: Parts) -> Cumulant:
    """K and its two derivatives at a tilt, about: for planning."""
    plans = [(get_approximate_tilting(pair, count), count) for pair, count in _thin_parts(parts)]

    @cache
    def at(theta: float) -> tuple[float, float, float]:
        total = mean = variance = 0.0
        for plan, count in plans:
            one = plan(theta)
            total += count * one.log_total
            mean, variance = mean + count * one.mean, variance + count * one.variance
        return total, mean, variance

    return at


def _saddle_at_delta(cumulant: Cumulant, delta: float) -> tuple[float, float]:
    """Return the tilt with the least exponential bound on epsilon at ``delta``, and about that epsilon."""
    goal = math.log(delta)

    def slope(theta: float) -> tuple[float, float]:  # grows with theta
        (k, k1, k2), (h, h1, h2) = cumulant(theta), _entropy(theta)
        return theta * (k1 + h1) - (k + h - goal), theta * (k2 + h2)

    theta = _newton(slope, math.sqrt((0.1 - 2 * goal) / max(cumulant(1.0)[2], TINY)))
    return theta, max((cumulant(theta)[0] + log_kernel_max(theta) - goal) / theta, 0.0)


def _saddle_at_epsilon(cumulant: Cumulant, epsilon: float) -> float:
    """Return the tilt with the least exponential bound on delta at ``epsilon``."""

    def slope(theta: float) -> tuple[float, float]:
        (_, k1, k2), (_, h1, h2) = cumulant(theta), _entropy(theta)
        return k1 + h1 - epsilon, k2 + h2

    _, mean, variance = cumulant(1.0)
    return _newton(slope, 1 + max(epsilon - mean, 0.0) / max(variance, TINY))


def _shortest(cumulant: Cumulant, theta: float, near: float) -> float:
    """A tilt a little below the saddle, where rare large losses make the period long there; it costs some accuracy."""

    def plan(tilt: float) -> tuple[float, float]:
        k, _, k2 = cumulant(tilt)
        return 2 * math.sqrt(50 * k2) + 25 / tilt, k - tilt * near + log_kernel_max(tilt)

    (shortest, least), best = plan(theta), theta
    for share in _SHARES:
        length, bound = plan(share * theta)
        if length > 0.95 * shortest or bound > least + _AFFORDABLE:
            break
        shortest, best = length, share * theta
    return best


def _newton(slope: Callable[[float], tuple[float, float]], guess: float) -> float:
    """Where a growing function of theta > 0 vanishes, roughly: any tilt is valid.

    Rare large losses give it a knee, above which the tilted PLD changes; below the knee is the better side.
    """
    low, high = 1e-6, 1e7
    theta = min(max(guess, 1e-3), 1e5)
    for _ in range(_NEWTON):
        value, rise = slope(theta)
        low, high = (theta, high) if value < 0 else (low, theta)
        following = min(max(theta - value / rise, theta / 6), 6 * theta) if rise > 0 else math.nan
        if high <= low * 1.005:
            return low
        if abs(following - theta) <= 0.02 * theta:
            if value < 0:
                return theta
            following = 0.97 * theta
        theta = following if low < following < high else math.sqrt(low * high)
    return low
