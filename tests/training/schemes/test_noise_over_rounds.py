"""Noise that later rounds take back: one Gaussian mechanism for the whole run, held against the matrix itself."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import linalg
from tests.extent import amount
from tests.training.fixed import Fixed
from tests.verification.checked import check_participation

from epsilog.accounting import delta, epsilon
from epsilog.accounting.montecarlo import strategies
from epsilog.mechanisms import BallsInBins, BufferedToeplitzStrategy, Gaussian, GaussianDP, Repeated, ToeplitzStrategy
from epsilog.schemes import ClientLevelBufferedNoise, ClientLevelCentral, ClientLevelCorrelatedNoise
from epsilog.terms import CustodyRecord, NeighboringRelation
from epsilog.training import Randomness, require_matching_scheme, rounds, sampling
from epsilog.training.sampling import SamplerHistory
from epsilog.training.schemes import round_robin

BANDED = ClientLevelCorrelatedNoise(clients=12, cycle_length=4, rounds=10, bands=3, clip_norm=0.2, noise_multiplier=2.0)
BUFFERED = ClientLevelBufferedNoise(12, 4, 10, decays=(0.9, 0.3), weights=(0.3, 0.2), clip_norm=0.2, noise_multiplier=2)
BOTH = pytest.mark.parametrize("scheme", [BANDED, BUFFERED], ids=lambda one: one.kind)


def matrix(scheme):
    """C, written out from the parameters of the scheme."""
    t = np.arange(scheme.rounds - 1)
    if isinstance(scheme, ClientLevelBufferedNoise):
        below = (np.array(scheme.weights) * np.array(scheme.decays) ** t[:, None]).sum(axis=1)
    else:
        below = np.cumprod((2 * t + 1) / (2 * t + 2)) * (t + 1 < scheme.bands)
    return linalg.toeplitz(np.concatenate([[1.0], below]), np.zeros(scheme.rounds))


@BOTH
def test_the_column_is_that_of_the_parameters(scheme):
    assert list(scheme.coefficients) == pytest.approx(matrix(scheme)[: len(scheme.coefficients), 0])
    whole = matrix(replace(BANDED, cycle_length=12, bands=10))
    assert np.allclose(whole @ whole, np.tril(np.ones((10, 10))))
    assert [len(replace(BUFFERED, rounds=total).coefficients) for total in (1, 2, 10)] == [1, 2, 10]


SCHEMES = st.one_of(
    st.builds(
        lambda cycle, bands, total: ClientLevelCorrelatedNoise(12, cycle, total, min(bands, cycle), 1.0, 1.0),
        *(st.integers(1, 9), st.integers(1, 9), st.integers(1, 40)),
    ),
    st.builds(
        lambda cycle, total, pairs: ClientLevelBufferedNoise(12, cycle, total, *zip(*pairs, strict=True), 1.0, 1.0),
        *(st.integers(1, 9), st.integers(1, 40)),
        st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 2.0)), min_size=1, max_size=3),
    ),
)


@pytest.mark.slow
@given(scheme=SCHEMES, signs=st.integers(0, 2**40 - 1))
def test_no_client_moves_more_than_it_is_priced_for(scheme, signs):
    """Whatever a client sends in its turns, after any number of rounds; who comes first attains the price."""
    whole, total = matrix(scheme), scheme.rounds
    turns = np.array([2.0 * (signs >> t & 1) - 1 for t in range(total)])
    for after in {1, total // 2 or 1, total}:
        priced = np.sqrt(scheme.noisy_sums(after)) / scheme.after(after).release.release.noise_multiplier
        for client in range(scheme.cycle_length):
            sent = np.array([1.0 * (client in scheme.cohorts.due(t + 1)) for t in range(after)])
            ends = [np.linalg.norm(whole[:after, :after] @ each) for each in (sent, sent * turns[:after])]
            assert max(ends) <= priced
            buffered = isinstance(scheme, ClientLevelBufferedNoise)
            if client == 0 and (buffered or after >= scheme.cycle_length * scheme.noisy_sums(after)):
                assert ends[0] == pytest.approx(priced)
    every = np.linalg.norm(whole @ np.ones(total))
    assert every <= np.sqrt(total) / scheme.full_participation_release().release.noise_multiplier


@BOTH
def test_the_price_is_one_gaussian_and_an_attempt_shows_one_row_more(scheme):
    sent = np.array([1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0])
    end = matrix(replace(scheme, rounds=12))[:, [0, 4, 8]].sum(axis=1) if scheme is BANDED else matrix(scheme) @ sent
    mu = np.linalg.norm(end) / 2
    costs = {scheme.release(): mu}
    if scheme is BUFFERED:
        costs[scheme.with_attempts(3)] = np.hypot(mu, np.sqrt(3) * end.max() / 2)
    for release, exact in costs.items():
        expected = epsilon(GaussianDP(exact), delta=1e-5).upper
        assert epsilon(release, delta=1e-5).upper == pytest.approx(expected, rel=1e-6)
    assert [scheme.noisy_sums(t) for t in (0, 1, 4, 5, 9)] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("total", [1, 9, amount(300, 3000)])
def test_norms_are_rounded_outwards(total):
    """Against 40 digits: of a banded column, and of a buffered one that is added to itself in each turn."""
    banded = ClientLevelCorrelatedNoise(10_000, 10_000, 10, total, 1.0, 3.0)
    strategy = BufferedToeplitzStrategy((0.99, 0.7, 1e-200), (0.3, 0.21, 1e-3))
    with mpmath.workdps(40):
        column = [mpmath.binomial(2 * k, k) / mpmath.mpf(4) ** k for k in range(total)]
        exact = 3 / mpmath.sqrt(mpmath.fsum(c * c for c in column))
        assert exact * (1 - mpmath.mpf(10) ** -11) < banded.accounted_multiplier <= exact
        assert banded.full_participation_release().release.noise_multiplier <= 3 / mpmath.fsum(column)
        pairs = [(mpmath.mpf(d), mpmath.mpf(w)) for d, w in zip(strategy.decays, strategy.weights, strict=True)]
        column = [mpmath.mpf(1)] + [mpmath.fsum(w * d**t for d, w in pairs) for t in range(total - 1)]
        for separation in (1, 7, total):
            seen = list(column)
            for t in range(separation, total):
                seen[t] += seen[t - separation]
            exact = mpmath.sqrt(mpmath.fsum(one * one for one in seen)), max(seen)
            for found, true in zip(strategy.turns(total, separation), exact, strict=True):
                assert true <= found <= true * (1 + mpmath.mpf(10) ** -10)


def noise_rows(scheme, task, remembered):
    """What is added to the sums, a row a round: each step, times the divisor, less the sum of clipped updates.

    After ``number`` rounds, so many vectors are remembered, and after the last none.
    """
    engine, state, rows, padding = Fixed(task), rounds.make_initial_state(task), [], []
    for number in range(1, scheme.rounds + 1):
        summed = scheme.clip_norm * (1 - 1e-9) * engine.updates[list(scheme.cohorts.due(number))].sum(axis=0)
        outcome = rounds.compute_next_round(scheme, engine, state, Randomness.from_seed(5))
        rows.append((outcome.state.model - state.model) * 12 / 4 - summed)
        padding.append(outcome.record.padding)
        state = outcome.state
        assert state.memory.size == (number < scheme.rounds) * remembered(number) * state.model.size
    return np.array(rows), np.array(padding)


@pytest.mark.parametrize(
    ("scheme", "alone", "remembered"),
    [
        (BANDED, replace(BANDED, bands=1), lambda number: min(number, 2)),
        (BUFFERED, replace(BUFFERED, weights=(1e-300, 1e-300)), lambda _: 2),
    ],
    ids=["banded", "buffered"],
)
def test_the_noise_that_is_added_becomes_independent_under_the_matrix(small_task, scheme, alone, remembered):
    """C times the rows is what was drawn: the same normals as a run with one band draws, from the same seed."""
    rows, padding = noise_rows(scheme, small_task(), remembered)
    drawn, same = noise_rows(alone, small_task(), remembered if scheme is BUFFERED else lambda _: 0)
    assert np.allclose(matrix(scheme) @ rows, drawn, atol=1e-9)
    assert not np.allclose(rows, drawn, atol=0.1)
    assert np.array_equal(padding, same)
    assert padding.shape == (10, 16)


def test_the_model_carries_less_noise_at_the_same_price():
    """The root mean square noise of the model over rounds, per unit of the price's multiplier."""

    def error(one):
        return strategies.compute_prefix_error(ToeplitzStrategy(one.coefficients), 200) / one.accounted_multiplier

    banded = ClientLevelCorrelatedNoise(1000, 50, 200, 50, 1.0, 1.0)
    found = strategies.optimize_buffered_column(1, 200, separation=50, participations=4)
    buffered = ClientLevelBufferedNoise(1000, 50, 200, found.decays, found.weights, 1.0, 1.0)
    assert error(banded) < 0.35 * error(replace(banded, bands=1))
    assert error(buffered) < 1.05 * error(banded), "one vector in place of 49"


