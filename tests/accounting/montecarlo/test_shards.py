"""Streams and shards: the same integers however and wherever they are drawn."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.accounting.montecarlo.simulated import BANDED, BINS, mechanism, trial

from epsilog.accounting.montecarlo import oracle, run, shards, tilt
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.accounting.montecarlo.two_point import delta_from_samples
from epsilog.mechanisms import MinSepParticipation
from epsilog.numerics.pairs import AdjacencyType

WAYS = {"remove": 4.0, "add": 8.0}


@pytest.mark.parametrize(
    "release", [BINS, BANDED, mechanism([1.0, 0.5], MinSepParticipation(4, 0.4), 20, 2.0)], ids=str
)
def test_shards_are_recomputed_alone_and_merge_as_integers(release):
    one = trial(release, "add", samples=2 * shards.SHARD + 3000, strength=2.0)
    together = run.run_trials([one], seed=9)[0]
    assert len(together) == one.shards == 3
    assert [shards.count_hits(one, 9, shard) for shard in (2, 0, 1)] == [together[2], together[0], together[1]]
    assert together != run.run_trials([one], seed=10)[0]
    short = trial(release, "add", samples=shards.SHARD, strength=2.0)
    assert run.run_trials([short], seed=9)[0][0] == together[0]  # a shorter run is a prefix


@pytest.mark.slow
def test_a_failing_trial_stops_both_directions_where_the_counts_say():
    pair = [trial(direction=way, strength=strength, samples=8 * shards.SHARD) for way, strength in WAYS.items()]
    remove, add = run.run_trials(pair, seed=1)
    for limit, stop in ((0, 1), (sum(remove[:2]), 3), (sum(remove[:5]), 7), (sum(remove), 8)):
        assert run.run_trials(pair, seed=1, limits=[limit, sum(add)]) == (remove[:stop], add[:stop])
    assert run.run_trials(pair, seed=1, limits=[sum(remove), sum(add[:4])]) == (remove[:7], add[:7])


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
        raw = shards.open_block_stream(77, "add", 5, 9, index).bit_generator.random_raw(8).tolist()
        assert raw == philox(key, (1, 0, 0, index)) + philox(key, (2, 0, 0, index))


def test_every_key_opens_its_own_stream():
    keys = [(1, "add", 0, 0, 0), (2, "add", 0, 0, 0), (1, "remove", 0, 0, 0), (1, "add", 1, 0, 0), (1, "add", 0, 1, 0)]
    streams = [*(shards.open_block_stream(*key) for key in keys), *(shards.open_pilot_stream(1, way) for way in WAYS)]
    assert len({float(rng.random()) for rng in streams}) == len(keys) + 2


@pytest.mark.extended
def test_processes_count_the_same():
    one = trial(samples=6 * shards.SHARD)
    assert run.run_trials([one], seed=4, workers=2) == run.run_trials([one], seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("direction", WAYS)
def test_hits_losses_and_pilots_make_the_oracles_delta(direction):
    """Hits against delta / M, false alarms 1e-6; losses and pilots within 5 standard errors. Control: noise 30% off."""
    exact, other = (
        oracle.compute_balls_in_bins_delta(bins=16, noise_stddev=noise, epsilon=1.0, direction=direction).value
        for noise in (1.0, 1.3)
    )
    one = trial(direction=direction, strength=WAYS[direction], samples=100_000)
    hits = sum(run.run_trials([one], seed=5)[0])
    for delta, agrees in ((exact, True), (other, False)):
        assert (stats.binomtest(hits, one.samples, delta / math.exp(one.log_bound)).pvalue > 1e-6) == agrees
    losses = shards.draw_losses(BINS, samples=200_000, seed=3, direction=direction)
    found = delta_from_samples(epsilon=1.0, losses=losses)
    error = 5 * (-np.expm1(np.minimum(1.0 - losses, 0.0))).std() / math.sqrt(losses.size)
    assert abs(found - exact) < error < abs(found - other)
    pilot = shards.estimate_pilot_delta(BINS, HockeyStick(1.0), AdjacencyType(direction), 4)
    assert 0.8 * exact < pilot < 1.25 * exact


@pytest.mark.parametrize("direction", WAYS)
def test_losses_are_a_stream_of_their_own_of_which_a_shorter_run_is_a_prefix(direction):
    found = shards.draw_losses(BINS, samples=3000, seed=7, direction=direction)
    assert found.shape == (3000,)
    assert np.isfinite(found).all()
    assert (shards.draw_losses(BINS, samples=1500, seed=7, direction=direction) == found[:1500]).all()
    assert len(np.unique(found)) == 3000  # no block is drawn twice
    assert not np.isin(shards.draw_losses(BINS, samples=3000, seed=8, direction=direction), found).any()
    for rng in (
        shards.open_block_stream(7, AdjacencyType(direction), 0, 0, 0),
        shards.open_pilot_stream(7, AdjacencyType(direction)),
    ):
        used, _ = build_simulated_pair(BINS).draw(
            rng, shards.BLOCK, AdjacencyType(direction), floor=-math.inf, shift=0.0
        )
        assert not np.isin(used, found).any()


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


def test_a_bound_that_is_not_proven_or_that_no_number_holds_draws_nothing():
    one = trial()
    loose = shards.BernoulliTrial(one.release, one.payoff, one.tilt, one.log_bound - 1e-8, one.samples)
    with pytest.raises(ValueError, match="log_bound must be at least what is proven"):
        shards.count_hits(loose, 1, 0)
    for log_bound in (800.0, -800.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="log_bound must be"):
            shards.BernoulliTrial(BINS, HockeyStick(1.0), tilt.Tilt("remove"), log_bound, 1000)
