"""Certified intervals: known figures, properties of any accountant, extremes, and bad input."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import generators
from tests.extent import amount

from epsilog.accounting import (
    calibrate,
    delta,
    epsilon,
    epsilon_curve,
    federated_closed_form,
    max_rounds,
    profile,
)
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
quick = settings(max_examples=amount(6, 15), deadline=None, suppress_health_check=list(HealthCheck))


def sgd(noise, share, rounds):
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "sampled_gaussians.json").read_text())["cases"]
ALL = [
    (sgd(case["noise_multiplier"], case["sampling_probability"], case["rounds"]), case["delta"], case["epsilon"])
    for case in VECTORS
]
KNOWN = [case for case in ALL if case[0].count < 10**6]


@pytest.mark.parametrize(("release", "at", "exact"), KNOWN)
def test_the_interval_holds_the_exact_value_and_is_narrow(release, at, exact):
    found = epsilon(release, delta=at)
    assert found.lower <= exact * (1 + 1e-5)
    assert found.upper >= exact * (1 - 1e-5)
    assert found.relative_width <= 0.002


@pytest.mark.slow
@pytest.mark.parametrize(("release", "at", "exact"), [case for case in ALL if case not in KNOWN])
def test_millions_of_rounds(release, at, exact):
    found = epsilon(release, delta=at)
    assert found.lower <= exact * (1 + 1e-6)
    assert found.upper >= exact * (1 - 1e-6)
    assert found.relative_width <= 0.002


def test_a_tighter_gap_is_reached_and_lies_inside_the_wider_one():
    wide, tight = (
        epsilon(sgd(1.0, 0.01, 1_000), delta=1e-5, relative_width=relative_width) for relative_width in (0.01, 0.0002)
    )
    assert tight.relative_width <= 0.0002
    assert wide.lower <= tight.upper
    assert tight.lower <= wide.upper


@pytest.mark.slow
def test_delta_far_below_what_doubles_add_up_to():
    assert epsilon(sgd(1.0, 0.01, 1_000), delta=1e-80).relative_width < 0.002
    found = delta(sgd(1.0, 0.01, 1_000), epsilon=2.0)
    assert found.lower <= 2.66557192476179e-6 <= found.upper  # 34-digit value
    assert found.relative_width < 0.002


def test_repetitions_of_randomized_response_are_counted():
    found = epsilon(Repeated(RandomizedResponse(0.5, 2), 100), delta=1e-6, relation=REPLACE)
    assert found.lower == pytest.approx(94.28987, abs=1e-4)  # another library reports 1.0987 here
    assert found.upper == pytest.approx(94.28987, abs=1e-4)


@pytest.mark.parametrize(("queries", "scale"), [(10, 9.990), (100, 41.49), (1000, 133.25)])
def test_optimal_composition_of_laplace_queries(queries, scale):
    found = epsilon(Repeated(Laplace(scale), queries), delta=1e-6)
    assert found.lower == pytest.approx(1.0, abs=5e-3)
    assert found.upper == pytest.approx(1.0, abs=1e-3)


def test_the_popular_formula_is_no_bound():
    estimate = federated_closed_form(sampling_probability=0.01, noise_multiplier=1.0, rounds=1000, delta=1e-5).total
    assert estimate < epsilon(sgd(1.0, 0.01, 1000), delta=1e-5).lower


@pytest.mark.slow
@quick
@given(release=generators.singles(), count=st.integers(2, 40))
def test_repeating_costs_what_listing_costs(release, count):
    repeated, listed = Repeated(release, count), Composed([release] * count)
    assert (
        epsilon(repeated, delta=1e-6, relative_width=0.02).upper
        == epsilon(listed, delta=1e-6, relative_width=0.02).upper
    )


@pytest.mark.slow
@quick
@given(release=generators.releases(REPLACE))
def test_order_and_empty_parts_do_not_matter(release):
    turned = Composed([*reversed(release.releases), Composed([])])
    one, other = (epsilon(r, delta=1e-6, relation=REPLACE, relative_width=0.02) for r in (release, turned))
    assert one.lower <= other.upper
    assert other.lower <= one.upper


@pytest.mark.parametrize("noise", [0.7, 1.0, 3.0])
def test_numerical_and_exact_gaussians_agree(noise):
    """A Gaussian beside a release that tells next to nothing goes through the lattice, and must stay where it was."""
    exact = epsilon(Repeated(Gaussian(noise), 20), delta=1e-6)
    mixed = epsilon(Composed([Repeated(Gaussian(noise), 20), PureDP(1e-9)]), delta=1e-6)
    assert mixed.lower <= exact.upper * (1 + 1e-6)
    assert mixed.upper >= exact.lower
    assert mixed.relative_width <= 0.002


def test_a_fine_discrete_gaussian_is_almost_a_gaussian():
    from epsilog.mechanisms import DiscreteGaussian

    discrete = epsilon(Repeated(DiscreteGaussian(100.0, 7), 100), delta=1e-6)
    continuous = epsilon(Repeated(Gaussian(100 / 7), 100), delta=1e-6)
    assert discrete.upper == pytest.approx(continuous.upper, rel=1e-6)


def test_zero_out_costs_what_adding_or_removing_costs():
    release = Composed([sgd(1.0, 0.02, 50), Laplace(3.0)])
    assert epsilon(release, delta=1e-6, relation=ZERO).upper == epsilon(release, delta=1e-6, relation=ADD).upper


def test_replacing_moves_a_sum_twice_as_far():
    assert epsilon(Gaussian(2.0), delta=1e-6, relation=REPLACE).upper == epsilon(Gaussian(1.0), delta=1e-6).upper
    assert epsilon(Laplace(2.0), delta=0, relation=REPLACE).upper == pytest.approx(1.0)


def test_statements_are_priced_by_their_worst_mechanism():
    assert epsilon(GaussianDP(1.0), delta=1e-5).upper == epsilon(Gaussian(1.0), delta=1e-5).upper
    assert epsilon(PureDP(0.7), delta=0).upper == pytest.approx(0.7)
    assert epsilon(ApproximateDP(0.7, 1e-7), delta=1e-7 * (1 + 1e-9)).upper == pytest.approx(0.7, rel=1e-6)
    assert epsilon(ApproximateDP(0.7, 1e-5), delta=1e-6).upper == math.inf
    concentrated = epsilon(ZeroConcentratedDP(0.5), delta=1e-5)
    assert epsilon(Gaussian(1.0), delta=1e-5).upper < concentrated.lower
    assert concentrated.lower < concentrated.upper < 1.0001 * concentrated.lower


def test_no_release_costs_nothing_and_no_noise_promises_nothing():
    assert epsilon(Composed([]), delta=0).upper == 0
    assert epsilon(PoissonSampled(Gaussian(1.0), 0.0), delta=1e-6).upper == 0
    assert epsilon(Gaussian(0.0), delta=1e-6).lower == math.inf
    assert epsilon(PoissonSampled(Gaussian(0.0), 0.01), delta=1e-6).upper == math.inf
    assert epsilon(PoissonSampled(Laplace(0.0), 0.01), delta=0.02).upper == 0
    assert epsilon(Gaussian(1.0), delta=0).upper == math.inf
    assert epsilon(Repeated(Laplace(1.0), 3), delta=0).upper == pytest.approx(3.0)


@pytest.mark.parametrize("bad", [-0.1, 1.0, 1.5, math.nan])
def test_delta_out_of_range(bad):
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        epsilon(Laplace(1.0), delta=bad)


def test_bad_questions():
    with pytest.raises(ValueError, match="relative_width must be in"):
        epsilon(Laplace(1.0), delta=1e-6, relative_width=0)
    with pytest.raises(ValueError, match="epsilon must be finite"):
        delta(Laplace(1.0), epsilon=-1.0)
    with pytest.raises(ValueError, match="release must be a Release"):
        epsilon("gaussian", delta=1e-6)
    with pytest.raises(ValueError, match="goal must be"):
        calibrate(Gaussian, epsilon=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "exact"),
    [
        pytest.param(1.0, 3.0956225834, marks=pytest.mark.slow),
        (2.0, 1.7477003633),
        pytest.param(8.0, 0.7881816261, marks=pytest.mark.slow),
    ],
)
def test_calibration_lands_on_the_safe_side(goal, exact):
    noise = calibrate(lambda z: sgd(z, 0.01, 5_000), epsilon=goal, delta=1e-6)
    assert exact <= noise <= 1.001 * exact
    assert epsilon(sgd(noise, 0.01, 5_000), delta=1e-6).lower <= goal


@pytest.mark.slow
def test_calibrating_other_goals_and_parameters():
    share = calibrate(lambda q: sgd(1.0, q, 1_000), epsilon=1.0, delta=1e-6, low=1e-5, high=0.5)
    assert epsilon(sgd(1.0, share, 1_000), delta=1e-6).upper <= 1.002
    assert epsilon(sgd(1.0, 1.01 * share, 1_000), delta=1e-6).lower > 0.995
    noise = calibrate(Gaussian, advantage=0.3)
    assert profile(Gaussian(noise)).advantage().upper <= 0.3
    noise = calibrate(Gaussian, tpr=0.1, fpr=0.01)
    assert profile(Gaussian(noise)).tpr(0.01).upper <= 0.1 * (1 + 1e-9)


@pytest.mark.slow
def test_rounds_that_fit_is_the_last_count_that_does():
    step = PoissonSampled(Gaussian(1.0), 0.01)
    count = max_rounds(step, epsilon=2.0, delta=1e-6)
    assert epsilon(Repeated(step, count), delta=1e-6).upper <= 2.0
    assert epsilon(Repeated(step, count + 1), delta=1e-6).upper > 2.0 * (1 - 1e-3)
    assert max_rounds(step, epsilon=2.0, delta=1e-6, spent=Repeated(step, 500)) == pytest.approx(count - 500, abs=2)
    assert max_rounds(Laplace(0.1), epsilon=1.0, delta=1e-6) == 0


def test_a_curve_rises_and_ends_at_the_whole():
    step = PoissonSampled(Gaussian(1.0), 0.01)
    curve = epsilon_curve(step, [10, 100, 1000], delta=1e-5)
    assert [at.upper for at in curve] == sorted(at.upper for at in curve)
    whole = epsilon(Repeated(step, 1000), delta=1e-5)
    assert curve[-1] == dataclasses.replace(whole, given=(("rounds", 1000.0), *whole.given))
