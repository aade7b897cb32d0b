"""Mixtures of Gaussians: against integration and Poisson sampling, rounded outwards, and beyond a lattice's reach."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm
from tests import generators
from tests.extent import amount
from tests.oracles.densities import hockey_stick

import epsilog as ep
from epsilog import accounting
from epsilog.mechanisms import Composed, Gaussian, Grouped, MixtureOfGaussians, PoissonSampled, Repeated

ADD, REPLACE, ZERO = ep.NeighboringRelation
SIDES = (MixtureOfGaussians.most, MixtureOfGaussians.least)
FEW = MixtureOfGaussians(3.0, (0.0, 1.0, 3.0), (0.9, 0.05, 0.05))
BELOW, ABOVE = 1 - 1e-9, 1 + 1e-9


def exact(mixture, at):
    """Delta of one release, either way round, from the place where the likelihood ratio meets exp(at)."""
    far = np.array(mixture.sensitivities) / mixture.noise_stddev
    weights = np.array(mixture.sampling_probabilities)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) - far**2 / 2

    def place(loss):
        return brentq(lambda x: logsumexp(logs + far * x) - loss, -1e4, 1e4, xtol=1e-13)

    x = place(at)
    removed = float(weights @ norm.sf(x - far)) - math.exp(at) * norm.sf(x)
    stays = weights[far == 0].sum()
    if stays > 0 and -at <= math.log(stays):
        return removed
    x = place(-at)
    return max(removed, norm.cdf(x) - math.exp(at) * float(weights @ norm.cdf(x - far)))


def integrated(mixture, at):
    """The same by the trapezoidal rule on a fine grid."""
    far = np.array(mixture.sensitivities) / mixture.noise_stddev
    return hockey_stick(
        np.linspace(-15, 35, 500_001),
        lambda x: sum(w * norm.pdf(x, c) for c, w in zip(far, mixture.sampling_probabilities, strict=True)),
        norm.pdf,
        at,
    )


@pytest.mark.slow
@settings(max_examples=amount(25, 60))
@given(
    st.lists(st.tuples(st.just(0.0) | st.floats(1e-3, 5.0), st.floats(1e-3, 1.0)), min_size=2, max_size=12),
    st.floats(0.5, 3.0),
    st.sampled_from([0.0, 0.1, 1.0, 3.0]),
)
def test_one_release_is_the_hockey_stick_divergence(parts, noise, at):
    moves, sizes = np.array(parts).T
    if not moves.any():
        moves[0] = 1.0
    mixture = MixtureOfGaussians(noise, moves, sizes / sizes.sum())
    truth = exact(mixture, at)
    for relation in (ADD, ZERO):
        found = ep.delta(mixture, epsilon=at, relation=relation)
        assert BELOW * found.lower - 1e-13 <= truth <= ABOVE * found.upper + 1e-13
        assert found.upper - found.lower <= 2e-4 * truth + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("at", [0.0, 0.5])
@pytest.mark.parametrize(
    "mixture", [FEW, MixtureOfGaussians(1.0, (0.5, 2.0, 4.0), (0.5, 0.375, 0.125))], ids=["few", "all"]
)
def test_quadrature_says_the_same(mixture, at):
    found, truth = ep.delta(mixture, epsilon=at), integrated(mixture, at)
    assert found.lower - 1e-7 * truth <= truth <= found.upper + 1e-7 * truth
    assert truth == pytest.approx(exact(mixture, at), rel=1e-7)
    assert exact(mixture, at + 0.1) < 0.99 * truth  # the control: a little more epsilon is noticed


@pytest.mark.slow
def test_under_replace_one_it_holds_contributions_that_pull_opposite_ways():
    """They are some neighbors: the interval's upper side is no lower, and not far above."""
    x = np.linspace(-30, 30, 600_001)
    for mixture in (FEW, MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (0.25, 0.5, 0.25))):
        far, weights = np.array(mixture.sensitivities) / mixture.noise_stddev, mixture.sampling_probabilities
        density = sum(w * norm.pdf(x, c) for w, c in zip(weights, far, strict=True))
        for at in (0.0, 0.5, 2.0):
            truth = float(np.maximum(density - math.exp(at) * density[::-1], 0).sum() * (x[1] - x[0]))
            found = ep.delta(mixture, epsilon=at, relation=REPLACE)
            assert found.lower <= truth * (1 + 1e-6)
            assert truth <= found.upper * (1 + 1e-6)
            assert at > 0 or found.upper <= truth * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO])
