"""Each statistical check accepts a sound run, rejects a faulty one, and says so; false alarms are as rare as stated."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.verification.checked import check_clipping, check_custody, check_noise, check_norms, check_participation
from tests.verification.counted import COUNTING, counted

from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.terms import CustodyRecord, RoundRecord
from epsilog.verification.noise import check_count, compute_power, compute_stddev_interval

CENTRAL = ClientLevelCentral(clients=2000, sampling_probability=0.1, rounds=60, clip_norm=0.5, noise_multiplier=2.0)
LOCAL = ExampleLevelClientSide(
    clients=100,
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


def public(rounds):
    return records(np.random.default_rng(0), rounds=rounds)


def poisson(rng, q=0.1, population=2000, rounds=60):
    return [np.flatnonzero(rng.random(population) < q) for _ in range(rounds)]


@pytest.mark.parametrize("seed", range(20))
def test_sound_noise_passes_and_noise_30_percent_off_fails(seed):
    rng = np.random.default_rng(seed)
    assert check_noise(records(rng), noise_stddev=1.0).status == "passed"
    assert check_noise(records(rng, scale=0.7), noise_stddev=1.0).status == "failed"
    assert check_noise(records(rng, scale=1.3), noise_stddev=1.0).status == "warned"


@pytest.mark.slow
def test_power_is_what_simulation_finds():
    rng = np.random.default_rng(3)
    values = [check_noise(records(rng, scale=0.7, rounds=6), noise_stddev=1.0).status == "failed" for _ in range(400)]
    assert np.mean(values) == pytest.approx(compute_power(96, share=0.7), abs=0.08)  # 3 sd of 400 trials


def test_the_interval_covers_and_narrows():
    rng = np.random.default_rng(5)
    inside = []
    for _ in range(500):
        low, high = compute_stddev_interval(list(rng.normal(0, 2.0, 50)), failure_probability=0.1)
        inside.append(low <= 2.0 <= high)
    assert 0.86 < np.mean(inside) < 0.94


def test_one_value_of_padding_is_tested_like_many():
    for value, verdict in ((0.5, "passed"), (1e-9, "failed"), (6.0, "warned")):
        (one,) = records(np.random.default_rng(0), rounds=1, padding=1)
        found = check_noise([replace(one, padding=(value,))], noise_stddev=1.0)
        assert found.status == verdict
        assert dict(found.values)["values"] == 1
        assert dict(found.values)["observed_stddev"] == pytest.approx(value)
    low, high = compute_stddev_interval([2.0], failure_probability=0.1)
    assert low == pytest.approx(2 / stats.chi2(1).isf(0.05) ** 0.5)
    assert high == pytest.approx(2 / stats.chi2(1).isf(0.95) ** 0.5)
    assert compute_power(1, share=1e-9) > 0.99
    for refused in (lambda: compute_stddev_interval([], failure_probability=0.1), lambda: compute_power(0, share=0.5)):
        with pytest.raises(ValueError, match="must be at least 1, got 0"):
            refused()


def test_the_figures_of_the_noise_check():
    scheme = replace(CENTRAL, noise_multiplier=3.0)
    found = check_noise(records(np.random.default_rng(4), scheme=scheme), noise_stddev=1.5)
    padding = np.array([one.padding for one in records(np.random.default_rng(4), scheme=scheme)])
    numbers, n = dict(found.values), padding.size
    squares = (padding**2).sum()
    assert (numbers["values"], numbers["planned_stddev"]) == (n, 1.5)
    assert numbers["observed_stddev"] == pytest.approx((squares / n) ** 0.5)
    assert numbers["stddev_low"] == pytest.approx((squares / stats.chi2(n).isf(0.025)) ** 0.5)
    assert numbers["stddev_high"] == pytest.approx((squares / stats.chi2(n).isf(0.975)) ** 0.5)
    assert numbers["p_too_weak"] == pytest.approx(stats.chi2(n).cdf(squares / 2.25))
    assert numbers["p_too_strong"] == pytest.approx(stats.chi2(n).sf(squares / 2.25))
    half = np.diff(np.unique(np.abs(padding)), prepend=0.0).min() / 2
    quietest = stats.chi2(16).cdf(((np.abs(padding) + half) ** 2).sum(1) / 2.25)
    assert numbers["p_quietest_round"] == pytest.approx(min(1, 60 * quietest.min()))
    p = stats.combine_pvalues(quietest, method="fisher").pvalue
    assert numbers["p_weak_rounds"] == pytest.approx(p)
    weak = records(np.random.default_rng(4))
    loud = [replace(one, padding=tuple(3 * x for x in one.padding)) for one in weak]
    quiet = replace(weak[41], padding=tuple(1e-3 * x for x in weak[41].padding))
    assert "noise of round 42 is too weak" in check_noise([*loud[:41], quiet, *loud[42:]], noise_stddev=1.0).message


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.25, 0.1, 0.005, 1e-9])
def test_rounded_noise_is_not_too_weak_in_a_round(step):
    """One value a round: what is rounded to 0 happens to sound noise, and says nothing of its round."""
    coins = np.random.default_rng(8)
    one = records(np.random.default_rng(5))[0]
    for _ in range(20):
        values = (step * np.round(coins.normal(size=500) / step)).tolist()
        sound = [replace(one, round=i, padding=(value,)) for i, value in enumerate(values, start=1)]
        assert check_noise(sound, noise_stddev=1.0).code == "noise/passed"
    quiet = [replace(one, padding=(step * (one.round % 4 // 2),)) if one.round % 2 else one for one in sound]
    assert check_noise(quiet, noise_stddev=1.0).status == "failed"


def test_a_coarse_grid_does_not_hide_a_round_without_noise():
    sound = records(np.random.default_rng(5))
    for step in (2.0, 0.5, 0.25):
        grid = [replace(one, padding=tuple(step * round(x / step) for x in one.padding)) for one in sound]
        none = replace(grid[9], padding=(0.0,) * 16)
        found = check_noise([*grid[:9], none, *grid[10:]], noise_stddev=CENTRAL.noise_stddev)
        assert (found.code, "round 10" in found.message) == ("noise/too-weak-in-a-round", True)


@pytest.mark.parametrize("loud", [1.34, 1.2])
def test_noise_that_is_weak_in_every_other_round_is_found_though_the_mean_is_right(loud):
    """The accountant's price for what differs by round is higher than that of the mean."""
    sound = records(np.random.default_rng(5))
    quiet = (2 - loud**2) ** 0.5
    mixed = [replace(one, padding=tuple((quiet if one.round % 2 else loud) * x for x in one.padding)) for one in sound]
    assert check_noise(sound, noise_stddev=CENTRAL.noise_stddev).code == "noise/passed"
    found = check_noise(mixed, noise_stddev=CENTRAL.noise_stddev)
    assert found.code == ("noise/uneven" if loud > 1.3 else "noise/passed"), dict(found.values)


