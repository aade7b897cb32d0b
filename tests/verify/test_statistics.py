"""Each statistical check accepts a sound run, rejects a faulty one, and says so; false alarms are as rare as stated."""

from dataclasses import replace

import numpy as np
import pytest

from epsilog.terms import ClientLevelCentral, CustodyRecord, ExampleLevelClientSide, RoundRecord
from epsilog.verify import (
    check_clipping,
    check_custody,
    check_noise,
    check_norms,
    check_participation,
    power,
    stddev_interval,
)

CENTRAL = ClientLevelCentral(population=2000, sampling_probability=0.1, rounds=60, clip_norm=0.5, noise_multiplier=2.0)
LOCAL = ExampleLevelClientSide(
    population=100,
    cohort_size=20,
    rounds=15,
    max_participations=4,
    batch_probability=0.25,
    epochs=1,
    clip_norm=1.0,
    noise_multiplier=1.5,
)


def records(rng, *, scale=1.0, rounds=60, padding=16, scheme=CENTRAL):
    draw = rng.normal(0, scheme.noise_stddev * scale, (rounds, padding))
    return [
        RoundRecord(r + 1, "0" * 64, scheme.noise_stddev, scheme.clip_norm, tuple(map(float, row)), 0.0, 0.0)
        for r, row in enumerate(draw)
    ]


def custody(participants):
    return [CustodyRecord(r + 1, tuple(map(int, ids)), 0.5, 0.0) for r, ids in enumerate(participants)]


def poisson(rng, q=0.1, population=2000, rounds=60):
    return [np.flatnonzero(rng.random(population) < q) for _ in range(rounds)]


@pytest.mark.parametrize("seed", range(20))
def test_sound_noise_passes_and_noise_30_percent_off_fails(seed):
    rng = np.random.default_rng(seed)
    assert check_noise(records(rng), noise_stddev=1.0).verdict == "passed"
    assert check_noise(records(rng, scale=0.7), noise_stddev=1.0).verdict == "failed"
    assert check_noise(records(rng, scale=1.3), noise_stddev=1.0).verdict == "warned"


def test_false_alarms_are_as_rare_as_stated():
    """2,000 sound runs at a false alarm of 5%: 100 expected, more than 150 has probability below 1e-6."""
    rng = np.random.default_rng(7)
    verdicts = [check_noise(records(rng, rounds=5), noise_stddev=1.0, false_alarm=0.05).verdict for _ in range(2000)]
    assert 55 < verdicts.count("failed") < 150
    assert verdicts.count("warned") < 90  # noise that is too strong: 50 expected


def test_power_is_what_simulation_finds():
    rng = np.random.default_rng(3)
    values = [check_noise(records(rng, scale=0.7, rounds=6), noise_stddev=1.0).verdict == "failed" for _ in range(400)]
    assert np.mean(values) == pytest.approx(power(96, share=0.7), abs=0.08)  # 3 sd of 400 trials


def test_the_interval_covers_and_narrows():
    rng = np.random.default_rng(5)
    inside = []
    for _ in range(500):
        low, high = stddev_interval(list(rng.normal(0, 2.0, 50)), failure_probability=0.1)
        inside.append(low <= 2.0 <= high)
    assert 0.86 < np.mean(inside) < 0.94


def test_no_padding_is_not_a_pass():
    assert check_noise(records(np.random.default_rng(0), padding=0), noise_stddev=1.0).verdict == "not checked"
    assert check_noise(records(np.random.default_rng(0)), noise_stddev=0.0).verdict == "failed"


@pytest.mark.parametrize("seed", range(10))
def test_poisson_cohorts_pass_and_others_fail(seed):
    rng = np.random.default_rng(seed)
    assert check_participation(custody(poisson(rng)), CENTRAL).verdict == "passed"
    faults = {
        "more often": poisson(rng, q=0.13),
        "fixed size": [rng.choice(2000, 200, replace=False) for _ in range(60)],
        "always the same": [np.flatnonzero(rng.random(2000) < 0.1)] * 60,
        "one huge round": [*poisson(rng, rounds=59), np.arange(400)],
        "one client always": [np.union1d(ids, [17]) for ids in poisson(rng)],
    }
    for name, participants in faults.items():
        assert check_participation(custody(participants), CENTRAL).verdict == "failed", name


def test_impossible_lists_fail_and_void_the_claim():
    for ids in ([1, 1, 2], [-1, 5], [1999, 2000]):
        assert check_custody(custody([ids]), [1], CENTRAL).verdict == "failed"
    assert check_custody(custody([[1, 2]]), [1, 2], CENTRAL).verdict == "failed"
    assert check_custody(custody([[1, 2], [1]]), [1, 2], CENTRAL).verdict == "passed"
    for found in (check_custody(None, [1], CENTRAL), check_participation(None, CENTRAL)):
        assert (found.verdict, found.lacks) == ("not checked", "custody")
    assert check_participation([], CENTRAL).verdict == "not checked"


def test_capped_cohorts():
    rng = np.random.default_rng(1)
    taken, rounds = np.zeros(100, int), []
    for _ in range(15):
        ids = rng.choice(np.flatnonzero(taken < 4), 20, replace=False)
        taken[ids] += 1
        rounds.append(ids)
    assert check_participation(custody(rounds), LOCAL).verdict == "passed"
    assert check_participation(custody([*rounds[:-1], rounds[-1][:19]]), LOCAL).verdict == "failed"
    over = [np.arange(20)] * 5
    assert check_participation(custody(over), LOCAL).verdict == "failed"


def test_norms_and_declared_noise():
    rng = np.random.default_rng(2)
    sound = records(rng)
    assert check_clipping(sound, clip_norm=0.5, noise_stddev=1.0).verdict == "passed"
    assert check_clipping(sound, clip_norm=0.4, noise_stddev=1.0).verdict == "failed"
    assert check_clipping(sound, clip_norm=0.5, noise_stddev=1.1).verdict == "failed"
    assert check_norms(custody(poisson(rng)), clip_norm=0.5).verdict == "passed"
    assert check_norms(None, clip_norm=0.5).verdict == "not checked"
    high = [CustodyRecord(1, (1, 2), 0.5001, 0.5)]
    assert check_norms(high, clip_norm=0.5).verdict == "failed"


def test_one_quiet_round_among_many_is_found():
    """60 rounds of 16 values pass together when one of them has no noise at all; that round alone does not."""
    rng = np.random.default_rng(11)
    sound = list(records(rng))
    assert check_noise(sound, noise_stddev=1.0).verdict == "passed"
    for share, verdict in ((0.05, "failed"), (0.9, "passed")):
        weak = replace(sound[7], padding=tuple(share * x for x in sound[7].padding))
        found = check_noise([*sound[:7], weak, *sound[8:]], noise_stddev=1.0)
        assert found.verdict == verdict
        assert dict(found.numbers)["p_too_weak"] > 1e-6
    bare = replace(sound[7], padding=())
    assert check_noise([*sound[:7], bare, *sound[8:]], noise_stddev=1.0).verdict == "not checked"
