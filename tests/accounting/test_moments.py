"""From divergences to delta: tight among mechanisms with two answers, which are looked for by trying them."""

import math

import numpy as np
import pytest

import epsilog as ep
from epsilog.accounting.methods.zcdp import _keeps_both, _two_outcomes
from epsilog.accounting.renyi import DEFAULT_ORDERS
from epsilog.mechanisms import Gaussian, ZeroConcentratedDP
from epsilog.numerics.rdp_conversion import (
    rdp_to_delta,
    rdp_to_delta_with_order,
    rdp_to_epsilon,
    rdp_to_epsilon_by_order,
)

ORDERS = 1 + np.geomspace(1e-4, 1e4, 4_000)


def divergences(p, q):
    """Of two answers at each order, in both orders of the neighbors: shape (2, k)."""
    both = []
    for yes, no in (((p, q), (1 - p, 1 - q)), ((q, p), (1 - q, 1 - p))):
        terms = [ORDERS * math.log(a) + (1 - ORDERS) * math.log(b) for a, b in (yes, no)]
        both.append(np.logaddexp(*terms) / (ORDERS - 1))
    return np.array(both)


def satisfies(p, q, rho):
    return bool((divergences(p, q) <= rho * ORDERS * (1 + 1e-9) + 1e-11).all())


def most(rho, epsilon):
    """The largest p - e^epsilon q of two answers that are rho-zCDP, by trying many q and bisecting for p."""
    best = 0.0
    for q in np.geomspace(1e-6, 0.9, 40):
        low, high = float(q), 1 - 1e-12
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if satisfies(middle, q, rho) else (low, middle)
        best = max(best, low - math.exp(epsilon) * q)
    return best


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "epsilon"), [(0.05, 0.0), (0.5, 0.5), (0.5, 2.5), (2.0, 0.0)])
def test_no_two_answers_tell_more_than_is_stated_and_some_nearly_as_much(rho, epsilon):
    found = ep.delta(ZeroConcentratedDP(rho), epsilon=epsilon)
    tried = most(rho, epsilon)
    assert 0.97 * found.upper < tried <= found.upper
    assert found.upper <= found.lower * 1.0001


@pytest.mark.parametrize("rho", [1e-4, 0.5, 10.0])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_mechanism_below_is_zcdp_and_one_that_is_not_is_found_out(rho, epsilon):
    found = _two_outcomes(rho, rho * epsilon)
    assert found is not None
    p, q = found
    assert satisfies(p, q, rho)
    assert not _keeps_both(0.99 * rho, p, q, 1e-5)


@pytest.mark.parametrize("part", [0.01, 0.1])
def test_what_lies_between_the_points_of_a_coarse_grid_is_not_overlooked(part):
    p, q = _two_outcomes(0.5, 1.5)
    least = (divergences(p, q) / ORDERS).max()  # the rho that it has
    assert 0.49999 < least < 0.5
    assert not any(_keeps_both(share * least, p, q, part) for share in (0.99, 0.999, 0.9999))


@pytest.mark.slow
def test_a_statement_alone_is_known_from_both_sides():
    for rho in (1e-8, 1e-3, 0.5, 100.0):
        for delta in (1e-2, 1e-6, 1e-12):
            found = ep.epsilon(ZeroConcentratedDP(rho), delta=delta)
            assert found.upper <= found.lower * 1.00002
            assert found.lower >= ep.epsilon(Gaussian(1 / math.sqrt(2 * rho)), delta=delta).lower * (1 - 1e-9)


def test_the_advantage_is_that_of_a_fair_coin():
    for rho in (0.01, 0.5, 3.0):
        found = ep.profile(ZeroConcentratedDP(rho)).advantage()
        for side, sign in ((found.lower, -1), (found.upper, 1)):
            assert sign * (2 * side * math.atanh(side) - rho) >= -1e-9
        assert found.upper <= found.lower * (1 + 2e-5)


def test_fixed_numbers():
    """Against the form with v = 0 (Canonne, Kamath & Steinke 2020), which needs no more than a sum."""

    def curve(orders):
        return 0.5 * orders

    few = ORDERS[ORDERS < 30]
    old = np.exp((few - 1) * (curve(few) - 0.5) + few * np.log1p(-1 / few)) / (few - 1)
    assert rdp_to_delta(curve, DEFAULT_ORDERS, 0.5, between=True) == pytest.approx(0.337740, rel=1e-5)
    assert old.min() == pytest.approx(0.39989, rel=1e-4)  # a fifth more
    assert rdp_to_delta(curve, DEFAULT_ORDERS, 4.5, between=True) == pytest.approx(2.68358e-5, rel=1e-4)


@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6, 1e-30])
def test_orders_between_are_no_worse_and_what_comes_back_keeps_delta(delta):
    def curve(orders):
        return 0.3 * orders

    between = rdp_to_epsilon(curve, DEFAULT_ORDERS, delta, between=True)
    plain = rdp_to_epsilon(curve, DEFAULT_ORDERS, delta)
    assert between <= plain <= rdp_to_epsilon_by_order(curve(DEFAULT_ORDERS), DEFAULT_ORDERS, delta=delta).min()
    assert rdp_to_delta(curve, DEFAULT_ORDERS, between, between=True) <= delta * 1.0003
    assert rdp_to_delta_with_order(curve, DEFAULT_ORDERS, between, between=True)[0] <= delta * 1.0003
