"""Clients that stay silent: a zero update under the same noise and divisor, or a round that is given up."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.training.fixed import Fixed
from tests.verification.checked import check_custody, check_noise, check_participation

from epsilog.schemes import (
    ClientLevelAdaptiveClip,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ClientLevelDistributed,
)
from epsilog.training import Randomness
from epsilog.training.engines import add_dropout
from epsilog.training.engines.wrappers import DropoutEngine
from epsilog.training.rounds import compute_next_round, make_initial_state

CENTRAL = ClientLevelCentral(12, 0.5, 30, 0.2, 1.5)
SERVER_NOISE = [
    CENTRAL,
    ClientLevelAdaptiveClip(12, 0.5, 30, 0.2, 0.5, 0.3, 1.0, 1.5),
    ClientLevelCorrelatedNoise(12, 3, 30, 3, 0.2, 1.5),
    ClientLevelCentral(12, None, 30, 0.2, 1.5, sampling="balls-in-bins", cycle_length=3),
]
SHARED = ClientLevelDistributed(
    clients=12,
    cohort_size=6,
    survivors=4,
    rounds=12,
    max_participations=12,
    clip_norm=0.2,
    grid=0.01,
    modulus_bits=20,
    noise_multiplier=2.0,
)


def run(scheme, engine, rounds, *, seed=1):
    state, outcomes = make_initial_state(engine.task), []
    for _ in range(rounds):
        outcomes.append(compute_next_round(scheme, engine, state, Randomness.from_seed(seed)))
        state = outcomes[-1].state
    return outcomes


@pytest.mark.slow
def test_as_many_are_silent_as_the_chance_says_and_others_in_each_round(small_task):
    scheme = replace(CENTRAL, sampling_probability=1.0, rounds=200)
    silent = [each.custody.non_responders for each in run(scheme, DropoutEngine(Fixed(small_task()), 0.25), 200)]
    assert stats.binomtest(sum(silent), 200 * 12, 0.25).pvalue > 1e-6
    assert len(set(silent)) > 4


@pytest.mark.parametrize("scheme", SERVER_NOISE, ids=lambda scheme: f"{scheme.kind} {getattr(scheme, 'sampling', '')}")
def test_silence_takes_the_clients_updates_away_and_nothing_else(small_task, scheme):
    """Against a run in which everybody replies: the same lists, padding and records of noise, and the sum less them."""
    task = small_task()
    whole, quiet = Fixed(task), DropoutEngine(Fixed(task), 0.8)
    one, other = (
        compute_next_round(scheme, engine, make_initial_state(task), Randomness.from_seed(7))
        for engine in (whole, quiet)
    )
    assert other.custody.non_responders > 0
    assert other.custody.participants == one.custody.participants
    assert (other.record.padding, other.record.noise_stddev) == (one.record.padding, one.record.noise_stddev)
    missing = 0.2 * whole.updates[0] * other.custody.non_responders / scheme.expected_cohort
    assert np.allclose(one.state.model - other.state.model, missing, atol=1e-9)


class Fearful(Fixed):
    """Client 0 replies only where its own data says so."""

    def __init__(self, task, *, silent):
        super().__init__(task)
        self.silent = silent

    def sum_uploads(self, now, upload):
        heard = now.cohort[now.cohort != 0] if self.silent else now.cohort
        found = super().sum_uploads(now.of(heard), upload)
        return replace(found, silent=now.cohort.size - heard.size)


@pytest.mark.parametrize("scheme", SERVER_NOISE, ids=lambda scheme: f"{scheme.kind} {getattr(scheme, 'sampling', '')}")
def test_who_stays_silent_because_of_its_data_moves_no_more_than_was_priced(small_task, scheme):
    """Sum and count together, each over its own noise, against what one client is priced for."""
    task = small_task()
    seeds = range(20)
    for seed in seeds:
        one, other = (
            compute_next_round(
                scheme, Fearful(task, silent=silent), make_initial_state(task), Randomness.from_seed(seed)
            )
            for silent in (False, True)
        )
        moved = np.linalg.norm(one.state.model - other.state.model) * scheme.expected_cohort / scheme.noise_stddev
        if scheme.adaptive_clip:
            count = abs(one.record.unclipped - other.record.unclipped) * scheme.expected_cohort
            moved = np.hypot(moved, count / scheme.quantile_noise)
        assert moved <= 1 / scheme.accounted_multiplier * (1 + 1e-9)
        assert one.record.padding == other.record.padding


def test_whose_noise_is_its_own_takes_it_away_and_the_divisor_stays(small_task):
    scheme = ClientLevelClientSide(12, 6, 30, 30, 0.2, 1.5)
    outcomes = run(scheme, DropoutEngine(Fixed(small_task()), 0.4), 30)
    for each in outcomes:
        assert len(each.record.padding) == 6 - each.custody.non_responders
    records = [each.record for each in outcomes]
    assert check_noise(records, noise_stddev=scheme.noise_stddev).status == "passed"


def test_too_few_shares_of_noise_give_a_round_up_before_anything_is_seen(small_task):
    """The model stays, nothing is recorded of the round, and noise that is shown is as large as planned."""
    outcomes = run(SHARED, DropoutEngine(Fixed(small_task()), 0.35), 12, seed=3)
    models = [make_initial_state(small_task()).model, *(each.state.model for each in outcomes)]
    aborted = [each.record.aborted for each in outcomes]
    assert 2 < sum(aborted) < 10
    for before, after, each in zip(models, models[1:], outcomes, strict=False):
        replies = 6 - each.custody.non_responders
        assert each.record.aborted == (replies < 4)
        assert np.array_equal(before, after) == each.record.aborted
        assert len(each.record.padding) == (replies if replies >= 4 else 0)
    records, custody = [each.record for each in outcomes], [each.custody for each in outcomes]
    assert check_noise(records, noise_stddev=SHARED.noise_stddev).status == "passed"
    assert check_custody(custody, records, SHARED).status == "passed"
    assert check_participation(custody, SHARED).status == "passed"
    hidden = [replace(one, aborted=False) if one.aborted else one for one in records]
    assert check_custody(custody, hidden, SHARED).code == "custody/reply-count-mismatch"
    assert check_noise(hidden, noise_stddev=SHARED.noise_stddev).code == "noise/not-checked"


def test_each_reply_carries_its_share_of_the_noise_and_no_more(small_task):
    """The spread of a round's sum is that of as many shares as there were replies."""
    task, draws = small_task(), []
    engine = DropoutEngine(Fixed(task, np.zeros((12, task.model.size))), 0.2)
    for seed in range(60):
        outcome = compute_next_round(SHARED, engine, make_initial_state(task), Randomness.from_seed(seed))
        if not outcome.record.aborted:
            replies = 6 - outcome.custody.non_responders
            noise = (outcome.state.model - make_initial_state(task).model) * 6
            draws.append(noise / (SHARED.noise_stddev * np.sqrt(replies / 4)))
    values = np.concatenate(draws)
    assert 5e-7 < stats.chi2.cdf(np.sum(values**2), values.size) < 1 - 5e-7
    assert not 5e-7 < stats.chi2.cdf(np.sum((0.7 * values) ** 2), values.size) < 1 - 5e-7


def test_a_chance_that_is_none_is_refused():
    for dropout in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="dropout"):
            add_dropout(dropout)
