"""Poisson means Poisson: cohort sizes are binomial, clients independent. A fixed-size sampler is caught."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from scipy import stats

from epsilog.schemes.cohorts import PoissonSampler
from epsilog.training import Randomness, sampling
from epsilog.training.noise import RandomStream

ROUNDS, POPULATION, PROBABILITY = 400, 300, 0.1
SOURCE = Randomness.from_seed(21)
POISSON, BEFORE = PoissonSampler(POPULATION, PROBABILITY), sampling.SamplerHistory(1, np.zeros(0, dtype=np.int64))


def sizes_look_binomial(sizes):
    """Compares the spread of sizes with N q (1 - q), and their mean with N q; false alarm 2e-6."""
    spread = np.sum((sizes - POPULATION * PROBABILITY) ** 2) / (POPULATION * PROBABILITY * (1 - PROBABILITY))
    total = stats.binomtest(int(sizes.sum()), ROUNDS * POPULATION, PROBABILITY).pvalue
    return total > 1e-6 and 5e-7 < stats.chi2.cdf(spread, ROUNDS) < 1 - 5e-7


def test_poisson_cohorts_have_binomial_sizes_and_every_client_its_share():
    cohorts = [sampling.draw_cohort(POISSON, SOURCE.stream("cohort", one), BEFORE) for one in range(ROUNDS)]
    assert sizes_look_binomial(np.array([cohort.size for cohort in cohorts]))
    counts = np.bincount(np.concatenate(cohorts), minlength=POPULATION)
    spread = np.sum((counts - ROUNDS * PROBABILITY) ** 2) / (ROUNDS * PROBABILITY * (1 - PROBABILITY))
    assert 1e-6 < stats.chi2.cdf(spread, POPULATION) < 1 - 1e-6


def test_the_control_fixed_size_cohorts_are_not_poisson():
    everyone = np.arange(POPULATION)
    cohorts = [
        sampling.draw_without_replacement(SOURCE.stream("cohort", one), eligible=everyone, size=30)
        for one in range(ROUNDS)
    ]
    assert not sizes_look_binomial(np.array([cohort.size for cohort in cohorts]))


def test_poisson_may_draw_nobody_and_must_draw_everybody_at_the_ends():
    stream = SOURCE.stream("cohort", 1)
    assert sampling.draw_cohort(PoissonSampler(50, 0.0), stream, BEFORE).size == 0
    assert sampling.draw_cohort(PoissonSampler(50, 1.0), stream, BEFORE).size == 50


def test_fixed_size_cohorts_favour_nobody_and_repeat_nobody():
    eligible = np.array([1, 4, 5, 7, 11, 13])
    draws = [
        sampling.draw_without_replacement(SOURCE.stream("cohort", one), eligible=eligible, size=3)
        for one in range(2000)
    ]
    assert all(len(set(draw)) == 3 and set(draw) <= set(eligible) for draw in map(np.ndarray.tolist, draws))
    subsets, counts = np.unique(draws, axis=0, return_counts=True)
    assert len(subsets) == 20
    assert stats.chisquare(counts).pvalue > 1e-6


def test_fewer_eligible_clients_than_wanted_all_come():
    assert sampling.draw_without_replacement(SOURCE.stream("c", 1), eligible=np.array([2, 9]), size=5).tolist() == [
        2,
        9,
    ]


def test_batches_are_poisson_too():
    joins = SOURCE.stream("batches", 1).coins((50, 10, 40), 0.25)
    assert joins.shape == (50, 10, 40)
    assert stats.binomtest(int(joins.sum()), joins.size, 0.25).pvalue > 1e-6


def _saying(words):
    """A generator whose next words are these."""
    return SimpleNamespace(bit_generator=SimpleNamespace(random_raw=lambda _: words))


def test_nobody_is_sampled_more_often_than_was_paid_for():
    """The smallest and the largest word on either side of a chance: rounded down to a multiple of 2^-53."""
    for probability in (1e-300, 6e-17, 2**-53, 0.1, 0.2, 0.5, 1 - 2**-53, 1.0):
        kept = Fraction(math.floor(Fraction(probability) * 2**53), 2**53)
        words = np.array([int(kept * 2**53) - 1, int(kept * 2**53)]).clip(0, 2**53 - 1).astype(np.uint64) << np.uint64(
            11
        )
        shown = RandomStream(_saying(words)).coins((2,), probability)
        assert shown.tolist() == [kept > 0, kept == 1]
        assert kept <= Fraction(probability)
