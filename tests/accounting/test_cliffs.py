"""Arguments one step past a constant: each answer is near that of one step before, or a trivially valid bound."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import hypergeom, norm

from epsilog.accounting import delta, epsilon, profile
from epsilog.accounting.composing import release_from_profile
from epsilog.accounting.truncation import binomial_tail
from epsilog.mechanisms import (
    BallsInBins,
    BestOfTrials,
    BinomialTrialCount,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Grouped,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.numerics.counts import binomial, compute_upper_quantile, hypergeometric
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import DominatingPair
from epsilog.plan import plan_federated
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
SGD = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 100)


@pytest.mark.slow
def test_a_huge_group_is_bounded_by_how_many_are_ever_in_a_sample():
    """A million units at q = 1%: some ten thousand are in a round, not all."""
    found = epsilon(SGD, delta=1e-5, group_size=10**6)
    assert found.upper < 1.2 * epsilon(Repeated(Gaussian(1e-4), 100), delta=1e-5).upper
    assert found.upper < 1e-3 * epsilon(Repeated(Gaussian(1e-6), 100), delta=1e-5).upper


def test_counts_are_the_laws_they_stand_for():
    from scipy.stats import binom

    for law, exact in (
        (lambda above: binomial(3000, 0.01, above=above), binom(3000, 0.01)),
        (lambda above: binomial(40, 0.7, above=above), binom(40, 0.7)),
        (lambda above: hypergeometric(500, 90, 60, above=above), hypergeom(500, 90, 60)),
        (lambda above: hypergeometric(50, 40, 30, above=above), hypergeom(50, 40, 30)),
    ):
        up, down = law(True), law(False)
        for at in range(0, 60, 3):
            more, less = (float(side.chances[side.values > at].sum()) for side in (up, down))
            assert less * (1 - 1e-9) - 1e-99 <= exact.sf(at) <= more * (1 + 1e-9) + 1e-99
        assert up.rest + up.chances.sum() == pytest.approx(1, rel=1e-12)
        assert exact.sf(compute_upper_quantile(up, 1e-6)) <= 1e-6


def test_a_group_in_fixed_size_samples_lies_between_its_mixtures():
    """One round by quadrature: other units agree with one version, the lower bound; and sampling hides something."""
    release, units, at = FixedSizeSampled(Gaussian(2.0), 10, 100), 3, 1.0
    found = delta(release, epsilon=at, relation=REPLACE, group_size=units)
    weights = hypergeom(100, units, 10).pmf(range(units + 1))
    x = np.linspace(-12, 15, 40_001)
    mixed = sum(w * norm.pdf(x, j) for j, w in enumerate(weights))  # 2 j / 2 apart
    attained = max(
        float(np.maximum(p - math.exp(at) * q, 0).sum() * (x[1] - x[0]))
        for p, q in ((mixed, norm.pdf(x)), (norm.pdf(x), mixed))
    )
    assert found.lower <= attained * (1 + 1e-6)
    assert found.lower == pytest.approx(attained, rel=1e-3)
    assert attained < found.upper < delta(release.release, epsilon=at, relation=REPLACE, group_size=units).upper
    assert delta(release, epsilon=at, relation=REPLACE).upper < found.upper


@pytest.mark.parametrize("shift", [1, 1000, 25_000, 75_000])
@pytest.mark.parametrize("at", [0.0, 0.01, 1.0])
def test_wide_discrete_noise_is_known_from_both_sides(shift, at):
    stddev = 25_000.0
    k = np.arange(-12 * stddev - shift, 12 * stddev + shift + 1)
    weight = np.exp(-((k - shift) ** 2) / (2 * stddev**2))
    loss = shift * (2 * k - shift) / (2 * stddev**2)
    beyond = loss > at
    exact = float((weight[beyond] * -np.expm1(at - loss[beyond])).sum() / weight.sum())
    found = delta(DiscreteGaussian(stddev, shift), epsilon=at)
    assert found.lower <= exact * (1 + 1e-9) + 1e-40
    assert exact <= found.upper * (1 + 1e-9)
    assert found.upper <= 1.02 * exact + 1e-40


def test_discrete_noise_beyond_all_lattices_has_a_price():
    assert epsilon(DiscreteGaussian(25_000.0), delta=1e-6).upper < 1.01 * epsilon(Gaussian(25_000.0), delta=1e-6).upper
    wide = epsilon(Repeated(DiscreteLaplace(1e8, 3 * 10**6), 100), delta=1e-6)
    assert 0.9 * epsilon(Repeated(Laplace(1e8 / 3e6), 100), delta=1e-6).lower <= wide.lower <= wide.upper < 3.0
    assert epsilon(DiscreteGaussian(1e300), delta=1e-6).upper == 0
    assert math.isfinite(epsilon(PoissonSampled(DiscreteGaussian(1e6), 0.1), delta=1e-6, relation=REPLACE).upper)


@pytest.mark.parametrize(("bins", "mu"), [(2, 15.0), (100, 31.6), (10**6, 100.0)])
def test_bins_far_apart_are_known_from_both_sides(bins, mu):
    release = BallsInBins(Gaussian(1 / mu), bins)
    for at in (1e-12, 1e-5, 0.1):
        found, known = epsilon(release, delta=at), epsilon(Gaussian(1 / mu), delta=at)
        assert found.relative_width < 0.002
        assert found.upper < known.lower
        assert found.lower == pytest.approx(known.lower - math.log(bins), rel=2e-3)


@pytest.mark.slow
def test_bins_far_apart_are_the_sum_of_ratios():
    """Two bins, by quadrature over both noises."""
    mu, at = 6.0, 18.0
    x = np.linspace(-8, 16, 3001)
    step = x[1] - x[0]
    ratio = np.exp(mu * x - mu**2 / 2)
    sums = (ratio[:, None] + ratio[None, :]) / 2
    weight = norm.pdf(x)[:, None] * norm.pdf(x)[None, :] * step**2
    removed = float((weight * np.maximum(sums - math.exp(at), 0)).sum())
    found = delta(BallsInBins(Gaussian(1 / mu), 2), epsilon=at)
    assert found.lower * (1 - 1e-3) <= removed <= found.upper * (1 + 1e-3)
    assert found.upper < 1.01 * removed


@pytest.mark.filterwarnings("error")
def test_bins_of_any_length_have_a_price():
    plan = plan_federated(
        population=10**6, cohort_size=1000, rounds=10**5, noise_multiplier=0.4, sampling="balls-in-bins"
    )
    assert plan.epsilon.relative_width < 0.002
    near, nearer = (epsilon(BallsInBins(Gaussian(noise), 100), delta=1e-9).upper for noise in (9_999.0, 10_001.0))
    assert nearer <= near


def test_truncated_samples_under_replace_one_hide_the_unit_and_are_bounded_from_below():
    cut = Repeated(TruncatedPoissonSampled(Gaussian(1.0), 0.01, population=1000, max_batch_size=12), 1000)
    uncut = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
    found, least = (epsilon(one, delta=1e-5, relation=REPLACE) for one in (cut, uncut))
    assert least.lower <= found.lower <= found.upper < 10.0, "36.9 if the unit's coin is told"
    for relation in (ADD, ZERO):
        assert epsilon(cut, delta=1e-5, relation=relation).lower > 0.99 * epsilon(uncut, delta=1e-5).lower


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_one_truncated_round_is_no_worse_than_its_pair(relation):
    """Three others that are in with chance q, batches of one: all of who is kept, summed, on the worst two values."""
    share, others, noise, at = 0.3, 3, 1.0, 0.5
    x = np.linspace(-14, 14, 200_001)
    step = x[1] - x[0]

    def law(unit):
        """The first in the order is kept; the unit stands first, its neighbors contribute -1."""
        full = 1 - (1 - share) ** others
        without = full * norm.pdf(x, -1 / noise) + (1 - full) * norm.pdf(x)
        return without if unit is None else (1 - share) * without + share * norm.pdf(x, unit / noise)

    pairs = [(law(1.0), law(None))] if relation is ADD else [(law(1.0), law(-1.0))]
    worst = max(float(np.maximum(p - math.exp(at) * q, 0).sum() * step) for a, b in pairs for p, q in ((a, b), (b, a)))
    found = delta(TruncatedPoissonSampled(Gaussian(noise), share, others + 1, 1), epsilon=at, relation=relation)
    assert worst <= found.upper * (1 + 1e-6)


@pytest.mark.slow
def test_numbers_next_to_none_are_answered():
    assert epsilon(TruncatedPoissonSampled(Gaussian(1.0), 5e-324, 100, 10), delta=1e-5).upper == 0
    assert binomial_tail(100, 5e-324, 10) <= 5e-324
    rate = profile(ZeroConcentratedDP(1.0)).tpr(1e-300)
    assert 1e-300 <= rate.lower <= rate.upper < 1e-250
    nested = PoissonSampled(PoissonSampled(DiscreteGaussian(1.7e308, 2), 0.5), 0.5)
    assert epsilon(nested, delta=1e-5).upper == 0
    for release in (Gaussian(1.0), SGD, ZeroConcentratedDP(5e-324), BallsInBins(Gaussian(1.0), 4)):
        assert 0 <= epsilon(release, delta=1e-320).upper < math.inf


def test_the_best_of_trials_says_whose_score_its_lower_bound_is():
    """Enumerated: a coin's answer, the best of two by the answer itself, is what the lower bound may reach, at most."""
    stated, trials = 0.7, BinomialTrialCount(2, 1.0)
    found = delta(BestOfTrials(PureDP(stated), trials), epsilon=0.5)
    assert any("worst score" in str(line) for line in found.assumptions)
    yes, no = 1 / (1 + math.exp(-stated)), 1 / (1 + math.exp(stated))
    shares = np.linspace(0, 1, 401)
    best = 0.0
    for a, b in ((yes, no), (no, yes)):
        for top in (1, 0):  # which answer is on top; ties of half of it are on top, by a coin
            one, two = (p if top else 1 - p for p in (a, b))
            hit = [1 - (1 - shares * p) ** 2 for p in (one, two)]
            middle = [1 - (1 - p) ** 2 - h for p, h in zip((one, two), hit, strict=True)]
            rest = [(1 - p) ** 2 for p in (one, two)]
            total = sum(np.maximum(x - math.exp(0.5) * y, 0) for x, y in (hit, middle, rest))
            best = max(best, float(total.max()))
    assert best <= found.upper
    assert found.lower <= best * (1 + 1e-3) + 0.02


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("top", [0.5, 5.0, 100.0, 600.0])
def test_a_pair_that_is_read_off_a_curve_is_never_below_it(mu, top):
    pair = DominatingPair(release_from_profile(lambda at: gaussian_delta(mu, at)[1], top).base_pairs(ADD)[0])
    outcomes = pair.outcomes()
    for at in np.linspace(0, 1.2 * top, 97):
        assert outcomes.delta(float(at), upper=True) >= gaussian_delta(mu, float(at))[0]
    of_q = math.fsum(pair.base.p * np.exp(-pair.base.u)) + pair.base.infinity_mass
    assert of_q == pytest.approx(1, rel=1e-10)


