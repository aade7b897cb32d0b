"""Exponential mechanisms: the best instance from below, by exact binomial sums, and what is proven above."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

from epsilog.accounting import delta, epsilon
from epsilog.mechanisms import Composed, ExponentialMechanism, Laplace, PoissonSampled, Repeated
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def one_instance(count, reach, larger, at):
    """Delta of ``count`` mechanisms with two outputs, losses ``larger`` and ``larger - reach``: a binomial sum."""
    often = (math.exp(reach) - math.exp(larger)) / (math.exp(reach) - 1)
    i = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(i + 1) - gammaln(count - i + 1)
    logs = logs + (count - i) * math.log(often) + i * math.log1p(-often)
    return float(np.exp(logs) @ np.maximum(-np.expm1(np.minimum(at - (count * larger - i * reach), 0.0)), 0.0))


def best_instance(count, reach, at):
    return max(one_instance(count, reach, lean * reach, at) for lean in np.linspace(0.01, 0.995, 300))


@pytest.mark.parametrize("at", [0.0, 0.3, 0.9])
def test_one_mechanism_is_priced_exactly(at):
    """H(e) = (e^(s/2) - e^(e/2))^2 / (e^s - 1), attained by the instance t = (s + e) / 2."""
    found = delta(ExponentialMechanism(1.0), epsilon=at)
    exact = (math.exp(0.5) - math.exp(at / 2)) ** 2 / (math.e - 1)
    assert found.lower <= exact * (1 + 1e-9)
    assert found.upper >= exact * (1 - 1e-9)
    assert found.relative_width <= 2e-3


@pytest.mark.parametrize(("count", "reach", "share"), [(5, 1.0, 0.6), (10, 1.0, 0.75), (100, 0.1, 0.2), (10, 3.0, 0.8)])
def test_composed_the_lower_bound_is_near_the_best_instance_and_the_upper_above_it(count, reach, share):
    at = share * count * reach
    found = delta(Repeated(ExponentialMechanism(reach), count), epsilon=at)
    best = best_instance(count, reach, at)
    assert 0.3 * best <= found.lower <= best * (1 + 1e-3)
    assert found.upper >= best * (1 - 1e-9)
    assert found.lower > 1.2 * one_instance(count, reach, reach / 2, at)  # the control: the middle alone is worse


@pytest.mark.parametrize(
    ("count", "reach", "widest"), [(1, 1.0, 0.002), (10, 1.0, 0.06), (10, 3.0, 0.05), (1000, 0.3, 0.06)]
)
def test_the_interval_is_narrower_than_the_middle_instance_left_it(count, reach, widest):
    found = epsilon(Repeated(ExponentialMechanism(reach), count), delta=1e-6)
    assert 0 < found.relative_width <= widest


def test_the_two_losses_lie_one_range_apart_and_both_laws_are_whole():
    for law in ExponentialMechanism(4.0, monotone=True).instances(alone=True):
        assert law.u[1] - law.u[0] == pytest.approx(2.0)
        assert law.p.sum() == pytest.approx(1)
        assert float(law.p @ np.exp(-law.u)) == pytest.approx(1)


def test_sampled_and_mixed_ones_keep_their_order():
    for release in (
        Repeated(PoissonSampled(ExponentialMechanism(1.0), 0.1), 30),
        Composed([Repeated(ExponentialMechanism(1.0), 4), Repeated(Laplace(2.0), 3)]),
    ):
        found = epsilon(release, delta=1e-6)
        assert 0 < found.lower <= found.upper
        assert found.relative_width < 0.2
