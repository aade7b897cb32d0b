"""Groups of units under Poisson sampling: the mixture's pairs against integration, their limits, and Renyi orders."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, norm
from tests.extent import amount
from tests.oracles.densities import hockey_stick

from epsilog.accounting import delta, epsilon, profile
from epsilog.mechanisms import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    Grouped,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.counts import binomial
from epsilog.numerics.mixtures import mixture
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.roots import find_safe_root
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD, REPLACE, ZERO = NeighboringRelation


@pytest.mark.parametrize("units", [1, 3, 12, 40])
def test_how_many_of_a_group_are_in_a_sample(units):
    among = min(units, 12)  # of twelve there are no more
    for sampled, known in (
        (PoissonSampled(Gaussian(1.0), 0.3), binom(units, 0.3)),
        (FixedSizeSampled(Gaussian(1.0), 4, 12), hypergeom(12, among, 4)),
    ):
        found = sampled.compute_sampled_count(units)
        assert found.chances == pytest.approx(known.pmf(found.values), rel=1e-9)
        assert found.chances.sum() + found.rest == pytest.approx(1.0, rel=1e-9)


def integrated(noise, share, units, at):
    """Delta of one round in either direction, by integrating both densities."""
    weights = binom.pmf(np.arange(units + 1), units, share)

    def mixed(x):
        return sum(weight * norm.pdf(x, k / noise) for k, weight in enumerate(weights))

    return hockey_stick(np.linspace(-12, 12 + units / noise, 300_001), mixed, norm.pdf, at)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "share", "units", "at"), [(1.0, 0.1, 2, 0.5), (2.0, 0.3, 5, 0.2), (0.7, 0.02, 3, 2.0), (1.0, 0.5, 4, 0.0)]
)
def test_one_round_is_the_integral(noise, share, units, at):
    found = profile(PoissonSampled(Gaussian(noise), share)).group_delta(units=units, epsilon=at)
    exact = integrated(noise, share, units, at)
    assert found.lower - 1e-9 <= exact <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-6 * exact
    assert "Ganesh" in str(found.method)
    assert any("as a whole" in str(line) for line in found.assumptions)
    assert abs(integrated(noise, share, units + 1, at) - exact) > 1e-4  # the control: one member more is noticed


def test_a_group_of_one_is_one_unit():
    release = Repeated(PoissonSampled(Gaussian(1.0), 0.05), 30)
    alone, found = delta(release, epsilon=1.0), profile(release).group_delta(units=1, epsilon=1.0)
    assert found.lower <= alone.upper
    assert found.upper >= alone.lower
    assert found.relative_width < 0.002


@pytest.mark.slow
def test_larger_groups_lose_more_and_never_more_than_the_general_bound():
    release = Composed([Repeated(PoissonSampled(Gaussian(1.0), 0.01), 100), Gaussian(20.0)])
    curve = profile(release)
    found = [curve.group_delta(units=k, epsilon=2.0) for k in (1, 2, 4, 8)]
    for less, more in pairwise(found):
        assert less.lower <= more.upper
    share = 2.0 / 4
    assert found[2].upper <= curve.delta(share).upper * math.expm1(2.0) / math.expm1(share)


def test_nearly_always_sampled_is_the_gaussian():
    found = profile(PoissonSampled(Gaussian(4.0), 1 - 1e-12)).group_delta(units=4, epsilon=1.0)
    exact = delta(Gaussian(1.0), epsilon=1.0)
    assert found.upper == pytest.approx(exact.upper, rel=1e-9)


def test_what_has_no_mixture_keeps_the_general_bound():
    for part, relation in ((PoissonSampled(Laplace(1.0), 0.1), ADD), (PoissonSampled(Gaussian(1.0), 0.1), REPLACE)):
        with pytest.raises(UnsupportedMechanismError, match="group"):
            Composition.of(Grouped(part, 2), relation).orderings()
    assert "Dwork" in str(profile(PoissonSampled(Laplace(1.0), 0.1)).group_delta(units=2, epsilon=1.0).method)


GROUPED = (Laplace(1.0), PureDP(1.0), PoissonSampled(Gaussian(1.0), 0.05), ZeroConcentratedDP(0.1), PureDP(200.0))


@pytest.mark.slow
@pytest.mark.every(4)
@pytest.mark.parametrize("release", GROUPED, ids=str)
@pytest.mark.parametrize("failure", [1e-30, 1e-5, 0.3])
def test_epsilon_of_a_group_is_one_at_which_its_delta_is_proven(release, failure):
    curve, last = profile(release, relative_width=0.02), 0.0
    for units in (2, 8, 1000)[: amount(2, 3)]:
        found = curve.group_epsilon(units=units, delta=failure)
        assert curve.epsilon(failure).lower <= found.lower <= found.upper
        assert found.upper >= last, "a larger group loses no less"
        last = found.upper
        if math.isfinite(last):
            assert curve.group_delta(units=units, epsilon=last).upper <= failure
            assert last == 0 or curve.group_delta(units=units, epsilon=0.95 * last).upper > failure, "and it is near"


def test_epsilon_of_a_group_under_gaussians_is_that_of_a_mean_as_many_times_as_far():
    for noise, units in ((8.0, 8), (1e-3, 5), (1e6, 1000)):
        found = profile(Gaussian(noise)).group_epsilon(units=units, delta=1e-5)
        assert found.upper == pytest.approx(epsilon(Gaussian(noise / units), delta=1e-5).upper, rel=1e-9)


def test_a_group_that_one_unit_cannot_hide_is_not_small():
    """Where one unit's epsilon is 0 at a large delta, a thousand units' is not."""
    assert profile(ZeroConcentratedDP(0.1)).epsilon(0.3).upper == 0
    assert profile(ZeroConcentratedDP(0.1)).group_epsilon(units=8, delta=0.3).upper > 1
    assert profile(Gaussian(0.0)).group_epsilon(units=2, delta=1e-5).upper == math.inf


def test_a_curve_that_falls_at_once_is_still_only_trusted_where_it_is_low():
    """Secants find no root of a step; what is returned has been seen to be low enough."""
    for step in (0.01, 7.0, 300.0):
        found = find_safe_root(
            lambda epsilon, at=step: 0.5 if epsilon < at else -5.0, 1.0, relative_width=0.02, most=600.0
        )
        assert step <= found <= 1.03 * step
    assert find_safe_root(lambda _: 0.5, 1.0, relative_width=0.02, most=600.0) == math.inf


@pytest.mark.parametrize(
    ("release", "joint"),
    [(Gaussian(1.0), False), (PoissonSampled(Gaussian(1.0), 0.05), True)],
)
def test_a_group_is_assumed_to_stay_together_where_participation_is_random(release, joint):
    for grouped in (Grouped(release, 3), Grouped(Composed([Gaussian(2.0), Repeated(release, 4)]), 3)):
        found = [line.id for line in grouped.assumptions()]
        assert found[0] == "assumes/group-size"
        assert ("assumes/joint-group" in found) == joint


@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_edges_of_the_ratio_lie_where_the_ratio_has_their_value(direction):
    law = mixture(binomial(9, 0.01, above=True), 0.7, direction)
    u = np.array([-0.0904, -0.05, -1e-9, 1e-12, 0.3, 5.0, 100.0, 600.0])
    x = law._where(u)
    assert law._ratio(x) == pytest.approx(u, abs=2e-11)
    assert law._where(np.array([9 * math.log1p(-0.01) - 1e-9]))[0] == -math.inf
    masses = law.masses(np.linspace(-3, 3, 40))
    assert masses.p.sum() == pytest.approx(1)
    assert masses.q.sum() == pytest.approx(1)
