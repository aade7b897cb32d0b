"""The Gaussian mechanism, exactly: delta(epsilon), epsilon(delta) and mu, with an explicit bound on its round-off.

Everything is a function of mu = sqrt(count) * sensitivity / noise: k Gaussians are one Gaussian with mu^2 = sum mu_i^2,
in any dimension. With t = epsilon / mu - mu / 2 and Mills' ratio R, delta = phi(t) (R(t) - R(t + mu)): one positive
factor and one difference. The error covers its cancellation.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.special import erfcx, ndtr

from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.pairs import NEAREST, BasePairs, build_non_private_pair, pure, use_exact_pair
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.roots import bisect_doubles, estimate_root
from epsilog.numerics.rounding import BOUND, LEAST, MU, TINY, gamma, round_down, round_up
from epsilog.terms import CheckError, check

_ENOUGH = 1e-13  # of delta, relatively: about what it is known to
FARTHEST = 1e4  # from here on next to nothing is hidden: a lattice need not find out how little
_ROOT_HALF = math.sqrt(0.5)
_AT = 4  # roundings of t, by both of its terms: docs/accounting/rounding.md, 4, Gaussians in closed form
_DELTA = 64  # of delta, by the larger of its terms: the same


def gaussian_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Bound delta(epsilon) of a pair of unit Gaussians ``mu`` apart, from below and above.

    Args:
        mu: distance over noise standard deviation, at least 0; ``inf`` gives no privacy.
        epsilon: in nats, any finite number.

    Returns:
        (lower, upper), as close as double precision allows.
    Source:
        Balle & Wang 2018, Theorem 8 (arXiv:1805.06530); Dong, Roth & Su 2019, Corollary 1 (arXiv:1905.02383).

    >>> lower, upper = gaussian_delta(1.0, 1.0)
    >>> round(lower, 12) == round(upper, 12) == 0.126936737507
    True
    """
    mu, epsilon = check.real()(mu=mu), check.finite()(epsilon=epsilon)
    floor = max(0.0, -math.expm1(min(epsilon, 0.0)))  # no mechanism does better, and mu = 0 attains it
    if not mu >= 0:
        raise CheckError("mu", "at least 0", repr(mu))
    if mu == 0:
        return floor, floor
    if math.isinf(mu):
        return 1.0, 1.0
    ratio = epsilon / mu
    t = ratio - mu / 2
    t_error = gamma(_AT) * (abs(ratio) + mu / 2)
    if t - t_error > 39:  # phi(t) is below e^-760; its square may overflow
        return 0.0, LEAST
    if math.isinf(ratio):
        return floor, floor
    near, far = (
        float(ndtr(-t)),
        _density(t) * _mills(t + mu) if t + mu > 0 else math.exp(epsilon) * float(ndtr(-t - mu)),
    )
    value, scale = (
        (near - far, near) if t <= 0 else (_density(t) * (_mills(t) - _mills(t + mu)), _density(t) * _mills(t))
    )
    # t moves the value by at most 4 phi per unit: Phi has the derivative phi, and x R(x) <= 1
    error = gamma(_DELTA) * scale + 4 * t_error * _density(max(abs(t) - t_error, 0.0)) + LEAST
    return max(floor, value - error), min(1.0, max(floor, value + error))


def _density(x: float) -> float:
    return math.exp(-(min(abs(x), 40.0) ** 2) / 2) / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    """Mills' ratio, the normal tail over its density."""
    return math.sqrt(math.pi / 2) * float(erfcx(x * _ROOT_HALF))


def gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    """Bound epsilon(delta) of a pair of unit Gaussians ``mu`` apart, from below and above; 0 is the least.

    >>> lower, upper = gaussian_epsilon(1.0, 1e-5)
    >>> round(lower, 6), round(upper, 6)
    (4.377178, 4.377178)
    """
    mu, delta = check.real()(mu=mu), check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    return _least(mu, delta), _most(mu, delta)


@lru_cache(maxsize=256)
def _most(mu: float, delta: float) -> float:
    """Bound epsilon from above; kept, because a question about samples asks for what they hide again and again."""
    if math.isinf(mu):
        return math.inf
    if gaussian_delta(mu, 0.0)[1] <= delta:
        return 0.0
    reach = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + TINY  # Gaussian tail bound: delta there is met
    high, near = reach * (1 + BOUND), _near(mu, delta)
    return bisect_doubles(lambda epsilon: gaussian_delta(mu, epsilon)[1] <= delta, 0.0, high, near=near)[1]


@lru_cache(maxsize=256)
def _least(mu: float, delta: float) -> float:
    """Bound epsilon from below."""
    upper = _most(mu, delta)
    if upper == 0 or math.isinf(upper):
        return upper
    near = _near(mu, delta)
    return bisect_doubles(lambda epsilon: gaussian_delta(mu, epsilon)[0] <= delta, 0.0, upper, near=near)[0]


def _near(mu: float, delta: float) -> float | None:
    """About epsilon(delta), by secants in the logarithm of delta; no bound rests on it."""
    far = math.sqrt(-2 * math.log(delta))
    guess, slope = mu * (far + mu / 2), -far / mu
    if not (TINY < guess < 1 / TINY and 0 < -slope < 1 / TINY):
        return None
    return estimate_root(
        lambda at: math.log(gaussian_delta(mu, at)[1] / delta), guess, slope, enough=_ENOUGH, attempts=20
    )


def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-DP, on the safe side: the exact calibration of a Gaussian.

    >>> round(1 / gaussian_mu(epsilon=1.0, delta=1e-6), 4)  # the noise multiplier
    4.2247
    """
    epsilon = check.at_least(0, check.DOWN)(epsilon=epsilon)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    small = 1.0
    while gaussian_delta(small, epsilon)[1] > delta:
        small /= 2
        if small < TINY:
            return 0.0
    large = 2 * small
    while gaussian_delta(large, epsilon)[1] <= delta:
        large *= 2
    return bisect_doubles(lambda mu: gaussian_delta(mu, epsilon)[1] > delta, small, large)[0]


def bound_gaussian(mu: float, question: Question, *, roundings: float = MU) -> Bounds:
    """Bound an answer about Gaussians ``mu`` apart, given the number of roundings in mu.

    >>> bound_gaussian(math.inf, DeltaAt(1.0))
    Bounds(lower=1.0, upper=1.0)
    """
    low, high = round_down(mu, roundings), round_up(mu, roundings)
    match question:
        case EpsilonAt(0):
            return Bounds(math.inf, math.inf) if mu > 0 else Bounds(0.0, 0.0)
        case EpsilonAt(delta):
            return Bounds(_least(low, delta), _most(high, delta))
        case DeltaAt(epsilon):
            return Bounds(gaussian_delta(low, epsilon)[0], gaussian_delta(high, epsilon)[1])


def build_gaussian_pair(mu: float) -> BasePairs:
    """Return two Gaussians mu apart, with the rounding of mu; the lattice resolution bounds mu from below."""
    if math.isinf(mu):
        return use_exact_pair(build_non_private_pair())
    if mu > FARTHEST:
        return build_non_private_pair(), GaussianPair(FARTHEST)
    return GaussianPair(round_up(max(mu, NEAREST), MU)), GaussianPair(round_down(mu, MU)) if mu > NEAREST else pure(
        0.0, 0.0
    )
