import json
import math
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import bounds, certificates, oracle, partitions, run, shards, sweeps, tilt
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick
from epsilog.terms import (
    BallsInBins,
    BinnedParticipation,
    CalibrationError,
    CyclicParticipation,
    Gaussian,
    MatrixMechanism,
    RecordsError,
    SpacedParticipation,
    ToeplitzStrategy,
)

BINS = BallsInBins(Gaussian(1.0), bins=16)  # delta(1) = 6.87625e-4 in the remove direction
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    from epsilog.accounting.montecarlo.pairs import pair_of

    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.Trial(release, payoff, how, tilt.log_bound(pair_of(release), how, payoff), samples)


# ---- partitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "bins", "energy"), [(1, 5, 0.7), (2, 3, 1.0), (3, 2, 0.3), (4, 6, 0.5)])
def test_moment_by_listing_every_choice_of_modes(order, bins, energy):
    grids = np.indices((bins,) * (order + 1)).reshape(order + 1, -1)
    pairs = sum((grids[i] == grids[j]).astype(float) for i in range(order + 1) for j in range(i))
    assert partitions.log_moment(order, bins, energy) == pytest.approx(math.log(np.exp(energy * pairs).mean()))


def test_drawn_partitions_have_their_law():
    order, bins, energy = 2, 3, 0.8
    counts = partitions.draw_counts(order, bins, energy, np.random.default_rng(1).random(50_000))
    weights = {(3, 0, 0): 3 * math.exp(3 * energy), (2, 1, 0): 18 * math.exp(energy), (1, 1, 1): 6.0}
    seen = [int((counts == np.array(parts)).all(axis=1).sum()) for parts in weights]
    expected = 50_000 * np.array(list(weights.values())) / sum(weights.values())
    assert stats.chisquare(seen, expected).pvalue > 1e-6
    assert stats.chisquare(seen, expected[[1, 0, 2]]).pvalue < 1e-6  # the control: another order of the weights


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
    whole = run.run_trials([one], seed=6)
    book = run.Journal(path, "this run")
    assert run.run_trials([one], seed=6, journal=book) == whole
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + '[0, "remo')  # killed in the middle of a line
    drawn = []
    resumed = run.run_trials([one], seed=6, journal=book, progress=lambda _, draws, hits: drawn.append((draws, hits)))
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 5  # two of the four shards were drawn again
    assert drawn[-1] == (one.samples, sum(whole[0]))
    with pytest.raises(RecordsError, match="another run"):
        run.run_trials([one], seed=6, journal=run.Journal(path, "that run"))
    path.write_text("nonsense\n")
    with pytest.raises(RecordsError, match="unreadable"):
        run.run_trials([one], seed=6, journal=book)


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


# ---- certificates ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "exact"), [(BINS, 6.87625191183830599e-4), (BallsInBins(Gaussian(0.6), 100), 4.86850803598440e-3)]
)
def test_certificates_hold_the_exact_value(release, exact):
    found = certificates.certify(release, epsilon=1.0, failure=1e-6, seed=11)
    assert exact in found.interval
    assert found.interval.upper < 1.15 * exact
    assert found.simulation
    other = certificates.certify(release, epsilon=1.0, failure=1e-6)
    assert not other.simulation
    assert other.seed != found.seed
    assert exact in other.interval


@pytest.mark.slow
def test_coverage_of_the_interval():
    """200 certificates at failure 0.2: misses are at most binomial(200, 0.2), 5 standard deviations allowed."""
    exact = 6.87625191183830599e-4
    missed = sum(
        exact not in certificates.certify(BINS, epsilon=1.0, failure=0.2, samples=2000, seed=s).interval
        for s in range(200)
    )
    assert missed <= 40 + 5 * math.sqrt(200 * 0.2 * 0.8)
    assert missed > 0  # the control: an interval that never misses at failure 0.2 tests nothing


