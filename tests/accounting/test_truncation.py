"""Truncated Poisson samples: above what neighbours of a handful of units really lose, and as dp-accounting composes."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting import TruncatedSubsampledGaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import epsilog as ep
from epsilog import accounting
from epsilog.accounting.bounds import Bounds
from epsilog.accounting.truncation import Cut, binomial_above
from epsilog.terms import (
    ApproximateDP,
    Composed,
    Gaussian,
    Laplace,
    NeighboringRelation,
    PoissonSampled,
    Repeated,
    TruncatedPoissonSampled,
    UnsupportedMechanismError,
)

ADD, ZERO, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.ZERO_OUT,
    NeighboringRelation.REPLACE_ONE,
)
X = np.linspace(-40, 40, 80_001)


def density(values, q, most, noise):
    """The density of one round's noisy sum over units with these values, by all samples; who is cut is drawn evenly."""
    total = np.zeros_like(X)
    for coins in product((0, 1), repeat=len(values)):
        chance = math.prod(q if coin else 1 - q for coin in coins)
        chosen = [value for value, coin in zip(values, coins, strict=True) if coin]
        kept = [chosen] if len(chosen) <= most else [
            [value for value, keep in zip(chosen, keeps, strict=True) if keep]
            for keeps in product((0, 1), repeat=len(chosen)) if sum(keeps) == most
        ]  # fmt: skip
        for one in kept:
            total += (
                chance / len(kept) * np.exp(-0.5 * ((X - sum(one)) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
            )
    return total


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (X[1] - X[0]))


def neighbours(relation, others):
    match relation:
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return [*others, 1.0], list(others)
        case NeighboringRelation.ZERO_OUT:
            return [*others, 1.0], [*others, 0.0]
        case _:
            return [*others, 1.0], [*others, -1.0]


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("relation", [ADD, ZERO, REPLACE])
@pytest.mark.parametrize(("q", "most"), [(0.05, 3), (0.1, 3), (0.1, 2), (0.3, 4)])
def test_it_covers_every_handful_of_units(relation, q, most):
    noise = 1.0
    release = TruncatedPoissonSampled(Gaussian(noise), q, population=5, largest_batch=most)
    for others in ((0.0,) * 4, (-1.0,) * 4, (1.0,) * 4, (1.0, -1.0, 1.0, -1.0)):
        one, other = (density(values, q, most, noise) for values in neighbours(relation, others))
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            upper = ep.delta(release, epsilon=epsilon, relation=relation).upper
            assert max(hockey_stick(one, other, epsilon), hockey_stick(other, one, epsilon)) <= upper + 1e-9


def test_leaving_the_cut_out_would_be_wrong():
    one, other = (density(values, 0.6, 1, 1.0) for values in neighbours(ADD, (-1.0,) * 4))
    real = max(hockey_stick(one, other, 3.0), hockey_stick(other, one, 3.0))
    assert real > 20 * ep.delta(PoissonSampled(Gaussian(1.0), 0.6), epsilon=3.0).upper


@pytest.mark.slow
@pytest.mark.parametrize("most", [110, 130])
def test_beside_the_same_pairs_composed_by_another(most):
    """The pairs of docs 1.9, mixed and composed by dp-accounting; its own event uses looser pairs at a lower chance."""
    q, n, rounds, delta = 0.05, 2000, 20, 1e-6
    ours = ep.epsilon(Repeated(TruncatedPoissonSampled(Gaussian(2.0), q, n, most), rounds), delta=delta).upper
    near, far = (pld.from_gaussian_mechanism(noise, sampling_prob=q) for noise in (2.0, 1.0))
    told = far.compute_mixture(near, stats.binom.sf(most - 1, n - 1, q)).self_compose(rounds)
    assert ours == pytest.approx(told.get_epsilon_for_delta(delta), rel=2e-3)
    event = TruncatedSubsampledGaussianDpEvent(n, q, most, 2.0)
    assert ours <= 1.05 * PLDAccountant().compose(event, rounds).get_epsilon(delta)


def test_rare_cuts_cost_nothing_that_shows():
    q, n, rounds = 1024 / 100_000, 100_000, 1000
    ours = ep.epsilon(Repeated(TruncatedPoissonSampled(Gaussian(1.0), q, n, 1300), rounds), delta=1e-6)
    whole = ep.epsilon(Repeated(PoissonSampled(Gaussian(1.0), q), rounds), delta=1e-6)
    assert whole.upper <= ours.upper <= (1 + 1e-6) * whole.upper
    assert (1 - 1e-6) * whole.lower <= ours.lower <= whole.upper
    assert len(ours.assumptions) > len(ep.epsilon(Gaussian(1.0), delta=1e-6).assumptions)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(1, 10**9), st.floats(1e-9, 1 - 1e-9), st.floats(-12, 12))