@pytest.mark.parametrize(
    ("mixture", "plain"),
    [
        (MixtureOfGaussians(1.0, (0, 0.5), (0.75, 0.25)), PoissonSampled(Gaussian(2.0), 0.25)),
        (MixtureOfGaussians(1.0, (0.5, 0, 0.5, 9), (0.125, 0.75, 0.125, 0)), PoissonSampled(Gaussian(2.0), 0.25)),
        (MixtureOfGaussians(1.0, (0.5,), (1.0,)), Gaussian(2.0)),
        (MixtureOfGaussians(1.0, (0.5,) * 3, (1 / 3,) * 3), Gaussian(2.0)),
        (MixtureOfGaussians(1.0, (0.0,), (1.0,)), Composed([])),
        (MixtureOfGaussians(0.0, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25)), PoissonSampled(Gaussian(0.0), 0.5)),
    ],
    ids=str,
)
def test_what_is_another_release_has_its_interval(mixture, plain, relation):
    wraps = (lambda one: one, lambda one: Repeated(one, 4), lambda one: Grouped(one, 3))
    for release, other in ((wrap(mixture), wrap(plain)) for wrap in wraps[:: amount(2, 1)]):
        found, same = (ep.epsilon(one, delta=1e-5, relation=relation) for one in (release, other))
        assert (found.lower, found.upper) == (same.lower, same.upper)
        assert found.assumptions == same.assumptions


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_what_doubles_do_not_hold_is_rounded_outwards(relation):
    """0.8 and 0.2 are a little more than 1 together, 3 over 0.7 is no double."""
    found = ep.epsilon(MixtureOfGaussians(3.0, (0.0, 0.7), (0.8, 0.2)), delta=1e-5, relation=relation)
    same = ep.epsilon(PoissonSampled(Gaussian(3.0 / 0.7), 0.2), delta=1e-5, relation=relation)
    assert found.lower == pytest.approx(same.lower, rel=1e-9)
    assert found.upper == pytest.approx(same.upper, rel=1e-9)
    assert found.lower <= same.upper
    assert same.lower <= found.upper
    assert "accounting/groups" in str(found.method)


@given(generators.mixtures(generators.edges(), generators.edges(), most=8))
def test_no_probability_is_lost_to_the_favorable_side(mixture):
    parts = sorted(zip(mixture.sensitivities, map(Fraction, mixture.sampling_probabilities), strict=True))
    above, below = (mixture.chances(above=side) for side in (True, False))
    for at in {move for move, _ in parts if move > 0}:
        stated = sum(chance for move, chance in parts if move >= at)
        assert sum(chance for move, chance in above if move >= at) >= min(stated, 1)
        assert sum(chance for move, chance in below if move >= at) <= max(
            stated, 1 - sum(c for m, c in parts if m < at)
        )
    for law in (above, below):
        assert sum(chance for _, chance in law) <= 1
        assert all(chance > 0 and move > 0 for move, chance in law)


def test_missing_and_surplus_probability():
    lacking = MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25 - 2**-42))
    assert lacking.chances(above=True)[-1] == (2.0, Fraction(1, 4))
    assert lacking.chances(above=False)[-1] == (2.0, Fraction(0.25 - 2**-42))
    surplus = MixtureOfGaussians(1.0, (1.0, 2.0), (0.5, 0.5 + 2**-42))
    assert surplus.chances(above=True) == ((1.0, Fraction(0.5 - 2**-42)), (2.0, Fraction(0.5 + 2**-42)))
    assert surplus.chances(above=False) == ((1.0, Fraction(1, 2)), (2.0, Fraction(1, 2)))
    assert math.fsum([0.1] * 10) == 1.0
    assert sum(map(Fraction, [0.1] * 10)) > 1  # so a sum of doubles says less
    tenths = MixtureOfGaussians(1.0, range(10), [0.1] * 10)
    assert sum(chance for _, chance in tenths.chances(above=True)) < 1


@pytest.mark.slow
@settings(max_examples=amount(20, 100))
@given(generators.mixtures(), st.integers(0, 4), st.floats(1.0, 2.0), st.sampled_from([0.0, 0.5, 2.0]))
def test_a_longer_contribution_never_loses_less(mixture, which, factor, at):
    moves = list(mixture.sensitivities)
    moves[which % len(moves)] = factor * (moves[which % len(moves)] + 0.01)
    longer = MixtureOfGaussians(mixture.noise_stddev, moves, mixture.sampling_probabilities)
    for relation in ep.NeighboringRelation:
        low, high = (ep.delta(one, epsilon=at, relation=relation) for one in (mixture, longer))
        assert low.lower <= high.upper * ABOVE + 1e-12


