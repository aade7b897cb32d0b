"""Balls-in-bins with independent noise (random allocation): epsilon and delta from both sides, in both directions.

A unit joins one of b rounds at random, the same in every epoch. With mu the distance of the base Gaussians, S the sum
of b independent copies of Y = exp(mu X - mu^2 / 2) and X standard normal, the likelihood ratio is S / b under Q:

    remove:  delta = E (S - K)^+ / b,            K = b e^epsilon
    add:     delta = e^epsilon E (K - S)^+ / b,  K = b e^-epsilon

Both payoffs are convex, so ``ratio_sums`` bounds them. Where means are so far apart that one round decides, no lattice
holds the ratios; with G the curve of two Gaussians mu apart,

    G(e + ln b) <= delta of remove <= G(e + ln b) + Phi(x - mu) + (b - 1) Phi(-x)    for every x,
    delta of add <= Phi((ln b - e) / mu + mu / 2)^b.

Proofs: docs/accounting/balls-in-bins.md, the last ones in section 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from epsilog.numerics.balls_in_bins.pair import LARGEST_BINNED_MU, SMALLEST_MU
from epsilog.numerics.balls_in_bins.ratio_sums import (
    RatioDistribution,
    StopLossTransform,
    merge_to_lattice_means,
    spread_outcomes,
)
from epsilog.numerics.distributions.base import LARGEST_LOSS, Array, GaussianPair
from epsilog.numerics.gaussian import gaussian_delta, gaussian_epsilon
from epsilog.numerics.lattice.distribution import LatticeDistribution, LatticeTooLargeError
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, no_privacy_answer, solve_on_curve
from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import ELEMENTARY, LEAST, MU, ONCE, TINY, TWICE, gamma, round_down, round_up

_REFINEMENTS, _ATTEMPTS = 5, 12
_LEAST_POINTS, _MOST_POINTS = 1000, 2**21  # of one ratio
_NOTHING, _LITTLE = 1e-250, 1e-150  # deltas that are bounded from above only: without the bins, and with them
_FAR_FROM = 5.0  # a mu from which on one round is asked whether it decides
_HEAVY = 2.0  # a mu from which on one ratio decides
_CELLS = 600  # of the planning distribution
_COARSEST = 0.3  # of delta: more than that a lattice may not add to it
_HEADROOM = 1.5  # how far above the strike a ratio is kept on the lattice
_EXCESS = 14  # roundings of an exponential, a product and a quotient, and of sums: ELEMENTARY + 2 + 8
_SHARE = 1e-3  # of delta: what ratios that do not decide may add to it
_TAIL = 64.0  # roundings in a normal tail
_EDGE = 4  # of a difference of means, by the larger: one, and what both were made in
_REACH = 64  # of a quotient and a sum, by the sizes of all that enters: fewer than MU


class SearchHint(NamedTuple):
    """Where to look: the tilt, the payoff there, how fast it falls, and the variance that a step of 1 would add."""

    tilt: float
    log_payoff: float
    log_density: float
    tilted: Array


@dataclass(frozen=True)
class Allocation:
    """One epoch, or several with the same bins, in one direction."""

    bins: int  # rounds in an epoch, b
    mu: float  # distance of the base Gaussians over the noise, all epochs together
    direction: AdjacencyType  # ``REMOVE`` or ``ADD``

    def strike(self, epsilon: float) -> float:
        """Return the strike of the payoff (Z - k)^+ at ``epsilon``: Z is S for remove, -S for add."""
        return (
            self.bins * math.exp(epsilon) if self.direction is AdjacencyType.REMOVE else -self.bins * math.exp(-epsilon)
        )

    def curve(self, near: float, *, width: float, in_epsilon: bool, upper: bool, tail_mass: float) -> DeltaCurve:
        """Bound delta from one side, accurately about ``near``.

        Args:
            near: the epsilon in question, about.
            width: the target width, relative to delta or (``in_epsilon``) in nats of epsilon.
            in_epsilon: what ``width`` means.
            upper: which side.
            tail_mass: what truncating the tails may add to delta.

        Raises:
            LatticeTooLargeError: the lattice would be too long.
        """
        strike, mu = abs(self.strike(near)), self.mu
        highest = math.exp(min(mu**2 / 2 - mu * float(ndtri(max(tail_mass, TINY))), 700.0))
        top = min(_HEADROOM * strike, highest)
        sketch = _sketch(mu, tail_mass, top)
        guess = _guess(self, sketch, near)
        width = min(width * (guess.tilt * strike if in_epsilon else 1.0), _COARSEST)
        step = min(_step(self, sketch, guess, width), top / _LEAST_POINTS)
        if not top / step < _MOST_POINTS:
            raise LatticeTooLargeError(self, top / step / _MOST_POINTS)
        ratio: RatioDistribution | None
        if upper:
            lowest = math.exp(-(mu**2) / 2 + mu * float(ndtri(max(tail_mass / self.bins, TINY))))
            high = max(math.ceil(top / step), 2)
            low = min(math.floor(lowest / step), high - 1)
            ratio = spread_outcomes(GaussianPair(round_up(mu, MU)), step=step, low=low, high=high, lifted=low >= 1)
        else:
            ratio = merge_to_lattice_means(
                GaussianPair(round_down(mu, MU)), step=step, high=top, rising=self.direction is AdjacencyType.REMOVE
            )
        if ratio is None:
            return DeltaCurve(self, None, 0.0, math.inf, guess.tilt, near, upper)
        sign = 1 if self.direction is AdjacencyType.REMOVE else -1
        pld = LatticeDistribution(sign * ratio.points, ratio.weight, 0.0, sign * ratio.offset)
        excess = StopLossTransform(pld, self.bins, step=step, tilt=guess.tilt, strike=self.strike(near), upper=upper)
        over = ratio.over if self.direction is AdjacencyType.REMOVE else ratio.under
        return DeltaCurve(self, excess, over, ratio.top, guess.tilt, near, upper)


@dataclass(frozen=True)
class DeltaCurve:
    """Delta of one direction at every epsilon, bounded from one side.

    Attributes:
        allocation: the allocation of the curve.
        excess: the payoff; None bounds nothing from below.
        over: what ratios off the lattice add to delta: for remove those above ``top``, at every epsilon above, up to
            that of ``top`` below; for add those below the lattice, times e^epsilon, above.
        top: the largest ratio on the lattice.
        tilt: the rate at which the payoff falls with its strike, about.
        near: the epsilon it was made for.
        upper: the side.
    """

    allocation: Allocation
    excess: StopLossTransform | None
    over: float
    top: float
    tilt: float
    near: float
    upper: bool

    def __call__(self, epsilon: float) -> float:
        """Bound delta at ``epsilon``, in [0, 1]."""
        if self.excess is None:
            return 0.0
        bins, direction = self.allocation.bins, self.allocation.direction
        factor = 1.0 if direction is AdjacencyType.REMOVE else math.exp(min(epsilon, LARGEST_LOSS))
        sign = 1 if self.upper else -1
        strike = self.allocation.strike(epsilon)
        strike -= sign * gamma(8 * (1 + epsilon)) * abs(strike)
        found = (round_up if self.upper else round_down)(factor * self.excess(strike) / bins, _EXCESS)
        if self.upper:
            free = gaussian_delta(round_up(self.allocation.mu, MU), epsilon)[1]  # joint convexity: no sampling
            return min(found + round_up(factor * self.over, ELEMENTARY + TWICE), free, 1.0) + LEAST
        return min(found + (self.over if strike <= self.top else 0.0), 1.0)

    def reaches(self, epsilon: float) -> bool:
        """Return whether the curve was made for an epsilon as near as that."""
        allocation = self.allocation
        distance = abs(allocation.strike(epsilon) - allocation.strike(self.near))
        beyond = allocation.direction is AdjacencyType.REMOVE and allocation.strike(
            self.near
        ) < self.top < allocation.strike(epsilon)
        return distance * self.tilt < 4 and not beyond


def bound_balls_in_bins(  # noqa: PLR0912
    bins: int,
    mu: float,
    question: Question,
    *,
    relative_width: float,
    directions: Sequence[AdjacencyType] = (AdjacencyType.REMOVE, AdjacencyType.ADD),
    least: float = _LITTLE,
) -> Bounds:
    """Bound the answer for one release, to ``relative_width`` if memory allows.

    Args:
        bins: rounds in an epoch, at least 2.
        mu: distance of the base Gaussians over the noise, all epochs of the same bins together; above 0.
        question: epsilon at a delta, or delta at an epsilon.
        relative_width: the target relative width.
        directions: which orders of the neighbors to look at; the worst counts.
        least: a delta that is bounded from above only, once.
    """
    if math.isinf(mu):
        return Bounds(no_privacy_answer(question), no_privacy_answer(question))
    if mu == 0:
        return Bounds(0.0, 0.0)
    free = _without_bins(mu, question)
    known = Bounds(0.0, free)  # without the bins it costs no less
    if isinstance(question, DeltaAt) and free < _NOTHING:
        return known
    if mu > _FAR_FROM:
        known = bound_large_mu(bins, mu, question, free=free, directions=directions)
    if mu > LARGEST_BINNED_MU or known.within(relative_width):
        return known
    if mu < SMALLEST_MU:  # nor with means that are further apart
        more = bound_balls_in_bins(
            bins, SMALLEST_MU, question, relative_width=relative_width, directions=directions, least=least
        )
        return Bounds(0.0, min(free, more.upper))
    sides = [_Side(Allocation(bins, mu, direction), question, relative_width) for direction in directions]
    if all(side.upper == 0 for side in sides):
        return Bounds(0.0, 0.0)
    sides.sort(key=lambda side: -side.expected)
    for side in sides[1:]:
        distance = (sides[0].expected - side.expected) / max(relative_width * side.expected, TINY)
        side.fine = math.sqrt(min(max(distance, 1.0), 1e6))  # what cannot be the worst needs no fine lattice
    lower, before = 0.0, math.inf
    for attempt in range(_REFINEMENTS):
        for side in sides:
            if attempt == 0 or side.upper > lower / (1 - relative_width):
                side.refine_upper()
        worst = max(sides, key=lambda side: side.upper)
        if isinstance(question, DeltaAt) and worst.upper <= least:
            break
        lower = max(lower, worst.lower_bound())
        if worst.upper - lower <= relative_width * worst.upper:
            break
        if worst.fine > 1 and not worst.stuck:  # it was not expected to be the worst
            worst.fine = 1.0
            continue
        achieved = (worst.upper - lower) / worst.upper
        if worst.stuck or (lower > 0 and achieved > 0.8 * before):
            break  # refining cannot narrow it further
        before = achieved
        worst.fine *= min(0.6, max(0.1, 0.8 * math.sqrt(relative_width / achieved)))
    return known.intersect(Bounds(lower, max(side.upper for side in sides)))


def _without_bins(mu: float, question: Question) -> float:
    """Bound the answer from above as if every unit were in every round."""
    free = round_up(mu, MU)
    match question:
        case EpsilonAt(delta):
            return gaussian_epsilon(free, delta)[1]
        case DeltaAt(epsilon):
            return gaussian_delta(free, epsilon)[1]


class _Side:
    """What is known about one direction so far."""

    def __init__(self, allocation: Allocation, question: Question, relative_width: float) -> None:
        self.allocation, self.question, self.relative_width = allocation, question, relative_width
        self.fine, self.stuck = 1.0, False
        self.upper = _without_bins(allocation.mu, question)
        match question:
            case EpsilonAt(delta):
                self.delta = delta
                self.expected = _expected_epsilon(allocation, delta, self.upper)
                self.near = max(self.expected, 1e-3 * self.upper)  # epsilon may be 0
            case DeltaAt(epsilon):
                self.near = epsilon
                self.delta = self.expected = min(_expected_delta(allocation, epsilon, 1e-12), self.upper)
        self.delta = max(self.delta, 1e-290)

    def refine_upper(self) -> None:
        self.upper = min(self.upper, self._answer(upper=True))

    def lower_bound(self) -> float:
        return self._answer(upper=False)

    def _answer(self, *, upper: bool) -> float:
        """Read the answer off a curve, made again nearer to it while the curve was made too far away."""
        best = math.inf if upper else 0.0
        in_epsilon = isinstance(self.question, EpsilonAt)
        low = high = None  # where curves made for that epsilon were above, and below, the goal
        for _ in range(_ATTEMPTS):
            width = self.relative_width * self.fine**2 * (self.near if in_epsilon else 1.0)
            tail_mass = 0.01 * self.relative_width * self.delta
            try:
                curve = self.allocation.curve(
                    self.near, width=width, in_epsilon=in_epsilon, upper=upper, tail_mass=tail_mass
                )
            except LatticeTooLargeError as problem:
                self.fine *= 1.5 * problem.factor
                self.stuck = True
                continue
            found = solve_on_curve(self.question, curve, upper=upper)
            best = min(best, found) if upper else max(best, found)
            if not in_epsilon or found == 0 or curve.reaches(found):
                break
            here = (self.near, math.log(max(curve(self.near), TINY) / self.delta))
            low, high = (here, high) if here[1] > 0 else (low, here)
            if low is not None and high is not None:
                self.near = low[0] + (high[0] - low[0]) * min(max(low[1] / (low[1] - high[1]), 0.1), 0.9)
            else:
                hazard = curve.tilt * abs(self.allocation.strike(self.near))
                if curve.over > 0.9 * self.delta * math.exp(here[1]):  # so far up that only truncation is seen
                    here = (self.near, -0.3 * self.near * hazard)
                self.near = min(max(self.near + here[1] / hazard, 0.5 * self.near), 2 * self.near + 1 / hazard)
        return best


# ---- planning: nothing below bounds anything -------------------------------------------------------------------------


class _Sketch(NamedTuple):
    ratio: Array
    weight: Array


def _sketch(mu: float, tail: float, top: float) -> _Sketch:
    far = max(9.0, 1 - float(ndtri(max(tail, TINY))))
    u = np.linspace(-mu * mu / 2 - mu * far, mu * mu / 2 + mu * far, _CELLS)
    masses = GaussianPair(mu).masses(u)
    keep = masses.q > 0
    return _Sketch(np.minimum(masses.p[keep] / masses.q[keep], top), masses.q[keep])


def _guess(allocation: Allocation, sketch: _Sketch, epsilon: float) -> SearchHint:
    """Saddle point and Gaussian approximation of E (Z - k)^+."""
    sign = 1 if allocation.direction is AdjacencyType.REMOVE else -1
    strike, count = allocation.strike(epsilon), allocation.bins
    z = sign * sketch.ratio
    log_weight = np.log(sketch.weight)

    def log_moment(rates: Array) -> Array:
        exponent = rates[:, None] * z + log_weight
        peak = exponent.max(axis=1)
        return np.asarray(peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1)))

    grid = np.geomspace(1e-4, 1e5, 28) / abs(strike)
    for _ in range(3):
        k = int(np.argmin(count * log_moment(grid) - grid * strike - np.log(grid)))
        grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
    rate = float(grid[4])
    moment = float(log_moment(np.array([rate]))[0])
    tilted = np.exp(rate * z + log_weight - moment)
    mean = float(tilted @ z)
    spread_ = math.sqrt(max(count * float(tilted @ (z - mean) ** 2), TINY))
    deviation = count * mean - strike
    log_peak = count * moment - rate * strike - math.log(spread_) - 0.5 * (deviation / spread_) * (deviation / spread_)
    m = deviation / spread_ - rate * spread_
    log_payoff = count * moment - rate * strike - rate * deviation + (rate * spread_) ** 2 / 2
    log_payoff += math.log(spread_) + _log_call(m)
    return SearchHint(rate, log_payoff, log_peak - 0.5 * math.log(2 * math.pi), tilted)


def _log_call(m: float) -> float:
    """Log of E (N + m)^+ for a standard normal N."""
    if m < -10:
        return -m * m / 2 - 0.5 * math.log(2 * math.pi) - 2 * math.log(-m)
    return math.log(math.exp(-m * m / 2) / math.sqrt(2 * math.pi) + m * float(ndtr(m)))


def _expected_delta(allocation: Allocation, epsilon: float, tail: float) -> float:
    """Return what delta may be, about; ``tail`` is the size of the tails to look at."""
    strike, mu = abs(allocation.strike(epsilon)), allocation.mu
    if allocation.direction is AdjacencyType.REMOVE and mu >= _HEAVY:  # one large ratio among small ones
        left = strike - allocation.bins + 1
        far = math.log(left) / mu
        return float(ndtr(mu / 2 - far) - left * ndtr(-mu / 2 - far))
    log_payoff = _guess(allocation, _sketch(mu, tail, _HEADROOM * strike), epsilon).log_payoff
    log_factor = -math.log(allocation.bins) + (epsilon if allocation.direction is AdjacencyType.ADD else 0.0)
    return math.exp(min(log_payoff + log_factor, 0.0))


def _expected_epsilon(allocation: Allocation, delta: float, most: float) -> float:
    low, high = 0.0, most
    for _ in range(24):
        middle = max(math.sqrt(low * high), 0.1 * high) if low < 0.2 * high else (low + high) / 2
        low, high = (middle, high) if _expected_delta(allocation, middle, 1e-5 * delta) > delta else (low, middle)
        if high - low < 1e-3 * high:
            break
    return (low + high) / 2


def _step(allocation: Allocation, sketch: _Sketch, guess: SearchHint, width: float) -> float:
    """Return the step at which added and lost variance together move delta by half of ``width``, relatively."""
    log_share = math.log(2 * width / 3) + guess.log_payoff - guess.log_density  # v adds v / 2 densities to the payoff
    low, high = math.log(float(sketch.ratio.max())) - 40, math.log(float(sketch.ratio.max()))
    for _ in range(40):
        middle = (low + high) / 2
        step = math.exp(middle)
        added = allocation.bins * float(guess.tilted @ np.minimum(sketch.ratio * step, step * step / 6))
        low, high = (middle, high) if math.log(max(added, TINY)) <= log_share else (low, middle)
    return math.exp(low)


def bound_large_mu(
    bins: int, mu: float, question: Question, *, free: float, directions: Sequence[AdjacencyType]
) -> Bounds:
    """Bound the answer; ``free`` is what bounds it without bins."""
    low, high, log_bins = round_down(mu, MU), round_up(mu, MU), math.log(bins)
    logs = round_down(log_bins, ELEMENTARY), round_up(log_bins, ELEMENTARY)

    def least(epsilon: float) -> float:
        return gaussian_delta(low, round_up(epsilon + logs[1], ONCE))[0] if AdjacencyType.REMOVE in directions else 0.0

    def most(epsilon: float, delta: float) -> float:
        found = 0.0
        if AdjacencyType.REMOVE in directions:
            found = round_up(
                gaussian_delta(high, round_down(epsilon + logs[0], ONCE))[1] + _rest(bins, low, _SHARE * delta), TWICE
            )
        if AdjacencyType.ADD in directions:
            found = max(found, _bound_addition(bins, (low, high), logs, epsilon))
        return min(found, gaussian_delta(high, epsilon)[1])

    match question:
        case EpsilonAt(delta):
            upper = bisect_doubles(lambda at: most(at, delta) <= delta, 0.0, free)[1] if math.isfinite(free) else free
            lower = bisect_doubles(lambda at: least(at) <= delta, 0.0, upper)[0] if math.isfinite(upper) else 0.0
            return Bounds(lower, upper)
        case DeltaAt(epsilon):
            lower = least(epsilon)
            return Bounds(lower, max(lower, min(most(epsilon, max(lower, TINY)), free)))


def _rest(bins: int, mu: float, share: float) -> float:
    """Return what ratios add that are not above that at x, and two above it at once."""
    x = mu + float(ndtri(max(share, TINY)))
    below, above = (round_up(float(ndtr(at)), _TAIL * (1 + at * at)) for at in (x - mu + gamma(_EDGE) * mu, -x))
    return below + (bins - 1) * above + LEAST


def _bound_addition(bins: int, mu: tuple[float, float], logs: tuple[float, float], epsilon: float) -> float:
    """Return the chance that no ratio is large enough to hide the unit."""
    ways = ((one - epsilon) / each + each / 2 for one in logs for each in mu)
    x = max(ways)
    x += gamma(_REACH) * (abs(x) + mu[1] + (logs[1] + epsilon) / mu[0])
    exponent = bins * float(log_ndtr(x)) * (1 - gamma(_TAIL * (1 + x * x)))
    return min(round_up(math.exp(min(exponent, 0.0)), ELEMENTARY) + LEAST, 1.0)