def test_the_search_finds_what_jax_privacy_finds():
    """jax_privacy 2.0.0, buffered_toeplitz.optimize(n=64, min_sep=16, max_participations=4, error="mean")."""
    found = strategies.optimize_buffered_column(1, 64, separation=16, participations=4)
    assert found.decays == pytest.approx([0.8648539330749051], abs=1e-4)
    assert found.weights == pytest.approx([0.5209672093068092], abs=1e-4)
    column = ToeplitzStrategy(found.column(64))
    moved = strategies.compute_column_sensitivity(column, rounds=64, separation=16, participations=4)
    assert moved * strategies.compute_prefix_error(column, 64) == pytest.approx(4.91683830207365, rel=1e-8)


@pytest.mark.parametrize("change", [{"decays": ()}, {"decays": (0.9, 1.0)}, {"decays": (0.9,)}, {"rounds": 10**7},
                                    {"decays": (0.5,) * 65, "weights": (0.01,) * 65}, {"weights": (0.1, -0.1)},
                                    {"bands": 5}, {"cycle_length": 13}])  # fmt: skip
def test_what_cannot_be_priced_is_refused(change):
    with pytest.raises(ValueError, match="|".join(change)):
        replace(BANDED if {*change} & {"bands", "cycle_length"} else BUFFERED, **change)