def test_the_tail_is_above_the_exact_one_and_near_it(trials, chance, deviations):
    most = min(max(int(trials * chance + deviations * math.sqrt(trials * chance * (1 - chance))), 0), trials)
    exact, bound = stats.binom.sf(most, trials, chance), binomial_above(trials, chance, most)
    assert exact <= bound * (1 + 1e-6) or trials > 10**6  # SciPy's own tail errs for many trials
    assert exact <= 1.0001 * bound
    if deviations > 3 and trials * min(chance, 1 - chance) > 100:
        assert bound <= 1.12 * exact
    if 200 < trials < 1e5 and 0.01 < chance < 0.99:
        assert bound <= 1.02 * exact


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.fractions(0, 1, max_denominator=1000), st.integers(0, 60))
def test_the_tail_beside_fractions(trials, chance, most):
    p = Fraction(float(chance))
    exact = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(most + 1, trials + 1))
    bound = Fraction(binomial_above(trials, float(chance), most))
    assert exact <= bound <= Fraction(11, 10) * exact + Fraction(1, 10**300)


def test_tails_at_the_ends():
    assert binomial_above(10, 0.5, 10) == 0.0
    assert binomial_above(10, 0.0, 1) == 0.0
    assert binomial_above(10, 1.0, 9) == 1.0
    assert binomial_above(10, 0.5, 9) == pytest.approx(2**-10, rel=1e-8)
    assert binomial_above(10**12, 1e-3, 2 * 10**9) == pytest.approx(0.0, abs=1e-300)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e10, 9e15), st.floats(0.5, 30))
def test_the_first_and_the_last_unit_of_very_many(trials, expected):
    """By series of log(1 - x), whose digits no large logarithms swamp."""
    trials = int(trials)
    seldom, often = expected / trials, 1 - expected / trials

    def all_of(missing):
        return math.exp(-trials * (missing + missing**2 / 2))

    assert -math.expm1(math.log(all_of(seldom))) * (1 - 1e-11) <= binomial_above(trials, seldom, 0)
    assert all_of(1 - often) * (1 - 1e-11) <= binomial_above(trials, often, trials - 1)
    if trials < 1e12:
        assert binomial_above(trials, often, trials - 1) <= 1.1 * all_of(1 - often)


def test_what_cannot_be_cut_is_a_poisson_sample():
    held = TruncatedPoissonSampled(Gaussian(1.0), 0.1, population=50, largest_batch=50)
    assert ep.epsilon(held, delta=1e-5) == ep.epsilon(PoissonSampled(Gaussian(1.0), 0.1), delta=1e-5)


def test_frequent_cuts_cost_more_and_never_less():
    costs = [
        ep.epsilon(Repeated(TruncatedPoissonSampled(Gaussian(2.0), 0.1, 1000, most), 20), delta=1e-5).upper
        for most in (100, 120, 130, 150, 200, 1000)
    ]
    assert costs == sorted(costs, reverse=True)
    assert 1.3 * costs[-1] < costs[0] < math.inf


def test_nothing_is_promised_where_nothing_is_proved():
    often = Repeated(TruncatedPoissonSampled(Laplace(1.0), 0.1, population=1000, largest_batch=100), 10)
    assert ep.epsilon(often, delta=1e-5).upper == math.inf
    assert ep.delta(often, epsilon=1.0).upper == 1.0
    assert ep.epsilon(TruncatedPoissonSampled(Gaussian(1.0), 0.1, 1000, 200), delta=0.0).upper == math.inf


def test_beside_other_parts():
    cut = Repeated(TruncatedPoissonSampled(Gaussian(2.0), 0.01, 10_000, 200), 100)
    whole = Repeated(PoissonSampled(Gaussian(2.0), 0.01), 100)
    for beside in (Gaussian(3.0), ApproximateDP(0.1, 1e-7), Laplace(5.0)):
        one = ep.epsilon(Composed([cut, beside]), delta=1e-5)
        other = ep.epsilon(Composed([whole, beside]), delta=1e-5)
        assert other.lower <= one.upper <= 1.001 * other.upper
        assert one.lower <= other.upper
    with pytest.raises(UnsupportedMechanismError):
        accounting.rdp(cut, np.array([2.0]), relation=ADD)


@given(st.floats(0, 1), st.floats(0, 800))
def test_a_cut_never_helps(chance, epsilon):
    found = Cut(chance).beside(Bounds(1e-7, 1e-6), epsilon)
    assert found.upper >= 1e-6
    assert found.lower <= 1e-7