@pytest.mark.slow
def test_a_composition_is_a_product():
    """Two releases by a sum over both outputs, on a fine grid."""
    x = np.linspace(-9, 14, 2_301)
    far, weights = np.array(FEW.sensitivities) / FEW.noise_stddev, np.array(FEW.sampling_probabilities)
    mixed = weights @ norm.pdf(x, far[:, None]) * (x[1] - x[0])
    plain = norm.pdf(x) * (x[1] - x[0])
    p, q = np.outer(mixed, mixed), np.outer(plain, plain)
    for at in (0.05, 0.2):
        truth = max(np.maximum(a - math.exp(at) * b, 0).sum() for a, b in ((p, q), (q, p)))
        found = ep.delta(Repeated(FEW, 2), epsilon=at)
        assert found.lower <= truth * (1 + 1e-3)
        assert truth <= found.upper * (1 + 1e-3)
        assert found.relative_width < 0.003
    both = ep.epsilon(
        Composed([Repeated(FEW, 2), MixtureOfGaussians(6.0, (6.0, 2.0, 0.0), (0.05, 0.05, 0.9))]), delta=1e-5
    )
    three = ep.epsilon(Repeated(FEW, 3), delta=1e-5)
    assert both.lower <= three.upper
    assert three.lower <= both.upper


@pytest.mark.slow
def test_a_sample_of_it_is_a_mixture():
    thin = MixtureOfGaussians(3.0, (0.0, 1.0, 3.0), (0.95, 0.025, 0.025))
    found, same = (ep.epsilon(one, delta=1e-5) for one in (PoissonSampled(FEW, 0.5), thin))
    assert found.lower == pytest.approx(same.lower, rel=1e-3)
    assert found.upper == pytest.approx(same.upper, rel=1e-3)
    plain = ep.epsilon(PoissonSampled(MixtureOfGaussians(1.0, (0, 1), (0.5, 0.5)), 0.5), delta=1e-5, relation=ZERO)
    assert plain.upper == ep.epsilon(PoissonSampled(Gaussian(1.0), 0.25), delta=1e-5, relation=ZERO).upper


@pytest.mark.slow
@pytest.mark.every(8)
@pytest.mark.parametrize("relation", [ADD, REPLACE, ZERO])
@pytest.mark.parametrize(
    "mixture",
    [
        MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (1.0, 1e-300, 1e-300)),
        MixtureOfGaussians(1.0, (1.0, 2.0), (1.0, 5e-324)),
        MixtureOfGaussians(1.0, (1e-12, 2e-12), (0.5, 0.5)),
        MixtureOfGaussians(1.0, (0.0, 1e-12, 1.0, 1e6), (0.25, 0.25, 0.25, 0.25)),
        MixtureOfGaussians(1.0, (1e6, 2e6), (0.5, 0.5)),
        MixtureOfGaussians(1.0, (0.0, 200.0, 299.0, 301.0), (0.9, 0.05, 0.03, 0.02)),
        MixtureOfGaussians(5e-324, (5e-324, 1.7e308), (0.5, 0.5)),
        MixtureOfGaussians(1.7e308, (5e-324, 1.7e308), (0.5, 0.5)),
        pytest.param(
            MixtureOfGaussians(1.0, np.geomspace(1e-12, 1e6, 200), [1 / 200] * 200),
            id="200 cases",
            marks=pytest.mark.extended,
        ),
    ],
    ids=str,
)
def test_edges_hold_between_whoever_contributes_the_most_and_a_shorter_contribution(mixture, relation):
    for at in (0.0, 1e-300, 1e-9, 0.3)[:: amount(2, 1)]:
        found = ep.epsilon(mixture, delta=at, relation=relation)
        more, less = (ep.epsilon(side(mixture), delta=at, relation=relation) for side in SIDES)
        assert less.lower <= found.upper * ABOVE
        assert found.lower <= more.upper * ABOVE
        known = ep.epsilon(
            Gaussian(max(mixture.noise_stddev / max(mixture.sensitivities), 0.0)), delta=at, relation=relation
        )
        assert found.upper <= known.upper * ABOVE
    for at in (0.0, 1.0, 700.0):
        found = ep.delta(mixture, epsilon=at, relation=relation)
        more, less = (ep.delta(side(mixture), epsilon=at, relation=relation) for side in SIDES)
        assert less.lower <= found.upper * ABOVE + 1e-300
        assert found.lower <= more.upper * ABOVE + 1e-300


