"""What each check must not let pass, on logs that are made up in memory."""

import numpy as np
import pytest
from tests.verification.checked import on_logs

from epsilog.schemes import ClientLevelCentral
from epsilog.terms import Status
from epsilog.verification.columns import LogData, Participation, Rounds
from epsilog.verification.reuse import count_significant_digits

N, T = 60, 10
SCHEME = ClientLevelCentral(N, 0.15, T, 1.0, 1.0)
CYCLIC = ClientLevelCentral(N, None, T, 1.0, 1.0, sampling="cyclic", cycle_length=5)


def lists(rounds=T, clients=N, **more):
    there = np.random.default_rng(1).random((rounds, clients)) < 0.15
    there[-1, 0] = True
    members = np.flatnonzero(np.pad(there, ((1, 0), (0, 0))).ravel())
    told = {"outside": 0, "withdrawn": 0, "repeated": 0, "copies": 0, "late": None, "largest_norm": None} | more
    return Participation(rounds=rounds, clients=clients, members=members, width=clients, **told)


def rounds(last=T, **more):
    return Rounds(np.arange(1, last + 1), **more)


def noise(numbers):
    draws = np.random.default_rng(2)
    return {t: draws.normal(0, 1, 24) for t in numbers}


@pytest.mark.parametrize("scheme", [SCHEME, CYCLIC], ids=["poisson", "cyclic"])
@pytest.mark.parametrize(
    ("logs", "code"),
    [
        (LogData(rounds(), lists(T + 1)), "rounds/missing"),
        (LogData(rounds(), lists(10 * T)), "rounds/missing"),
        (LogData(rounds(), padding=noise(range(1, T + 2))), "rounds/missing"),
        (LogData(rounds(T - 1), lists(T)), "rounds/missing"),
        (LogData(lists=lists(T), padding=noise(range(1, T + 2))), "rounds/too-many"),
        (LogData(lists=lists(T + 1), padding=noise(range(1, T))), "rounds/too-many"),
        (LogData(rounds(T + 1), lists(T)), "rounds/too-many"),
        (LogData(rounds(T - 1), lists(T - 1)), "rounds/stopped-early"),
        (LogData(rounds(), lists(), padding=noise(range(1, T + 1))), "rounds/passed"),
    ],
)
def test_a_round_that_any_log_names_counts(logs, code, scheme):
    assert on_logs("rounds", logs, scheme).code == code


def test_lists_of_more_rounds_are_not_cut_to_the_plan():
    found = on_logs("participation", LogData(rounds(), lists(T + 1)), SCHEME, 1e-6)
    assert (found.code, found.status) == ("participation/not-checked", Status.NOT_CHECKED)


@pytest.mark.parametrize("others", [{"rounds": rounds()}, {"lists": lists()}], ids=["rounds", "lists"])
@pytest.mark.parametrize("padded", [[7], range(1, T), range(2, T + 1)])
def test_noise_of_some_rounds_is_not_that_of_all(others, padded):
    found = on_logs("noise", LogData(**others, padding=noise(padded)), SCHEME, 1e-6)
    assert (found.status, found.missing_evidence) == (Status.NOT_CHECKED, "padding")
    whole = LogData(**others, padding=noise(range(1, T + 1)))
    assert on_logs("noise", whole, SCHEME, 1e-6).status is Status.PASSED


def test_more_clients_than_n_are_impossible():
    assert on_logs("custody", LogData(lists=lists(clients=N + 1)), SCHEME).code == "custody/invalid-participants"
    assert on_logs("custody", LogData(lists=lists()), SCHEME).code == "custody/passed"


def test_a_list_after_the_last_counted_round_is_another_cohort():
    logs = LogData(rounds(cohort=lists(T + 1).sizes[:T]), lists(T + 1))
    assert on_logs("custody", logs, SCHEME).code == "custody/cohort-mismatch"


@pytest.mark.parametrize(("norm", "code"), [(1.0, "norms/passed"), (1.0001, "norms/too-large")])
def test_a_norm_is_held_to_its_limit_and_no_more(norm, code):
    assert on_logs("norms", LogData(lists=lists(largest_norm=np.full(T, norm))), SCHEME).code == code


def padded_logs(values, digits=17):
    return LogData(rounds(len(values)), padding=dict(enumerate(values, start=1)), digits=digits)


DRAWN = np.random.default_rng(3).normal(0, 1, (40, 24))
SHUFFLED = np.random.default_rng(4).permuted(np.tile(DRAWN[0], (40, 1)), axis=1)
FLIPPED = DRAWN * 1
FLIPPED[7] = -DRAWN[3]
PARTLY = DRAWN * 1
PARTLY[7, :6] = DRAWN[3, 6:12]
REUSED = {
    "the same three": np.tile(DRAWN[0, :3], (40, 1)),
    "shuffled": SHUFFLED / np.sqrt(np.mean(SHUFFLED**2)),
    "flipped": FLIPPED,
    "a part": PARTLY,
    "one number": np.tile(DRAWN[0, :1], (40, 1)),
    "in single precision": FLIPPED.astype(np.float32).astype(np.float64),
    "shuffled in three digits": np.round(np.sort(FLIPPED, axis=1), 2),
}


@pytest.mark.parametrize("values", REUSED.values(), ids=REUSED)
def test_noise_that_comes_again_is_found(values):
    scheme = ClientLevelCentral(N, 0.15, 40, 1.0, 1.0)
    digits = count_significant_digits(values.ravel())
    assert on_logs("noise", padded_logs(values, digits), scheme, 1e-6).code == "noise/reused"


