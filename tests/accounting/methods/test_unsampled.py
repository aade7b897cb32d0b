"""Leaving units out of rounds never costs: no sampled or binned answer is above that of the same rounds with all."""

import math

import pytest

from epsilog.accounting import delta, epsilon
from epsilog.accounting.account import compute_interval
from epsilog.accounting.methods.unsampled import bound_without_sampling
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Repeated,
)
from epsilog.mechanisms.composition import Composition, flatten
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.questions import DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def plain(release):
    bag = flatten(release).items()
    return Composed(Repeated(part.without_sampling(ADD) if part.is_amplified else part, count) for part, count in bag)


@pytest.mark.slow
@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("release", "at"),
    [
        (Composed([BallsInBins(Gaussian(1.2), 2), Gaussian(2.0)]), 1e-2),  # said 5.868 for 2.2305
        (Repeated(BallsInBins(Gaussian(0.5), 2), 100), 1e-6),  # said inf for 294.2
        (Composed([BallsInBins(Gaussian(0.05), 3), Gaussian(2.0)]), 1e-6),
        (Repeated(BallsInBins(Gaussian(0.01), 2), 2), 1e-6),
        (Repeated(BallsInBins(Gaussian(1e3), 2, epochs=10**6), 2), 1e-6),
    ],
)
def test_bins_beside_gaussians_cost_no_more_than_the_gaussians(release, at):
    everyone = epsilon(plain(release), delta=at).upper
    found = epsilon(release, delta=at)
    assert found.lower <= found.upper <= everyone
    assert compute_interval(Composition.of(release, ADD), EpsilonAt(at), above=True)[0].upper <= everyone
    assert delta(release, epsilon=found.upper).upper <= at * (1 + 1e-6)


@pytest.mark.extended
def test_little_noise_under_replace_one():
    """Its pair leaves the numbers: above stand the sample itself, told with all in it, and the unsampled Gaussian."""
    release = Repeated(PoissonSampled(Gaussian(0.02), 1e-9), 10)
    assert epsilon(release, delta=1.1e-8, relation=REPLACE).upper == 0
    assert delta(release, epsilon=1.0, relation=REPLACE).upper == pytest.approx(1e-8, rel=1e-6)
    found = epsilon(release, delta=1e-9, relation=REPLACE)
    assert found.upper <= epsilon(Repeated(Gaussian(0.02), 10), delta=1e-9, relation=REPLACE).upper
    assert epsilon(PoissonSampled(Gaussian(1 / 36), 0.5), delta=1e-6, relation=REPLACE).upper >= (
        epsilon(PoissonSampled(Gaussian(1 / 36.001), 0.5), delta=1e-6, relation=REPLACE).lower
    )


def test_a_sample_of_all_is_all():
    assert Composition.of(PoissonSampled(Gaussian(1.0), 1.0)).sampled == ()
    assert plain(FixedSizeSampled(Gaussian(1.0), 3, 10)) == Composed([Repeated(Gaussian(1.0), 1)])


@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize("most", [1 / 16, 1 / 32, 1 / 48])
def test_revealed_rounds_cover_every_kind_of_sample(kinds, most):
    """With next to no noise, delta is the chance of being in any round: what the kinds may miss adds up."""
    probability = 0.99 * most
    rounds = Composed(PoissonSampled(Gaussian(1e-3 * (1 + kind)), probability) for kind in range(kinds))
    found = bound_without_sampling(Composition.of(rounds, ADD), DeltaAt(5.0), 1e-3, upper=lambda *_: math.inf)
    assert found.upper >= 1 - (1 - probability) ** kinds


@pytest.mark.parametrize(
    ("release", "distance"),
    [
        (Composed([Repeated(Gaussian(3.0), 9), PoissonSampled(Gaussian(1e4), 1e-9)]), 1.0),
        (Repeated(PoissonSampled(Gaussian(3.0), 1 - 1e-9), 9), 1.0),
        (Composed([Gaussian(2.0), Repeated(PoissonSampled(Gaussian(4.0), 1 - 1e-9), 12)]), 1.0),
    ],
)
def test_revealed_rounds_are_as_many_as_there_are(release, distance):
    """The unit is in nearly all rounds or in none that counts: their release is nearly one Gaussian."""
    found = bound_without_sampling(Composition.of(release, ADD), DeltaAt(0.5), 1e-3, upper=lambda *_: math.inf)
    assert found.upper >= gaussian_delta(distance, 0.5)[0] - 1e-7