@pytest.mark.parametrize(("scheme", "what"), [(BANDED, "bands"), (BUFFERED, "buffers")])
def test_what_cannot_be_remembered_is_refused(small_task, monkeypatch, scheme, what):
    task = small_task()
    monkeypatch.setattr(round_robin, "MAX_REMEMBERED", 2 * task.model.size)
    require_matching_scheme(scheme, task)
    monkeypatch.setattr(round_robin, "MAX_REMEMBERED", 2 * task.model.size - 1)
    with pytest.raises(ValueError, match=rf"{what}_times_parameters must be in \[0, 41\], got 42"):
        require_matching_scheme(scheme, task)


def test_a_run_that_diverges_forgets_its_noise(small_task):
    """It ends there: what would be remembered could only be subtracted."""
    task = small_task(dtype="float32")
    for noise, remembered in ((2.0, task.model.size), (1e60, 0)):
        scheme, state = replace(BANDED, noise_multiplier=noise), rounds.make_initial_state(task)
        outcome = rounds.compute_next_round(scheme, Fixed(task), state, Randomness.from_seed(1))
        assert (outcome.record.diverged, outcome.state.memory.size) == (not remembered, remembered)


# balls in bins

BINS = replace(BANDED, clients=60, cycle_length=6, bands=2, rounds=24, sampling="balls-in-bins")


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
    return [CustodyRecord(number, tuple(map(int, ids)), 0.1, 0.0) for number, ids in enumerate(lists, 1)]


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


