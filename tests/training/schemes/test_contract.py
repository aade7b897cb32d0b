"""What every scheme's rounds promise, on each scheme that there is: a new one adds one line to the table.

Divisors and noise are worked out by hand from the stated settings, never asked of the scheme.
"""

from dataclasses import replace
from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from tests.training.fixed import Fixed

from epsilog.accounting import epsilon
from epsilog.schemes import (
    SCHEMES,
    ClientLevelAdaptiveClip,
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ClientLevelDistributed,
    ExampleLevelClientSide,
    Scheme,
)
from epsilog.terms import CheckError, codec
from epsilog.training import Randomness
from epsilog.training.engines import ClippedSum
from epsilog.training.rounds import compute_next_round, make_initial_state

CLIP, Z, SEEDS = 0.2, 2.0, 60


class Case(NamedTuple):
    """A scheme of twelve clients; what its sum is divided by, and the noise on the sum in units of Z times CLIP."""

    scheme: Scheme
    divisor: float
    noise: float


sampled = partial(ClientLevelCentral, 12, rounds=6, clip_norm=CLIP, noise_multiplier=Z)
CASES = [
    Case(sampled(0.5), 12 * 0.5, 1),
    Case(sampled(None, sampling="fixed-size", cohort_size=4), 4, 1),
    Case(sampled(None, sampling="balls-in-bins", cycle_length=3), 12 / 3, 1),
    Case(sampled(None, sampling="cyclic", cycle_length=3), 12 / 3, 1),
    Case(ClientLevelAdaptiveClip(12, 0.5, 6, CLIP, 0.5, 0.3, 1.0, Z), 12 * 0.5, 1),
    Case(ClientLevelCorrelatedNoise(12, 3, 6, 2, CLIP, Z), 12 / 3, 1),
    Case(ClientLevelBufferedNoise(12, 3, 6, (0.9,), (0.3,), CLIP, Z), 12 / 3, 1),
    Case(ClientLevelClientSide(12, 5, 6, 3, CLIP, Z), 5, sqrt(5)),
    Case(ExampleLevelClientSide(12, 5, 6, 3, 0.5, 2, CLIP, Z), 5, sqrt(5 * 4)),  # four steps each
    Case(ClientLevelDistributed(12, 6, 3, 4, 3, CLIP, 1e-3, 32, Z), 6, sqrt(6 / 3)),  # three shares are the noise
]
NAMES = [f"{case.scheme.kind} {getattr(case.scheme, 'sampling', '')}".strip() for case in CASES]
EVERY = pytest.mark.parametrize("case", CASES, ids=NAMES)
CLIENTS = pytest.mark.parametrize(  # an example's clip is the engine's
    "case", [case for case in CASES if case.scheme.unit_is_client], ids=lambda case: case.scheme.kind
)


class Known(Fixed):
    """Clients whose updates are known; of DP-SGD each step's noise is added to them."""

    def sum_dp_sgd(self, now, runs):
        drawn = [runs.noise_stddev * now.noise(one).normals((runs.steps, now.model.size)) for one in now.cohort]
        noise = sum((each.sum(axis=0) for each in drawn), np.zeros(now.model.size))
        return ClippedSum(self.updates[now.cohort].sum(axis=0) + noise, 0.0, 0, 0, len(now.cohort))


@pytest.fixture(name="round_of")
def _round_of(small_task):
    """Computes a first round; returns the step, who took part, and the record."""

    def compute(scheme, updates, randomness, **settings):
        task = small_task(unit_is_client=scheme.unit_is_client)
        state = make_initial_state(task)
        outcome = compute_next_round(scheme, Known(task, updates), state, randomness, **settings)
        return outcome.state.model - state.model, list(outcome.custody.participants), outcome.record

    return compute


@pytest.fixture(name="updates")
def _updates(small_task):
    """Ones of which each has another length, and each is longer than the clip."""
    drawn = np.random.default_rng(3).standard_normal((12, small_task().model.size))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * np.linspace(1, 3, 12)[:, None]


def is_of_size(draws, stddev):
    """Chi-square on normals; false alarm 1e-6."""
    total = (np.asarray(draws) ** 2).sum() / stddev**2
    return 5e-7 < stats.chi2.cdf(total, np.size(draws)) < 1 - 5e-7


def test_every_scheme_has_a_case():
    assert {case.scheme.kind for case in CASES} == set(SCHEMES)


@EVERY
def test_it_is_stored_and_counts_its_noisy_sums(case):
    assert codec.from_json(codec.to_json(case.scheme)) == case.scheme
    assert case.scheme.noisy_sums(0) == 0
    assert 1 <= case.scheme.noisy_sums(1) <= case.scheme.noisy_sums(case.scheme.rounds)
    with pytest.raises(CheckError, match="rounds must be"):
        case.scheme.noisy_sums(-1)


@EVERY
def test_each_round_that_is_computed_again_costs_more(case):
    scheme = case.scheme
    relation = scheme.relations[0]
    none, one, three = (epsilon(scheme.with_attempts(n), delta=1e-5, relation=relation) for n in (0, 1, 3))
    assert none.upper == pytest.approx(epsilon(scheme.release(), delta=1e-5, relation=relation).upper, rel=1e-2)
    assert none.upper < one.lower <= one.upper < three.lower
    with pytest.raises(CheckError, match="further must be"):
        scheme.with_attempts(-1)


@EVERY
def test_a_step_is_the_sum_of_the_cohorts_updates_over_a_public_number(round_of, updates, case):
    for seed in range(12):
        step, cohort, _ = round_of(case.scheme, updates, Randomness.from_seed(seed), private=False)
        assert step == pytest.approx(updates[cohort].sum(axis=0) / case.divisor, abs=1e-12)


@CLIENTS
def test_no_client_moves_a_step_further_than_the_clip_over_the_divisor(round_of, updates, case):
    quiet = replace(case.scheme, noise_multiplier=0.0)
    for seed in range(12):
        step, cohort, _ = round_of(quiet, 1e3 * updates, Randomness.from_seed(seed))
        short = CLIP * updates / np.linalg.norm(updates, axis=1, keepdims=True)
        assert case.divisor * step == pytest.approx(short[cohort].sum(axis=0), abs=1e-3 * CLIP * 12)
        assert np.linalg.norm(case.divisor * step) <= CLIP * len(cohort)


@pytest.mark.every(1)
@pytest.mark.slow
@EVERY
def test_the_noise_has_the_stated_size_and_a_control_that_is_30_percent_weak_is_caught(round_of, updates, case):
    def fit(randomness):
        steps, _, records = zip(*(round_of(case.scheme, 0 * updates, randomness(n)) for n in range(SEEDS)), strict=True)
        padding = np.concatenate([record.padding for record in records])
        yield is_of_size(case.divisor * np.stack(steps), case.noise * Z * CLIP)
        if padding.size:
            yield is_of_size(padding, Z * CLIP)

    assert all(fit(Randomness.from_seed))
    assert not any(fit(partial(Randomness.with_weaker_noise, noise_factor=0.7)))
