"""Where accountants break: masses that cancel, noise next to none, laws that one point holds, counts beyond memory."""

import math

import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, profile
from epsilog.accounting.dominating import base_laws
from epsilog.accounting.lattice import merge, pair_delta
from epsilog.accounting.laws import Link, Pair
from epsilog.terms import (
    ApproximateDP,
    Composed,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    NeighboringRelation,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)

ADD, REPLACE, ZERO = NeighboringRelation


@pytest.mark.parametrize("stated", [20.0, 36.0, 37.0, 100.0, 590.0])
def test_a_statement_with_a_huge_epsilon_still_loses_all_when_it_is_sampled(stated):
    """Being sampled once in ten rounds gives the unit away, with probability 1 - 0.99^10."""
    release = Repeated(PoissonSampled(PureDP(stated), 0.01), 10)
    exact = -math.expm1(10 * math.log1p(-0.01))
    found = delta(release, epsilon=1.0)
    assert found.upper >= exact * (1 - 1e-6)
    assert found.upper <= exact * 1.01
    assert epsilon(release, delta=1e-5).lower > stated - 5


@pytest.mark.parametrize(
    "release", [PureDP(0.001), PureDP(5.0), PureDP(40.0), PureDP(599.0), RandomizedResponse(1e-20, 1000)]
)
def test_both_laws_of_a_statement_are_whole(release):
    law = base_laws(release, REPLACE)[0]
    assert math.fsum(law.p) == pytest.approx(1, rel=1e-14)
    assert math.fsum(p * math.exp(-u) for p, u in zip(law.p, law.u, strict=True)) == pytest.approx(1, rel=1e-12)


def test_merging_laws_with_atoms_loses_and_never_fails():
    rng = np.random.default_rng(1)
    for _ in range(120):
        stated = ApproximateDP(float(10 ** rng.uniform(-3, 1)), float(rng.choice([0.0, 1e-5])))
        link = (Link.PLAIN, Link.REMOVE, Link.ADD)[rng.integers(3)]
        pair = Pair(base_laws(stated, ADD)[1], 1.0 if link is Link.PLAIN else float(10 ** rng.uniform(-4, -0.1)), link)
        low, high = pair.reach(1e-12)
        step = (high - low) / int(rng.integers(3, 60)) * float(rng.uniform(0.5, 2))
        offset = pair.anchor() if rng.random() < 0.5 else float(rng.uniform(low, high))
        first, last = math.floor((low - offset) / step) - 1, math.ceil((high - offset) / step) + 1
        law = merge(pair, np.unique(rng.integers(first, last + 1, 60)), step=step, offset=offset)
        for at in rng.uniform(low, high, 5):
            losses = law.offset + step * law.points
            found = law.infinite + float(np.sum(np.where(losses > at, -np.expm1(at - losses) * law.weight, 0.0)))
            assert found <= pair_delta(pair, float(at))[1] * (1 + 1e-12) + 1e-16


@pytest.mark.parametrize(
    "release",
    [
        Repeated(PoissonSampled(Gaussian(0.01), 1e-3), 1000),
        Repeated(PoissonSampled(Gaussian(1e-12), 0.5), 10),
        Repeated(PoissonSampled(Gaussian(100.0), 1e-6), 2**53 - 1),
    ],
)
def test_what_no_lattice_holds_is_bounded_loosely_not_refused_nor_hung_on(release):
    found = delta(release, epsilon=1.0)
    assert 0 <= found.lower <= found.upper <= 1
    assert found.upper > 0.5


def test_an_empty_sample_costs_nothing():
    nothing = FixedSizeSampled(Gaussian(1.0), sample_size=0, population=10)
    assert epsilon(Repeated(nothing, 5), delta=1e-6, relation=REPLACE).upper == 0
    assert delta(nothing, epsilon=1.0, relation=REPLACE).upper == 0


def test_what_underflows_is_not_nothing():
    """With noise of 1e8 delta at 1 is about e^-1e16: no double holds it, and 0 would be a lie."""
    assert delta(PoissonSampled(Gaussian(1e8), 0.5), epsilon=1.0).upper > 0
    assert delta(Repeated(PoissonSampled(Gaussian(1e8), 0.5), 10), epsilon=1.0).upper > 0
    assert delta(PureDP(1.0), epsilon=1.0001).upper == 0


def test_a_hair_below_the_largest_loss_something_is_left():
    release = PoissonSampled(PureDP(6.0), 1e-4)
    most = epsilon(release, delta=0.0).lower
    assert 0 < delta(release, epsilon=most).upper < 1e-15


def test_the_rate_of_true_positives_is_that_of_one_order_of_the_neighbours():
    """N(0) against 0.7 N(0) + 0.3 N(1/0.3) at FPR 0.3: the better order reaches 0.50925, by integrating both."""
    found = profile(PoissonSampled(Gaussian(0.3), 0.3)).tpr(0.3)
    assert 0.3 < found.lower <= 0.5092544 <= found.upper


def test_groups_at_an_epsilon_whose_exponential_overflows():
    assert profile(PoissonSampled(Gaussian(1.0), 0.1)).group_delta(units=2, epsilon=800.0).upper < 1e-100
    assert profile(PureDP(500.0)).group_delta(units=2, epsilon=800.0).upper == 1
    assert profile(PureDP(1.0)).group_delta(units=2, epsilon=1000.0).upper == 0


def test_one_gaussian_without_noise_gives_a_whole_mix_away():
    mix = Composed([Gaussian(0.0), Laplace(1.0)])
    assert epsilon(mix, delta=1e-5).lower == math.inf
    assert delta(mix, epsilon=1.0).upper == 1