@pytest.mark.parametrize("decimals", [1, 2, 3, 6, 15])
@pytest.mark.parametrize("scale", [1.0, 0.8, 30.0])
def test_noise_that_was_rounded_is_not_reuse(decimals, scale):
    for seed in range(5):
        values = np.round(np.random.default_rng([9, seed]).normal(0, 1, (40, 24)), decimals)
        scheme = ClientLevelCentral(N, 0.15, 40, 1.0, scale)
        found = on_logs("noise", padded_logs(values * scale, count_significant_digits(values.ravel())), scheme, 1e-6)
        assert found.status in (Status.PASSED, Status.NOT_CHECKED)
        assert decimals > 1 or found.status is Status.NOT_CHECKED


@pytest.mark.parametrize("spelt", [False, True], ids=["in full", "in its shortest spelling"])
def test_many_values_of_single_precision_repeat_and_reuse_is_still_found(spelt):
    drawn = np.random.default_rng(11).normal(0, 1, (20, 500)).astype(np.float32)
    scheme = ClientLevelCentral(N, 0.15, 20, 1.0, 1.0)
    for again, verdict in ((drawn[1], Status.PASSED), (-drawn[0][::-1], Status.FAILED)):
        single = np.vstack([drawn[:1], again[None], drawn[2:]])
        values = np.array([float(str(one)) if spelt else float(one) for one in single.ravel()]).reshape(20, 500)
        found = on_logs("noise", padded_logs(values, count_significant_digits(values.ravel())), scheme, 1e-6)
        assert found.status is verdict, found
    assert np.unique(np.abs(drawn)).size < drawn.size


def test_noise_on_a_grid_may_repeat():
    values = np.round(np.random.default_rng(9).normal(0, 1, (40, 24)) * 128) * (0.0123456789 / 1.58)
    scheme = ClientLevelCentral(N, 0.15, 40, 1.0, 1.0)
    assert on_logs("noise", padded_logs(values), scheme, 1e-6).status is Status.PASSED


def stored(values, kind):
    if kind == "a grid in single precision":
        return (np.round(values * 2**16) / 2**16 / 37).astype(np.float32).astype(float)
    if kind == "bfloat16":  # the upper half of a float32
        return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32).astype(float)
    if kind == "single in another unit":
        return values.astype(np.float32).astype(float) / 41
    if kind == "bfloat16 in another unit":
        return stored(values, "bfloat16") / 41
    half = values.astype(np.float16)
    if kind == "half in another unit":
        return half.astype(float) / 41
    return half.astype(float) if kind == "half" else np.array([[float(str(x)) for x in row] for row in half])


IN_UNITS = [f"{kind} in another unit" for kind in ("half", "bfloat16", "single")]


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("kind", ["half", "half as spelt", "bfloat16", "a grid in single precision", *IN_UNITS])
def test_noise_of_a_short_type_or_on_a_grid_is_not_reuse(kind):
    unit = 1 / 37 if "grid" in kind else 1 / 41 if "unit" in kind else 1.0
    for seed in range(10):
        values = stored(np.random.default_rng(seed).normal(0, 2, (5, 400)), kind)
        for used, again in ((values, False), (np.tile(values, (2, 1)), True)):
            scheme = ClientLevelCentral(N, 0.15, len(used), 1.0, 2 * unit)
            found = on_logs("noise", padded_logs(used, count_significant_digits(values.ravel())), scheme, 1e-6)
            if again:  # in any order, so many values of 8 bits are some other round's as like as not
                assert found.code == ("noise/not-checked" if "bfloat16" in kind else "noise/reused")
            else:
                assert found.status is not Status.FAILED


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("step", [2.0**-19, 2.0**-20, 2.0**-21, 2.0**-22])
@pytest.mark.parametrize("unit", [1.0, 1 / 41])
def test_many_values_on_a_fine_grid_repeat(step, unit):
    """Fixed-point numbers, as secure aggregation adds them, kept in single precision or doubles."""
    drawn = np.round(np.random.default_rng(2).normal(0, 1, (20, 1500)) / step) * step
    scheme = ClientLevelCentral(N, 0.15, 20, 1.0, unit)
    for again, verdict in ((drawn[1], Status.PASSED), (-drawn[0][::-1], Status.FAILED)):
        values = np.vstack([drawn[:1], again[None], drawn[2:]]) * unit
        found = on_logs("noise", padded_logs(values, count_significant_digits(values.ravel())), scheme, 1e-6)
        assert found.status is verdict, found


@pytest.mark.parametrize(("value", "digits"), [(0.0, 1), (1200.0, 2), (-0.0012, 2), (1e-30, 1), (1 / 3, 17)])
def test_digits_are_counted(value, digits):
    assert count_significant_digits(np.array([value])) == digits
    assert count_significant_digits(np.array([0.5, 2.0, value, -1.0])) == digits, "those of the longest count"


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e308, 1e150, 5e-324])
@pytest.mark.parametrize("again", [False, True])
def test_values_that_no_noise_has_are_judged_without_a_warning(bad, again):
    """What is logged is finite, and may be none in another unit."""
    values = np.vstack([DRAWN, DRAWN[:1]]) if again else DRAWN * 1
    values[3, 4:6] = bad
    scheme = ClientLevelCentral(N, 0.15, len(values), 1.0, 1.0)
    found = on_logs("noise", padded_logs(values), scheme, 1e-6)
    sound = "noise/not-checked" if bad == 5e-324 else "noise/too-strong"  # the smallest number, twice
    assert found.code == ("noise/reused" if again else sound)
