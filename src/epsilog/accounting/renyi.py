"""Renyi differential privacy: a bound for every order, which adds up; the fallback where nothing tighter is proven.

One small case per mechanism; composition is written once, so that no case can forget a count.
"""

from __future__ import annotations

import math
from functools import partial, singledispatch

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from epsilog.accounting.enclosed import enclosed
from epsilog.accounting.exact import choice_loss, sparse_vector_loss
from epsilog.accounting.flatten import Bag, flatten, plainly
from epsilog.accounting.mixtures import chances, most
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SparseVector,
    Staircase,
    ZeroConcentratedDP,
)
from epsilog.numerics.laws.base import LARGEST_LOSS
from epsilog.numerics.laws.staircase import staircase
from epsilog.numerics.moments import beyond, delta_of, epsilon_of
from epsilog.numerics.rounding import LEAST, UNDERFLOW, gamma, rounded, up
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check

Array = npt.NDArray[np.float64]

DEFAULT_ORDERS: Array = np.unique(
    np.concatenate((1 + np.geomspace(0.005, 11, 70), np.arange(12.0, 65), np.round(np.geomspace(64, 32768, 50))))
)

_MOST_NODES = 100_000  # of a quadrature
_LARGEST_ORDER = 2.0**20  # of a sampled Gaussian; beyond it sampling is left out of account
_FEW = 14  # roundings of a largest loss, or of a bound that is a product
_QUADRATURE = 1e-12  # relative, of a trapezoid sum: docs/accounting/rounding.md, 4
_SLACK = 1e-5  # relative: far more than all that is added for rounding, at orders and noise that are measured in this
_LARGE = 30.0  # nats from which on a logarithm is taken of the larger term alone, and of the rest beside it


def stretch(relation: NeighboringRelation) -> int:
    """How far one neighbour can move a sum, in contributions of one unit: 2 for replace-one, else 1."""
    return 2 if relation is NeighboringRelation.REPLACE_ONE else 1


def rdp(release: Release, orders: Array, *, relation: NeighboringRelation) -> Array:
    """Bounds the Renyi divergence of one release from above, in nats, at each order above 1; shape (k,) to (k,).

    Every rounding is towards more (docs, accounting/certified-bounds, section 6).

    Raises:
        ValueError: an order is not a finite number above 1 (at 1 it is the Kullback-Leibler divergence: not offered).
        UnsupportedMechanismError: no proven bound for this mechanism under this relation.

    >>> rdp(Gaussian(2.0), np.array([2.0, 8.0]), relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    array([0.25, 1.  ])
    """
    bag = flatten(check.instance(Release)(release=release))
    if (between := enclosed(bag)) is not None:
        bag = flatten(Composed(between[0]))
    return rdp_of(bag, _checked(orders), check.member(NeighboringRelation)(relation=relation))


def rdp_of(bag: Bag, orders: Array, relation: NeighboringRelation) -> Array:
    """The same of single releases with their counts, which add up; the orders were checked."""
    with np.errstate(over="ignore", under="ignore"):
        parts = [_times(count, _rdp(part, orders, relation=relation)) for part, count in bag.items()]
        return np.asarray(up(sum(parts, np.zeros_like(orders)), 2 * (len(parts) - 1)))


def _times(count: int, divergence: Array) -> Array:
    return up(count * divergence, _FEW) if count > 1 else divergence


def _checked(orders: Array) -> Array:
    """The orders as doubles; the whole series is read before its first number is judged."""
    numbers = np.array(check.each(check.number())(orders=orders))
    wrong = numbers[~((numbers > 1) & (numbers < np.inf))]
    if wrong.size:
        raise CheckError("orders", "finite and above 1", repr(float(wrong[0])))
    if not numbers.size:
        raise ValueError("orders must not be empty")
    return numbers


