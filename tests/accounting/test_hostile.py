"""What nobody means to ask: counts beyond all doubles, orders beyond all memory, ends hit to the last digit."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, epsilon_curve, list_assumptions, mu, profile, rdp, renyi_epsilon, rho
from epsilog.mechanisms import (
    ApproximateDP,
    BestOfTrials,
    BinomialTrialCount,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Grouped,
    PoissonSampled,
    PureDP,
    Release,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
MOST = 2**53 - 1


@pytest.mark.slow
def test_a_group_at_its_largest_loss_has_nothing_left_and_just_below_it_something():
    rng, below = np.random.default_rng(5), 0
    for _ in range(60):
        stated, units = float(rng.uniform(0.01, 2.0)), int(rng.integers(2, 61))
        at = units * stated
        for one in (at, math.nextafter(at, 0.0)):
            left = Fraction(stated) * units > Fraction(one)
            below += left
            assert (profile(PureDP(stated)).group_delta(units=units, epsilon=one).upper > 0) >= left
    assert below > 60
    assert profile(PureDP(1.0)).group_delta(units=3, epsilon=3.0).upper == 0


@pytest.mark.every(1)
@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("depth", [33, 10_000])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda one: PoissonSampled(one, 0.999),
        lambda one: Grouped(one, 2),
        lambda one: BestOfTrials(one, BinomialTrialCount(2, 0.5)),
        lambda one: PoissonSampled(Composed([one, one]), 0.999),
    ],
    ids=["sampled", "grouped", "tuned", "composed"],
)
def test_what_is_nested_beyond_all_stacks_is_refused(wrap, depth):
    release = Gaussian(2.0)
    for _ in range(depth):
        release = wrap(release)
    for ask in (partial(epsilon, delta=1e-6), rho, list_assumptions, partial(renyi_epsilon, delta=1e-6), mu):
        with pytest.raises(UnsupportedMechanismError, match="more than 32 terms lie around it"):
            ask(release)


@pytest.mark.slow
def test_composition_is_nested_as_deeply_as_one_likes():
    release = Gaussian(2.0)
    for _ in range(20_000):
        release = Composed([Repeated(release, 1)])
    assert epsilon(release, delta=1e-6) == epsilon(Gaussian(2.0), delta=1e-6)


@pytest.mark.parametrize(
    ("release", "exact"),
    [
        (PureDP(1e-200), 5e-401),
        (Gaussian(1e200), 5e-401),
        (DiscreteGaussian(1e200), 5e-401),
        (ExponentialMechanism(1e-170), 1.25e-341),
        (DiscreteGaussian(1e-200), math.inf),
        (ExponentialMechanism(1e200), math.inf),
        (PureDP(1e200), math.inf),
        (PureDP(0.0), 0.0),
    ],
)
def test_rho_is_rounded_up_at_either_end_of_the_doubles(release, exact):
    found = rho(release)
    assert found >= exact
    assert (found > 0) == (release != PureDP(0.0))


@pytest.mark.parametrize("order", [2.0**20 + 0.5, 1e9 + 0.5, 1e12, 1e300])
def test_orders_beyond_any_sum_leave_sampling_out(order):
    sampled = rdp(PoissonSampled(Gaussian(1.0), 0.1), np.array([order]), relation=ADD)
    assert sampled == rdp(Gaussian(1.0), np.array([order]), relation=ADD)


@pytest.mark.parametrize(
    "orders",
    [
        None,
        2.0,
        np.array(2.0),
        [[2.0, 3.0]],
        "23",
        [1j],
        [10**5000],
        [object()],
        [],
        [2.0, 1.0],
        [0.5],
        [math.inf],
        [math.nan],
    ],
)
def test_orders_are_a_series_of_numbers(orders):
    with pytest.raises(ValueError, match="orders"):
        rdp(PoissonSampled(Gaussian(1.0), 0.1), orders, relation=ADD)
    with pytest.raises(ValueError, match="orders"):
        renyi_epsilon(Gaussian(1.0), delta=1e-5, orders=orders)


@pytest.mark.parametrize("other", [None, 1.0, [Gaussian(1.0)], np.array([1.0]), "gaussian", Gaussian])
@pytest.mark.parametrize("asked", [mu, rho, list_assumptions, lambda it: rdp(it, np.array([2.0]), relation=ADD)])
def test_only_releases_are_read(asked, other):
    with pytest.raises(ValueError, match="release must be a Release"):
        asked(other)


@pytest.mark.parametrize("other", [None, 1.0, np.array(1.0), "ab", True])
def test_only_series_are_composed_and_counted(other):
    with pytest.raises(ValueError, match="releases must be a series"):
        Composed(other)
    with pytest.raises(ValueError, match="rounds must be a series"):
        epsilon_curve(Gaussian(1.0), other, delta=1e-5)


@pytest.mark.parametrize("one", [PureDP(1e-9), ApproximateDP(1e-3, 1e-9), Gaussian(1e3), ZeroConcentratedDP(1e-3)])
def test_counts_that_no_double_holds_are_refused(one):
    release: Release = one
    for _ in range(22):
        release = Repeated(release, MOST)
    for asked in (
        lambda: epsilon(release, delta=1e-5),
        lambda: epsilon(release, delta=0.0),
        lambda: delta(release, epsilon=1.0),
        lambda: rho(release),
        lambda: profile(release).tpr(0.1),
        lambda: profile(release).group_delta(units=2, epsilon=1.0),
    ):
        with pytest.raises(UnsupportedMechanismError, match="number of rounds"):
            asked()


def test_one_order_that_gives_everything_away_settles_a_lower_bound():
    mix = Composed(
        [
            FixedSizeSampled(
                ApproximateDP(643.2192080647122, 0.0009305482367675712), 2655490986816414, 8937802812404111
            ),
            FixedSizeSampled(PureDP(1.6139982607223216), 5846260083795010, 6092629596482806),
        ]
    )
    found = epsilon(mix, delta=1e-5, relation=REPLACE)
    assert found.lower == found.upper == math.inf


def test_what_gives_everything_away_is_known_below_whatever_a_lattice_sees():
    rare = PoissonSampled(ApproximateDP(0.5, 1.8417680250772485e-08), 2.0**-32)
    mix = Composed([DiscreteLaplace(42.628024003674284, 4), Repeated(rare, 3)])
    found, exact = delta(mix, epsilon=0.3), 3 * 2.0**-32 * 1.8417680250772485e-08
    assert found.lower <= exact * (1 + 1e-15)
    assert exact * (1 - 1e-15) <= found.upper
    assert found.lower == pytest.approx(exact, rel=1e-12)