def test_the_best_of_trials_beside_others_is_no_better_than_exactly_known():
    """The best of up to two coins' answers, shown with a third: enumerated."""
    stated, at = 0.7, 0.9
    with mpmath.workdps(30):
        yes, no = 1 / (1 + mpmath.exp(-stated)), 1 / (1 + mpmath.exp(stated))
        best = [{1: 1 - (1 - p) ** 2, 0: (1 - p) ** 2} for p in (yes, no)]
        one = [{1: p, 0: 1 - p} for p in (yes, no)]
        exact = max(
            sum(
                max(best[a][i] * one[a][j] - mpmath.exp(at) * best[b][i] * one[b][j], 0) for i in (0, 1) for j in (0, 1)
            )
            for a, b in ((0, 1), (1, 0))
        )
    found = delta(Composed([BestOfTrials(PureDP(stated), BinomialTrialCount(2, 1.0)), PureDP(stated)]), epsilon=at)
    assert found.upper >= float(exact)


@pytest.mark.extended
def test_what_a_campaign_found():
    """Each exceeded a trivial bound once."""
    cut = TruncatedPoissonSampled(Gaussian(23.5), 0.13, population=257, max_batch_size=33)
    for relation, most in ((REPLACE, Gaussian(23.5 / 257)), (ADD, Gaussian(23.5 / 514))):
        found = epsilon(Grouped(cut, 257), delta=1e-320, relation=relation)
        assert found.upper <= 1.001 * epsilon(most, delta=1e-320, relation=relation).upper
    one = Repeated(ExponentialMechanism(0.2, monotone=True), 17)
    shown = epsilon(Repeated(one, 17), delta=1e-12)
    assert epsilon(BestOfTrials(one, BinomialTrialCount(17, 0.999)), delta=1e-12).upper <= 1.001 * shown.upper
    faint = epsilon(Composed([ZeroConcentratedDP(1e-20), ZeroConcentratedDP(2e-20)]), delta=1e-320)
    assert faint.upper <= 1.001 * (3e-20 + 2 * math.sqrt(3e-20 * 737))
