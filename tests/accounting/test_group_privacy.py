"""What a group loses: against what is known exactly, chains of random neighbors, and the ledger that charges it."""

import math
from itertools import pairwise

import numpy as np
import pytest
from tests.accounting.test_tuning import asking, hockey_stick

import epsilog as ep
from epsilog.accounting import group_privacy
from epsilog.mechanisms import (
    ApproximateDP,
    BestOfTrials,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Grouped,
    Laplace,
    PoissonSampled,
    PoissonTrialCount,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD, REPLACE, _ = NeighboringRelation
AS_FAR = [
    (Laplace(6.0), Laplace(2.0)),
    (Gaussian(6.0), Gaussian(2.0)),
    (DiscreteGaussian(5.0), DiscreteGaussian(5.0, 3)),
    (DiscreteLaplace(5.0, 2), DiscreteLaplace(5.0, 6)),
    (ExponentialMechanism(0.5), ExponentialMechanism(1.5)),
    (GaussianDP(0.5), GaussianDP(1.5)),
    (Repeated(Composed([Laplace(60.0), Gaussian(30.0)]), 40), Repeated(Composed([Laplace(20.0), Gaussian(10.0)]), 40)),
]


@pytest.mark.slow_beyond(6)
@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize(("one", "three"), AS_FAR, ids=lambda release: type(release).__name__)
def test_three_units_move_three_times_as_far(one, three, relation):
    found = ep.epsilon(one, delta=1e-4, relation=relation, group_size=3)
    known = ep.epsilon(three, delta=1e-4, relation=relation)
    assert found.upper == pytest.approx(known.upper, rel=1e-9)
    assert found.lower == pytest.approx(known.lower, rel=1e-6)
    assert found.given == (("delta", 1e-4), ("units", 3.0))


@pytest.mark.parametrize("stated", [PureDP(0.4), ApproximateDP(0.4, 1e-7)], ids=lambda one: type(one).__name__)
def test_statements_grow_as_the_theorem_says_and_laplace_noise_stands_below(stated):
    found = ep.epsilon(stated, delta=1e-6, group_size=3)
    least = ep.epsilon(Laplace(2.5 / 3), delta=1e-6)
    assert least.lower * (1 - 1e-9) <= found.lower <= found.upper <= 1.2 * (1 + 1e-9)
    assert ep.epsilon(PureDP(0.4), delta=0.0, group_size=3).upper == pytest.approx(1.2)
    shares = 1e-7 * (1 + math.exp(0.4) + math.exp(0.8))
    assert ep.delta(ApproximateDP(0.4, 1e-7), epsilon=1.2, group_size=3).upper == pytest.approx(shares, rel=1e-9)


def chain(rng, units):
    """Random neighbors, one after another."""
    laws = [rng.dirichlet(np.ones(4))]
    for _ in range(units):
        moved = laws[-1] * np.exp(rng.normal(0, 0.4, 4))
        laws.append(moved / moved.sum())
    return laws


def broken(units_told):
    """How many random chains of three steps tell more than the general bound says of so many."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(150):
        laws = chain(rng, 3)
        steps = [asking(p, q) for p, q in pairwise(laws)]

        def ask(one, question, above, steps=steps):
            sides = [step(one, question, above) for step in steps]
            return Bounds(0.0, max(side.upper for side in sides))

        one = Composition.of(RandomizedResponse(0.5), REPLACE)  # a release with no other bound
        for epsilon in (0.0, 0.5, 1.5):
            upper, _ = group_privacy.bound_group(
                one, DeltaAt(epsilon), units=units_told, relative_width=0.002, above=True, ask=ask
            )
            found += hockey_stick(laws[0], laws[3], epsilon) > upper.upper * (1 + 1e-9)
    upper, _ = group_privacy.bound_group(
        one, EpsilonAt(0.01), units=units_told, relative_width=0.002, above=True, ask=ask
    )
    return found + (hockey_stick(laws[0], laws[3], upper.upper) > 0.01 * (1 + 1e-9))


def test_no_chain_of_neighbors_tells_more_than_the_general_bound():
    assert broken(3) == 0


def test_a_bound_for_too_few_units_is_broken():
    assert broken(1) > 20


@pytest.mark.slow
def test_a_person_s_price_lies_between_one_record_s_and_what_sampling_does_not_hide():
    sgd = Repeated(PoissonSampled(Gaussian(1.5), 0.02), 200)
    one, four = (ep.epsilon(sgd, delta=1e-6, group_size=k) for k in (1, 4))
    assert 4 * one.upper < four.lower <= four.upper < 1.005 * four.lower
    assert ep.delta(sgd, epsilon=four.upper, group_size=4).upper <= 1e-6
    for base in (
        PoissonSampled(Laplace(2.0), 0.1),
        PoissonSampled(Gaussian(1e-3), 0.1),
    ):
        found = ep.epsilon(base, delta=1e-6, group_size=3)
        inner = Grouped(base.release, 3)
        assert ep.epsilon(base, delta=1e-6).lower <= found.lower <= found.upper <= ep.epsilon(inner, delta=1e-6).upper
        assert any("as a whole" in str(line) for line in found.assumptions)
        assert any("more than 3" in str(line) for line in found.assumptions)


def test_a_group_of_trials_is_priced_as_trials_of_the_group():
    tuned = BestOfTrials(Gaussian(8.0), PoissonTrialCount(3.0))
    one, two = ep.epsilon(tuned, delta=1e-6), ep.epsilon(tuned, delta=1e-6, group_size=2)
    assert one.upper < two.upper < math.inf
    held = ep.epsilon(BestOfTrials(Grouped(Gaussian(8.0), 2), PoissonTrialCount(3.0)), delta=1e-6)
    assert (two.lower, two.upper) == (held.lower, held.upper)
    twice = ep.epsilon(BestOfTrials(Gaussian(4.0), PoissonTrialCount(3.0)), delta=1e-6)
    assert held.upper == pytest.approx(twice.upper), "for a Gaussian the group moves the sum twice as far"
    share = two.upper / 2  # what any curve of one unit says of two
    general = ep.delta(tuned, epsilon=share).upper * math.expm1(two.upper) / math.expm1(share)
    assert general > 1e-6, "which is looser"
    assert dict(two.given)["units"] == 2
