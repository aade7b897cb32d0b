"""Cohorts beyond coins: the price holds on instances that are worked out in full, and a verifier knows each sampler."""

import itertools
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from tests.training.fixed import Fixed
from tests.verification.checked import check_participation

from epsilog.accounting import delta, epsilon
from epsilog.mechanisms import BallsInBins, Composed, FixedSizeSampled, Gaussian, PoissonSampled, Repeated
from epsilog.schemes import ClientLevelAdaptiveClip, ClientLevelCentral
from epsilog.terms import CustodyRecord, NeighboringRelation, UnsupportedMechanismError
from epsilog.training import Randomness, require_matching_scheme, sampling
from epsilog.training.checkpoints import RunFolder
from epsilog.training.noise import RandomStream
from epsilog.training.rounds import compute_next_round, make_initial_state
from epsilog.training.sampling import SamplerHistory

CENTRAL = ClientLevelCentral(12, 0.25, 9, 1.0, 1.5)
WAYS = {
    "poisson": CENTRAL,
    "fixed-size": replace(CENTRAL, sampling_probability=None, sampling="fixed-size", cohort_size=3),
    "balls-in-bins": replace(CENTRAL, sampling_probability=None, sampling="balls-in-bins", cycle_length=4),
    "cyclic": replace(CENTRAL, sampling_probability=None, sampling="cyclic", cycle_length=4),
}


@pytest.fixture(name="way", params=WAYS)
def _way(request):
    return WAYS[request.param]


# the price


def test_observed_cohorts_are_samples_at_their_share_of_the_clients(way):
    found = way.at_cohort_sizes([3, 0, 12, 3, 20])
    noise = Gaussian(1.5)
    rounds = [Repeated(PoissonSampled(noise, 0.25), 2), Repeated(PoissonSampled(noise, 1.0), 2)]
    assert found == (Composed(rounds) if way.sampling == "poisson" else None)
    assert way.at_cohort_sizes([0, 0]) is None


def among(scheme, clients, rounds, needed):
    """The same scheme, small enough to be worked out."""
    needs = {name: needed for name in ("sampling_probability", "cohort_size", "cycle_length") if getattr(scheme, name)}
    return replace(scheme, clients=clients, rounds=rounds, **needs)