def test_a_round_without_padding_does_not_hide_weak_noise_in_others():
    sound = records(np.random.default_rng(0))
    bare = replace(sound[7], padding=())
    found = check_noise([*sound[:7], bare, *sound[8:]], noise_stddev=CENTRAL.noise_stddev)
    assert (found.code, "such as [8]" in found.message) == ("noise/not-checked", True)
    weak = [replace(one, padding=tuple(0.7 * x for x in one.padding)) for one in sound]
    for others in (weak, [replace(one, padding=(0.0,) * 16) for one in sound]):
        assert check_noise([bare, *others[1:]], noise_stddev=CENTRAL.noise_stddev).status == "failed"


def test_no_padding_is_not_a_pass():
    assert check_noise(records(np.random.default_rng(0), padding=0), noise_stddev=1.0).status == "not checked"
    assert check_noise(records(np.random.default_rng(0)), noise_stddev=0.0).status == "failed"


@pytest.mark.slow
@pytest.mark.every(10)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_poisson_cohorts_pass_and_others_fail(seed):
    rng = np.random.default_rng(seed)
    assert check_participation(custody(poisson(rng)), CENTRAL).status == "passed"
    faults = {
        "more often": poisson(rng, q=0.13),
        "fixed size": [rng.choice(2000, 200, replace=False) for _ in range(60)],
        "always the same": [np.flatnonzero(rng.random(2000) < 0.1)] * 60,
        "one huge round": [*poisson(rng, rounds=59), np.arange(400)],
        "one client always": [np.union1d(ids, [17]) for ids in poisson(rng)],
    }
    for name, participants in faults.items():
        assert check_participation(custody(participants), CENTRAL).status == "failed", name


