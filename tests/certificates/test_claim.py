"""A claim states the very release: its decimals read back as the same doubles, and what is not covered is named."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from epsilog.certificates import restate_claim, write_claim
from epsilog.certificates.checker import open_checker
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    BestOfTrials,
    Composed,
    DenseStrategy,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    FullParticipation,
    Gaussian,
    GaussianDP,
    Grouped,
    Laplace,
    MatrixMechanism,
    PoissonSampled,
    PoissonTrialCount,
    PureDP,
    RandomizedResponse,
    Repeated,
    Shuffled,
    Staircase,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.formatting import format_decimal

READS = open_checker()["number"]


def claim(release, **given):
    return write_claim(release, epsilon="1", delta=1e-5, **given)


def mechanism(release, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    (one,) = claim(release, relation=relation)["releases"]
    (found,) = one["mechanisms"]
    return found


@given(st.floats(0, 1e300))
def test_a_decimal_reads_back_as_the_same_double_in_the_checkers_grammar(number):
    assert float(Fraction(format_decimal(number))) == number
    if number == 0 or number >= 1e-280:  # the grammar has exponents of three digits
        assert READS(format_decimal(number)) == Fraction(format_decimal(number))


@pytest.mark.parametrize(
    ("release", "stated"),
    [
        (Gaussian(0.1), {"type": "gaussian", "noise_multiplier": "0.1"}),
        (Laplace(1e-5), {"type": "laplace", "noise_multiplier": "1e-5"}),
        (DiscreteGaussian(2.5, 3), {"type": "discrete-gaussian", "noise_scale": "2.5", "sensitivity": 3}),
        (DiscreteLaplace(2.0, 1), {"type": "discrete-laplace", "noise_scale": "2", "sensitivity": 1}),
        (RandomizedResponse(0.25, 4), {"type": "randomized-response", "flip_probability": "0.25", "categories": 4}),
        (ApproximateDP(0.5, 1e-9), {"type": "approximate", "epsilon": "0.5", "delta": "1e-9"}),
        (PureDP(0.5), {"type": "approximate", "epsilon": "0.5", "delta": "0"}),
        (GaussianDP(0.7), {"type": "gdp", "mu": "0.7"}),
        (ZeroConcentratedDP(0.125), {"type": "zcdp", "rho": "0.125"}),
        (ExponentialMechanism(0.5), {"type": "bounded-range", "range": "0.5"}),
        (ExponentialMechanism(0.5, monotone=True), {"type": "bounded-range", "range": "0.25"}),
        (Staircase(0.5), {"type": "approximate", "epsilon": "0.5", "delta": "0"}),
    ],
)
def test_each_mechanism_is_stated_by_its_fields_or_its_guarantee(release, stated):
    assert mechanism(release) == stated


def test_a_matrix_mechanism_is_the_gaussian_of_its_sensitivity_rounded_down():
    found = mechanism(MatrixMechanism(DenseStrategy([[3.0]]), FullParticipation(), 1, 6.0))
    assert found["type"] == "gaussian"
    assert 2 - 1e-13 < float(found["noise_multiplier"]) < 2


def test_a_pure_loss_is_that_of_the_relation():
    assert mechanism(Staircase(0.5), NeighboringRelation.REPLACE_ONE)["epsilon"] == "1"


def test_samples_counts_and_groups_are_stated():
    sampled = PoissonSampled(Composed([Gaussian(1.0), Repeated(Laplace(2.0), 2)]), 0.25)
    found = claim(Grouped(Composed([Repeated(sampled, 7), Gaussian(3.0)]), 2), group_size=3)
    assert found["group"] == 6
    first, second = found["releases"]
    assert [one["type"] for one in first["mechanisms"]] == ["gaussian", "laplace", "laplace"]
    assert (first["poisson"], first["count"]) == ("0.25", 7)
    assert (second["poisson"], second["count"]) == ("1", 1)
    (fixed,) = claim(FixedSizeSampled(Gaussian(1.0), 32, 1000))["releases"]
    assert fixed["poisson"] == "32 of 1000"
    (limited,) = claim(TruncatedPoissonSampled(Gaussian(1.0), 1e-3, 1000, 20))["releases"]
    assert limited["poisson"] == "0.001, at most 20 of 1000"
    (nested,) = claim(PoissonSampled(PoissonSampled(Gaussian(1.0), 0.5), 0.5))["releases"]
    assert nested["poisson"] == "0.25"


def test_choices_are_restated_as_no_less_than_their_zcdp():
    """Bounded range r is (r^2 / 8)-zCDP; not on a sample, and only what has a range changes."""
    release = Composed([ExponentialMechanism(0.3), Gaussian(1.0), PoissonSampled(ExponentialMechanism(0.3), 0.5)])
    before = claim(release)
    after = restate_claim(before)
    (rho,) = (one["mechanisms"][0].pop("rho") for one in after["releases"] if "rho" in one["mechanisms"][0])
    assert Fraction(9, 800) <= Fraction(rho) <= Fraction(9, 800) * (1 + Fraction(1, 2**50))
    assert [one["mechanisms"][0]["type"] for one in after["releases"]] == ["zcdp", "gaussian", "bounded-range"]
    assert {**after, "releases": after["releases"][1:]} == {**before, "releases": before["releases"][1:]}
    assert restate_claim(claim(Gaussian(1.0))) is None


def test_a_pure_claim_has_the_largest_loss_of_discrete_noise():
    (one,) = write_claim(DiscreteLaplace(2.0, 3), epsilon="2", delta=0.0)["releases"]
    assert one["mechanisms"] == [{"type": "approximate", "epsilon": "1.5", "delta": "0"}]


@pytest.mark.parametrize(
    "release",
    [
        BallsInBins(Gaussian(1.0), 10, 1),
        Shuffled(PureDP(1.0), 100),
        BestOfTrials(Gaussian(1.0), PoissonTrialCount(3.0)),
        Composed([Gaussian(1.0), Grouped(Gaussian(1.0), 2)]),
        PoissonSampled(Repeated(Gaussian(1.0), 17), 0.5),
        Composed([]),
        Composed([Gaussian(1.0 + k / 2000) for k in range(1001)]),
    ],
)
def test_what_no_claim_can_state_is_refused_by_name(release):
    with pytest.raises(UnsupportedMechanismError, match="a certificate"):
        claim(release)
