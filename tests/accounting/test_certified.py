"""Certified intervals: known figures, properties of any accountant, extremes, and bad input."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests import generators
from tests.extent import amount

from epsilog.accounting import (
    epsilon,
    max_rounds,
)
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
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


@pytest.mark.parametrize(("release", "at", "exact"), ALL)
def test_the_interval_holds_the_exact_value_and_is_narrow(release, at, exact):
    found = epsilon(release, delta=at)
    digits = 1e-6 if release.count >= 10**6 else 1e-5
    assert found.lower <= exact * (1 + digits)
    assert found.upper >= exact * (1 - digits)
    assert found.relative_width <= 0.002


def test_a_tighter_gap_is_reached_and_lies_inside_the_wider_one():
    wide, tight = (
        epsilon(sgd(1.0, 0.01, 1_000), delta=1e-5, relative_width=relative_width) for relative_width in (0.01, 0.0002)
    )
    assert tight.relative_width <= 0.0002
    assert wide.lower <= tight.upper
    assert tight.lower <= wide.upper


@pytest.mark.slow
@quick
@given(release=generators.singles(), count=st.integers(2, 40))
def test_repeating_costs_what_listing_costs(release, count):
    repeated, listed = Repeated(release, count), Composed([release] * count)
    assert (
        epsilon(repeated, delta=1e-6, relative_width=0.02).upper
        == epsilon(listed, delta=1e-6, relative_width=0.02).upper
    )


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


@pytest.mark.slow
def test_rounds_that_fit_is_the_last_count_that_does():
    step = PoissonSampled(Gaussian(1.0), 0.01)
    count = max_rounds(step, epsilon=2.0, delta=1e-6)
    assert epsilon(Repeated(step, count), delta=1e-6).upper <= 2.0
    assert epsilon(Repeated(step, count + 1), delta=1e-6).upper > 2.0 * (1 - 1e-3)
    assert max_rounds(step, epsilon=2.0, delta=1e-6, spent=Repeated(step, 500)) == pytest.approx(count - 500, abs=2)
    assert max_rounds(Laplace(0.1), epsilon=1.0, delta=1e-6) == 0
