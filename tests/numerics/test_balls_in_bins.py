"""Balls-in-bins with independent noise: proven intervals against known values, integrals, simulation and properties."""

import json
import math
from itertools import pairwise
from pathlib import Path
from unittest import mock

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from tests.extent import amount

from epsilog.accounting import delta, epsilon, list_assumptions
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    Composed,
    Gaussian,
    MatrixMechanism,
    PureDP,
    Repeated,
    ToeplitzStrategy,
)
from epsilog.numerics.balls_in_bins import search
from epsilog.numerics.balls_in_bins.pair import build_allocation_pairs
from epsilog.numerics.balls_in_bins.ratio_sums import StopLossTransform, merge_to_lattice_means, spread_outcomes
from epsilog.numerics.balls_in_bins.search import Allocation, DeltaCurve
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.lattice.distribution import LatticeDistribution
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.rounding import ELEMENTARY, UNIT
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD, REPLACE, ZERO = NeighboringRelation
quick = settings(max_examples=amount(20, 40), deadline=None)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "balls_in_bins.json").read_text())["cases"]
KNOWN = [
    (case["bins"], case["noise_multiplier"], case["epsilon"], AdjacencyType(case["direction"]), case["delta"])
    for case in VECTORS
]


def both_sides(bins, noise, at, direction, width=0.002):
    """Lower and upper bound on delta in one direction."""
    one = Allocation(bins, 1 / noise, direction)
    return [one.curve(at, width=width, in_epsilon=False, upper=upper, tail_mass=1e-18)(at) for upper in (False, True)]


@pytest.mark.slow_beyond(8)
@pytest.mark.parametrize(("bins", "noise", "at", "direction", "exact"), KNOWN)
def test_known_values_lie_between_narrow_bounds(bins, noise, at, direction, exact):
    lower, upper = both_sides(bins, noise, at, direction)
    assert lower <= exact * (1 + 1e-7)
    assert upper >= exact * (1 - 1e-7)
    assert upper - lower <= 0.005 * exact  # one step, not refined


@pytest.mark.parametrize(
    ("over", "at", "excess"),
    [
        (1.9531076858775758e-09, 0.08275897237582126, 1.0056376060044868e-11),
        (1.990173603541687e-09, 0.058482836846033094, 7.651661572794798e-11),
        (1.8748213635241337e-09, 0.08913711709114319, 2.1728725120927533e-11),
    ],
)
def test_an_exponential_that_errs_by_what_is_assumed_leaves_the_bound_above(over, at, excess):
    curve = DeltaCurve(Allocation(4, 10.0, AdjacencyType.ADD), lambda _: excess, over, math.inf, 1.0, at, True)
    with mpmath.workprec(200):
        exact = mpmath.exp(mpmath.mpf(at))
        least = exact * (1 - mpmath.mpf(ELEMENTARY) * UNIT)
        low = next(one for one in (float(least), math.nextafter(float(least), 2.0)) if one >= least)
        with mock.patch.object(search.math, "exp", return_value=low):
            assert mpmath.mpf(curve(at)) >= exact * excess / 4 + exact * over


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize(("bins", "noise", "at", "direction", "exact"), KNOWN)
def test_epsilon_at_a_known_delta(bins, noise, at, direction, exact):
    found = epsilon(BallsInBins(Gaussian(noise), bins), delta=exact)
    assert found.relative_width <= 0.002
    if direction is AdjacencyType.REMOVE:  # the worse direction
        assert found.lower <= at * (1 + 1e-7)
        assert found.upper >= at * (1 - 1e-7)
    else:
        assert found.lower > at


def call(strike, mu):
    """E (Y - strike)^+ for one ratio: Black & Scholes."""
    if strike <= 0:
        return 1 - strike
    far = math.log(strike) / mu
    return float(ndtr(mu / 2 - far) - strike * ndtr(-mu / 2 - far))


def two_bins(mu, at, direction):
    """Delta of two bins at any epsilon, by integrating the call on one ratio over the other."""

    def density(x):
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    strike = 2 * math.exp(at if direction is AdjacencyType.REMOVE else -at)
    kink = (math.log(strike) + mu * mu / 2) / mu
    parts = [-12.0, *sorted({kink - 4, kink - 2, kink - 0.3, kink, kink + 0.3, kink + 2} - {-12.0}), 14 + mu + kink]
    parts = [x for x in parts if x >= -12.0]
    over = sum(
        quad(lambda x: density(x) * call(strike - math.exp(mu * x - mu * mu / 2), mu), a, b, epsabs=1e-14)[0]
        for a, b in pairwise(parts)
    )
    return over / 2 if direction is AdjacencyType.REMOVE else math.exp(at) / 2 * (over - (2 - strike))


