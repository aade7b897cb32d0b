"""A sampler that is not the one that was priced is found out where lists can show it; a sound one is left alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.verification.checked import check_participation

from epsilog.schemes import ClientLevelCentral, ClientLevelCorrelatedNoise
from epsilog.terms import CustodyRecord
from epsilog.verification import participation, sampler_tests

COINS = ClientLevelCentral(1000, 0.1, 40, 0.5, 2.0)
FIXED = replace(COINS, sampling_probability=None, sampling="fixed-size", cohort_size=100)
BINS = replace(COINS, sampling_probability=None, sampling="balls-in-bins", cycle_length=10)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))]
SMALL = [
    replace(COINS, clients=12, sampling_probability=0.01, rounds=8),
    replace(COINS, clients=12, sampling_probability=0.5, rounds=8),
    replace(FIXED, clients=12, cohort_size=6, rounds=8),
    replace(FIXED, clients=12, cohort_size=12, rounds=1),
    replace(BINS, clients=12, cycle_length=2, rounds=7),
    replace(BINS, clients=12, cycle_length=12, rounds=5),
    replace(BINS, clients=200, cycle_length=2, rounds=20),
]


def ended(scheme, cohorts):
    return check_participation(
        [CustodyRecord(one, tuple(map(int, ids)), 0.5, 0.0) for one, ids in enumerate(cohorts, 1)], scheme
    )


def rejecting(scheme, cohorts):
    found = ended(scheme, cohorts)
    assert found.code in ("participation/sampler-mismatch", "participation/passed"), found
    tests = [(name, p) for name, p in found.values if name.startswith("p_")]
    return {name for name, p in tests if p < 1e-6 / len(tests)}


def of(slots, length):
    """Cohorts of clients that stand in these slots, a cycle an entry."""
    return [np.flatnonzero(cycle == slot) for cycle in slots for slot in range(length)]


def sound(scheme, rng):
    clients, rounds = scheme.clients, scheme.rounds
    if scheme.sampling == "poisson":
        return [np.flatnonzero(rng.random(clients) < scheme.sampling_probability) for _ in range(rounds)]
    if scheme.sampling == "fixed-size":
        return [rng.choice(clients, scheme.cohort_size, replace=False) for _ in range(rounds)]
    length = scheme.cycle_length
    return of([rng.integers(0, length, clients) for _ in range(-(-rounds // length))], length)[:rounds]


@pytest.mark.parametrize("scheme", [COINS, FIXED, BINS, *SMALL], ids=lambda one: f"{one.sampling}-{one.clients}")
def test_sound_samplers_pass(scheme):
    rng = np.random.default_rng(1)
    assert all(ended(scheme, sound(scheme, rng)).status == "passed" for _ in range(5))


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [BINS, *SMALL], ids=lambda one: f"{one.sampling}-{one.clients}-{one.cycle_length or one.cohort_size}"
)
def test_every_p_value_is_below_a_threshold_at_most_as_often_as_it_says(scheme):
    """200 sound runs: none is rejected; each test is below 5% at most 21 times (10 expected; more: once in 1,500)."""
    rng = np.random.default_rng(7)
    found = [ended(scheme, sound(scheme, rng)) for _ in range(200)]
    assert all(one.status == "passed" for one in found)
    below = [name for one in found for name, p in one.values if name.startswith("p_") and p < 0.05]
    assert max(map(below.count, below), default=0) <= 21


def split_evenly(rng, clients, length, cycles):
    order = (rng.permutation(clients) for _ in range(cycles))
    return of([np.argsort(each) % length for each in order], length)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shuffle_that_is_split_evenly_is_no_balls_in_bins(seed):
    """Also in one cycle, with ten bins, and where sizes differ by one."""
    rng = np.random.default_rng(seed)
    two = replace(BINS, clients=200, cycle_length=2, rounds=40)
    assert rejecting(two, split_evenly(rng, 200, 2, 20)) == {"p_spread"}
    one = replace(BINS, rounds=10)
    assert rejecting(one, split_evenly(rng, 1000, 10, 1)) == {"p_spread"}
    odd = replace(BINS, clients=1003, rounds=20)
    assert rejecting(odd, split_evenly(rng, 1003, 10, 2)) == {"p_spread"}
    far = [rng.choice(10, 1000, p=np.r_[np.full(5, 0.085), np.full(5, 0.115)]) for _ in range(8)]
    assert "p_spread" in rejecting(replace(BINS, rounds=80), of(far, 10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_slots_that_come_again_are_found_at_every_lag(seed):
    rng = np.random.default_rng(seed)
    two = replace(BINS, clients=5000, cycle_length=50, rounds=500)
    drawn = [rng.integers(0, 50, 5000) for _ in range(2)]
    assert rejecting(two, of([drawn[cycle % 2] for cycle in range(10)], 50)) == {"p_moves", "p_groups"}
    fresh = [rng.integers(0, 10, 1000) for _ in range(9)]
    faults = {
        "once, far apart": [*fresh, fresh[2]],
        "moved on by 3, at lag 4": [*fresh[:6], (fresh[2] + 3) % 10],
        "a fifth of all keep theirs": [*fresh[:4], np.where(rng.random(1000) < 0.2, fresh[0], fresh[5])],
        "the same groups in another order": [rng.permutation(10)[fresh[0]], fresh[0]],
        "never the same again": [fresh[0], (fresh[0] + rng.integers(1, 10, 1000)) % 10],
    }
    for name, slots in faults.items():
        assert rejecting(replace(BINS, rounds=10 * len(slots)), of(slots, 10)), name
    three = [fresh[0] % 3, np.array([0, 2, 1])[fresh[0] % 3]]  # every move alike
    assert rejecting(replace(BINS, cycle_length=3, rounds=6), of(three, 3)) >= {"p_groups"}
    seven = [rng.integers(0, 2, 200) for _ in range(7)]
    again = of([seven[cycle % 7] for cycle in range(70)], 2)
    assert rejecting(replace(BINS, clients=200, cycle_length=2, rounds=140), again)


def test_shifts_between_cycles_are_neither_too_frequent_nor_too_rare():
    """Slots of 1,000 clients in two cycles of 10; clients that are absent from one say nothing."""
    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 10, (2, 1000))
    assert participation._moves(one, other, 10) > 1e-4
    assert participation._moves(one, (one + 3) % 10, 10) < 1e-99  # always the same
    assert participation._moves(one, (one + rng.integers(1, 10, 1000)) % 10, 10) < 1e-30  # one that never comes
    absent = np.where(rng.random(1000) < 0.9, -1, one)
    seen = int((absent >= 0).sum())
    assert participation._moves(absent, one, 10) == pytest.approx(2 * 0.1**seen, rel=1e-6)


def test_a_round_robin_holds_clients_to_their_turns_and_counts_those_that_miss_them():
    scheme = ClientLevelCorrelatedNoise(12, cycle_length=4, rounds=4, bands=3, clip_norm=0.2, noise_multiplier=2.0)
    turns = [(0, 4, 8), (1, 5, 9), (2, 6, 10), (3, 7, 11)]
    for cohorts, missed in ((turns, 0), ([(0, 8), (), *turns[2:]], 4)):
        found = ended(scheme, cohorts)
        assert (found.code, dict(found.values)) == ("participation/passed", {"missed_turns": missed})
    found = ended(scheme, [turns[0], (1, 2, 5, 6, 9), *turns[2:]])
    assert found.code == "participation/out-of-order"
    assert "Round 2 has 2 clients" in found.message


@pytest.mark.parametrize("length", [2, 10])
@pytest.mark.parametrize("rounds", ["cut", "one", "many"])
def test_turns_and_blocks_are_no_draws(length, rounds):
    """Drawn by nobody: i mod b, blocks of the order, either backwards; in a cycle that is cut short, too."""
    count = {"cut": length - 1, "one": length, "many": 3 * length}[rounds]
    scheme, every = replace(BINS, cycle_length=length, rounds=count), np.arange(1000)
    for slots in (every % length, every * length // 1000, (-every) % length, (999 - every) * length // 1000):
        cohorts = of([(slots + 0 * cycle) % length for cycle in range(3)], length)[:count]
        assert "p_groups" in rejecting(scheme, cohorts)


def epochs(rng, sizes):
    """Cohorts of these sizes: whoever is left of a shuffle, and then of a new one."""
    left = rng.permutation(1000)
    for size in sizes:
        if left.size < size:
            left = np.concatenate([left, rng.permutation(np.setdiff1d(np.arange(1000), left))])
        yield left[:size]
        left = left[size:]


@pytest.mark.parametrize("by", [lambda every: every % 2, lambda every: every // 500])
def test_halves_that_take_turns_are_found_in_one_cycle(by):
    """Even rounds draw from one half of the clients, odd ones from the other."""
    rng, halves = np.random.default_rng(2), by(np.arange(1000))
    slots = 2 * rng.integers(0, 5, 1000) + halves
    assert "p_groups" in rejecting(replace(BINS, rounds=10), of([slots], 10))
    one = np.flatnonzero(halves == 0)
    assert "p_places" in rejecting(replace(FIXED, rounds=2), [rng.choice(one, 100, replace=False) for _ in range(2)])


@pytest.mark.parametrize("seed", SEEDS)
def test_cohorts_that_come_again_or_never_overlap_are_found(seed):
    rng = np.random.default_rng(seed)
    for scheme in (COINS, FIXED):
        fresh = sound(scheme, rng)
        assert rejecting(scheme, fresh) == set()
        assert "p_same_cohort" in rejecting(scheme, [*fresh[:-1], fresh[3]])
        assert "p_same_cohort" in rejecting(scheme, [fresh[one % 7] for one in range(40)])
        assert "p_came_before" in rejecting(scheme, epochs(rng, [ids.size for ids in fresh]))
    one = replace(FIXED, rounds=1)
    for ids in (np.arange(100), np.arange(7, 1000, 10), np.arange(900, 1000)):
        assert rejecting(one, [ids]) == {"p_places"}


def test_bounds_are_above_what_they_bound():
    """Against SciPy's exact tails, for binomial and for hypergeometric counts."""
    counts, law, drawn = np.arange(61), stats.binom(60, 0.3), stats.hypergeom(200, 60, 60)
    assert np.all(
        sampler_tests.bound_excess(counts, 60, 0.3) >= np.maximum(law.sf(counts - 1), drawn.sf(counts - 1)) * (1 - 1e-9)
    )
    two = np.minimum(1, 2 * np.minimum(law.cdf(counts), law.sf(counts - 1)))
    assert np.allclose(sampler_tests.compute_two_sided_p_value(counts, 60, 0.3), two)
    assert np.all(sampler_tests.bound_misfit(counts, 60, 0.3) >= two * (1 - 1e-9))
    for count in (0, 5, 30, 60):
        assert sampler_tests.bound_total_shift(np.array([count]), 60, 0.3) >= two[count] * (1 - 1e-9)


def test_every_lag_is_among_the_pairs_and_a_long_run_has_not_many_more():
    assert sampler_tests.choose_pairs(1) == []
    few, many = sampler_tests.choose_pairs(63), sampler_tests.choose_pairs(1000)
    assert len(few) == 63 * 62 // 2
    assert {other - one for one, other in many} == set(range(1, 1000))
    assert {(one, one + 1) for one in range(999)} <= set(many)
    assert len(many) < 4000
