"""Renyi bounds are never below the divergence itself, to the last digit: against hundreds of digits."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tests.extent import amount

from epsilog.accounting.renyi import rdp, renyi_delta, renyi_epsilon
from epsilog.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation

ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
ORDERS = st.floats(-15.5, 5).map(lambda x: 1 + 10.0**x).filter(lambda order: order > 1)
SIZES = st.one_of(st.floats(-300, 3), st.floats(-12, 3)).map(lambda x: 10.0**x)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(750):
        yield


def pure(epsilon, order):
    return mp.log((mp.exp(order * epsilon) + mp.exp((1 - order) * epsilon)) / (1 + mp.exp(epsilon))) / (order - 1)


def laplace(reach, order):
    first, second = order * mp.exp((order - 1) * reach), (order - 1) * mp.exp(-order * reach)
    return mp.log((first + second) / (2 * order - 1)) / (order - 1)


def sampled(noise, share, order):
    terms = (
        mp.binomial(order, k) * share**k * (1 - share) ** (order - k) * mp.exp(k * (k - 1) / (2 * noise * noise))
        for k in range(order + 1)
    )
    return mp.log(mp.fsum(terms)) / (order - 1)


def bound(release: Release, order, relation=ADD_OR_REMOVE):
    return mp.mpf(float(rdp(release, np.array([float(order)]), relation=relation)[0]))


def never_below(found, truth, *, loose=1e-10):
    assert found >= truth * (1 - mp.mpf(10) ** -60)
    assert found <= truth * (1 + loose) + mp.mpf(10) ** -300 or truth > mp.mpf(10) ** 308


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(epsilon=SIZES, order=ORDERS)
def test_pure_statements(epsilon, order):
    never_below(bound(PureDP(epsilon), order), pure(mp.mpf(epsilon), mp.mpf(order)))
    assert bound(ExponentialMechanism(epsilon), order) >= 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(noise=SIZES.map(lambda x: 1 / x), order=ORDERS)
def test_laplace_noise(noise, order):
    never_below(bound(Laplace(noise), order), laplace(1 / mp.mpf(noise), mp.mpf(order)))
    never_below(bound(DiscreteLaplace(noise, 3), order), pure(3 / mp.mpf(noise), mp.mpf(order)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(size=SIZES, order=ORDERS)
@example(size=10.0**-153.6875, order=2.0)  # half of the largest double: it was infinite
def test_what_grows_with_the_order(size, order):
    x, a = mp.mpf(size), mp.mpf(order)
    never_below(bound(Gaussian(size), order, REPLACE), 2 * a / x**2)
    never_below(bound(DiscreteGaussian(size, 3), order, REPLACE), 18 * a / x**2)
    never_below(bound(GaussianDP(size), order), a * x * x / 2)
    never_below(bound(ZeroConcentratedDP(size), order), a * x)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    noise=st.floats(-2, 5).map(lambda x: 10.0**x),
    share=st.floats(-12, -0.01).map(lambda x: 10.0**x),
    order=st.sampled_from([2, 3, 5, 17, 64]),
)
def test_sampled_gaussians_at_whole_orders(noise, share, order):
    with mp.workdps(60):
        never_below(bound(PoissonSampled(Gaussian(noise), share), order), sampled(mp.mpf(noise), mp.mpf(share), order))


@pytest.mark.slow
def test_sampled_gaussians_where_gamma_functions_cancel():
    with mp.workdps(60):
        truth = sampled(mp.mpf(100), mp.mpf(1e-5), 2000)
        never_below(bound(PoissonSampled(Gaussian(100.0), 1e-5), 2000), truth, loose=1e-6)


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(("noise", "share", "order"), [(1.0, 0.1, 1.005), (4.0, 1e-3, 1.5), (0.3, 1e-6, 2.25)])
def test_sampled_gaussians_between_whole_orders(noise, share, order):
    with mp.workdps(30):
        z, q, a = mp.mpf(noise), mp.mpf(share), mp.mpf(order)

        def integrand(x):
            return mp.npdf(x, 0, z) * (1 - q + q * mp.exp((2 * x - 1) / (2 * z * z))) ** a

        ends = [-12 * z, 0, a / 2, a, a + 12 * z]
        truth = mp.log(mp.quad(integrand, ends)) / (a - 1)
        never_below(bound(PoissonSampled(Gaussian(noise), share), order), truth, loose=1e-3)


@pytest.mark.parametrize("flip", [1e-12, 0.3, 1 - 1e-12])
@pytest.mark.parametrize("order", [1 + 1e-12, 1.0001, 2.0, 1e4])
def test_randomized_response(flip, order):
    with mp.workdps(100):
        a, rare = mp.mpf(order), mp.mpf(flip) / 5
        often = 1 - 4 * rare
        total = often**a * rare ** (1 - a) + rare**a * often ** (1 - a) + 3 * rare
        never_below(bound(RandomizedResponse(flip, 5), order, REPLACE), mp.log(total) / (a - 1))


@pytest.mark.parametrize(
    "release",
    [
        Gaussian(1e308), Gaussian(5e-324), DiscreteGaussian(1e155), DiscreteGaussian(1e-200), Laplace(1e308),
        Laplace(1e-310), DiscreteLaplace(1e-310), DiscreteLaplace(1e308), PureDP(5e-324), PureDP(1e308),
        ExponentialMechanism(5e-324, monotone=True), GaussianDP(1e200), GaussianDP(5e-324), ZeroConcentratedDP(1e308),
        ZeroConcentratedDP(5e-324), PoissonSampled(Gaussian(1e308), 0.5), PoissonSampled(Gaussian(1e-200), 0.5),
    ],
    ids=repr,
)  # fmt: skip
def test_nothing_underflows_to_nothing_and_nothing_breaks(release):
    orders = np.array([1 + 2.0**-52, 1.5, 2.0, 1e5, 1e300])
    if isinstance(release, PoissonSampled):
        orders = orders[:3]
    one = rdp(release, orders, relation=ADD_OR_REMOVE)
    assert (one > 0).all()
    with np.errstate(over="ignore"):
        assert (rdp(Repeated(release, 3), orders, relation=ADD_OR_REMOVE) >= 3 * one).all()


def test_nothing_costs_nothing():
    assert (rdp(PureDP(0.0), np.array([1.5, 2.0]), relation=ADD_OR_REMOVE) == 0).all()


@cache
def attained(rho, order, epsilon):
    """Delta of the two answers with likelihood ratios e^u and e^-v whose divergence at the order is order rho, and
    that have the largest; or, where there are none, of those that always say yes about one of the neighbors.
    """
    x, a, moment = mp.exp(epsilon), order, mp.exp(order * (order - 1) * rho)
    if order * rho >= epsilon + mp.log(a / (a - 1)):
        return 1 - x * mp.exp(-a * rho)

    def law(width):
        ratio = mp.expm1(-(a - 1) * width) / mp.expm1(-a * width)
        u = epsilon + mp.log(a / (a - 1) * ratio)
        q = -mp.expm1(u - width) / (mp.exp(u) - mp.exp(u - width))
        return mp.exp(u) * q, q, u - width

    low, high = mp.mpf(0), mp.mpf(10) ** 6
    for _ in range(100):
        middle = (low + high) / 2
        p, q, v = law(middle)
        small = v >= 0 or p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a) < moment
        low, high = (middle, high) if small else (low, middle)
    p, q, _ = law(low)
    return p - x * q if low > 0 else mp.mpf(0)


@pytest.mark.slow
@settings(max_examples=amount(4, 20), deadline=None)
@given(
    rho=st.floats(-6, 2).map(lambda x: 10.0**x),
    order=st.floats(-4, 3).map(lambda x: 1 + 10.0**x),
    delta=st.floats(-12, -0.001).map(lambda x: 10.0**x),
)
@example(rho=0.01, order=2.0, delta=0.05)
@example(rho=1.0, order=2.0, delta=0.25)
@example(rho=1e-6, order=1.5, delta=1e-3)
def test_conversions_are_never_below_the_best_of_one_order(rho, order, delta):
    with mp.workdps(50):
        one, a, rho_ = ZeroConcentratedDP(rho), mp.mpf(order), mp.mpf(rho)
        sure = mp.findroot(lambda x: x * mp.tanh(x / 2) - a * rho_, a * rho_ + 1 / (1 + 1 / mp.sqrt(a * rho_)))
        found = renyi_epsilon(one, delta=delta, orders=np.array([order]))
        assert min(attained(rho_, a, mp.mpf(found)), mp.tanh(sure / 2)) <= mp.mpf(delta)
        for epsilon in {0.0, found / 2, found}:
            best = min(attained(rho_, a, mp.mpf(epsilon)), mp.tanh(sure / 2))
            bound = mp.mpf(renyi_delta(one, epsilon=epsilon, orders=np.array([order])))
            assert best <= bound <= best * (1 + mp.mpf(3) / 10000)
