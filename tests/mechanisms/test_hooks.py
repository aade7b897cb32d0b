"""What mechanisms say of themselves: each hook against what it stands for, and the defaults, which claim nothing."""

import numpy as np
import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import (
    BallsInBins,
    CyclicParticipation,
    Gaussian,
    Laplace,
    MatrixMechanism,
    PoissonSampled,
    PureDP,
    Release,
    Repeated,
    ToeplitzStrategy,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


class Unknown(Release):
    """A mechanism without a single hook."""


def test_a_mechanism_without_hooks_claims_nothing():
    bare = Unknown()
    assert (bare.gaussian_mu(ADD), bare.pure_loss(ADD), bare.zcdp(ADD)) == (None, None, None)
    assert (bare.statement, bare.sampled_gaussian, bare.one_trial, bare.exact_share) == ({}, None, None, None)
    assert (bare.repeats, bare.as_matrix(), bare.parts(), bare.for_group(ADD, 2, above=True)) == (None,) * 4
    for ask in (bare.sample, lambda: bare.renoised(1.0), lambda: bare.exact_law(ADD)):
        with pytest.raises(UnsupportedMechanismError):
            ask()
    assert (bare.instances(alone=True), bare.allocation(ADD)) == ((), None)
    assert bare.replaced({bare: 1}, 0.5) is None


@pytest.mark.parametrize(
    ("ask", "hook"),
    [
        (lambda one: one.laws(ADD), "laws"),
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
    assert run == MatrixMechanism(ToeplitzStrategy((1.0,)), CyclicParticipation(1, 0.25), 6, 2.0)
    assert Repeated(BallsInBins(Gaussian(1.0), 4), 2).as_matrix() is None  # bins are drawn anew
    assert PoissonSampled(Laplace(1.0), 0.5).as_matrix() is None


def test_noise_is_changed_where_it_is():
    assert Repeated(PoissonSampled(Gaussian(1.0), 0.5), 3).renoised(2.0) == Repeated(
        PoissonSampled(Gaussian(2.0), 0.5), 3
    )
    with pytest.raises(UnsupportedMechanismError):
        Repeated(PureDP(1.0), 2).renoised(1.0)
