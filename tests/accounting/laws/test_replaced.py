"""Poisson sampling under replace-one: the opposite pair against integration and other contributions."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from epsilog.accounting import delta, epsilon
from epsilog.accounting.laws.replaced import ReplacedSample
from epsilog.terms import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    NeighboringRelation,
    PoissonSampled,
    Repeated,
    UnsupportedMechanismError,
)

ADD, REPLACE, ZERO = NeighboringRelation


def integrated(noise, share, at):
    def one(x, sign):
        return (1 - share) * norm.pdf(x) + share * norm.pdf(x, sign / noise)

    points = np.linspace(-12 - 1 / noise, 12 + 1 / noise, 60)
    return sum(
        quad(lambda x: max(0.0, one(x, 1) - math.exp(at) * one(x, -1)), a, b, epsabs=1e-15, limit=200)[0]
        for a, b in pairwise(points)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "share", "at"), [(1.0, 0.1, 0.5), (2.0, 0.3, 0.1), (0.7, 0.02, 2.0), (1.0, 0.9, 1.0)]
)
def test_one_round_is_the_integral(noise, share, at):
    found = delta(PoissonSampled(Gaussian(noise), share), epsilon=at, relation=REPLACE)
    exact = integrated(noise, share, at)
    assert found.lower - 1e-11 <= exact <= found.upper + 1e-11
    assert found.upper - found.lower <= 1e-9
    assert integrated(1.05 * noise, share, at) < found.lower * (1 - 1e-3)  # the control: 5% more noise is noticed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_other_contributions_in_the_plane_are_easier_to_tell(seed):
    """Two vectors of norm at most 1, either order, on a fine grid over the plane."""
    rng = np.random.default_rng(seed)
    noise, share, at = float(rng.uniform(0.7, 2)), float(rng.uniform(0.05, 0.9)), float(rng.uniform(0, 1.5))
    bound = delta(PoissonSampled(Gaussian(noise), share), epsilon=at, relation=REPLACE).upper
    x, y = np.meshgrid(*[np.linspace(-8, 8, 401)] * 2)
    cell = (16 / 400) ** 2
    for _ in range(10):
        angle, radius = rng.uniform(0, 2 * math.pi, 2), np.sqrt(rng.uniform(0.3, 1, 2)) / noise
        densities = [
            (1 - share) * norm.pdf(x) * norm.pdf(y)
            + share * norm.pdf(x, r * math.cos(a)) * norm.pdf(y, r * math.sin(a))
            for a, r in zip(angle, radius, strict=True)
        ]
        assert np.maximum(densities[0] - math.exp(at) * densities[1], 0.0).sum() * cell <= bound * (1 + 1e-3) + 1e-6


def test_it_costs_more_than_adding_or_removing_and_less_than_twice_the_shift():
    release = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 500)
    found = epsilon(release, delta=1e-6, relation=REPLACE)
    assert found.gap <= 0.002
    assert found.lower > epsilon(release, delta=1e-6).upper
    assert found.upper < epsilon(Repeated(PoissonSampled(Gaussian(0.5), 0.01), 500), delta=1e-6).lower


def test_always_sampled_is_the_gaussian_and_never_sampled_is_nothing():
    nearly = epsilon(Repeated(PoissonSampled(Gaussian(3.0), 1 - 1e-9), 4), delta=1e-5, relation=REPLACE)
    always = epsilon(Repeated(Gaussian(3.0), 4), delta=1e-5, relation=REPLACE)
    assert nearly.lower <= always.upper * (1 + 1e-6)
    assert nearly.upper == pytest.approx(always.upper, rel=2e-3)
    assert epsilon(PoissonSampled(Gaussian(3.0), 0.0), delta=1e-5, relation=REPLACE).upper == 0
    assert epsilon(PoissonSampled(Gaussian(0.0), 0.1), delta=1e-5, relation=REPLACE).upper == math.inf


def test_two_gaussians_in_one_sampled_round_are_one():
    one = PoissonSampled(Composed([Gaussian(2.0), Gaussian(2.0)]), 0.1)
    other = PoissonSampled(Gaussian(math.sqrt(2.0)), 0.1)
    first, second = (delta(r, epsilon=0.5, relation=REPLACE) for r in (one, other))
    assert first.upper == pytest.approx(second.upper, rel=1e-9)


def test_it_composes_with_other_releases():
    mixed = Composed([Repeated(PoissonSampled(Gaussian(2.0), 0.05), 50), FixedSizeSampled(Gaussian(4.0), 5, 100)])
    found = epsilon(mixed, delta=1e-6, relation=REPLACE)
    alone = epsilon(mixed.releases[0], delta=1e-6, relation=REPLACE)
    assert alone.lower <= found.lower * (1 + 2e-3)


def test_edges_of_the_ratio_lie_where_the_ratio_has_their_value():
    for mu, share in [(0.01, 0.5), (1.0, 1e-6), (5.0, 0.3), (36.0, 0.01)]:
        law = ReplacedSample(mu, share)
        u = law._ratio(np.linspace(-mu - 9, mu + 9, 101))
        assert law._ratio(law._where(u)) == pytest.approx(u, rel=1e-13, abs=1e-13)
        masses = law.masses(u)
        assert masses.p.sum() == pytest.approx(1)
        assert masses.p == pytest.approx(masses.q[::-1], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("inner", [Laplace(1.0), GaussianDP(1.0)])
def test_what_has_no_proof_is_refused(inner):
    with pytest.raises(UnsupportedMechanismError, match="no proven bound"):
        epsilon(PoissonSampled(inner, 0.1), delta=1e-6, relation=REPLACE)