@singledispatch
def _rdp(release: Release, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    """One case per mechanism; the orders were checked."""
    raise UnsupportedMechanismError(release, method="RDP")


@_rdp.register
def _(release: Gaussian, orders: Array, *, relation: NeighboringRelation) -> Array:
    return _concentrated(_reach(stretch(relation), release.noise_multiplier), orders)  # Mironov 2017, Prop. 7


@_rdp.register
def _(release: Laplace, orders: Array, *, relation: NeighboringRelation) -> Array:
    reach = _reach(stretch(relation), release.noise_multiplier)
    if math.isinf(reach):
        return np.full_like(orders, np.inf)
    z = (orders - 1) * reach  # Mironov 2017, Prop. 6, less what cancels between its two terms: a sum of positive parts
    near = np.minimum(z, _LARGE)
    parts = orders * beyond(near) + (orders - 1) * beyond(-(near + reach))
    far = np.logaddexp(np.log(orders) + z, np.log(orders - 1) - (z + reach)) - np.log(2 * orders - 1)
    return np.minimum(_over(np.where(z < _LARGE, np.log1p(parts / (2 * orders - 1)), far), orders), reach)


@_rdp.register
def _(release: DiscreteGaussian, orders: Array, *, relation: NeighboringRelation) -> Array:
    shift = stretch(relation) * release.sensitivity
    return _concentrated(
        _reach(shift, release.noise_stddev), orders
    )  # Canonne et al. 2020, Prop. 5 (arXiv:2004.00010v4)


@_rdp.register
def _(release: DiscreteLaplace, orders: Array, *, relation: NeighboringRelation) -> Array:
    return _pure(_reach(stretch(relation) * release.sensitivity, release.noise_scale), orders)


@_rdp.register
def _(release: RandomizedResponse, orders: Array, *, relation: NeighboringRelation) -> Array:
    if relation is not NeighboringRelation.REPLACE_ONE:
        raise UnsupportedMechanismError(release, method="RDP", reason="its neighbours replace one unit")
    flip, categories = release.flip_probability, release.categories
    if flip == 0:
        return np.full_like(orders, np.inf)
    rare = flip / categories
    ratio = (1 - flip) / rare if rare > 1e-290 else math.inf
    largest = math.log1p(ratio) if ratio < math.inf else math.log1p(-flip) + math.log(categories) - math.log(flip)
    return _three_answers((1 - flip) + rare, largest, orders)


def _three_answers(often: float, largest: float, orders: Array) -> Array:
    """The divergence of answers with ratios e^a, 1 and e^-a, the first with the chance ``often``, a the largest loss.

    The power sum less the sum of all chances is often (e^((order - 1) a) - 1) (1 - e^(-order a)): nothing cancels. If a
    and often are off by 8 units, the result is by no more than is added (docs, accounting/certified-bounds, 1.6).
    """
    z, share = (orders - 1) * largest, often * -np.expm1(-orders * largest)
    with np.errstate(divide="ignore"):
        excess = np.where(z < 30, np.log1p(share * np.expm1(np.minimum(z, 30.0))), np.logaddexp(0, np.log(share) + z))
    rounding = 1 + gamma(64 + 16 * np.minimum(z, 1500.0))
    return np.asarray(np.minimum((excess * rounding + UNDERFLOW) / (orders - 1) + LEAST, up(largest, _FEW)))


@_rdp.register
def _(release: ExponentialMechanism, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    spread = _reach(release.epsilon, 2.0) if release.monotone else release.epsilon
    # Cesar & Rogers 2021, Lemma 3.2 (arXiv:2004.07223): bounded range
    return np.minimum(_concentrated(_reach(spread, 2.0), orders), _pure(spread, orders))


@_rdp.register
def _(release: Staircase, orders: Array, *, relation: NeighboringRelation) -> Array:
    far = stretch(relation)
    if far * release.epsilon > LARGEST_LOSS:
        return _pure(far * release.epsilon, orders)
    law = staircase(release.epsilon, release.first_step, far)
    if far == 1:
        return _three_answers(up(float(law.p[-1]), 16), release.epsilon, orders)
    return _pure(far * release.epsilon, orders)


@_rdp.register
def _(release: ReportNoisyMax, orders: Array, *, relation: NeighboringRelation) -> Array:
    if (other := plainly(release)) is not release:
        return _rdp(other, orders, relation=relation)
    return _pure(rounded(choice_loss(release), up=True), orders)


@_rdp.register
def _(release: SparseVector, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    loss = sparse_vector_loss(release)
    return _pure(math.inf if loss is None else rounded(loss, up=True), orders)


@_rdp.register
def _(release: PureDP, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    return _pure(release.epsilon, orders)


@_rdp.register
def _(release: ApproximateDP, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    if release.delta > 0:
        return np.full_like(orders, np.inf)
    return _pure(release.epsilon, orders)


@_rdp.register
def _(release: ZeroConcentratedDP, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    return up(orders * release.rho, _FEW) + (LEAST if release.rho else 0.0)


@_rdp.register
def _(release: GaussianDP, orders: Array, *, relation: NeighboringRelation) -> Array:  # noqa: ARG001
    return _concentrated(release.mu, orders)


@_rdp.register
def _(release: PoissonSampled, orders: Array, *, relation: NeighboringRelation) -> Array:
    if release.sampling_probability == 0:
        return np.zeros_like(orders)
    if release.sampling_probability == 1:
        return _rdp(release.release, orders, relation=relation)
    if relation is NeighboringRelation.REPLACE_ONE or not isinstance(release.release, Gaussian):
        raise UnsupportedMechanismError(release, method="RDP", reason=f"under {relation}")
    noise, plain = release.release.noise_multiplier, _rdp(release.release, orders, relation=relation)
    if noise > 1e100:  # nobody's contribution is seen, in the sample or not; and squares would leave the numbers
        return plain
    if noise < 1e-100:  # the least loss of a sampled round is beyond what doubles can tell from infinity
        return np.full_like(orders, np.inf)
    sampled = np.array([_sampled_gaussian(float(order), noise, release.sampling_probability) for order in orders])
    return np.asarray(np.minimum(sampled, plain))  # by convexity


@_rdp.register
def _(release: MixtureOfGaussians, orders: Array, *, relation: NeighboringRelation) -> Array:
    """At most that of whoever is told the draw: a mean of power sums (docs, accounting/mixtures); or of the most."""
    law = chances(release, above=True)
    if not law:
        return np.zeros_like(orders)
    if release.noise_stddev == 0:
        return np.full_like(orders, np.inf)
    reach = np.array([_reach(stretch(relation) * move, release.noise_stddev) for move, _ in law])
    often = np.log(np.array([float(chance) for _, chance in law]))
    z = (orders / 2 * (orders - 1))[:, None] * reach * reach + LEAST
    grown = np.where(z < _LARGE, np.log(np.expm1(np.minimum(z, _LARGE))), z)  # of e^z - 1, or more
    logs = often + grown + gamma(64.0) * (1 + np.abs(often) + np.abs(grown))
    told = _over(np.logaddexp(0.0, logsumexp(logs, axis=1)), orders)
    if relation is NeighboringRelation.REPLACE_ONE:
        return told
    return np.minimum(told, _rdp(most(release), orders, relation=relation))


def rdp_attained(release: Release, orders: Array, *, relation: NeighboringRelation) -> Array | None:
    """Bounds from below the Renyi divergence that some neighbours attain, in nats; shape (k,) to (k,).

    It is the sum over the parts whose divergence ``rdp`` has exactly, in the direction that is the larger one for each
    of them: between products of fixed laws divergences add up, and none is negative. A statement counts as the largest
    that satisfies it. None where no part is known exactly.

    >>> rdp_attained(Gaussian(2.0), np.array([2.0, 8.0]), relation=NeighboringRelation.ADD_OR_REMOVE_ONE).round(4)
    array([0.25, 1.  ])
    """
    orders, relation = _checked(orders), check.member(NeighboringRelation)(relation=relation)
    bag = flatten(check.instance(Release)(release=release))
    if (between := enclosed(bag)) is not None:
        bag = flatten(Composed(between[1]))
    parts = [(part, count) for part, count in bag.items() if _is_exact(part)]
    if not parts:
        return None
    total = np.zeros_like(orders)
    with np.errstate(over="ignore", under="ignore"):
        for part, count in parts:
            whole = np.floor(orders)  # of a sampled part, whose other orders are known less well: it grows with them
            at = np.maximum(whole, 2.0) if isinstance(part, PoissonSampled) else orders
            found = _rdp(part, at, relation=relation)
            total += count * np.where(at <= orders, found, 0.0)
    return np.asarray(total * (1 - _SLACK))


def _is_exact(part: Release) -> bool:
    """Whether ``rdp`` rounds up what some neighbours attain, and bounds nothing beyond that."""
    if isinstance(part, PoissonSampled):
        inner = part.release
        return isinstance(inner, Gaussian) and 1e-6 < inner.noise_multiplier < 1e6 and part.sampling_probability > 1e-12
    return isinstance(part, Gaussian | GaussianDP | Laplace | RandomizedResponse | PureDP | ZeroConcentratedDP)


def _reach(shift: float, noise: float) -> float:
    """A shift over noise, rounded up; ``inf`` without noise."""
    reach = shift / noise if noise > 0 else math.inf
    return math.nextafter(reach, math.inf)


def _concentrated(reach: float, orders: Array) -> Array:
    """Two unit Gaussians ``reach`` apart: order reach^2 / 2, rounded up."""
    return np.asarray(up(orders / 2 * reach * reach, _FEW) + (LEAST if reach else 0.0))  # twice it may overflow


def _pure(epsilon: float, orders: Array) -> Array:
    """The divergence of binary randomized response, which dominates all that is pure: Kairouz et al. 2015."""
    if math.isinf(epsilon):
        return np.full_like(orders, np.inf)
    return np.minimum(_three_answers(1 / (1 + math.exp(-epsilon)), epsilon, orders), epsilon)


def _over(logs: Array, orders: Array | float) -> Array:
    """Logarithms of power sums, known to within a hundred units of round-off, over the order less 1; rounded up."""
    return np.asarray((up(logs, 254) + UNDERFLOW) / (orders - 1) + LEAST)


def _sampled_gaussian(order: float, noise: float, share: float) -> float:
    """Returns log A_order / (order - 1), A = E_{N(0)} (1 - q + q e^u)^order; Mironov et al. 2019, Thm 4.

    A whole order is a finite sum. For the others the trapezoid rule errs by less than 2 e^-40 A, since the integrand is
    analytic for abs(Im x) < pi sigma^2 and bounded there by e^(Im(x)^2 / 2 sigma^2) times its value on the real line.
    """
    if order > _LARGEST_ORDER:
        return math.inf
    if order == int(order):  # less the binomial law's own sum, 1: a sum of positive terms, from the second on
        k = np.arange(2, order + 1)
        gammas = gammaln(order + 1) + gammaln(k + 1) + gammaln(order - k + 1)
        chance = 2 * gammaln(order + 1) - gammas + (order - k) * math.log1p(-share) + k * math.log(share)
        exponent = k / noise * ((k - 1) / noise) / 2
        sizes = gammas + (k - order) * math.log1p(-share) - k * math.log(share) + exponent + 1
        terms = chance + exponent + np.log(-np.expm1(-exponent)) + gamma(32.0) * sizes
        return float(_over(np.logaddexp(0.0, logsumexp(terms)), order))
    step = min(noise / 3, 2 * math.pi**2 * noise**2 / (40 + math.pi**2 * noise**2 / 2))
    if order + 20 * noise > _MOST_NODES * step:  # log A is convex in the order: chords between whole orders lie above
        low, high = math.floor(order), math.ceil(order)
        below, above = ((k - 1) * _sampled_gaussian(k, noise, share) if k > 1 else 0.0 for k in (low, high))
        return ((high - order) * below + (order - low) * above) / (order - 1)
    x = np.arange(-10 * noise, order + 10 * noise, step)
    u = (2 * x - 1) / (2 * noise**2)
    ratio, square = np.logaddexp(math.log1p(-share), math.log(share) + u), x * x / (2 * noise**2)
    total = float(logsumexp(order * ratio - square)) + math.log(step / noise / math.sqrt(2 * math.pi))
    error = gamma(32.0) * float(np.max(order * (np.abs(ratio) + np.abs(u)) + square))
    return max(0.0, total + _QUADRATURE * (1 + abs(total)) + error) / (order - 1)


def renyi_epsilon(
    release: Release,
    *,
    delta: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    orders: Array = DEFAULT_ORDERS,
) -> float:
    """Bounds epsilon of ``release`` from above.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in (0, 1).
        relation: which data sets are neighbours.
        orders: Renyi orders, all above 1; shape (k,).

    Returns:
        An upper bound in nats; ``inf`` if a part gives no privacy.

    Raises:
        UnsupportedMechanismError: RDP has no bound for a part.
    Source:
        Asoodeh et al. 2021 (arXiv:2008.06529), proven and rounded as in docs/accounting/moments.md.

    >>> from epsilog.mechanisms import Repeated
    >>> round(renyi_epsilon(Repeated(Gaussian(noise_multiplier=4.0), count=10), delta=1e-5), 2)
    3.62
    """
    delta, orders = check.between(0, 1, check.DOWN)(delta=delta), _checked(orders)
    return epsilon_of(partial(rdp, release, relation=relation), orders, delta)


def renyi_delta(
    release: Release,
    *,
    epsilon: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    orders: Array = DEFAULT_ORDERS,
) -> float:
    """Bounds delta of ``release`` from above, by the same conversion read the other way.

    >>> from epsilog.mechanisms import Repeated
    >>> renyi_delta(Repeated(Gaussian(noise_multiplier=4.0), count=10), epsilon=3.62) <= 1e-5
    True
    """
    epsilon, orders = check.at_least(0, check.DOWN)(epsilon=epsilon), _checked(orders)
    return delta_of(partial(rdp, release, relation=relation), orders, epsilon)
