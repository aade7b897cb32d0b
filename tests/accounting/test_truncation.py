"""Truncated Poisson samples: above what neighbors of a handful of units really lose, and as dp-accounting composes."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting import TruncatedSubsampledGaussianDpEvent
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution as pld
from hypothesis import given, settings, strategies as st
from scipy import stats
from tests.accounting.montecarlo.simulated import paths as taken_rounds
from tests.extent import amount

import epsilog as ep
from epsilog import accounting
from epsilog.accounting import montecarlo
from epsilog.accounting.truncation import (
    TruncationProbability,
    binomial_tail,
    build_truncated_poisson_pair,
    truncation_probability,
)
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    FullParticipation,
    Gaussian,
    MatrixMechanism,
    MinSepParticipation,
    PoissonSampled,
    RandomAllocationParticipation,
    Repeated,
    ToeplitzStrategy,
    TruncatedPoissonSampled,
)
from epsilog.numerics.gaussian import gaussian_epsilon
from epsilog.numerics.questions import Bounds
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD, ZERO, REPLACE = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.ZERO_OUT,
    NeighboringRelation.REPLACE_ONE,
)
X = np.linspace(-40, 40, 80_001)


def density(values, q, most, noise):
    """The density of one round's noisy sum over units with these values, by all samples; who is cut is drawn evenly."""
    chances = Counter()
    for coins in product((0, 1), repeat=len(values)):
        chance = math.prod(q if coin else 1 - q for coin in coins)
        chosen = [value for value, coin in zip(values, coins, strict=True) if coin]
        kept = [chosen] if len(chosen) <= most else [
            [value for value, keep in zip(chosen, keeps, strict=True) if keep]
            for keeps in product((0, 1), repeat=len(chosen)) if sum(keeps) == most
        ]  # fmt: skip
        for one in kept:
            chances[sum(one)] += chance / len(kept)
    return sum(
        chance * np.exp(-0.5 * ((X - total) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
        for total, chance in chances.items()
    )


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (X[1] - X[0]))


def neighbors(relation, others):
    match relation:
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return [*others, 1.0], list(others)
        case NeighboringRelation.ZERO_OUT:
            return [*others, 1.0], [*others, 0.0]
        case _:
            return [*others, 1.0], [*others, -1.0]


@pytest.mark.slow_beyond(2)
@pytest.mark.every(3)
@pytest.mark.parametrize("relation", [ADD, ZERO, REPLACE])
@pytest.mark.parametrize(("q", "most"), [(0.05, 3), (0.1, 3), (0.1, 2), (0.3, 4)])
def test_it_covers_every_handful_of_units(relation, q, most):
    noise = 1.0
    release = TruncatedPoissonSampled(Gaussian(noise), q, population=5, max_batch_size=most)
    for others in ((0.0,) * 4, (-1.0,) * 4, (1.0,) * 4, (1.0, -1.0, 1.0, -1.0)):
        one, other = (density(values, q, most, noise) for values in neighbors(relation, others))
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            upper = ep.delta(release, epsilon=epsilon, relation=relation).upper
            assert max(hockey_stick(one, other, epsilon), hockey_stick(other, one, epsilon)) <= upper + 1e-9


def test_leaving_the_cut_out_would_be_wrong():
    one, other = (density(values, 0.6, 1, 1.0) for values in neighbors(ADD, (-1.0,) * 4))
    real = max(hockey_stick(one, other, 3.0), hockey_stick(other, one, 3.0))
    assert real > 20 * ep.delta(PoissonSampled(Gaussian(1.0), 0.6), epsilon=3.0).upper


@pytest.mark.slow
@pytest.mark.parametrize("most", [110, 130])
def test_beside_the_same_pairs_composed_by_another(most):
    """The pairs of docs 1.9, mixed and composed by dp-accounting; its own event uses looser pairs at a lower chance."""
    q, n, rounds, delta = 0.05, 2000, 20, 1e-6
    ours = ep.epsilon(Repeated(TruncatedPoissonSampled(Gaussian(2.0), q, n, most), rounds), delta=delta).upper
    near, far = (
        pld.from_gaussian_mechanism(noise, sampling_prob=q, value_discretization_interval=5e-4) for noise in (2.0, 1.0)
    )
    told = far.compute_mixture(near, stats.binom.sf(most - 1, n - 1, q)).self_compose(rounds)
    assert ours == pytest.approx(told.get_epsilon_for_delta(delta), rel=2e-3)
    event = TruncatedSubsampledGaussianDpEvent(n, q, most, 2.0)
    coarse = PLDAccountant(value_discretization_interval=1e-3)  # its bound is above by no more than steps of that size
    assert ours <= 1.05 * coarse.compose(event, rounds).get_epsilon(delta)


@pytest.mark.slow
@settings(max_examples=amount(80, 300), deadline=None)
@given(st.integers(1, 10**9), st.floats(1e-9, 1 - 1e-9), st.floats(-12, 12))
def test_the_tail_is_above_the_exact_one_and_near_it(trials, chance, deviations):
    most = min(max(int(trials * chance + deviations * math.sqrt(trials * chance * (1 - chance))), 0), trials)
    exact, bound = stats.binom.sf(most, trials, chance), binomial_tail(trials, chance, most)
    assert exact <= bound * (1 + 1e-6) or trials > 10**6  # SciPy's own tail errs for many trials
    assert exact <= 1.0001 * bound
    if deviations > 3 and trials * min(chance, 1 - chance) > 100:
        assert bound <= 1.12 * exact
    if 200 < trials < 1e5 and 0.01 < chance < 0.99:
        assert bound <= 1.02 * exact


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.fractions(0, 1, max_denominator=1000), st.integers(0, 60))
def test_the_tail_beside_fractions(trials, chance, most):
    p = Fraction(float(chance))
    exact = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(most + 1, trials + 1))
    bound = Fraction(binomial_tail(trials, float(chance), most))
    assert exact <= bound <= Fraction(11, 10) * exact + Fraction(1, 10**300)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e10, 9e15), st.floats(0.5, 30))