def test_far_and_near_and_rare_parts_of_one_mixture_are_exact_where_the_truth_is_known():
    far = MixtureOfGaussians(1.0, (0.0, 1e6, 2e6), (0.75, 0.125, 0.125))
    assert ep.delta(far, epsilon=5.0).upper == pytest.approx(0.25)
    assert ep.delta(far, epsilon=5.0).lower == pytest.approx(0.25)
    assert ep.epsilon(far, delta=0.26) == ep.epsilon(far, delta=0.26)
    assert ep.epsilon(far, delta=0.26).upper == 0
    assert ep.epsilon(far, delta=0.24).upper < math.inf
    assert ep.epsilon(FEW, delta=0.0).lower == math.inf
    rare = MixtureOfGaussians(1.0, (0.0, 1.0, 2.0), (1.0, 1e-300, 1e-300))
    assert ep.epsilon(rare, delta=1e-20).upper == 0


@pytest.mark.slow
def test_hundreds_of_components_and_duplicates():
    rng = np.random.default_rng(1)
    moves, sizes = rng.exponential(size=600), rng.exponential(size=600)
    for size in (200, 600):
        mixture = MixtureOfGaussians(1.0, moves[:size], sizes[:size] / sizes[:size].sum())
        found, truth = ep.delta(mixture, epsilon=1.0), exact(mixture, 1.0)
        assert found.lower <= truth <= found.upper
        assert found.upper - found.lower < (1e-4 if size <= 256 else 3e-3) * truth  # more are rounded to 256
    twice = MixtureOfGaussians(1.0, np.repeat(moves[:50], 2), np.repeat(sizes[:50] / sizes[:50].sum() / 2, 2))
    once = MixtureOfGaussians(1.0, moves[:50][::-1], (sizes[:50] / sizes[:50].sum())[::-1])
    assert ep.delta(twice, epsilon=1.0).upper == pytest.approx(ep.delta(once, epsilon=1.0).upper, rel=1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 33.0])
def test_renyi_divergence_is_no_lower_than_the_integral(order):
    x = np.linspace(-40, 80, 40_001)
    far, weights = np.array(FEW.sensitivities) / FEW.noise_stddev, np.array(FEW.sampling_probabilities)
    ratio = logsumexp(np.log(weights)[:, None] + np.outer(far, x) - far[:, None] ** 2 / 2, axis=0)
    logs = norm.logpdf(x) + math.log(x[1] - x[0])
    truth = max(logsumexp(logs + power * ratio) for power in (order, 1 - order)) / (order - 1)
    found = accounting.rdp(FEW, [order], relation=ADD)[0]
    assert truth <= found <= accounting.rdp(Gaussian(1.0), [order], relation=ADD)[0]
    assert found <= accounting.rdp(FEW.most(), [order], relation=ADD)[0]
    density = np.array([norm.logpdf(x, c) for c in far])
    opposite = logsumexp(density, b=weights[:, None], axis=0), logsumexp(density, b=weights[:, None], axis=0)[::-1]
    mirrored = np.interp(-x, x, opposite[0], left=-1e5, right=-1e5)
    seen = mirrored > -1e4
    power = order * opposite[0][seen] + (1 - order) * mirrored[seen]
    far_apart = (logsumexp(power) + math.log(x[1] - x[0])) / (order - 1)
    assert far_apart <= accounting.rdp(FEW, [order], relation=REPLACE)[0] * ABOVE


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda: accounting.rho(FEW), "zCDP"),
        (lambda: ep.montecarlo.bound_delta(FEW, epsilon=1.0, samples=1000, seed=1), "need no simulation"),
        (lambda: ep.epsilon(ep.mechanisms.FixedSizeSampled(FEW, 5, 10), delta=1e-5), "a fixed size means replace-one"),
    ],
)
def test_what_is_not_offered_is_refused(ask, reason):
    with pytest.raises(ep.UnsupportedMechanismError, match=reason):
        ask()


def test_what_is_assumed_is_said():
    assert any("drawn with the stated probabilities" in str(line) for line in accounting.list_assumptions(FEW))
