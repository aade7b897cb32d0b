"""Noise that later rounds take back: one Gaussian mechanism for the whole run, held against the matrix itself."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from tests.verification.checked import check_participation

from epsilog.accounting import epsilon
from epsilog.mechanisms import GaussianDP
from epsilog.schemes import ClientLevelCorrelatedNoise, RawUpdate
from epsilog.terms import CustodyRecord
from epsilog.training import Randomness, require_matching_scheme, rounds, sampling
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.sampling import SamplerHistory
from epsilog.training.schemes import round_robin

SCHEME = ClientLevelCorrelatedNoise(clients=12, cycle_length=4, rounds=10, bands=3, clip_norm=0.2, noise_multiplier=2.0)


def matrix(scheme):
    """C, written out."""
    column = np.zeros(scheme.rounds)
    column[: scheme.bands] = scheme.coefficients[: scheme.rounds]
    return linalg.toeplitz(column, np.zeros(scheme.rounds))


def test_the_matrix_is_the_root_of_the_prefix_sums():
    whole = matrix(replace(SCHEME, cycle_length=12, bands=10))
    assert np.allclose(whole @ whole, np.tril(np.ones((10, 10))))
    assert SCHEME.coefficients == (1.0, 0.5, 0.375)


@pytest.mark.slow
@given(
    cycle=st.integers(1, 9),
    bands=st.integers(1, 9),
    total=st.integers(1, 40),
    signs=st.integers(0, 2**40 - 1),
)
def test_no_client_moves_more_than_it_is_priced_for(cycle, bands, total, signs):
    """Whatever a client sends in its turns, either way, C moves it by no more than the price says."""
    scheme = ClientLevelCorrelatedNoise(12, cycle, total, min(bands, cycle), 1.0, 1.0)
    turns = np.array([2.0 * (signs >> t & 1) - 1 for t in range(total)])
    most = 0.0
    for client in range(cycle):
        sent = np.array([turns[t] if client in scheme.cohorts.due(t + 1) else 0.0 for t in range(total)])
        most = max(most, np.linalg.norm(matrix(scheme) @ sent), np.linalg.norm(matrix(scheme) @ np.abs(sent)))
    priced = np.sqrt(scheme.noisy_sums(total)) / scheme.accounted_multiplier
    assert most <= priced
    if bands == 1 or total >= cycle * scheme.noisy_sums(total):
        everything = np.sqrt(scheme.noisy_sums(total) * np.sum(np.square(scheme.coefficients)))
        assert priced == pytest.approx(everything)
    every = np.linalg.norm(matrix(scheme) @ np.ones(total))
    assert every <= np.sqrt(total) / scheme.full_participation_release().release.noise_multiplier


def test_the_price_is_one_gaussian():
    mu = np.sqrt(3 * (1 + 0.25 + 0.375**2)) / 2
    assert epsilon(SCHEME.release(), delta=1e-5).upper == pytest.approx(
        epsilon(GaussianDP(mu), delta=1e-5).upper, rel=1e-6
    )
    assert SCHEME.noisy_sums(0) == 0
    assert [SCHEME.noisy_sums(t) for t in (1, 4, 5, 9)] == [1, 1, 2, 3]


@pytest.mark.parametrize("bands", [1, 7, pytest.param(5_000, marks=pytest.mark.slow)])
def test_the_norm_of_a_column_is_rounded_outwards(bands):
    scheme = ClientLevelCorrelatedNoise(10_000, 10_000, 10, bands, 1.0, 3.0)
    with mpmath.workdps(40):
        column = [mpmath.binomial(2 * k, k) / mpmath.mpf(4) ** k for k in range(bands)]
        exact = 3 / mpmath.sqrt(mpmath.fsum(c * c for c in column))
        assert exact * (1 - mpmath.mpf(10) ** -11) < scheme.accounted_multiplier <= exact
        whole = 3 / mpmath.fsum(column)
        assert scheme.full_participation_release().release.noise_multiplier <= whole


def noise_rows(scheme, task, seed, remembered=lambda scheme, number: min(number, scheme.bands - 1)):
    """What is added to the sums, a row a round: each step, times the divisor, less the sum of clipped updates.

    A round's divisor is the mean number of clients whose turn it is, over a cycle. After ``number`` rounds, so many
    vectors are remembered, and after the last none.
    """
    divisor = np.mean([len(scheme.cohorts.due(number)) for number in range(1, scheme.cycle_length + 1)])
    engine, state, rows, padding = CompiledEngine(task), rounds.make_initial_state(task), [], []
    for number in range(1, scheme.rounds + 1):
        cohort = np.array(scheme.cohorts.due(number))
        clipped = engine.sum_uploads(RoundInputs(state.model, cohort), RawUpdate(scheme.clip_norm))
        outcome = rounds.compute_next_round(scheme, engine, state, Randomness.from_seed(seed))
        rows.append((outcome.state.model - state.model) * divisor - clipped.total)
        padding.append(outcome.record.padding)
        state = outcome.state
        assert state.memory.size == (number < scheme.rounds) * remembered(scheme, number) * state.model.size
    return np.array(rows), np.array(padding)


def test_the_noise_that_is_added_becomes_independent_under_the_matrix(small_task):
    """C times the rows is what was drawn: the same normals as a run with one band draws, from the same seed."""
    task = small_task()
    rows, padding = noise_rows(SCHEME, task, 5)
    alone, same_padding = noise_rows(replace(SCHEME, bands=1), task, 5)
    assert np.allclose(matrix(SCHEME) @ rows, alone, atol=1e-10)
    assert np.array_equal(padding, same_padding)
    assert not np.allclose(rows, alone, atol=0.1)
    assert padding.shape == (10, 16)


def test_the_model_carries_less_noise_at_the_same_price():
    """The spread of the sum of all noises so far, root mean square over rounds, per unit of the price's multiplier."""
    scheme = ClientLevelCorrelatedNoise(1000, 50, 200, 50, 1.0, 1.0)

    def error(one):
        sums = np.tril(np.ones((one.rounds, one.rounds))) @ np.linalg.inv(matrix(one))
        return np.sqrt((sums**2).sum() / one.rounds) / one.accounted_multiplier

    assert error(scheme) < 0.35 * error(replace(scheme, bands=1))


