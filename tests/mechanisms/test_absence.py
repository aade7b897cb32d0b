"""A sample hides a statement only where its relation says what is released without the unit; else it hides nothing."""

import math

import pytest

from epsilog.accounting import calibrate, delta, epsilon, list_assumptions, profile
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
)
from epsilog.terms import CalibrationError, NeighboringRelation

ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
ZERO_OUT = NeighboringRelation.ZERO_OUT
STATEMENTS = [PureDP(1.0), ApproximateDP(1.0, 1e-6), GaussianDP(1.0), ExponentialMechanism(1.0)]
HIDDEN = [
    Composed([Gaussian(1.0), GaussianDP(0.5)]),
    Repeated(GaussianDP(0.5), 3),
    Composed([PoissonSampled(GaussianDP(1.0), 1.0)]),
]


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.every(14)
@pytest.mark.parametrize("statement", [*STATEMENTS, *HIDDEN], ids=str)
@pytest.mark.parametrize(
    "sample",
    [lambda base: PoissonSampled(base, 0.1), lambda base: BallsInBins(base, bins=10, epochs=2)],
    ids=["poisson", "bins"],
)
@pytest.mark.parametrize("around", [lambda r: r, lambda r: Repeated(r, 3), lambda r: Composed([Gaussian(1.0), r])])
def test_samples_hide_no_statement_under_zero_out(statement, sample, around):
    release, whole = around(sample(statement)), around(told(sample(statement)))
    for name, ask in {
        "epsilon": lambda one: epsilon(one, delta=1e-5, relation=ZERO_OUT).upper,
        "pure": lambda one: epsilon(one, delta=0.0, relation=ZERO_OUT).upper,
        "delta": lambda one: delta(one, epsilon=1.0, relation=ZERO_OUT).upper,
        "rate": lambda one: profile(one, relation=ZERO_OUT).tpr(0.1).upper,
    }.items():
        least = ask(whole) * 0.99
        if name in NOTHING and release == Repeated(PoissonSampled(statement, 0.1), 3):
            least = min(least, 0.99 * seen([NOTHING[name], *(ask(Repeated(statement, k)) for k in (1, 2, 3))]))
        assert ask(release) >= least
    found = epsilon(release, delta=1e-5, relation=ZERO_OUT)
    assert found.upper <= epsilon(whole, delta=1e-5, relation=ZERO_OUT).upper * 1.01


NOTHING = {"delta": 0.0, "rate": 0.1}  # what is asked of a release in which the unit is not


def seen(answers):
    """What three samples of a tenth cost whoever sees in how many the unit is: its coins hide it in delta alone."""
    return math.fsum(math.comb(3, k) * 0.1**k * 0.9 ** (3 - k) * answer for k, answer in enumerate(answers))


def told(release):
    """What is computed on a sample, as often as on it."""
    return Repeated(release.release, getattr(release, "epochs", 1))


def test_a_goal_that_only_hiding_would_meet_is_not_met():
    with pytest.raises(CalibrationError):
        calibrate(lambda q: PoissonSampled(PureDP(1.0), q), epsilon=0.5, delta=1e-6, relation=ZERO_OUT, high=0.9)


def test_publishing_the_size_undoes_the_amplification():
    """Randomized response on the unit's bit (an absent unit is no answer), and the size: epsilon-DP under zero-out."""
    stated, share = 1.0, 0.1
    true = 1 / (1 + math.exp(-stated))
    with_unit = {(1, 1): share * true, (1, 0): share * (1 - true), (0, None): 1 - share}
    zeroed = {(1, 1): share * (1 - true), (1, 0): share * true, (0, None): 1 - share}
    real = max(math.log(with_unit[seen] / zeroed[seen]) for seen in with_unit)
    assert real == pytest.approx(stated)
    amplified = epsilon(PoissonSampled(PureDP(stated), share), delta=0.0).upper
    assert amplified < 0.2 * real  # what was claimed for zero-out, too


@pytest.mark.parametrize("noise", [Gaussian(1.0), Laplace(1.0), DiscreteGaussian(2.0)], ids=str)
def test_sums_with_noise_have_the_price_of_add_or_remove(noise):
    release = Repeated(PoissonSampled(noise, 0.1), 5)
    one, other = (epsilon(release, delta=1e-5, relation=relation) for relation in (ADD_OR_REMOVE, ZERO_OUT))
    assert (one.lower, one.upper) == (other.lower, other.upper)


@pytest.mark.slow
@pytest.mark.parametrize("statement", [*STATEMENTS[:-1], pytest.param(STATEMENTS[-1], marks=pytest.mark.slow)], ids=str)
def test_statements_are_priced_where_their_relation_speaks(statement):
    assert epsilon(statement, delta=1e-5, relation=ZERO_OUT).upper < math.inf
    assert epsilon(PoissonSampled(statement, 0.1), delta=1e-5).upper < math.inf
    assert epsilon(FixedSizeSampled(statement, 10, 100), delta=1e-5, relation=REPLACE).upper < math.inf
    assert epsilon(PoissonSampled(statement, 1.0), delta=1e-5, relation=ZERO_OUT).upper < math.inf


def test_a_poisson_release_names_all_that_it_needs():
    held = "; ".join(map(str, list_assumptions(PoissonSampled(Gaussian(1.0), 0.1))))
    for needed in ("independently", "whole sample", "truncated", "public numbers", "hidden"):
        assert needed in held
    assert "on every possible sample" not in held
    assert "on every possible sample" in "; ".join(map(str, list_assumptions(BallsInBins(GaussianDP(1.0), 10))))
    assert "on every possible sample" in "; ".join(
        map(str, list_assumptions(PoissonSampled(Composed([Gaussian(1.0), GaussianDP(1.0)]), 0.1)))
    )