def rejected_by(participants):
    found = check_participation(custody(participants), CENTRAL)
    assert (found.status == "failed") == ("is not Poisson" in found.message or found.code == "participation/drift")
    numbers = dict(found.values)
    p_values = {name: p for name, p in numbers.items() if name.startswith("p_")}
    tests = {name for name, p in p_values.items() if p < 1e-6 / len(p_values)}
    assert all(name in found.message for name in tests) or (tests, found.code) == ({"p_drift"}, "participation/drift")
    return tests


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(3))
def test_each_test_of_participation_sees_what_the_others_do_not(seed):
    """A rate 6% off in either direction, one round, one client, sizes that are all alike or far apart, and a drift.

    A rate that is off from the start is a drift, too, that began in the first round.
    """
    rng = np.random.default_rng(seed)
    ids = np.arange(2000)

    def of_sizes(sizes):
        return [rng.choice(ids, size, replace=False) for size in rng.permutation(sizes)]

    assert rejected_by(of_sizes([199, 225] * 30)) == rejected_by(of_sizes([201, 175] * 30)) == {"p_total", "p_drift"}
    assert rejected_by(of_sizes([187, 213] * 30)) == set()
    for size in (115, 287):
        assert rejected_by([*poisson(rng, rounds=59), rng.choice(ids, size, replace=False)]) == {"p_worst_round"}
    assert rejected_by([np.union1d(one, [17]) if r < 26 else one for r, one in enumerate(poisson(rng))]) == {
        "p_busiest_client"
    }
    assert rejected_by(of_sizes([197, 203] * 30)) == rejected_by(of_sizes([172, 228] * 30)) == {"p_spread"}
    assert rejected_by([*poisson(rng, q=0.1032, rounds=300), *poisson(rng, q=0.0968, rounds=300)]) == {"p_drift"}


def test_participation_shows_rates_and_sizes():
    lists = [np.arange(200), np.arange(190, 400), *poisson(np.random.default_rng(1), rounds=58)]
    sizes = [len(ids) for ids in lists]
    numbers = dict(check_participation(custody(lists), CENTRAL).values)
    assert numbers["planned_rate"] == 0.1
    assert numbers["observed_rate"] == pytest.approx(np.mean(sizes) / 2000)
    assert (numbers["cohort_min"], numbers["cohort_max"]) == (min(sizes), max(sizes))
    total = stats.binom(2000 * 60, 0.1)
    tails = total.cdf(sum(sizes)), total.sf(sum(sizes) - 1)
    assert numbers["p_total"] == pytest.approx(2 * min(tails))
    times = np.bincount(np.concatenate(lists), minlength=2000).max()
    assert numbers["p_busiest_client"] == pytest.approx(min(1, 2000 * stats.binom(60, 0.1).sf(times - 1)))
    chance = stats.binom(2000, 0.1).pmf(np.arange(2001))
    far = np.abs(np.arange(2001) - 200)
    beyond = [chance[far > abs(n - 200)].sum() for n in sizes]  # each lies where chi-square has this tail
    sides = [2 * min(stats.binom(2000, 0.1).cdf(n), stats.binom(2000, 0.1).sf(n - 1)) for n in sizes]
    even, uneven = (sum(stats.chi2(1).isf(np.minimum(each, 1))) for each in (beyond, sides))
    assert numbers["p_spread"] == pytest.approx(2 * min(stats.chi2(60).cdf(even), stats.chi2(60).sf(uneven)))


