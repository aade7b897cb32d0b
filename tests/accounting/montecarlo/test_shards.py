"""Streams, shards, processes and journals: the same integers however and wherever they are drawn."""

import dataclasses
import json
import math
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import normals, oracle, planning, run, shards, sweeps, tilt
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.terms import (
    BallsInBins,
    BinnedParticipation,
    CyclicParticipation,
    Gaussian,
    MatrixMechanism,
    RecordsError,
    SpacedParticipation,
    ToeplitzStrategy,
)

BINS = BallsInBins(Gaussian(1.0), bins=16)
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.Trial(release, payoff, how, tilt.log_bound(pair_of(release), how, payoff), samples)


# ---- shards ----------------------------------------------------------------------------------------------------------


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
    import distributed  # of the dev group: its absence is a failure, here as in CI
    from joblib import parallel_config

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster), parallel_config(backend="dask"):
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


# ---- journal ---------------------------------------------------------------------------------------------------------


def test_a_journal_resumes_and_refuses_another_run(tmp_path):
    one, path = trial(samples=4 * shards.SHARD), tmp_path / "journal.jsonl"
    book = run.Journal.begin(path, "this run", run.chosen(6))
    whole = run.run_trials([one], seed=book.seed)
    assert run.run_trials([one], seed=book.seed, journal=book) == whole
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + '[0, "remo')  # killed in the middle of a line
    drawn = []
    resumed = run.run_trials(
        [one], seed=book.seed, journal=book, progress=lambda _, draws, hits: drawn.append((draws, hits))
    )
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 5  # the head, and two of the four shards were drawn again
    assert drawn[-1] == (one.samples, sum(whole[0]))
    for other in ("that run", run.chosen(6)), ("this run", run.chosen(7)):
        with pytest.raises(RecordsError, match="another run"):
            run.Journal.begin(path, *other)
    with pytest.raises(ValueError, match="seed must be the journal's"):
        run.run_trials([one], seed=book.seed + 1, journal=book)
    path.write_text("nonsense\n")
    with pytest.raises(RecordsError, match="unreadable"):
        run.run_trials([one], seed=book.seed, journal=book)


@pytest.mark.slow
def test_a_killed_process_continues(tmp_path):
    path = tmp_path / "journal.jsonl"
    script = f"""
from pathlib import Path
from epsilog.accounting import montecarlo
from epsilog.terms import BallsInBins, Gaussian
print("started", flush=True)
release, journal = BallsInBins(Gaussian(1.0), bins=16), Path({str(path)!r})
found = montecarlo.certify(release, epsilon=1.0, samples=600_000, seed=8, journal=journal)
print([part.hits for part in found.evidence])
"""
    first = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while not path.exists() or path.read_text().count("\n") < 4:
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    kept = path.read_text().count("\n")
    second = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 4 <= kept < path.read_text().count("\n")
    expected = montecarlo.certify(BINS, epsilon=1.0, samples=600_000, seed=8)
    assert str([part.hits for part in expected.evidence]) in second.stdout


def test_a_journal_keeps_the_entropy_of_its_birth(tmp_path, monkeypatch):
    """Killed before, during or after its draws, a run has one outcome: its seed is on disk before the first draw."""
    path = tmp_path / "journal.jsonl"

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "count_hits", die)
        with pytest.raises(KeyboardInterrupt):
            montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path)
    born = json.loads(path.read_text())
    assert list(tmp_path.iterdir()) == [path]
    first = montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path)
    assert not first.simulation
    assert (
        (first.source.provenance, first.source.value)
        == ("entropy", born["value"])
        == (born["provenance"], born["value"])
    )
    assert born["run"] == first.plan.commitment
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + "[0,")
    assert montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path) == first
    with monkeypatch.context() as patch:
        patch.setattr(run, "count_hits", die)  # nothing is drawn once all is there: asking again changes nothing
        assert montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path) == first
    other = montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=tmp_path / "other.jsonl")
    assert other.seed != first.seed


def test_the_draws_of_a_journal_answer_one_question_only(tmp_path):
    path = tmp_path / "journal.jsonl"
    found = montecarlo.certify(BINS, epsilon=1.0, samples=20_000, journal=path)
    other = BallsInBins(Gaussian(1.1), 16)
    for ask in ({"epsilon": 0.9}, {"samples": 30_000}, {"release": other}, {"failure": 1e-5}):
        with pytest.raises(RecordsError, match="another run"):
            montecarlo.certify(**({"release": BINS, "epsilon": 1.0, "samples": 20_000} | ask), journal=path)
    for seed in (int(found.source.value), 1):  # a chosen seed is a simulation, and this file is none
        with pytest.raises(RecordsError, match="not begun with this seed"):
            montecarlo.certify(BINS, epsilon=1.0, samples=20_000, journal=path, seed=seed)


def test_a_sweep_goes_on_with_its_own_plan_and_entropy(tmp_path):
    path = tmp_path / "journal.jsonl"
    first = sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, journal=path)
    assert not first.simulation
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))
    assert sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, journal=path) == first
    again = sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, seed=int(first.source.value))
    assert again.simulation
    assert again.plan == first.plan
    assert again.evidence != first.evidence  # what says that it is no simulation cannot be made with a chosen seed


@pytest.mark.parametrize(
    "line",
    [
        '[0.5, "remove", 0, 1]',
        '[true, "remove", 0, 1]',
        '[0, "left", 0, 1]',
        '[0, "remove", -1, 1]',
        "[" * 9999,
        '[0, "remove", 0, -1]',
        '[0, "remove", 0, 1e9]',
        '[0, "remove", 0]',
        '[0, "remove", 0, 1]\n[0, "remove", 0, 2]',
    ],
)
def test_a_journal_with_impossible_counts_is_refused(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    book = run.Journal.begin(path, "this run", run.chosen(6))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(RecordsError, match="unreadable"):
        book.read()


def test_two_processes_cannot_both_begin_a_journal(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    run.Journal.begin(path, "this run", run.chosen(6))
    before = path.read_text()
    monkeypatch.setattr(type(path), "exists", lambda _: False)  # as the other process saw it a moment ago
    with pytest.raises(RecordsError, match="another process"):
        run.Journal.begin(path, "this run", run.chosen(7))
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_journal_is_bound_to_the_whole_plan(tmp_path):
    """What decides the claim without deciding the draws: goals, fallback, passing counts, the code's versions."""
    plan = planning.plan_sweep(BINS, epsilon=1.0, target_delta=1e-2, seed=1, noises=(1.1,), slack=0.9)
    path = tmp_path / "journal.jsonl"
    sweeps.run_sweep(plan, journal=path)
    (remove, add), replace = plan.checks[0], dataclasses.replace
    others = [
        replace(plan, target_delta=2e-2),
        replace(plan, fallback_delta=1e-4),
        replace(plan, checks=((replace(remove, hits=remove.hits - 1), add),)),
        replace(plan, origin=replace(plan.origin, pilot=2)),
    ]
    for other in others:
        with pytest.raises(RecordsError, match="another run"):
            sweeps.run_sweep(other, journal=path)
    with pytest.raises(RecordsError, match="another run"):
        montecarlo.certify(BINS, epsilon=1.0, samples=1000, journal=path)
    with pytest.raises(RecordsError, match="not begun with"):
        sweeps.run_sweep(plan, journal=path, nonce="a nonce of its own")
    with pytest.raises(ValueError, match="versions installed here"):
        sweeps.run_sweep(replace(plan, origin=replace(plan.origin, scipy="0.1")), journal=path)
