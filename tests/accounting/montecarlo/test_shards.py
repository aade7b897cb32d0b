"""Streams and shards: the same integers however and wherever they are drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from epsilog.accounting import gaussian_delta
from epsilog.accounting.montecarlo import certificates, normals, oracle, run, shards, tilt
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.accounting.montecarlo.two_point import delta_from_samples
from epsilog.mechanisms import (
    BallsInBins,
    BinnedParticipation,
    ChosenParticipation,
    CyclicParticipation,
    Gaussian,
    MatrixMechanism,
    SpacedParticipation,
    ToeplitzStrategy,
)
from epsilog.numerics.pairs import Direction

BINS = BallsInBins(Gaussian(1.0), bins=16)
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.Trial(release, payoff, how, tilt.log_bound(pair_of(release), how, payoff), samples)


# ---- shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("release", [BINS, BANDED])
def test_shards_are_recomputed_alone_and_merge_as_integers(release):
    one = trial(release, samples=3 * shards.SHARD - 100, strength=2.0)
    together = run.run_trials([one], seed=9)[0]
    assert len(together) == one.shards == 3
    assert [shards.count_hits(one, 9, shard) for shard in (2, 0, 1)] == [together[2], together[0], together[1]]
    assert together != run.run_trials([one], seed=10)[0]


def test_a_shorter_run_is_a_prefix():
    long, short = trial(samples=shards.SHARD + 5000), trial(samples=shards.SHARD)
    assert run.run_trials([long], seed=1)[0][0] == run.run_trials([short], seed=1)[0][0]


@pytest.mark.slow
def test_a_failing_trial_stops_where_its_counts_say():
    one = trial(samples=20 * shards.SHARD)
    whole = run.run_trials([one], seed=1)[0]
    for limit in (0, sum(whole[:2]), sum(whole[:5]), sum(whole)):
        stopped = run.run_trials([one], seed=1, limits=[limit])[0]
        assert stopped == whole[: len(stopped)]
        assert len(stopped) in {1, 3, 7, 15, 20}
        assert len(stopped) == 20 or sum(stopped) > limit >= sum(stopped[: len(stopped) // 2])


def test_every_key_opens_its_own_stream():
    keys = [
        (1, "add", 0, 0, 0),
        (2, "add", 0, 0, 0),
        (1, "remove", 0, 0, 0),
        (1, "add", 1, 0, 0),
        (1, "add", 0, 1, 0),
        (1, "add", 0, 0, 1),
    ]
    assert len({float(shards.stream(*key).random()) for key in keys}) == len(keys)


@pytest.mark.slow
def test_one_failure_stops_both_directions():
    pair = [trial(samples=20 * shards.SHARD), trial(direction="add", strength=8.0, samples=20 * shards.SHARD)]
    remove, add = run.run_trials(pair, seed=1)
    found = run.run_trials(pair, seed=1, limits=[sum(remove[:4]), sum(add)])
    assert found == (remove[:7], add[:7])
    assert run.run_trials(pair, seed=1, limits=[sum(remove), sum(add)]) == (remove, add)


def philox(key, counter):
    """Philox 4x64 with 10 rounds, straight from the paper (Salmon et al. 2011, section 4.3)."""
    mask, (k0, k1), (c0, c1, c2, c3) = 2**64 - 1, key, counter
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (second >> 64) ^ c1 ^ k0, second & mask, (first >> 64) ^ c3 ^ k1, first & mask
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return [c0, c1, c2, c3]


def test_streams_are_counters_under_a_key():
    """The first answer is that of the authors' own test file (kat_vectors, key and counter 0)."""
    known = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox((0, 0), (0, 0, 0, 0)) == known
    key = np.random.SeedSequence(77, spawn_key=(1, 5, 9)).generate_state(2, np.uint64).tolist()
    for index in (0, 3):
        raw = shards.stream(77, "add", 5, 9, index).bit_generator.random_raw(8).tolist()
        assert raw == philox(key, (1, 0, 0, index)) + philox(key, (2, 0, 0, index))
    assert raw != shards.pilot_stream(77, "add").bit_generator.random_raw(8).tolist()


@pytest.mark.slow
def test_compiled_normals_are_numpys(monkeypatch):
    """The same numbers and the same state afterwards; hence the same hits."""
    import numba  # noqa: F401 (extra "fast", which the dev environment has)

    one = trial(BANDED, "remove", 0.0, samples=shards.SHARD)
    before = run.run_trials([one], seed=2)
    assert before[0][0] > 100
    first, second = (np.random.Generator(np.random.Philox(3)) for _ in range(2))
    plain = normals.normals(first, 500, 300)  # long enough for the ziggurat's tail
    monkeypatch.setattr(normals, "PATIENCE", -1)
    calls, fill = [], normals.compiled()
    monkeypatch.setattr(normals, "compiled", lambda: lambda rng, out: (calls.append(out.size), fill(rng, out)))
    np.testing.assert_array_equal(normals.normals(second, 500, 300), plain)
    assert np.abs(plain).max() > 3.6542
    assert first.random() == second.random()
    assert calls == [150_000]
    assert run.run_trials([one], seed=2) == before
    assert len(calls) > 1


