"""What a dishonest curator, or a careless one, may do to a run or its logs, each with the code that it is caught by."""

import numpy as np
from tests.verification.logs.simulated import DIVISOR, MAPPING, C, N, Q, T, Z, honest, save

from epsilog.terms import Status
from epsilog.verification.logs import verify_logs


def in_every_round(run):
    run.took_part = [np.union1d(ids, [7]) for ids in run.took_part]
    run.norms = [np.full(ids.size, C / 2) for ids in run.took_part]
    return run


def often(run):
    """One client in so many rounds that no honest one is."""
    for t in range(0, T, 3):
        run.took_part[t] = np.union1d(run.took_part[t], [7])
    run.norms = [np.full(ids.size, C / 2) for ids in run.took_part]
    return run


def set_low(run):
    run.noise[3] = Z * 0.9
    return run


def realised(run):
    run.divisor = np.array([float(ids.size) for ids in run.took_part])
    return run


def another_divisor(run):
    run.divisor[5] = DIVISOR / 2
    return run


def cut_off(run):
    run.took_part = run.took_part[: T - 5]
    return run


def too_long(run):
    run.norms[2][0] = C * 1.01
    return run


def wider_clip(run):
    run.clip[2] = C * 1.01
    run.noise[2] = Z / 1.01  # the noise is what it was
    return run


def same_noise(run):
    run.padding[9] = run.padding[3]
    return run


def no_noise(run):
    run.noise[:] = 0.0
    run.padding[:] = 0.0
    return run


def begun_again(run):
    run.attempts[4] = 2
    return run


def opted_out(run):
    run.enrolled[7][2] = "2025-12-01"
    return run


def inactive(run):
    for row in run.enrolled[:40]:
        row[3] = "2025-06-01"
    return run


def more_noise(run):
    run.noise = run.noise * 1.1
    run.padding = run.padding * 1.1
    return run


def joined_late(run):
    run.enrolled[run.took_part[0][0]][1] = "2026-01-01T00:59:00"
    return run


def many_more(run):
    run.enrolled += [[f"{i}", "2025-01-01", "", "2025-12-30"] for i in range(N, N + 10)]
    return run


def left_at_once(run):
    run.enrolled[7][2] = "2026-01-01T00:00:10"
    return run


DOUBLED = np.where(np.arange(T) % 10 == 3, 2 * Q, Q)
DISHONEST = {
    "q doubled in a tenth of the rounds": (
        honest(q=np.where(np.arange(T) % 10 == 3, 3 * Q, Q)),
        "participation/sampler-mismatch",
    ),
    "one client in every round": (in_every_round(honest()), "participation/sampler-mismatch"),
    "one client too often": (often(honest()), "participation/unlikely"),  # where the logs are public it fails
    "noise a tenth low": (honest(stddev=0.9 * C * Z), "noise/too-weak"),
    "noise set low in one round": (set_low(honest()), "clipping/settings-mismatch"),
    "divided by who came": (realised(honest()), "divisor/realized-cohort-size"),
    "another divisor once": (another_divisor(honest()), "divisor/varies"),
    "cut off": (cut_off(honest()), "rounds/stopped-early"),
    "one norm too long": (too_long(honest()), "norms/too-large"),
    "a wider clip": (wider_clip(honest()), "clipping/settings-mismatch"),
    "an attempt": (begun_again(honest()), "attempts/repeated"),
    "opted out": (opted_out(honest()), "population/overstated"),
    "inactive": (inactive(honest()), "population/overstated"),
    "more noise": (more_noise(honest()), "clipping/more-noise"),
    "the same noise twice": (same_noise(honest()), "noise/reused"),
    "no noise at all": (no_noise(honest()), "noise/too-weak"),
    "joined late": (joined_late(honest()), "custody/withdrawn-participant"),
    "left at once": (left_at_once(honest()), "population/counted-earlier"),
    "more people": (many_more(honest()), "population/understated"),
}


def twice(rows):
    return [*rows, rows[5]]


def twice_in_other_words(rows):
    return [*rows, rows[5] | {"norm": "0.125"}]


def without(number):
    return lambda rows: [row for row in rows if row["round"] != number]


def moved(rows):
    return [rows[1], rows[0], *rows[2:]]


def later(rows):
    return [rows[0] | {"at": "2026-01-01T00:40:00"}, *rows[1:]]


def stranger(rows):
    return [rows[0] | {"client": "nobody"}, *rows[1:]]


def one_more(rows):
    return [row | {"clients": row["clients"] + (row["round"] == 9)} for row in rows]


def again(rows):
    return [*rows, rows[4] | {"sigma": "1.25"}]