@pytest.mark.parametrize(
    ("noise", "at"), [(0.7, 1.0), (2.0, 0.3), (1.0, 0.1), (0.4, 5.0), (20.0, 0.17), (189.0, 0.018)]
)
@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_two_bins_by_integration(noise, at, direction):
    exact = two_bins(1 / noise, at, direction)
    lower, upper = both_sides(2, noise, at, direction, width=1e-4)
    assert lower <= exact * (1 + 1e-9) + 1e-13
    assert upper >= exact * (1 - 1e-9) - 1e-13
    assert upper - lower <= 5e-4 * exact


@pytest.mark.slow
@quick
@given(mu=st.floats(0.02, 4.0), fine=st.floats(0.002, 0.5), reach=st.floats(1.5, 6.0))
def test_one_ratio_lies_between_its_lattice_laws_in_the_convex_order(mu, fine, reach):
    high = math.exp(reach * mu - mu * mu / 2)
    step = max(fine * min(mu, 1.0), high / 20_000)
    above = spread_outcomes(GaussianPair(mu), step=step, low=1, high=max(math.ceil(high / step), 2))
    below = merge_to_lattice_means(GaussianPair(mu), step=step, high=high, rising=True)
    # the calls that see no truncation, at and between lattice points
    strikes = np.concatenate((np.linspace(0.01, 0.99, 50) * high, np.arange(1, 50) * step))
    for strike in strikes[strikes < high]:
        exact = call(float(strike), mu)
        ratios = step * above.points
        assert above.weight @ np.maximum(ratios - strike, 0.0) + above.over >= exact * (1 - 1e-12) - 1e-15
        if below is not None:
            ratios = below.offset + step * below.points
            assert below.weight @ np.maximum(ratios - strike, 0.0) + below.over <= exact * (1 + 1e-9) + 1e-15
    assert above.weight.sum() == pytest.approx(1, abs=1e-3)
    assert above.weight @ (step * above.points) + above.over == pytest.approx(1, abs=1e-3)
    if below is not None:
        assert 1 - 1e-3 <= below.weight.sum() <= 1 + 1e-12
        assert 1 - 1e-3 <= below.weight @ (below.offset + step * below.points) + below.over <= 1 + 1e-12


@quick
@given(mu=st.floats(0.003, 2.0), fine=st.floats(0.01, 0.3), depth=st.floats(0.0, 7.0))
def test_a_lattice_that_starts_above_nothing_says_what_lies_below_it(mu, fine, depth):
    high, low = (math.exp(reach * mu - mu * mu / 2) for reach in (4.0, -depth))
    step = max(fine * mu * low, high / 5000)
    assume(low >= step)
    first, last = math.floor(low / step), math.ceil(high / step) + 1
    above = spread_outcomes(GaussianPair(mu), step=step, low=first, high=last, lifted=True)
    assert above.points[0] == first
    for strike in np.linspace(0.5 * low, high, 40):
        exact, ratios = call(float(strike), mu), step * above.points
        assert above.weight @ np.maximum(ratios - strike, 0.0) + above.over >= exact * (1 - 1e-12) - 1e-15
        below = above.weight @ np.maximum(strike - ratios, 0.0)
        assert below + above.under >= (exact + strike - 1) * (1 - 1e-12) - 1e-15  # the put, by parity
    exact = call(step * first, mu) + step * first - 1
    assert above.under == pytest.approx(exact, rel=1e-6, abs=1e-14)


def test_much_noise_on_few_bins_is_narrow():
    """Once their upper ends were those of no bins at all: 0.2803 for 0.1960."""
    for bins, noise, at in ((2, 20.0, 1e-10), (2, 189.0, 1.1e-13), (48, 251.0, 5.9e-4)):
        assert epsilon(BallsInBins(Gaussian(noise), bins), delta=at).relative_width <= 0.002