def test_a_certificate_outside_its_brackets_is_refused(monkeypatch):
    monkeypatch.setattr(certificates, "run_trials", lambda trials, **_: tuple((0,) * t.shards for t in trials))
    with pytest.raises(CalibrationError, match="misses its brackets"):
        certificates.certify(BINS, epsilon=1.0, samples=10**6, seed=1)


def test_composition_with_a_gaussian_beside_one_bin_is_one_gaussian():
    """One bin is a Gaussian of mu = 1 / 0.8; beside another of mu = 0.5 they are one of the root of squares."""
    mu, other, epsilon = 1 / 0.8, 0.5, 1.0
    grid = np.linspace(-8, 8, 4001)
    table = BesideProfile(
        epsilon,
        tuple(grid),
        tuple(
            max(
                oracle.gaussian_delta(distance=other, epsilon=e)
                if e >= 0
                else 1 + math.exp(e) * (oracle.gaussian_delta(distance=other, epsilon=-e) - 1)
                for _ in [0]
            )
            for e in grid
        ),
    )
    truth = oracle.gaussian_delta(distance=math.hypot(mu, other), epsilon=epsilon)
    found = certificates.certify(
        BallsInBins(Gaussian(0.8), bins=1), epsilon=epsilon, beside=(table, table), samples=300_000, seed=12
    )
    assert truth in found.interval
    assert found.interval.upper < 1.1 * truth
    alone = oracle.gaussian_delta(distance=mu, epsilon=epsilon)
    assert alone not in found.interval  # the control: the other event is seen
    again = montecarlo.check_document(json.loads(json.dumps(found.to_json())), shards=1)
    assert again == ()


def test_a_profile_is_read_from_above():
    table = BesideProfile(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, 0.0))
    at = np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0])
    read = np.exp(table.log_value(1.0 - at))
    assert read[0] == 1.0
    assert read[[1, 3]] == pytest.approx([0.5, 0.2])
    assert read[5] == read[6] == 0.0
    # a hockey-stick profile that passes through the points lies below what is read between them
    truth = 1 - 0.5 * math.exp(0.3)
    chord = 0.5 - 0.3 * (math.exp(0.3) - 1) / (math.e - 1)
    assert read[2] == pytest.approx(chord)
    assert truth <= chord
    with pytest.raises(ValueError, match="rise"):
        BesideProfile(1.0, (1.0, 0.0), (0.5, 0.2))
    with pytest.raises(ValueError, match=r"deltas\[1\]"):
        BesideProfile(1.0, (0.0, 1.0), (0.5, math.nan))


# ---- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_finds_the_noise_that_the_oracle_finds():
    found = sweeps.sweep(BINS, epsilon=1.0, delta=1e-3, slack=0.1, seed=13)
    assert found.delta <= 1e-3
    low, high = 0.5, 2.0
    for _ in range(20):
        middle = (low + high) / 2
        value = oracle.balls_in_bins_delta(bins=16, noise_stddev=middle, epsilon=1.0).value
        low, high = (middle, high) if value > 1e-3 else (low, middle)
    assert 0.98 * high <= found.noise <= 1.08 * high
    assert found.release == BallsInBins(Gaussian(found.noise), bins=16)


def test_the_claim_is_the_integral_over_the_worst_test():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.05, 1.0, 0.95))
    for side in range(2):
        tests = [pair[side] for pair in plan.checks]
        y = np.linspace(0, 5e-3, 200_001)
        worst = np.zeros_like(y)
        for test in tests:
            bound = math.exp(test.trial.log_bound)
            worst = np.maximum(
                worst, np.where(y <= bound, stats.binom.cdf(test.hits, test.trial.samples, np.minimum(y / bound, 1)), 0)
            )
        area = float(np.sum((worst[1:] + worst[:-1]) / 2) * (y[1] - y[0]))
        assert area <= sweeps.envelope_delta(tests) <= 1.01 * area
    assert plan.claim <= 1e-3
    same = [plan.checks[0][0]] * 2
    assert sweeps.envelope_delta(same) == bounds.binomial_delta(
        samples=same[0].trial.samples, hits=same[0].hits, bound=math.exp(same[0].trial.log_bound)
    )


