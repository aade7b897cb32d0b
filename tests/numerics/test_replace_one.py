"""Poisson sampling under replace-one: the opposite pair against integration and other contributions."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from epsilog.accounting import delta, epsilon
from epsilog.mechanisms import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    Repeated,
)
from epsilog.numerics.distributions.replace_one import ReplaceOneGaussianPair, ReplaceOneLaplacePair
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def integrated(noise, share, at):
    def one(x, sign):
        return (1 - share) * norm.pdf(x) + share * norm.pdf(x, sign / noise)

    def less(x):
        return one(x, 1) - math.exp(at) * one(x, -1)

    points = np.linspace(-12 - 1 / noise, 12 + 1 / noise, 60)
    points = np.append(brentq(less, points[0], points[-1], xtol=1e-15), points)  # from there on there is more of one
    points = np.sort(points[points >= points[0]])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    middles, halves = (points[1:] + points[:-1]) / 2, np.diff(points) / 2
    return float((halves[:, None] * weights * less(middles[:, None] + halves[:, None] * nodes)).sum())


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
    x = np.linspace(-8, 8, 401)
    cell = (16 / 400) ** 2
    for _ in range(10):
        angle, radius = rng.uniform(0, 2 * math.pi, 2), np.sqrt(rng.uniform(0.3, 1, 2)) / noise
        densities = [
            (1 - share) * np.outer(norm.pdf(x), norm.pdf(x))
            + share * np.outer(norm.pdf(x, r * math.cos(a)), norm.pdf(x, r * math.sin(a)))
            for a, r in zip(angle, radius, strict=True)
        ]
        assert np.maximum(densities[0] - math.exp(at) * densities[1], 0.0).sum() * cell <= bound * (1 + 1e-3) + 1e-6


def test_it_costs_more_than_adding_or_removing_and_less_than_twice_the_shift():
    release = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 500)
    found = epsilon(release, delta=1e-6, relation=REPLACE)
    assert found.relative_width <= 0.002
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
        law = ReplaceOneGaussianPair(mu, share)
        u = law._ratio(np.linspace(-mu - 9, mu + 9, 101))
        assert law._ratio(law._where(u)) == pytest.approx(u, rel=1e-13, abs=1e-13)
        masses = law.masses(u)
        assert masses.p.sum() == pytest.approx(1)
        assert masses.p == pytest.approx(masses.q[::-1], rel=1e-6, abs=1e-12)


def laplace(x, center, noise):
    return np.exp(-abs(x - center) / noise) / (2 * noise)


def integrated_laplace(noise, share, at):
    """By adaptive quadrature between the places where a density bends, or the integrand may."""
    far = 1 / noise
    inner = math.log1p((math.exp(at) - 1) * (1 + math.exp(far) * (1 - share) / share)) / 2  # where the ratio is e^at
    ends = sorted({-40 - far, -far, 0.0, min(inner, far), far, 40 + far})

    def one(x, sign):
        return (1 - share) * laplace(x, 0.0, 1.0) + share * laplace(x, sign * far, 1.0)

    return sum(
        quad(lambda x: max(0.0, one(x, 1) - math.exp(at) * one(x, -1)), a, b, epsabs=1e-16, limit=200)[0]
        for a, b in pairwise(ends)
    )


@pytest.mark.parametrize(
    ("noise", "share", "at"), [(1.0, 0.1, 0.1), (2.0, 0.3, 0.1), (0.2, 0.02, 1.0), (0.5, 0.9, 2.0), (1.0, 0.5, 0.0)]
)
def test_one_round_of_laplace_noise_is_the_integral(noise, share, at):
    found = delta(PoissonSampled(Laplace(noise), share), epsilon=at, relation=REPLACE)
    exact = integrated_laplace(noise, share, at)
    assert exact > 0
    assert found.lower - 1e-11 <= exact <= found.upper + 1e-11
    assert found.upper - found.lower <= 1e-9
    assert integrated_laplace(1.05 * noise, share, at) < found.lower * (1 - 1e-3)  # 5% more noise is noticed


@pytest.mark.parametrize("seed", range(3))
def test_no_other_contributions_in_the_plane_are_easier_to_tell_under_laplace_noise(seed):
    """Two vectors of L1 norm at most 1, either order, on a grid over the plane."""
    rng = np.random.default_rng(seed)
    noise, share, at = float(rng.uniform(0.4, 2)), float(rng.uniform(0.05, 0.9)), float(rng.uniform(0, 0.5))
    bound = delta(PoissonSampled(Laplace(noise), share), epsilon=at, relation=REPLACE).upper
    axis = np.linspace(-18, 18, 601)
    cell = (36 / 600) ** 2
    reached = 0.0
    for k in range(8):
        part, size = rng.uniform(0, 1, 2), np.ones(2) if k == 0 else rng.uniform(0.3, 1, 2)
        first, second = (1.0, -1.0) if k == 0 else rng.choice([-1.0, 1.0], 2)
        part = np.round(part) if k == 0 else part
        densities = []
        for p, r, sign in zip(part[:1].repeat(2) if k == 0 else part, size / noise, (first, second), strict=True):
            moved = np.outer(laplace(axis, sign * r * p, 1.0), laplace(axis, sign * r * (1 - p), 1.0))
            densities.append((1 - share) * np.outer(laplace(axis, 0, 1.0), laplace(axis, 0, 1.0)) + share * moved)
        found = np.maximum(densities[0] - math.exp(at) * densities[1], 0.0).sum() * cell
        assert found <= bound * (1 + 2e-3) + 1e-6
        reached = max(reached, found)
    assert reached == pytest.approx(bound, rel=0.02)  # the pair itself was among them


def brute(noise, size, share, at):
    """The worst over all whole contributions, by plain sums: noise is a law on the integers as a dictionary."""

    def mixed(v):
        law = {}
        for x, p in noise.items():
            law[x] = law.get(x, 0.0) + (1 - share) * p
            law[x + v] = law.get(x + v, 0.0) + share * p
        return law

    laws = {v: mixed(v) for v in range(-size, size + 1)}
    return max(
        sum(max(p - math.exp(at) * law_q.get(x, 0.0), 0.0) for x, p in law_p.items())
        for law_p in laws.values()
        for law_q in laws.values()
    )


def normalized(weights):
    total = math.fsum(weights.values())
    return {x: w / total for x, w in weights.items()}


@pytest.mark.parametrize(("share", "at"), [(0.1, 0.05), (0.6, 0.5), (0.02, -0.01), (0.9, 1.5)])
@pytest.mark.parametrize(
    ("release", "noise"),
    [
        (DiscreteLaplace(2.0, 3), normalized({x: math.exp(-abs(x) / 2.0) for x in range(-90, 91)})),
        (DiscreteLaplace(0.7, 1), normalized({x: math.exp(-abs(x) / 0.7) for x in range(-40, 41)})),
        (DiscreteGaussian(1.3, 2), normalized({x: math.exp(-x * x / (2 * 1.3**2)) for x in range(-20, 21)})),
        (DiscreteGaussian(4.0, 1), normalized({x: math.exp(-x * x / 32) for x in range(-50, 51)})),
    ],
    ids=["laplace", "laplace-of-one", "gaussian", "gaussian-of-one"],
)
def test_noise_on_the_integers_is_the_worst_of_all_whole_contributions(release, noise, share, at):
    worst = brute(noise, release.sensitivity, share, abs(at))
    found = delta(PoissonSampled(release, share), epsilon=abs(at), relation=REPLACE)
    assert found.lower * (1 - 1e-9) - 1e-13 <= worst <= found.upper * (1 + 1e-9) + 1e-13
    assert found.upper - found.lower <= 1e-8 * found.upper + 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("release", [Laplace(1.5), DiscreteLaplace(2.0, 2), DiscreteGaussian(3.0, 2)])
def test_many_rounds_are_what_dp_accounting_composes_of_the_mixtures(release):
    """Both mixtures as tables of probabilities, made here; dp-accounting rounds losses up and composes."""
    from dp_accounting.pld import privacy_loss_distribution as theirs

    share, rounds = 0.1, 30
    if isinstance(release, Laplace):
        axis, shift, scale = np.arange(-60_000, 60_001), 2000, release.noise_multiplier * 2000
        noise = np.exp(-abs(axis) / scale)  # a fine grid stands for the line
    elif isinstance(release, DiscreteLaplace):
        axis, shift = np.arange(-90, 91), release.sensitivity
        noise = np.exp(-abs(axis) / release.noise_scale)
    else:
        axis, shift = np.arange(-60, 61), release.sensitivity
        noise = np.exp(-(axis**2) / (2 * release.noise_stddev**2))
    wide = np.pad(noise / noise.sum(), shift)
    tables = [
        {i: math.log(p) for i, p in enumerate((1 - share) * wide + share * np.roll(wide, sign * shift)) if p > 1e-300}
        for sign in (1, -1)
    ]
    oracle = theirs.from_two_probability_mass_functions(
        tables[1], tables[0], value_discretization_interval=1e-4, pessimistic_estimate=True
    ).self_compose(rounds)
    found = epsilon(Repeated(PoissonSampled(release, share), rounds), delta=1e-5, relation=REPLACE)
    assert found.relative_width <= 0.003
    assert oracle.get_epsilon_for_delta(1e-5) == pytest.approx(found.upper, rel=3e-3)


@pytest.mark.parametrize(("shift", "share"), [(0.01, 0.5), (1.0, 1e-6), (5.0, 0.3), (40.0, 1e-10), (150.0, 0.01)])
def test_edges_of_the_laplace_ratio_lie_where_the_ratio_has_their_value(shift, share):
    law = ReplaceOneLaplacePair(shift, share)
    x = np.linspace(-1.2 * shift, 1.2 * shift, 101)
    p, q = (
        np.logaddexp(math.log1p(-share) - abs(x), math.log(share) - abs(x - sign * shift)) for sign in (1, -1)
    )  # straight from the densities
    told = (abs(x) < shift) & (abs(p - q) > 1e-7)  # nearer to 0 this difference has no digits left
    assert told.any()
    assert law._where(p - q)[told] == pytest.approx(x[told], rel=1e-6)
    assert np.max(p - q) == pytest.approx(law.top, rel=1e-9, abs=1e-14)
    masses = law.masses(np.linspace(-1.1 * law.top, 1.1 * law.top, 40))
    assert masses.p.sum() == pytest.approx(1)
    assert masses.p == pytest.approx(masses.q[::-1], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("noise", [Laplace, DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("size", [1e-300, 0.003, 0.02, 30.0])
@pytest.mark.parametrize("share", [1e-320, 1e-149, 1e-10, 0.5, 1 - 1e-16])
def test_extremes_are_between_nothing_and_knowing_who_was_sampled(noise, size, share):
    release = PoissonSampled(noise(size), share)
    for found in (delta(release, epsilon=0.5, relation=REPLACE), delta(release, epsilon=0.0, relation=REPLACE)):
        assert 0 <= found.lower <= found.upper <= max(1.2 * share, 1e-100)  # what cannot be squared is raised
        if size < 0.01 and share >= 1e-10:
            assert found.lower > 0.4 * share  # next to nothing is hidden, and that is known from below


def test_noises_of_several_sensitivities_on_one_sample_all_count():
    """Two noises with one multiplier are two, whatever sensitivities they have: both count."""
    apart = PoissonSampled(Composed([Laplace(2.0, sensitivity=1.0), Laplace(2.0, sensitivity=3.0)]), 0.1)
    twice = PoissonSampled(Repeated(Laplace(2.0), 2), 0.1)
    bounds = [epsilon(one, delta=1e-6, relation=REPLACE) for one in (apart, twice)]
    assert (bounds[0].lower, bounds[0].upper) == (bounds[1].lower, bounds[1].upper)


def test_several_laplace_noises_on_one_sample_are_no_worse_than_one_of_all_their_shifts():
    both = PoissonSampled(Composed([Laplace(2.0), Laplace(2.0)]), 0.1)
    one, half = (delta(PoissonSampled(Laplace(z), 0.1), epsilon=0.05, relation=REPLACE) for z in (1.0, 2.0))
    found = delta(both, epsilon=0.05, relation=REPLACE)
    assert found.upper == pytest.approx(one.upper, rel=1e-9)
    assert found.lower == pytest.approx(half.lower, rel=1e-9)
    axis = np.linspace(-20, 20, 801)
    densities = [
        0.9 * np.outer(laplace(axis, 0, 1), laplace(axis, 0, 1))
        + 0.1 * np.outer(laplace(axis, s / 2, 1), laplace(axis, s / 2, 1))
        for s in (1, -1)
    ]
    truth = np.maximum(densities[0] - math.exp(0.05) * densities[1], 0).sum() * (40 / 800) ** 2
    assert found.lower < truth < found.upper