def test_merging_in_place_would_not_be_a_lower_bound():
    """The control of the test above: cells given to their lattice points as they are exceed some call."""
    mu, step = 1.0, 0.05
    points = np.arange(0, 400)
    masses = GaussianPair(mu).masses(np.log(step * (points + 0.5)))
    strikes = np.linspace(0.01, 10, 300)
    top = step * 399.5
    above = [call(top, mu) + masses.q[-1] * (top - k) - call(float(k), mu) for k in strikes]
    found = [masses.q[:-1] @ np.maximum(step * points - k, 0.0) + more for k, more in zip(strikes, above, strict=True)]
    assert max(found) > 1e-5


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_sum_is_the_plain_convolution(sign, count):
    rng = np.random.default_rng(count)
    weight = rng.random(30) ** 3
    weight /= weight.sum()
    step, offset = 0.1, sign * 0.03
    law = LatticeDistribution(sign * np.arange(30), weight, 0.0, offset)
    full = np.ones(1)
    for _ in range(count):
        full = np.convolve(full, weight)
    values = count * offset + sign * step * np.arange(len(full))
    mean, deviation = float(full @ values), math.sqrt(float(full @ values**2) - float(full @ values) ** 2)
    for away in (-1.0, 0.5, 3.0):
        strike = mean + away * deviation
        exact = math.fsum(full * np.maximum(values - strike, 0.0))
        for tilt in (0.3 / deviation, 3 / deviation):
            lower, upper = (
                StopLossTransform(law, count, step=step, tilt=tilt, strike=strike, upper=side)(strike)
                for side in (False, True)
            )
            assert lower <= exact * (1 + 1e-12) <= upper * (1 + 2e-12)
            assert upper - lower <= 1e-6 * exact + 1e-12


def simulated(bins, noise, at, draws, seed):
    """Mean and standard error of both directions' deltas, from plain draws of the b noisy sums."""
    rng = np.random.default_rng(seed)
    shift, found = 1 / noise, []
    for unit in (1, 0):
        x = rng.standard_normal((draws, bins))
        x[:, 0] += unit * shift  # by symmetry the bin may be the first
        loss = np.log(np.exp(shift * x - shift**2 / 2).mean(axis=1)) * (1 if unit else -1)
        share = -np.expm1(np.minimum(at - loss, 0.0))
        found.append((share.mean(), share.std() / math.sqrt(draws)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "noise", "at"), [(4, 0.8, 1.0), (20, 1.0, 0.3), (50, 0.5, 1.0)])
def test_simulation_agrees_and_notices_thirty_percent_more_noise(bins, noise, at):
    """Six standard errors: a false alarm in 1e-8 of seeds; the seed is fixed."""
    for direction, (mean, error) in zip(
        (AdjacencyType.REMOVE, AdjacencyType.ADD), simulated(bins, noise, at, 200_000, 3), strict=True
    ):
        lower, upper = both_sides(bins, noise, at, direction)
        assert lower - 6 * error <= mean <= upper + 6 * error
        _, quieter = both_sides(bins, 1.3 * noise, at, direction)
        assert mean > quieter + 6 * error


def test_the_direction_that_was_not_expected_to_be_worst_gets_a_fine_lattice_too():
    assert epsilon(BallsInBins(Gaussian(1.0625), 395), delta=1e-2).relative_width <= 0.002


@pytest.mark.slow
@settings(max_examples=amount(6, 26), deadline=None)
@given(bins=st.integers(2, 3000), noise=st.floats(0.3, 20.0), exponent=st.floats(-12, -2))
def test_the_interval_is_one_and_narrow_and_more_noise_or_bins_never_cost_more(bins, noise, exponent):
    at = 10**exponent
    found = epsilon(BallsInBins(Gaussian(noise), bins), delta=at)
    assert found.relative_width <= 0.005
    assert epsilon(BallsInBins(Gaussian(1.2 * noise), bins), delta=at).lower <= found.upper
    assert epsilon(BallsInBins(Gaussian(noise), 2 * bins), delta=at).lower <= found.upper
    assert found.upper <= epsilon(Gaussian(noise), delta=at).upper


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "noise"), [pytest.param(100, 1.0, marks=pytest.mark.slow), (1000, 4.0), (20, 0.5)])
def test_delta_far_below_what_doubles_add_up_to(bins, noise):
    release = BallsInBins(Gaussian(noise), bins)
    found = epsilon(release, delta=1e-25)
    assert found.relative_width < 0.002
    assert delta(release, epsilon=found.upper).lower <= 1e-25 * (1 + 1e-6)


def test_epochs_with_the_same_bins_are_less_noise():
    assert epsilon(BallsInBins(Gaussian(2.0), 16, epochs=4), delta=1e-6) == epsilon(
        BallsInBins(Gaussian(1.0), 16), delta=1e-6
    )