@pytest.mark.slow
def test_repeated_sweeps_release_no_more_than_claimed():
    """300 whole sweeps of nine candidates, true deltas from the oracle: the mean released delta is below the claim."""
    noises = tuple(0.90 * 1.03**j for j in range(8, -1, -1))
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=2, noises=noises, slack=0.3, power=0.9)
    truth = [oracle.balls_in_bins_delta(bins=16, noise_stddev=noise, epsilon=1.0).value for noise in noises]
    released = []
    rng = np.random.default_rng(3)
    chances = []
    for pair, delta in zip(plan.checks, truth, strict=True):
        test = pair[0]
        chances.append(stats.binom.cdf(test.hits, test.trial.samples, delta / math.exp(test.trial.log_bound)))
    for _ in range(20_000):
        passed = np.cumprod(rng.random(len(noises)) < np.array(chances)).sum()
        released.append(truth[passed - 1] if passed else 0.0)
    assert np.mean(released) <= plan.claim
    assert max(released) > plan.claim  # single runs may release more: the claim is about the whole procedure
    real = [sweeps.run_sweep(plan, seed=s, simulation=True).chosen for s in range(6)]
    assert all(c is not None for c in real)


def test_a_fallback_is_counted():
    plain = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0))
    backed = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0), fallback_delta=5e-4)
    assert backed.claim <= 1e-3
    assert backed.checks[0][0].trial.samples > plain.checks[0][0].trial.samples
    with pytest.raises(ValueError, match="fallback_delta"):
        sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1,), fallback_delta=1e-3)


def test_nothing_is_chosen_when_the_first_candidate_fails():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-4, seed=1, noises=(0.5, 0.4), slack=0.5)
    found = sweeps.run_sweep(plan, seed=1, simulation=True)
    assert found.chosen is None
    assert found.noise is None
    assert found.release is None
    assert len(found.evidence) == 2
    assert montecarlo.check_document(json.loads(json.dumps(found.to_json())), shards=1) == ()


@pytest.fixture(scope="module")
def document():
    found = sweeps.sweep(BANDED, epsilon=1.0, delta=1e-2, slack=0.3, seed=21, noises=(3.0, 2.0, 1.5, 1.0))
    return json.loads(json.dumps(found.to_json()))


def test_a_third_party_recomputes_everything(document):
    assert montecarlo.check_document(document) == ()
    assert document["claim"]["delta"] <= 1e-2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["evidence"][0]["hits"].__setitem__(0, d["evidence"][0]["hits"][0] + 1), "hits recorded"),
        (lambda d: d.update(chosen=d["chosen"] + 1), "chosen"),
        (lambda d: d.update(noise=d["noise"] * 0.9), "noise"),
        (lambda d: d["claim"].update(delta=d["claim"]["delta"] * 0.9), "claim"),
        (lambda d: d["claim"].update(delta=float("nan")), "claim"),
        (lambda d: d["checks"][-1][0].update(passes=d["checks"][-1][0]["samples"]), "claim"),
        (lambda d: d["evidence"][2].update(hits=d["evidence"][2]["hits"][:-1] or [0]), "hits"),
        (lambda d: d["evidence"][1].update(log_bound=d["evidence"][1]["log_bound"] - 0.5), "not proven"),
        (lambda d: d.update(seed=str(int(d["seed"]) + 1)), "drawn"),
        (lambda d: d.update(evidence=d["evidence"][:2]), "never tested"),
    ],
)
def test_any_change_is_noticed(document, change, says):
    changed = json.loads(json.dumps(document))
    change(changed)
    assert any(says in line for line in montecarlo.check_document(changed))


def test_a_plan_out_of_order_is_refused():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0))
    with pytest.raises(ValueError, match="noises must fall"):
        sweeps.SweepPlan(1.0, 1e-3, plan.noises[::-1], plan.checks)
    with pytest.raises(ValueError, match="checks must"):
        sweeps.SweepPlan(1.0, 1e-3, plan.noises, plan.checks[::-1])