def test_a_verifier_knows_whose_turn_it_is(small_task):
    outcome, task = [], small_task()
    state = rounds.make_initial_state(task)
    for _ in range(10):
        outcome.append(rounds.compute_next_round(SCHEME, CompiledEngine(task), state, Randomness.from_seed(1)))
        state = outcome[-1].state
    custody = [each.custody for each in outcome]
    assert check_participation(custody, SCHEME).status == "passed"
    assert custody[4].participants == (0, 4, 8)
    fewer = [*custody[:4], replace(custody[4], participants=(0, 8)), *custody[5:]]
    assert check_participation(fewer, SCHEME).status == "passed"
    early = CustodyRecord(2, (0, 1), 0.1, 0.0)
    assert check_participation([custody[0], early], SCHEME).code == "participation/out-of-order"


def test_what_cannot_be_priced_or_remembered_is_refused(small_task, monkeypatch):
    with pytest.raises(ValueError, match="bands"):
        replace(SCHEME, bands=5)
    with pytest.raises(ValueError, match="cycle_length"):
        replace(SCHEME, cycle_length=13)
    task = small_task()
    monkeypatch.setattr(round_robin, "MAX_REMEMBERED", 2 * task.model.size)
    require_matching_scheme(SCHEME, task)
    monkeypatch.setattr(round_robin, "MAX_REMEMBERED", 2 * task.model.size - 1)
    with pytest.raises(ValueError, match=r"bands_times_parameters must be in \[0, 41\], got 42"):
        require_matching_scheme(SCHEME, task)


@pytest.mark.slow
def test_a_run_that_diverges_forgets_its_noise(small_task):
    """It ends there: what would be remembered could only be subtracted."""
    task = small_task(dtype="float32")
    first, loud = (replace(SCHEME, noise_multiplier=noise) for noise in (2.0, 1e60))
    sizes = {}
    for scheme in (first, loud):
        outcome = rounds.compute_next_round(
            scheme, CompiledEngine(task), rounds.make_initial_state(task), Randomness.from_seed(1)
        )
        sizes[outcome.record.diverged] = outcome.state.memory.size
    assert sizes == {False: task.model.size, True: 0}


# balls in bins

BINS = replace(SCHEME, clients=60, cycle_length=6, bands=2, rounds=24, sampling="balls-in-bins")


def cohorts_of(scheme, seed):
    """Who is drawn in each round, as a run draws them."""
    slots, found = sampling.NO_SLOTS, []
    for number in range(1, scheme.rounds + 1):
        stream = Randomness.from_seed(seed).stream("cohort", number)
        before = SamplerHistory(number, np.zeros(scheme.clients, int), slots)
        slots = sampling.draw_slots(scheme.cohorts, stream, before)
        found.append(sampling.draw_cohort(scheme.cohorts, stream, replace(before, slots=slots)))
    return found


def custody_of(lists):
    return [CustodyRecord(number, tuple(ids.tolist()), 0.1, 0.0) for number, ids in enumerate(lists, 1)]