def test_one_bin_and_no_noise():
    assert (
        epsilon(BallsInBins(Gaussian(2.0), 1, epochs=4), delta=1e-6).upper == epsilon(Gaussian(1.0), delta=1e-6).upper
    )
    assert epsilon(BallsInBins(Gaussian(0.0), 7), delta=1e-6).lower == math.inf
    assert delta(BallsInBins(Gaussian(0.0), 7), epsilon=1.0).upper == 1
    assert epsilon(BallsInBins(Gaussian(1.0), 7), delta=0).lower == math.inf


def test_a_matrix_mechanism_with_independent_noise_is_the_same_release():
    matrix = MatrixMechanism(ToeplitzStrategy((2.0, 0.0)), BallsInBinsParticipation(50), rounds=200, noise_stddev=6.0)
    assert epsilon(matrix, delta=1e-6).upper == epsilon(BallsInBins(Gaussian(3.0), 50, epochs=4), delta=1e-6).upper
    correlated = MatrixMechanism(
        ToeplitzStrategy((2.0, 0.1)), BallsInBinsParticipation(50), rounds=200, noise_stddev=6.0
    )
    with pytest.raises(UnsupportedMechanismError):
        epsilon(correlated, delta=1e-6)


def test_zero_out_is_add_or_remove_and_what_has_to_hold_is_said():
    release = BallsInBins(Gaussian(1.0), 16)
    found = epsilon(release, delta=1e-5, relation=ZERO)
    assert found.upper == epsilon(release, delta=1e-5).upper
    assert any("independently and uniformly at random" in str(line) for line in found.assumptions)
    assert any("truncated" in str(line) for line in list_assumptions(release))


def profile_of(law, at):
    return float(np.maximum(law.p - math.exp(at) * law.q, 0.0).sum()) + law.infinity_mass


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(
    ("bins", "noise", "at"),
    [
        (16, 1.0, 1.0),
        pytest.param(100, 1.0, 0.5, marks=pytest.mark.slow),
        pytest.param(300, 2.0, 0.1, marks=pytest.mark.slow),
        (2, 1.5, 0.4),
    ],
)
@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_the_laws_that_compose_lie_on_either_side_of_the_payoffs(bins, noise, at, direction):
    lower, upper = both_sides(bins, noise, at, direction, width=1e-4)
    above, below = build_allocation_pairs(bins, 1 / noise, direction, 1e-12)
    assert profile_of(above, at) >= lower
    assert profile_of(below, at) <= upper
    assert profile_of(above, at) - profile_of(below, at) <= 0.05 * upper
    assert above.p.sum() + above.infinity_mass >= 1
    assert below.p.sum() <= 1


@pytest.mark.parametrize("at", [-6.0, -0.7, 0.7, 3.0])
@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_the_laws_that_compose_keep_their_sides_at_every_epsilon_below_zero_too(at, direction):
    exact, (above, below) = two_bins(0.8, at, direction), build_allocation_pairs(2, 0.8, direction, 1e-12)
    assert profile_of(above, at) >= exact * (1 - 1e-9) - 1e-13
    assert profile_of(below, at) <= exact * (1 + 1e-9) + 1e-13


@pytest.mark.slow
def test_beside_next_to_nothing_it_costs_what_it_costs_alone():
    alone = epsilon(BallsInBins(Gaussian(1.0), 50), delta=1e-6)
    beside = epsilon(Composed([BallsInBins(Gaussian(1.0), 50), PureDP(1e-9)]), delta=1e-6)
    assert beside.lower <= alone.upper * (1 + 1e-6)
    assert beside.upper >= alone.lower
    assert beside.relative_width <= 0.005


@pytest.mark.slow
def test_two_epochs_with_fresh_bins_by_simulation():
    """Six standard errors; thirty percent more noise is noticed."""
    rng, bins, noise, at, draws = np.random.default_rng(8), 5, 1.0, 1.0, 400_000
    loss = np.zeros(draws)
    for _ in range(2):
        x = rng.standard_normal((draws, bins))
        x[:, 0] += 1 / noise
        loss += np.log(np.exp(x / noise - 0.5 / noise**2).mean(axis=1))
    share = -np.expm1(np.minimum(at - loss, 0.0))
    error = 6 * share.std() / math.sqrt(draws)
    found, quieter = (delta(Repeated(BallsInBins(Gaussian(z), bins), 2), epsilon=at) for z in (noise, 1.3 * noise))
    assert found.lower - error <= share.mean() <= found.upper + error
    assert share.mean() > quieter.upper + error