def one_round_more(rows):
    return [*rows, rows[0] | {"round": T + 1}]


def backwards(rows):
    return [row | {"ended": rows[-i]["ended"]} for i, row in enumerate(rows, 1)]


def hidden(rows):
    """Client 7 took part in every round, and those rows have another kind."""
    others = [row for row in rows if row["client"] != "7"]
    every = [row | {"client": "7", "norm": "0.1"} for row in {row["round"]: row for row in rows}.values()]
    return [row | {"kind": "used"} for row in others] + [row | {"kind": "kept"} for row in every]


HIDDEN = {
    "clients": hidden,
    "mapping": MAPPING.replace("[participation.columns]", 'where = { kind = "used" }\n[participation.columns]').replace(
        'cohort = "clients"\n', ""
    ),
}
PADDING = """
[padding]
file = "padding.csv"
format = "csv"
first_round = 1
[padding.columns]
round = "round"
value = { column = "value", unit = "absolute", on = "sum" }
"""
PADDED = 'padding = { column = "padding", unit = "absolute", on = "sum" }\n'
TWICE_PADDED = {"mapping": MAPPING.replace(PADDED, "") + PADDING, "padding": lambda rows: [*rows, rows[0]]}


ROWS = {
    "a round of clients alone": ({"clients": one_round_more}, "rounds/missing"),
    "a round missing": ({"rounds": without(7)}, "rounds/out-of-order"),
    "a round missing in both": ({"rounds": without(7), "clients": without(7)}, "rounds/out-of-order"),
    "a row of a client twice": ({"clients": twice}, "log/duplicated-rows"),
    "a client twice in a round": ({"clients": twice_in_other_words}, "custody/invalid-participants"),
    "a row of a round twice": ({"rounds": twice}, "log/duplicated-rows"),
    "a round twice": ({"rounds": again}, "rounds/out-of-order"),
    "rounds out of order": ({"rounds": moved}, "log/out-of-order"),
    "counted later": ({"mapping": MAPPING.replace('"2026-01-01"', '"2026-01-03"')}, "population/counted-later"),
    "a late row": ({"clients": later}, "log/timestamp-outside-round"),
    "a stranger": ({"clients": stranger}, "custody/invalid-participants"),
    "one more was counted": ({"rounds": one_more}, "custody/cohort-mismatch"),
    "rows hidden": (HIDDEN, "log/rows-excluded"),
    "times backwards": ({"rounds": backwards}, "log/timestamps-decreasing"),
    "padding twice": (TWICE_PADDED, "log/repeated-padding"),
    "a list missing": ({"clients": without(9)}, "custody/cohort-mismatch"),
}


CLAIMS = {
    "epsilon": (1.9, "claim/too-low"),
    "delta": (1e-6, None),
    "population": (N - 1, "population/understated"),
    "rounds": (T - 1, "rounds/too-many"),
    "sampling_probability": (Q / 2, "participation/sampler-mismatch"),
    "clip_norm": (C * 0.99, "clipping/norm-mismatch"),
    "noise_multiplier": (Z * 1.01, "clipping/settings-mismatch"),
    "divisor": (DIVISOR + 1, "divisor/mismatch"),
}


ONLY_CLIENTS = """
[participation]
file = "clients.csv"
format = "csv"
first_round = 1
columns = { round = "round", client = "client" }
"""
ONLY_ROUNDS = """
[rounds]
file = "rounds.csv"
format = "csv"
first_round = 1
columns = { round = "round" }
"""
ONLY_SIZES = ONLY_ROUNDS.replace('"round" }', '"round", cohort = "clients" }')


def every_finding(folder):
    """Of all of these runs: each is caught by its code."""
    for run, code in DISHONEST.values():
        yield from caught(save(run, folder), code)
    for changes, code in ROWS.values():
        yield from caught(save(honest(), folder, **changes), code)
    for mapping in (ONLY_CLIENTS, ONLY_ROUNDS, ONLY_SIZES):
        yield from verify_logs(save(honest(), folder, mapping=mapping)).findings
    for name, (value, code) in CLAIMS.items():
        run = honest()
        run.claim = {"epsilon": 1.97} | run.claim | {name: value}
        yield from caught(save(run, folder), code or "claim/too-low")


def caught(mapping, code):
    """The findings on logs, one of which has the code and does not pass."""
    outcome = verify_logs(mapping)
    wrong = {one.code for one in outcome.findings if one.status is not Status.PASSED}
    assert code in wrong, (code, wrong)
    assert outcome.status is not Status.PASSED
    return outcome.findings