def test_without_numba_numpy_draws_on(monkeypatch):
    monkeypatch.setattr(normals, "PATIENCE", -1)
    monkeypatch.setattr(normals, "find_spec", lambda _: None)
    normals.compiled.cache_clear()
    try:
        assert run.run_trials([trial()], seed=1)[0][0] > 0
    finally:
        normals.compiled.cache_clear()


@pytest.mark.parametrize(
    "release",
    [
        MatrixMechanism(ToeplitzStrategy((1.0, 0.5)), kind, 20, 2.0)
        for kind in (SpacedParticipation(4, 0.4), CyclicParticipation(4, 0.5))
    ],
)
def test_path_shards_are_deterministic(release):
    one = trial(release, "add", 2.0, samples=5000)
    assert run.run_trials([one], seed=3) == run.run_trials([one], seed=3)


@pytest.mark.slow
def test_processes_and_a_cluster_count_the_same():
    one = trial(samples=6 * shards.SHARD)
    alone = run.run_trials([one], seed=4)
    assert run.run_trials([one], seed=4, workers=2) == alone
    with run.on_dask(workers=2):  # of an extra in `all`: its absence is a failure, here as in CI
        assert run.run_trials([one], seed=4, workers=None) == alone


@pytest.mark.slow
def test_hits_have_the_oracles_chance():
    """200,000 Bernoulli draws against delta / M, in both directions; false alarms 1e-6. Control: noise 30% off."""
    for direction, strength in (("remove", 4.0), ("add", 8.0)):
        one = trial(direction=direction, strength=strength, samples=200_000)
        hits = sum(run.run_trials([one], seed=5)[0])
        truth = oracle.balls_in_bins_delta(bins=16, noise_stddev=1.0, epsilon=1.0, direction=direction).value
        assert stats.binomtest(hits, one.samples, truth / math.exp(one.log_bound)).pvalue > 1e-6
        other = oracle.balls_in_bins_delta(bins=16, noise_stddev=1.3, epsilon=1.0, direction=direction).value
        assert stats.binomtest(hits, one.samples, other / math.exp(one.log_bound)).pvalue < 1e-6


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_losses_are_a_stream_of_their_own_of_which_a_shorter_run_is_a_prefix(direction):
    found = shards.draw_losses(BINS, samples=3000, seed=7, direction=direction)
    assert found.shape == (3000,)
    assert np.isfinite(found).all()
    assert (shards.draw_losses(BINS, samples=1500, seed=7, direction=direction) == found[:1500]).all()
    assert len(np.unique(found)) == 3000  # no block is drawn twice
    assert not np.isin(shards.draw_losses(BINS, samples=3000, seed=8, direction=direction), found).any()
    pair = pair_of(BINS)
    for rng in (shards.stream(7, Direction(direction), 0, 0, 0), shards.pilot_stream(7, Direction(direction))):
        used, _ = pair.draw(rng, shards.BLOCK, Direction(direction), floor=-math.inf, shift=0.0)
        assert not np.isin(used, found).any()


@pytest.mark.slow
def test_losses_make_the_oracles_delta():
    """20,000 losses in each direction, seed fixed, 5 standard errors. Control: noise 30% off."""
    for direction in ("remove", "add"):
        losses = shards.draw_losses(BINS, samples=20_000, seed=3, direction=direction)
        found = delta_from_samples(epsilon=0.5, losses=losses)
        error = 5 * (-np.expm1(np.minimum(0.5 - losses, 0.0))).std() / math.sqrt(losses.size)
        exact, other = (
            oracle.balls_in_bins_delta(bins=16, noise_stddev=noise, epsilon=0.5, direction=direction).value
            for noise in (1.0, 1.3)
        )
        assert abs(found - exact) < error < abs(found - other)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"samples": 0}, "samples must be at least 1"),
        ({"seed": -1}, "seed must be"),
        ({"direction": "both"}, "direction must be one of remove, add"),
        ({"release": None}, "release must be a Release"),
    ],
)
def test_losses_of_nothing_are_refused(changed, says):
    given = {"release": BINS, "samples": 10, "seed": 1} | changed
    with pytest.raises(ValueError, match=says):
        shards.draw_losses(given.pop("release"), **given)


@pytest.mark.slow
def test_a_run_of_k_rounds_is_certified_between_one_round_and_all():
    """Delta at epsilon 0.5 of 1, 3 and 12 rounds of 12 at noise 2: in order, and certain at 12, a Gaussian's."""
    found = {}
    for often in (1, 3, 12):
        release = MatrixMechanism(ToeplitzStrategy((1.0,)), ChosenParticipation(often), 12, 2.0)
        found[often] = certificates.certify(release, epsilon=0.5, samples=60_000, seed=2, failure=1e-4).interval
    assert found[1].upper < found[3].lower < found[3].upper < found[12].lower
    assert gaussian_delta(math.sqrt(12) / 2, 0.5)[1] in found[12]
