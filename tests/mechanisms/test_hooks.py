"""What mechanisms say of themselves: each hook against what it stands for, and the defaults, which claim nothing."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    BestOfTrials,
    BoundedParticipation,
    CyclicPoissonParticipation,
    FullParticipation,
    Gaussian,
    Grouped,
    Laplace,
    MatrixMechanism,
    MinSepParticipation,
    PoissonSampled,
    PoissonTrialCount,
    PureDP,
    RandomAllocationParticipation,
    Release,
    Repeated,
    ToeplitzStrategy,
    TrialDistribution,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def run(participation, rounds):
    return MatrixMechanism(ToeplitzStrategy((1.0,)), participation, rounds, 1.0)


class Unknown(Release):
    """A mechanism without a single hook."""


def test_a_mechanism_without_hooks_claims_nothing():
    bare = Unknown()
    assert (bare.gaussian_mu(ADD), bare.pure_loss(ADD), bare.zcdp(ADD)) == (None, None, None)
    assert (bare.statement, bare.sampled_gaussian, bare.one_trial, bare.exact_share) == ({}, None, None, None)
    assert (bare.repeats, bare.as_matrix(), bare.parts(), bare.for_group(ADD, 2, above=True)) == (None,) * 4
    assert (bare.between(), bare.subsample(Fraction(1, 2), above=True), bare.uncut(), bare.failing()) == (None,) * 4
    assert (bare.batches(), bare.compute_sampled_count(3), bare.group) == (None,) * 3
    for ask in (bare.sample, lambda: bare.with_noise(1.0), lambda: bare.claim(ADD)):
        with pytest.raises(UnsupportedMechanismError):
            ask()
    assert (bare.instances(alone=True), bare.allocation(ADD)) == ((), None)
    assert bare.replace_one_pairs({bare: 1}, 0.5) is None


@pytest.mark.parametrize(
    ("ask", "hook"),
    [
        (lambda one: one.base_pairs(ADD), "laws"),
        (lambda one: one.rdp(np.array([2.0]), ADD), "rdp"),
        (lambda one: epsilon(one, delta=1e-6), "laws"),
        (lambda one: epsilon(PoissonSampled(one, 0.5), delta=1e-6), "laws"),
    ],
)
def test_a_refusal_names_the_hook_that_is_missing(ask, hook):
    with pytest.raises(UnsupportedMechanismError, match=rf"Unknown has no {hook}\(\)"):
        ask(Unknown())


def test_repetitions_of_a_sample_are_one_run_of_a_matrix():
    run = Repeated(Repeated(PoissonSampled(Gaussian(2.0), 0.25), 2), 3).as_matrix()
    assert run == MatrixMechanism(ToeplitzStrategy((1.0,)), CyclicPoissonParticipation(1, 0.25), 6, 2.0)
    assert Repeated(BallsInBins(Gaussian(1.0), 4), 2).as_matrix() is None  # bins are drawn anew
    assert PoissonSampled(Laplace(1.0), 0.5).as_matrix() is None


def test_noise_is_changed_where_it_is():
    assert Repeated(PoissonSampled(Gaussian(1.0), 0.5), 3).with_noise(2.0) == Repeated(
        PoissonSampled(Gaussian(2.0), 0.5), 3
    )
    with pytest.raises(UnsupportedMechanismError):
        Repeated(PureDP(1.0), 2).with_noise(1.0)


def test_a_sample_of_a_sample_lies_between_samples_with_the_product_of_the_chances():
    above, below = PoissonSampled(PoissonSampled(Laplace(2.0), 0.1), 0.3).between()
    chance = Fraction(0.1) * Fraction(0.3)
    assert below.sampling_probability <= chance <= above.sampling_probability
    assert above.release == below.release == Laplace(2.0)
    assert above.sampling_probability - below.sampling_probability < 1e-17
    assert PoissonSampled(Laplace(2.0), 0.1).between() is None


def test_the_best_of_trials_costs_a_group_what_a_trial_costs_it():
    law = PoissonTrialCount(3.0)
    one = Grouped(BestOfTrials(Laplace(1.0), law), 2)
    assert (one.one_trial, one.group) == ((Grouped(Laplace(1.0), 2), law), (BestOfTrials(Laplace(1.0), law), 2))
    assert Grouped(one, 3).one_trial is None


@pytest.mark.parametrize(
    ("release", "batches"),
    [
        (Repeated(PoissonSampled(Gaussian(1.0), 0.25), 6), [(0.25, 6)]),
        (Repeated(BallsInBins(Gaussian(1.0), 4, 3), 2), [(0.25, 8)]),
        (run(BallsInBinsParticipation(4), 10), [(0.25, 4)]),
        (run(CyclicPoissonParticipation(4, 0.5), 10), [(0.125, 10)]),
        (run(RandomAllocationParticipation(5), 10), [(0.5, 10)]),
        (run(MinSepParticipation(2, 0.5, warm_start=True), 10), [(1 / 3, 10)]),
        (run(MinSepParticipation(3, 0.5), 3), [(0.5, 1), (0.25, 1), (0.125, 1)]),
    ],
)
def test_batches_have_the_chances_and_numbers_that_are_drawn(release, batches):
    found = release.batches()
    assert [count for _, count in found] == [count for _, count in batches]
    for (chance, _), (exact, _) in zip(found, batches, strict=True):
        assert exact <= chance <= exact * (1 + 1e-8)


def test_what_is_not_drawn_has_no_batches():
    assert run(BoundedParticipation(2), 4).batches() is run(FullParticipation(), 4).batches() is None
    assert Repeated(Gaussian(1.0), 2).batches() is None


def test_trials_that_cannot_be_drawn_are_never_made():
    @dataclass(frozen=True, slots=True)
    class Undrawn(TrialDistribution):
        most: int = 1

    with pytest.raises(TypeError, match="draw"):
        Undrawn()