@pytest.mark.slow
def test_bins_are_priced_as_those_of_one_rest():
    assert BINS.release() == Repeated(BallsInBins(Gaussian(BINS.accounted_multiplier), 3), 4)
    assert BINS.relations == (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.ZERO_OUT)
    one = replace(BINS, rounds=6, noise_multiplier=1.5)
    claimed = delta(one.release(), epsilon=1.0).upper
    rng, size = np.random.default_rng(7), 200_000
    columns, noise = matrix(one) / one.noise_multiplier, rng.standard_normal((size, 6))
    for with_client in (True, False):
        seen = noise + (columns.T[rng.integers(0, 6, size)] if with_client else 0)
        losses = np.log(np.exp(seen @ columns - (columns**2).sum(axis=0) / 2).mean(axis=1))
        found = np.maximum(-np.expm1(1.0 - (losses if with_client else -losses)), 0.0)
        assert found.mean() - 4 * found.std() / np.sqrt(size) <= claimed, "the whole mixture is no further apart"
    assert one.unamplified_release() == Repeated(Gaussian(one.accounted_multiplier), 1)
    only = replace(one, bands=6)
    for scheme, factor in ((only, 1.0), (BINS, 0.999)):
        whole = epsilon(scheme.unamplified_release(), delta=1e-5).upper
        assert epsilon(scheme.release(), delta=1e-5).upper <= factor * whole * (1 + 1e-6)


def test_one_band_is_the_bins_of_independent_noise():
    alone = replace(BINS, bands=1)
    central = ClientLevelCentral(60, None, 24, 0.2, 2.0, sampling="balls-in-bins", cycle_length=6)
    assert epsilon(alone.release(), delta=1e-5).upper == pytest.approx(epsilon(central.release(), delta=1e-5).upper)
    assert [ids.tolist() for ids in cohorts_of(alone, 5)] == [ids.tolist() for ids in cohorts_of(central, 5)]
    with pytest.raises(ValueError, match="bands must be a divisor of cycle_length = 6 for balls-in-bins, got 4"):
        replace(BINS, bands=4)


@pytest.mark.parametrize(("clients", "cycle", "bands"), [(400, 6, 2), (300, 4, 4), (900, 12, 4)])
def test_a_verifier_knows_sound_bins_from_others(clients, cycle, bands):
    """False alarms: one in a million a run."""
    scheme = replace(BINS, clients=clients, cycle_length=cycle, bands=bands, rounds=5 * cycle)
    for seed in range(amount(3, 100)):
        found = check_participation(custody_of(cohorts_of(scheme, seed)), scheme)
        assert found.status == "passed", (seed, found)
    again = custody_of(cohorts_of(scheme, 1)[:cycle] * 5)
    expected = "participation/passed" if cycle == bands else "participation/sampler-mismatch"
    assert check_participation(again, scheme).code == expected
    free = custody_of(cohorts_of(replace(scheme, bands=1), 1))
    assert check_participation(free, scheme).code == "participation/out-of-order"


@pytest.mark.parametrize(
    "scheme", [BANDED, replace(BINS, clients=12, cycle_length=4, rounds=12)], ids=["turns", "bins"]
)
def test_a_verifier_knows_whose_turn_it_is(small_task, scheme):
    """With bins, the rest that is kept is part of what a round hands to the next, cycle after cycle."""
    task, custody = small_task(), []
    state = rounds.make_initial_state(task)
    for _ in range(scheme.rounds):
        outcome = rounds.compute_next_round(scheme, Fixed(task), state, Randomness.from_seed(2))
        state = outcome.state
        custody.append(outcome.custody)
    assert check_participation(custody, scheme).status == "passed"
    if scheme is BANDED:
        assert custody[4].participants == (0, 4, 8)
        fewer = [*custody[:4], replace(custody[4], participants=(0, 8)), *custody[5:]]
        assert check_participation(fewer, scheme).status == "passed"
        early = [custody[0], *custody_of([(), (0, 1)])[1:]]
        assert check_participation(early, scheme).code == "participation/out-of-order"
    else:
        assert state.participations.tolist() == [3] * 12