def test_a_sampler_that_takes_all_leaves_no_doubt():
    scheme, whole, short = replace(CENTRAL, sampling_probability=1.0), range(2000), range(1999)
    assert check_participation(custody([whole] * 3), scheme).status == "passed"
    assert check_participation(custody([whole, short, whole]), scheme).status == "failed"


def test_impossible_lists_fail_and_void_the_claim():
    for ids in ([1, 1, 2], [-1, 5], [1999, 2000]):
        assert check_custody(custody([ids]), public(1), CENTRAL).status == "failed"
    assert check_custody(custody([[1, 2]]), public(2), CENTRAL).status == "failed"
    assert check_custody(custody([[1, 2], [1]]), public(2), CENTRAL).status == "passed"
    for found in (check_custody(None, public(1), CENTRAL), check_participation(None, CENTRAL)):
        assert (found.status, found.missing_evidence) == ("not checked", "custody")
    assert check_participation([], CENTRAL).status == "not checked"


def test_cohorts_shrink_only_by_those_who_reached_their_cap():
    """20 places and 30 clients, two rounds each: the third round is full, the fourth has nobody left."""
    scheme = replace(LOCAL, clients=30, max_participations=2, rounds=4)
    first, second = np.arange(20), np.r_[np.arange(10), np.arange(20, 30)]
    third = np.arange(10, 30)
    assert check_participation(custody([first, second, third]), scheme).status == "passed"
    assert check_participation(custody([first, second, third, []]), scheme).status == "passed"
    found = check_participation(custody([first, second, third, [3]]), scheme)
    assert (found.status, found.message) == ("failed", "Round 4 has 1 clients; the plan requires 0.")
    assert check_participation(custody([first, second, third[:19]]), scheme).status == "failed"
    found = check_participation(custody([first, second, np.r_[third[:19], 3]]), scheme)
    assert (found.status, dict(found.values)["busiest_client"]) == ("failed", 3)
    numbers = dict(check_participation(custody([first, second]), scheme).values)
    assert numbers == {"max_participations": 2, "busiest_client": 2, "clients_seen": 30}


def test_capped_cohorts():
    rng = np.random.default_rng(1)
    taken, rounds = np.zeros(100, int), []
    for _ in range(15):
        ids = rng.choice(np.flatnonzero(taken < 4), 20, replace=False)
        taken[ids] += 1
        rounds.append(ids)
    assert check_participation(custody(rounds), LOCAL).status == "passed"
    assert check_participation(custody([*rounds[:-1], rounds[-1][:19]]), LOCAL).status == "failed"
    over = [np.arange(20)] * 5
    assert check_participation(custody(over), LOCAL).status == "failed"


def test_norms_and_declared_noise():
    rng = np.random.default_rng(2)
    sound = records(rng)
    planned = ClientLevelCentral(10, 0.5, len(sound), clip_norm=0.5, noise_multiplier=2.0)
    assert check_clipping(sound, planned).status == "passed"
    assert check_clipping(sound, replace(planned, clip_norm=0.4, noise_multiplier=2.5)).status == "failed"
    assert check_clipping(sound, replace(planned, noise_multiplier=2.2)).status == "failed"
    assert check_clipping([replace(sound[0], unclipped=0.5), *sound[1:]], planned).status == "failed"
    assert check_norms(custody(poisson(rng)), sound, planned).status == "passed"
    assert check_norms(None, sound, planned).status == "not checked"
    high = [CustodyRecord(1, (1, 2), 0.5001, 0.5)]
    assert check_norms(high, sound, planned).status == "failed"
    unseen = CustodyRecord(2, (1, 2), None, 0.0)
    assert check_norms([unseen], sound, planned).status == "not checked"
    assert check_norms([*custody(poisson(rng)), unseen], sound, planned).status == "not checked"
    assert check_norms([*high, unseen], sound, planned).status == "failed"