def lists(scheme):
    """Every way in which cohorts can fall, with its probability."""
    clients, rounds = range(scheme.clients), range(scheme.rounds)
    if scheme.sampling == "fixed-size":
        one = list(itertools.combinations(clients, scheme.cohort_size))
        return [(1 / len(one) ** len(rounds), each) for each in itertools.product(one, repeat=len(rounds))]
    if scheme.sampling == "poisson":
        one = [ids for size in range(len(clients) + 1) for ids in itertools.combinations(clients, size)]
        chances = [scheme.share ** len(ids) * (1 - scheme.share) ** (len(clients) - len(ids)) for ids in one]
        pairs = itertools.product(zip(chances, one, strict=True), repeat=len(rounds))
        return [(np.prod([chance for chance, _ in each]), [ids for _, ids in each]) for each in pairs]
    slots = range(scheme.cycle_length)
    if scheme.sampling == "cyclic":
        return [(1.0, [scheme.cohorts.due(r + 1) for r in rounds])]
    cycles = -(-scheme.rounds // scheme.cycle_length)
    drawn = list(itertools.product(slots, repeat=len(clients) * cycles))
    found = []
    for one in drawn:
        table = np.reshape(one, (cycles, len(clients)))
        at = [table[r // scheme.cycle_length] == r % scheme.cycle_length for r in rounds]
        found.append((1 / len(drawn), [np.flatnonzero(here) for here in at]))
    return found


def densities(scheme, updates, points):
    """The law of the noisy sums, on a grid."""
    law, means = np.zeros(len(points)), Counter()
    for chance, cohorts in lists(scheme):
        means[tuple(float(updates[list(ids)].sum()) for ids in cohorts)] += chance
    for mean, chance in means.items():
        law += chance * np.exp(-((points - mean) ** 2).sum(axis=1) / (2 * scheme.noise_multiplier**2))
    return law / (np.sqrt(2 * np.pi) * scheme.noise_multiplier) ** scheme.rounds


NEIGHBOURS = {  # the updates of clients, and those of neighbors: as far as they go, alike and opposed
    "poisson": [((1.0, 1.0), (0.0, 1.0)), ((1.0, -1.0), (0.0, -1.0))],
    "fixed-size": [((1.0, 1.0), (-1.0, 1.0)), ((1.0, 0.0), (-1.0, 0.0)), ((1.0, -1.0), (-1.0, -1.0))],
    "balls-in-bins": [((1.0, 1.0), (0.0, 1.0)), ((1.0, -1.0), (0.0, -1.0))],
    "cyclic": [((1.0, 1.0), (0.0, 1.0)), ((1.0, -1.0), (0.0, -1.0))],
}
NEEDED = {"poisson": 0.5, "fixed-size": 1, "balls-in-bins": 2, "cyclic": 2}
GRIDS = {1: (0.01, 1e-4), 2: (0.1, 0.01), 3: (0.4, 0.05)}  # by rounds: the grid's width, and what it may be off by


def worst(scheme, epsilons, pairs):
    """The largest delta at each epsilon, over neighbors in both directions."""
    width, _ = GRIDS[scheme.rounds]
    axis = np.arange(-7.0, 7.0, width)
    points = np.stack(np.meshgrid(*[axis] * scheme.rounds, indexing="ij"), axis=-1).reshape(-1, scheme.rounds)
    found = np.zeros(len(epsilons))
    for one, other in pairs:
        laws = [densities(scheme, np.array(each), points) for each in (one, other)]
        for p, q in (laws, laws[::-1]):
            apart = [np.maximum(p - np.exp(e) * q, 0).sum() * width**scheme.rounds for e in epsilons]
            found = np.maximum(found, apart)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rounds"),
    [("poisson", 1), ("fixed-size", 1), ("fixed-size", 2), ("balls-in-bins", 2), ("balls-in-bins", 3), ("cyclic", 3)],
)
def test_no_neighbors_are_further_apart_than_is_priced(name, rounds):
    """Two clients, every list that can be drawn, sums on a grid; a price for more noise is caught."""
    scheme = among(WAYS[name], 2, rounds, NEEDED[name])
    epsilons = [0.3, 1.0, 2.0]
    true = worst(scheme, epsilons, NEIGHBOURS[name])
    (relation, *_) = scheme.relations
    priced, cheaper = (
        np.array([delta(one.release(), epsilon=e, relation=relation).upper for e in epsilons])
        for one in (scheme, replace(scheme, noise_multiplier=1.3 * scheme.noise_multiplier))
    )
    assert (true <= priced * (1 + GRIDS[rounds][1])).all()
    assert (true > 1.1 * cheaper).any()


@pytest.mark.slow
def test_a_round_of_bins_that_is_computed_again_costs_at_most_a_plain_gaussian():
    """The outcomes of a cycle of two, and of its first round once more, for one client alone."""
    scheme = replace(WAYS["balls-in-bins"], clients=2, cycle_length=2, rounds=2)
    axis = np.arange(-7.0, 7.0, 0.4)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    laws = [
        sum(np.exp(-((points - mean) ** 2).sum(axis=1) / (2 * 1.5**2)) / len(means) for mean in means)
        / (np.sqrt(2 * np.pi) * 1.5) ** 3
        for means in ([(1, 0, 1), (0, 1, 0)], [(0, 0, 0)])
    ]
    for e in (0.5, 1.5):
        priced = delta(scheme.with_attempts(1), epsilon=e).upper
        for p, q in (laws, laws[::-1]):
            assert np.maximum(p - np.exp(e) * q, 0).sum() * 0.4**3 <= priced
    assert epsilon(scheme.with_attempts(1), delta=1e-5).upper > epsilon(scheme.release(), delta=1e-5).upper


def test_each_way_releases_what_is_run():
    z = Gaussian(1.5)
    assert WAYS["fixed-size"].release() == Repeated(FixedSizeSampled(z, 3, 12), 9)
    assert WAYS["balls-in-bins"].release() == Repeated(BallsInBins(z, 4), 3)
    assert [WAYS["balls-in-bins"].noisy_sums(t) for t in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
    assert WAYS["cyclic"].unamplified_release() == Repeated(z, 3)
    for scheme in WAYS.values():
        assert scheme.full_participation_release() == Repeated(z, 9)
        assert scheme.expected_cohort == 3
        (relation, *_) = scheme.relations
        sampled, full = scheme.release(), scheme.full_participation_release()
        assert (
            epsilon(sampled, delta=1e-5, relation=relation).upper < epsilon(full, delta=1e-5, relation=relation).upper
        )
    assert "while" not in str([party.holds.value for party in WAYS["cyclic"].parties])
    assert len(WAYS["balls-in-bins"].parties) == 4


def test_a_clip_norm_that_follows_is_priced_alike():
    adaptive = ClientLevelAdaptiveClip(
        12, None, 9, 1.0, 0.5, 0.3, 1.0, 1.5, sampling="balls-in-bins", cycle_length=4
    )  # fmt: skip
    assert adaptive.release() == Repeated(BallsInBins(Gaussian(adaptive.accounted_multiplier), 4), 3)
    assert adaptive.accounted_multiplier < 1.5


# what is run


def run(scheme, task, *, source=None):
    engine, state, outcomes = Fixed(task), make_initial_state(task), []
    require_matching_scheme(scheme, task)
    for _ in range(scheme.rounds):
        outcomes.append(compute_next_round(scheme, engine, state, source or Randomness.from_seed(1)))
        state = outcomes[-1].state
    return outcomes


def test_cohorts_are_those_of_the_sampler(small_task, way):
    cohorts = [outcome.custody.participants for outcome in run(way, small_task())]
    if way.sampling == "fixed-size":
        assert {len(ids) for ids in cohorts} == {3}
        assert len(set(cohorts)) > 5
    if way.sampling in ("balls-in-bins", "cyclic"):
        for first in (0, 4):
            assert sorted(sum(cohorts[first : first + 4], ())) == list(range(12))
    if way.sampling == "balls-in-bins":
        assert cohorts[:4] != cohorts[4:8]


def test_bins_are_kept_until_their_cycle_ends_also_by_a_run_that_was_killed(small_task, tmp_path):
    """Under fresh entropy every draw is another one: what a resumed run does not remember would show."""
    task, scheme = small_task(), WAYS["balls-in-bins"]
    folder, state, cohorts, released = RunFolder(tmp_path / "run", "x"), make_initial_state(task), [], {}
    for number in range(1, 9):
        outcome = compute_next_round(scheme, Fixed(task), state, Randomness.from_os())
        with folder.hold_lock():
            folder.prepare(outcome)
            released[number] = outcome.record.output_hash
            folder.finalize(outcome)
            state = folder.resume(released)
        cohorts.append(outcome.custody.participants)
    for first in (0, 4):
        assert sorted(sum(cohorts[first : first + 4], ())) == list(range(12))


def test_slots_are_uniform_and_drawn_anew():
    cohorts, counts = replace(WAYS["balls-in-bins"], clients=30).cohorts, np.zeros((4, 4))
    slots = sampling.NO_SLOTS
    for one in range(1, 801):
        before = slots
        slots = sampling.draw_slots(
            cohorts, Randomness.from_seed(3).stream("cohort", one), SamplerHistory(one, slots, slots)
        )
        if one > 1 and (one - 1) % 4 == 0:
            np.add.at(counts, (before, slots), 1)
        elif one > 1:
            assert slots is before
    assert stats.chisquare(counts.ravel()).pvalue > 1e-6


def test_whole_numbers_have_no_bias():
    """Words from 3 * 2^62 on are drawn again: below it stand two whole turns of 3 * 2^61."""
    words = [[0, 2**62, 2**64 - 1, 3 * 2**62 - 1], [3 * 2**62], [5]]  # two of them are beyond
    source = SimpleNamespace(random_raw=lambda count: np.array([words.pop(0)[:count]], dtype=np.uint64).ravel())
    below = 3 * 2**61
    found = sampling.draw_integers(RandomStream(SimpleNamespace(bit_generator=source)), count=4, below=below)
    assert found.tolist() == [0, 2**62, 3 * 2**61 - 1, 5]
    small = sampling.draw_integers(Randomness.from_seed(1).stream("x", 1), count=30_000, below=7)
    assert stats.chisquare(np.bincount(small, minlength=7)).pvalue > 1e-6


# what a verifier finds


def custody(cohorts):
    return [CustodyRecord(one, tuple(map(int, ids)), 0.5, 0.0) for one, ids in enumerate(cohorts, 1)]


FIXED = ClientLevelCentral(300, None, 40, 0.5, 2.0, sampling="fixed-size", cohort_size=30)
BINS = ClientLevelCentral(300, None, 40, 0.5, 2.0, sampling="balls-in-bins", cycle_length=10)


def drawn(scheme, seed):
    source, slots, cohorts = Randomness.from_seed(seed), sampling.NO_SLOTS, []
    for one in range(1, scheme.rounds + 1):
        stream, before = (
            source.stream("cohort", one),
            SamplerHistory(one, np.zeros(scheme.clients, dtype=np.int64), slots),
        )
        slots = sampling.draw_slots(scheme.cohorts, stream, before)
        cohorts.append(sampling.draw_cohort(scheme.cohorts, stream, replace(before, slots=slots)))
    return cohorts


@pytest.mark.parametrize("seed", range(3))
def test_sound_lists_pass_and_another_samplers_fail(seed):
    rng = np.random.default_rng(seed)
    fixed, bins = drawn(FIXED, seed), drawn(BINS, seed)
    turns = [np.arange(one % 10, 300, 10) for one in range(40)]
    coins = [np.flatnonzero(rng.random(300) < 0.1) for _ in range(40)]
    assert check_participation(custody(fixed), FIXED).status == "passed"
    assert check_participation(custody(bins), BINS).status == "passed"
    assert check_participation(custody(bins[:-3]), BINS).status == "passed"
    assert check_participation(custody(coins), FIXED).code == "participation/cohort-size"
    assert check_participation(custody(turns), FIXED).code == "participation/sampler-mismatch"
    assert check_participation(custody([fixed[0]] * 40), FIXED).code == "participation/sampler-mismatch"
    assert check_participation(custody(fixed), BINS).code == "participation/out-of-order"
    assert check_participation(custody(turns), BINS).code == "participation/sampler-mismatch"
    kept = bins[:10] * 4
    assert check_participation(custody(kept), BINS).code == "participation/sampler-mismatch"
    moved = [bins[:10][(one + 3 * (one // 10)) % 10] for one in range(40)]
    assert check_participation(custody(moved), BINS).code == "participation/sampler-mismatch"
    heavy = [*bins[:9], np.arange(0)]
    heavy[0] = np.concatenate([bins[0], bins[9]])
    assert check_participation(custody(heavy), BINS).code == "participation/sampler-mismatch"


def test_who_misses_a_turn_is_counted_and_weakens_nothing():
    bins = drawn(BINS, 1)
    fewer = [*bins[:5], bins[5][1:], *bins[6:]]
    found = check_participation(custody(fewer), BINS)
    assert (found.status, dict(found.values)["missed_turns"]) == ("passed", 1.0)


def test_a_neighbor_that_is_not_priced_is_refused():
    zero, add = NeighboringRelation.ZERO_OUT, NeighboringRelation.ADD_OR_REMOVE_ONE
    assert WAYS["cyclic"].relations == (zero,)
    assert WAYS["fixed-size"].relations == (NeighboringRelation.REPLACE_ONE,)
    for relation in (zero, add):
        with pytest.raises(UnsupportedMechanismError, match="fixed size means replace-one"):
            epsilon(FIXED.release(), delta=1e-5, relation=relation)