def test_the_first_and_the_last_unit_of_very_many(trials, expected):
    """By series of log(1 - x), whose digits no large logarithms swamp."""
    trials = int(trials)
    seldom, often = expected / trials, 1 - expected / trials

    def all_of(missing):
        return math.exp(-trials * (missing + missing**2 / 2))

    assert -math.expm1(math.log(all_of(seldom))) * (1 - 1e-11) <= binomial_tail(trials, seldom, 0)
    assert all_of(1 - often) * (1 - 1e-11) <= binomial_tail(trials, often, trials - 1)
    if trials < 1e12:
        assert binomial_tail(trials, often, trials - 1) <= 1.1 * all_of(1 - often)


@pytest.mark.parametrize("most", [1265, 1280, 1290])
def test_an_epsilon_is_paid_for_by_what_delta_leaves_beside_the_cut(most):
    """The two questions are answered apart: what epsilon(delta) states, delta(epsilon) must bear out."""
    cut, delta = Repeated(TruncatedPoissonSampled(Gaussian(1.0), 0.01024, 100_000, most), 10), 1e-12
    uncut = ep.epsilon(Repeated(PoissonSampled(Gaussian(1.0), 0.01024), 10), delta=delta)
    assert ep.delta(cut, epsilon=ep.epsilon(cut, delta=delta).upper).upper <= delta
    assert ep.delta(cut, epsilon=uncut.upper).upper > 1.02 * delta  # as if nothing were cut


@pytest.mark.parametrize("chance", [1e-9, 1e-7])
def test_an_epsilon_with_a_cut_holds_those_of_the_best_and_the_worst_cut(chance):
    """A cut may take c (1 + e^epsilon) from the delta of a Gaussian, or add as much, at every epsilon."""
    delta = 1e-5
    found = TruncationProbability(chance).epsilon(delta, lambda at: Bounds(*gaussian_epsilon(1.0, at)), above=False)
    grid = np.linspace(3.0, 7.0, 4_001)
    exact = stats.norm.cdf(0.5 - grid) - np.exp(grid) * stats.norm.cdf(-0.5 - grid)
    moved = chance * (1 + np.exp(grid))
    best, worst = (float(grid[np.argmax(exact + side * moved <= delta)]) for side in (-1, 1))
    assert found.lower <= best
    assert worst - 0.001 <= found.upper


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("chance", [1e-9, 1e-3, 0.01])
def test_a_cut_may_move_an_event_of_both_neighbors_apart(chance, epsilon):
    """Truncation makes an event more likely by its chance for one neighbor, and less likely for the other."""
    one, other = 0.6, (0.6 - 0.01) * math.exp(-epsilon)  # delta of the event is 0.01
    moved = one + chance - math.exp(epsilon) * max(other - chance, 0.0)
    back = one - chance - math.exp(epsilon) * (other + chance)
    found = TruncationProbability(chance).add_to(Bounds(0.01, 0.01), epsilon)
    assert found.lower <= max(back, 0.0) + 1e-15
    assert found.upper >= moved - 1e-15
    assert found.upper <= moved + 1e-12 or other < chance


ROUNDS = 3
DRAWN = [
    BallsInBinsParticipation(2),
    CyclicPoissonParticipation(2, 0.6),
    RandomAllocationParticipation(2),
    MinSepParticipation(2, 0.4),
    MinSepParticipation(2, 0.4, warm_start=True),
    MinSepParticipation(1, 0.3),
]


def matrix(drawn, rounds=ROUNDS, noise=1.0):
    return MatrixMechanism(ToeplitzStrategy((1.0,)), drawn, rounds, noise)


def paths(drawn, rounds=ROUNDS):
    """Each way for one unit to take part, with its chance, told round by round."""
    return {
        tuple(int(t in taken) for t in range(rounds)): chance for taken, chance in taken_rounds(drawn, rounds).items()
    }