def test_bins_are_drawn_anew_among_rounds_whose_columns_share_no_row():
    lists = cohorts_of(BINS, 3)
    of = [[number for number, ids in enumerate(lists) if client in ids] for client in range(BINS.clients)]
    assert all([number // 6 for number in taken] == [0, 1, 2, 3] for taken in of)
    assert all(len({number % 2 for number in taken}) == 1 for taken in of)
    assert len({taken[0] for taken in of}) == 6
    assert 20 < sum(taken[1] - taken[0] != 6 for taken in of) < 55, "two of three are drawn elsewhere"
    for taken in of:
        columns = matrix(BINS)[:, taken]
        assert np.allclose(columns.T @ columns, np.diag((columns**2).sum(axis=0)))
        assert (columns**2).sum(axis=0).max() * BINS.accounted_multiplier**2 <= BINS.noise_multiplier**2


def test_bins_are_priced_as_those_of_one_rest():
    from epsilog.accounting import delta
    from epsilog.mechanisms import BallsInBins, Gaussian, Repeated
    from epsilog.terms import NeighboringRelation

    assert BINS.release() == Repeated(BallsInBins(Gaussian(BINS.accounted_multiplier), 3), 4)
    assert BINS.relations == (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.ZERO_OUT)
    one = replace(BINS, rounds=6, noise_multiplier=1.5)
    claimed = delta(one.release(), epsilon=1.0).upper
    rng, size = np.random.default_rng(7), 200_000
    columns, noise = matrix(one) / one.noise_multiplier, rng.standard_normal((size, 6))
    for with_client in (True, False):
        seen = noise + (columns.T[rng.integers(0, 6, size)] if with_client else 0)
        losses = np.log(np.exp(seen @ columns - (columns**2).sum(axis=0) / 2).mean(axis=1))
        lost = losses if with_client else -losses
        found = np.maximum(-np.expm1(1.0 - lost), 0.0)
        assert found.mean() - 4 * found.std() / np.sqrt(size) <= claimed, "the whole mixture is no further apart"
    only = replace(one, bands=6)
    assert epsilon(only.release(), delta=1e-5).upper == pytest.approx(
        epsilon(only.unamplified_release(), delta=1e-5).upper, rel=1e-6
    )
    assert one.unamplified_release() == Repeated(Gaussian(one.accounted_multiplier), 1)
    assert epsilon(BINS.release(), delta=1e-5).upper < epsilon(BINS.unamplified_release(), delta=1e-5).upper


def test_one_band_is_the_bins_of_independent_noise():
    from epsilog.schemes import ClientLevelCentral

    alone = replace(BINS, bands=1)
    central = ClientLevelCentral(60, None, 24, 0.2, 2.0, sampling="balls-in-bins", cycle_length=6)
    assert epsilon(alone.release(), delta=1e-5).upper == pytest.approx(epsilon(central.release(), delta=1e-5).upper)
    assert [ids.tolist() for ids in cohorts_of(alone, 5)] == [ids.tolist() for ids in cohorts_of(central, 5)]


def test_bands_that_do_not_divide_a_cycle_are_refused_for_bins():
    with pytest.raises(ValueError, match="bands must be a divisor of cycle_length = 6 for balls-in-bins, got 4"):
        replace(BINS, bands=4)
    assert replace(SCHEME, cycle_length=4, bands=3).cohorts


@pytest.mark.parametrize(
    ("clients", "cycle", "bands", "runs"),
    [
        (400, 6, 2, 5),
        (300, 4, 4, 5),
        pytest.param(400, 6, 2, 200, marks=pytest.mark.slow),
        pytest.param(900, 12, 4, 100, marks=pytest.mark.slow),
    ],
)
def test_a_verifier_knows_sound_bins_from_others(clients, cycle, bands, runs):
    """False alarms: one in a million a run."""
    scheme = replace(BINS, clients=clients, cycle_length=cycle, bands=bands, rounds=5 * cycle)
    for seed in range(runs):
        custody = custody_of(cohorts_of(scheme, seed))
        found = check_participation(custody, scheme)
        assert found.status == "passed", (seed, found)
    again = custody_of(cohorts_of(scheme, 1)[:cycle] * 5)
    assert check_participation(again, scheme).code == (
        "participation/passed" if cycle == bands else "participation/sampler-mismatch"
    )
    free = custody_of(cohorts_of(replace(scheme, bands=1), 1))
    assert check_participation(free, scheme).code == "participation/out-of-order"


def test_a_run_with_bins_goes_on_with_them(small_task):
    """The rest that is kept is part of what a round hands to the next, cycle after cycle."""
    scheme, task = replace(BINS, clients=12, cycle_length=4, rounds=12), small_task()
    state, custody = rounds.make_initial_state(task), []
    for _ in range(scheme.rounds):
        outcome = rounds.compute_next_round(scheme, CompiledEngine(task), state, Randomness.from_seed(2))
        state = outcome.state
        custody.append(outcome.custody)
    assert check_participation(custody, scheme).status == "passed"
    assert state.participations.tolist() == [3] * 12
