"""Renyi divergences of the distributions that mechanisms are made of: upper bounds, in nats, at orders above 1.

Every rounding is towards more (docs/accounting/certified-bounds.md, section 6).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.rdp_conversion import expm1_minus_x
from epsilog.numerics.rounding import LEAST, UNDERFLOW, gamma, round_up

Array = npt.NDArray[np.float64]

FEW = 14
"""Roundings of a largest loss, or of a bound that is a product."""

LARGE = 30.0  # nats from which on a logarithm uses the larger term, and the rest relative to it
_MOST_NODES = 100_000  # of a quadrature
_LARGEST_ORDER = 2.0**20  # of a sampled Gaussian; beyond it sampling is left out of account
_QUADRATURE = 1e-12  # relative, of a trapezoid sum: docs/accounting/rounding.md, 4
_SUMMED = 254  # roundings of the logarithm of a power sum: below a hundred, by the sizes of its terms; and its product
_EXPONENT = 32  # of an exponent, by the sizes of its terms: docs/accounting/rounding.md, 4, Renyi divergences
_GROWN = 64  # of a logarithm of e^z - 1, by its size and its weight's
_ATOM = 16  # of an atom's mass


def reach(shift: float, noise: float) -> float:
    """A shift over noise, rounded up; ``inf`` without noise."""
    reach = shift / noise if noise > 0 else math.inf
    return math.nextafter(reach, math.inf)


def gaussian_rdp(reach: float, orders: Array) -> Array:
    """Two unit Gaussians ``reach`` apart: order reach^2 / 2, rounded up."""
    return np.asarray(round_up(orders / 2 * reach * reach, FEW) + (LEAST if reach else 0.0))  # twice it may overflow


def pure_rdp(epsilon: float, orders: Array) -> Array:
    """Return the divergence of binary randomized response, which dominates all that is pure: Kairouz et al. 2015."""
    if math.isinf(epsilon):
        return np.full_like(orders, np.inf)
    return np.minimum(three_answers_rdp(1 / (1 + math.exp(-epsilon)), epsilon, orders), epsilon)


def three_answers_rdp(probability: float, largest: float, orders: Array) -> Array:
    """Return the divergence of answers with ratios e^a, 1 and e^-a; the first has this ``probability``.

    The power sum minus 1 is probability (e^((order - 1) a) - 1) (1 - e^(-order a)), without cancellation. If a and
    ``probability`` are off by 8 units, the result is by no more than is added (docs, accounting/certified-bounds, 1.6).
    """
    z, share = (orders - 1) * largest, probability * -np.expm1(-orders * largest)
    with np.errstate(divide="ignore"):
        excess = np.where(z < 30, np.log1p(share * np.expm1(np.minimum(z, 30.0))), np.logaddexp(0, np.log(share) + z))
    rounding = 1 + gamma(64 + 16 * np.minimum(z, 1500.0))
    return np.asarray(np.minimum((excess * rounding + UNDERFLOW) / (orders - 1) + LEAST, round_up(largest, FEW)))


def over(logs: Array, orders: Array | float) -> Array:
    """Logarithms of power sums, known to within a hundred units of round-off, over the order less 1; rounded up."""
    return np.asarray((round_up(logs, _SUMMED) + UNDERFLOW) / (orders - 1) + LEAST)


def sampled_gaussian_rdp(order: float, noise: float, share: float) -> float:
    """Return log A_order / (order - 1), A = E_{N(0)} (1 - q + q e^u)^order; Mironov et al. 2019, Thm 4.

    An integer order is a finite sum. For the others the trapezoid rule errs by less than 2 e^-40 A. The integrand is
    analytic for abs(Im x) < pi sigma^2, and bounded there by e^(Im(x)^2 / 2 sigma^2) times its value on the real line.
    """
    from scipy.special import gammaln, logsumexp

    if order > _LARGEST_ORDER:
        return math.inf
    if order == int(order):  # less the binomial distribution's sum, 1: a sum of positive terms, from the second on
        k = np.arange(2, order + 1)
        gammas = gammaln(order + 1) + gammaln(k + 1) + gammaln(order - k + 1)
        chance = 2 * gammaln(order + 1) - gammas + (order - k) * math.log1p(-share) + k * math.log(share)
        exponent = k / noise * ((k - 1) / noise) / 2
        sizes = gammas + (k - order) * math.log1p(-share) - k * math.log(share) + exponent + 1
        terms = chance + exponent + np.log(-np.expm1(-exponent)) + gamma(_EXPONENT) * sizes
        return float(over(np.logaddexp(0.0, logsumexp(terms)), order))
    step = min(noise / 3, 2 * math.pi**2 * noise**2 / (40 + math.pi**2 * noise**2 / 2))
    if order + 20 * noise > _MOST_NODES * step:  # log A is convex in the order: chords between whole orders lie above
        low, high = math.floor(order), math.ceil(order)
        below, above = ((k - 1) * sampled_gaussian_rdp(k, noise, share) if k > 1 else 0.0 for k in (low, high))
        return ((high - order) * below + (order - low) * above) / (order - 1)
    x = np.arange(-10 * noise, order + 10 * noise, step)
    u = (2 * x - 1) / (2 * noise**2)
    ratio, square = np.logaddexp(math.log1p(-share), math.log(share) + u), x * x / (2 * noise**2)
    total = float(logsumexp(order * ratio - square)) + math.log(step / noise / math.sqrt(2 * math.pi))
    error = gamma(_EXPONENT) * float(np.max(order * (np.abs(ratio) + np.abs(u)) + square))
    return max(0.0, total + _QUADRATURE * (1 + abs(total)) + error) / (order - 1)


def laplace_rdp(reach: float, orders: Array) -> Array:
    """Laplace noise at a distance ``reach`` over its scale.

    Source:
        Mironov 2017, Prop. 6, less what cancels between its two terms: a sum of positive parts.
    """
    if math.isinf(reach):
        return np.full_like(orders, np.inf)
    z = (orders - 1) * reach
    near = np.minimum(z, LARGE)
    parts = orders * expm1_minus_x(near) + (orders - 1) * expm1_minus_x(-(near + reach))
    far = np.logaddexp(np.log(orders) + z, np.log(orders - 1) - (z + reach)) - np.log(2 * orders - 1)
    return np.minimum(over(np.where(z < LARGE, np.log1p(parts / (2 * orders - 1)), far), orders), reach)


def mean_rdp(reaches: list[float], chances: list[float], orders: Array) -> Array:
    """Bound Gaussians at a random public distance by a mean of power sums (docs/accounting/groups.md)."""
    from scipy.special import logsumexp

    far, log_chances = np.array(reaches), np.log(np.array(chances))
    z = (orders / 2 * (orders - 1))[:, None] * far * far + LEAST
    grown = np.where(z < LARGE, np.log(np.expm1(np.minimum(z, LARGE))), z)  # of e^z - 1, or more
    logs = log_chances + grown + gamma(_GROWN) * (1 + np.abs(log_chances) + np.abs(grown))
    return over(np.logaddexp(0.0, logsumexp(logs, axis=1)), orders)


def zcdp_rdp(rho: float, orders: Array) -> Array:
    """Return what a statement of rho-zCDP says."""
    return round_up(orders * rho, FEW) + (LEAST if rho else 0.0)


def bounded_range_rdp(spread: float, orders: Array) -> Array:
    """Return losses within a range of the width ``spread``.

    Source:
        Cesar & Rogers 2021, Lemma 3.2 (arXiv:2004.07223).
    """
    return least(gaussian_rdp(reach(spread, 2.0), orders), pure_rdp(spread, orders))


def staircase_rdp(epsilon: float, first_step: float, orders: Array) -> Array:
    """Staircase noise at a distance of one step."""
    if epsilon > LARGEST_LOSS:
        return pure_rdp(epsilon, orders)
    from epsilog.numerics.noise import build_staircase_pair

    return three_answers_rdp(
        round_up(float(build_staircase_pair(epsilon, first_step, 1).p[-1]), _ATOM), epsilon, orders
    )


def response_rdp(flip: float, categories: int, orders: Array) -> Array:
    """Randomized response: against the truth, neither, and the truth."""
    if flip == 0:
        return np.full_like(orders, np.inf)
    rare = flip / categories
    ratio = (1 - flip) / rare if rare > 1e-290 else math.inf
    largest = math.log1p(ratio) if ratio < math.inf else math.log1p(-flip) + math.log(categories) - math.log(flip)
    return three_answers_rdp((1 - flip) + rare, largest, orders)


def sampled_rdp(noise: float, share: float, orders: Array) -> Array:
    """A Gaussian on a Poisson sample, by itself at each order."""
    return np.array([sampled_gaussian_rdp(float(order), noise, share) for order in orders])


def least(first: Array, second: Array) -> Array:
    """Return the smaller of two bounds."""
    return np.asarray(np.minimum(first, second))


def floor_orders(orders: Array) -> Array:
    """Return the largest whole orders that are not above; at least 2."""
    return np.maximum(np.floor(orders), 2.0)