@pytest.mark.parametrize("drawn", DRAWN, ids=repr)
@pytest.mark.parametrize(("units", "most"), [(4, 1), (4, 3), (5, 4)])
def test_a_batch_is_cut_no_more_often_than_that(drawn, units, most):
    one = paths(drawn)
    exact = sum(
        math.prod(one[way] for way in ways)
        for ways in product(one, repeat=units)
        if max(map(sum, zip(*ways, strict=True))) > most
    )
    bound = truncation_probability(matrix(drawn), population=units, max_batch_size=most)
    assert exact <= bound * (1 + 1e-12)
    assert bound <= max(2.0 * exact, exact + 1e-9) or bound <= 1 < 1.6 * exact + 0.6


def test_bins_are_filled_once_whatever_the_epochs_and_a_repetition_draws_them_afresh():
    once = truncation_probability(BallsInBins(Gaussian(1.0), 8), population=100, max_batch_size=30)
    assert truncation_probability(BallsInBins(Gaussian(1.0), 8, epochs=5), population=100, max_batch_size=30) == once
    assert truncation_probability(matrix(BallsInBinsParticipation(8), 40), population=100, max_batch_size=30) == once
    again = truncation_probability(Repeated(BallsInBins(Gaussian(1.0), 8), 5), population=100, max_batch_size=30)
    assert again == pytest.approx(5 * once)
    assert truncation_probability(BallsInBins(Gaussian(1.0), 8), population=30, max_batch_size=30) == 0.0
    settled = truncation_probability(matrix(MinSepParticipation(4, 0.1), 100_000), population=1000, max_batch_size=160)
    warm = truncation_probability(
        matrix(MinSepParticipation(4, 0.1, warm_start=True), 100_000), population=1000, max_batch_size=160
    )
    begun = truncation_probability(matrix(MinSepParticipation(4, 0.1), 100), population=1000, max_batch_size=160)
    assert 1e3 * warm < begun < settled < begun + 1.01 * warm  # at first everybody may join


def cut_delta(drawn, units, most, noise, epsilon):
    """Delta at epsilon of two rounds, on a grid; one unit sends 1 and comes first, the others send -1."""
    x = np.linspace(-9, 9, 361) * noise
    one, step = paths(drawn, 2), x[1] - x[0]
    with_it, without = np.zeros((2, x.size, x.size))
    for ways in product(one, repeat=units):
        chance = math.prod(one[way] for way in ways)
        others = [[-1] * sum(way[t] for way in ways[1:]) for t in range(2)]
        ours = [[1] * ways[0][t] for t in range(2)]
        sums = [sum((own + rest)[:most]) for own, rest in zip(ours, others, strict=True)]
        with_it += chance * np.outer(*(stats.norm.pdf(x, total, noise) for total in sums))
        without += chance * np.outer(*(stats.norm.pdf(x, sum(rest[:most]), noise) for rest in others))
    return float(np.maximum(with_it - math.exp(epsilon) * without, 0).sum() * step * step)


@pytest.mark.slow
def test_what_is_cut_is_paid_for_and_what_ignores_it_is_broken():
    drawn, units, most, noise, epsilon = MinSepParticipation(2, 0.1), 3, 1, 0.6, 4.5
    run = matrix(drawn, 2, noise)
    plain = accounting.delta(Gaussian(noise), epsilon=epsilon)  # no unit is in both rounds: more than enough, uncut
    uncut = cut_delta(drawn, units, units, noise, epsilon)
    real = cut_delta(drawn, units, most, noise, epsilon)
    assert uncut < plain.upper
    assert real > 1.5 * uncut  # the unit takes the place of one that sends the opposite
    bounds = replace(plain, lower=uncut, upper=uncut)
    found = build_truncated_poisson_pair(bounds, run, population=units, max_batch_size=most)
    assert bounds.upper < real <= found.upper


def test_monte_carlo_evidence_can_be_cut_and_what_is_not_about_delta_cannot():
    run = matrix(MinSepParticipation(4, 0.05), 20, 2.0)
    evidence = montecarlo.bound_delta(run, epsilon=1.0, samples=4_000, seed=3)
    found = build_truncated_poisson_pair(evidence.interval, run, population=10_000, max_batch_size=800)
    assert evidence.interval.upper <= found.upper <= evidence.interval.upper * 1.001
    assert "before each batch is truncated to 800" in str(found.assumptions[-1])
    assert build_truncated_poisson_pair(evidence.interval, run, population=10_000, max_batch_size=400).upper == 1.0
    with pytest.raises(ValueError, match="interval"):
        build_truncated_poisson_pair(
            accounting.epsilon(Gaussian(1.0), delta=1e-6), run, population=10, max_batch_size=2
        )
    with pytest.raises(UnsupportedMechanismError, match="drawn"):
        build_truncated_poisson_pair(evidence.interval, matrix(FullParticipation()), population=10, max_batch_size=2)
    with pytest.raises(UnsupportedMechanismError, match="replace-one"):
        build_truncated_poisson_pair(
            replace(evidence.interval, relation=REPLACE), run, population=10_000, max_batch_size=800
        )
