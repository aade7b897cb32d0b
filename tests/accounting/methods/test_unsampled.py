"""Leaving units out of rounds never costs: no sampled or binned answer is above that of the same rounds with all."""

import pytest

from epsilog.accounting import delta, epsilon
from epsilog.accounting.account import compute_interval
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Repeated,
)
from epsilog.mechanisms.composition import Composition, flatten
from epsilog.numerics.questions import EpsilonAt
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def plain(release):
    bag = flatten(release).items()
    return Composed(Repeated(part.without_sampling(ADD) if part.is_amplified else part, count) for part, count in bag)


@pytest.mark.slow
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


@pytest.mark.slow
def test_only_the_bins_that_do_not_help_are_ignored():
    """Beside useless bins the sampling of the other rounds still counts."""
    steps = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1_000)
    release = Composed([Repeated(BallsInBins(Gaussian(0.5), 2), 10), steps])
    everyone = epsilon(Composed([Repeated(Gaussian(0.5), 10), steps]), delta=1e-6).upper
    assert epsilon(release, delta=1e-6).upper <= everyone
    assert everyone < 0.2 * epsilon(plain(release), delta=1e-6).upper


@pytest.mark.slow
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