def test_one_quiet_round_among_many_is_found():
    """60 rounds of 16 values pass together when one of them has no noise at all; that round alone does not."""
    rng = np.random.default_rng(11)
    sound = list(records(rng))
    assert check_noise(sound, noise_stddev=1.0).status == "passed"
    for share, verdict in ((0.05, "failed"), (0.9, "passed")):
        weak = replace(sound[7], padding=tuple(share * x for x in sound[7].padding))
        found = check_noise([*sound[:7], weak, *sound[8:]], noise_stddev=1.0)
        assert found.status == verdict
        assert dict(found.values)["p_too_weak"] > 1e-6
    bare = replace(sound[7], padding=())
    assert check_noise([*sound[:7], bare, *sound[8:]], noise_stddev=1.0).status == "not checked"


@pytest.mark.parametrize("value", [1.2e154, 1e308, 5e-324])
@pytest.mark.parametrize("planned", [1e-170, 1.0, 1e200])
def test_no_padding_and_no_plan_make_the_check_fail_to_answer(value, planned):
    one = records(np.random.default_rng(0), rounds=1)[0]
    found = check_noise([replace(one, padding=(value, -value) * 8)], noise_stddev=planned)
    assert found.status in ("failed", "warned", "passed")
    assert all(math.isfinite(number) for _, number in found.values)


@pytest.mark.slow
def test_noise_on_counts_is_found_too_weak_by_what_the_curator_counted():
    """Sound runs pass at their false-alarm rate; a third of the noise never does, whatever the counts are."""
    alarms = sum(check_count(*counted(1.0, seed), COUNTING, false_alarm_rate=0.1) is not None for seed in range(200))
    assert 8 <= alarms <= 36  # 20 expected; a binomial leaves this once in a thousand
    assert all(check_norms(*counted(1.0, seed), COUNTING).status == "passed" for seed in range(50))
    ends = {share: {check_norms(*counted(share, seed), COUNTING).code for seed in range(20)} for share in (0.3, 3.0)}
    assert ends == {0.3: {"norms/count-noise-too-weak"}, 3.0: {"norms/count-noise-too-strong"}}


@pytest.mark.parametrize(("share", "seed"), [(0.7, 1), (0.95, 2), (1.0, 3), (1.05, 4), (1.4, 5)])
def test_noise_on_counts_alarms_at_twice_the_smaller_tail(share, seed):
    private, public = counted(share, seed)
    observed = dict(check_count(private, public, COUNTING, false_alarm_rate=1 - 1e-9).values)
    squares = observed["rounds"] * (observed["observed_stddev"] / observed["planned_stddev"]) ** 2
    weak, strong = stats.chi2(observed["rounds"]).cdf(squares), stats.chi2(observed["rounds"]).sf(squares)
    p_value = 2 * min(weak, strong)
    assert check_count(private, public, COUNTING, false_alarm_rate=p_value * (1 - 1e-6)) is None
    found = check_count(private, public, COUNTING, false_alarm_rate=p_value * (1 + 1e-6))
    assert found.code == f"norms/count-noise-too-{'weak' if weak < strong else 'strong'}"


def test_counts_without_any_noise_fail_and_other_schemes_have_none():
    private, public = counted(0.0)
    found = check_count(private, public, COUNTING)
    assert found.status == "failed"
    assert dict(found.values)["observed_stddev"] == pytest.approx(0, abs=1e-9)
    assert check_count(private, public, ClientLevelCentral(200, 0.2, 40, 0.2, 3.0)) is None
    assert check_count(private, (replace(public[0], unclipped=None), *public[1:]), COUNTING) is None
