"""N is who could take part when the run was, and times and names are what they say."""

import time

import numpy as np
import pytest

from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError, Guarantee, NeighboringRelation, RecordError
from epsilog.verification import Claim, bound_every_round
from epsilog.verification.audits.canaries import read_scores
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.columns import Enrollment, LogData, LogUnits, Rounds
from epsilog.verification.evidence import Evidence
from epsilog.verification.logs.mapping import parse_mapping
from epsilog.verification.logs.reading import read_logs
from epsilog.verification.participation import check_population

DAY = 86_400.0
START = 1_767_225_600.0  # 2026
CLAIM = Claim(
    Guarantee(2.0, 1e-5, NeighboringRelation.ZERO_OUT, "client", 4),
    ClientLevelCentral(4, None, 4, 1.0, 1.0, sampling="cyclic", cycle_length=2),
    None,
)
ROUNDS = {"file": "r.csv", "format": "csv", "first_round": 1, "columns": {"round": "round"}}
PARTS = {
    "file": "p.csv",
    "format": "csv",
    "first_round": 1,
    "columns": {"round": "round", "client": "client", "time": {"column": "at", "unit": "iso"}},
}
STATED = {
    "delta": 1e-5,
    "relation": "zero-out",
    "privacy_unit": "client",
    "population": 4,
    "rounds": 4,
    "sampling": "cyclic",
    "cycle_length": 2,
    "clip_norm": 1.0,
    "noise_multiplier": 1.0,
}


def enrollment(unit="iso", on="2026-01-01"):
    times = {name: {"column": name, "unit": unit} for name in ("joined", "left")}
    return {"file": "e.csv", "format": "csv", "counted_on": on, "columns": {"client": "client"} | times}


def read(folder, **sections):
    return read_logs(parse_mapping({"claim": STATED} | sections), folder, LogUnits(4, 1.0, None))


def write(folder, rows, parts="1,a,2026-01-01T10:00:00\n"):
    (folder / "r.csv").write_text("round\n1\n")
    (folder / "e.csv").write_text("client,joined,left\n" + rows)
    (folder / "p.csv").write_text("round,client,at\n" + parts)


def enrolled(*, counted_on, left=np.inf):
    joined = np.full(4, START - 9 * DAY)
    ends = np.array([left, np.inf, np.inf, np.inf])
    return Enrollment(list("abcd"), joined, ends, (joined <= counted_on) & (ends > counted_on), 0, counted_on)


@pytest.mark.parametrize(
    ("counted_on", "left", "code"),
    [
        (START, np.inf, "population/passed"),
        (START + 2 * DAY, np.inf, "population/passed"),
        (START + 3 * DAY, np.inf, "population/counted-later"),
        (START - DAY, START - DAY / 2, "population/counted-earlier"),
        (START - DAY, START + 3 * DAY / 2, "population/passed"),
        (START - DAY, START - 2 * DAY, "population/overstated"),
    ],
)
def test_n_is_counted_while_the_run_went_on(counted_on, left, code):
    ended = START + DAY * np.array([0.5, 1, 1.5, 2])
    logs = LogData(Rounds(np.arange(1, 5), ended=ended), enrolled=enrolled(counted_on=counted_on, left=left))
    assert check_population(Evidence(CLAIM, logs=logs)).code == code


@pytest.mark.parametrize(("ahead", "code"), [(-DAY, "population/passed"), (DAY, "population/counted-later")])
def test_n_is_not_counted_on_a_day_to_come(ahead, code):
    assert (
        check_population(Evidence(CLAIM, logs=LogData(enrolled=enrolled(counted_on=time.time() + ahead)))).code == code
    )


@pytest.mark.parametrize(
    ("unit", "joined"),
    [("ms", "1767225600"), ("s", "1767225600000"), ("s", "0"), ("iso", "1970-01-21"), ("iso", "2999-01-01")],
)
def test_a_time_in_another_unit_is_refused(tmp_path, unit, joined):
    write(tmp_path, f"a,{joined},\n")
    with pytest.raises(CheckError, match=r"enrollment\.joined.*2000 to 2099"):
        read(tmp_path, rounds=ROUNDS, enrollment=enrollment(unit))


@pytest.mark.parametrize("on", ["2999-01-01", "1970-01-01"])
def test_a_date_in_another_century_is_refused(tmp_path, on):
    write(tmp_path, "a,2025-01-01,\n")
    with pytest.raises(CheckError, match=r"enrollment\.counted_on.*2000 to 2099"):
        read(tmp_path, rounds=ROUNDS, enrollment=enrollment(on=on))


def test_who_left_before_or_joined_after_does_not_count(tmp_path):
    write(tmp_path, "a,2025-01-01,\nb,2025-01-01,2025-12-01\nc,2026-01-02,\nd,2026-01-01,\ne,2025-01-01,2026-01-01\n")
    counted = read(tmp_path, rounds=ROUNDS, enrollment=enrollment()).enrolled.counted.tolist()
    assert counted == [True, False, False, True, False], "on the day itself, who joins is there and who leaves is gone"


@pytest.mark.parametrize(
    ("at", "withdrawn"),
    [("2025-12-31T10:00:00", 1), ("2026-01-01T10:00:00", 0), ("2026-01-03T10:00:00", 1)],
    ids=["before", "during", "after"],
)
def test_nobody_takes_part_before_joining_or_after_leaving(tmp_path, at, withdrawn):
    write(tmp_path, "a,2026-01-01,2026-01-02\n", f"1,a,{at}\n")
    assert read(tmp_path, participation=PARTS, enrollment=enrollment()).lists.withdrawn == withdrawn


LINES = {
    "twice": '{"round": 1, "n": 2, "round": 2}',
    "with an escape": '{"round": 1, "\\u0072ound": 2}',
    "without blanks": '{"round":1,"round":1}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("before", [0, 3])
def test_a_name_twice_in_a_line_is_refused(tmp_path, line, before):
    (tmp_path / "r.jsonl").write_text('{"round": 1}\n' * before + line + "\n")
    log = ROUNDS | {"file": "r.jsonl", "format": "jsonl"}
    with pytest.raises(CheckError, match=f"rounds.file must be each name once.*'round' twice in line {before + 1}"):
        read(tmp_path, rounds=log)


def test_a_name_twice_under_another_is_refused(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"round": 7, "of": {"round": 1}}\n{"of": {"round": 2, "round": 3}}\n')
    log = ROUNDS | {"file": "r.jsonl", "format": "jsonl", "at": "of"}
    with pytest.raises(CheckError, match="'round' twice in line 2"):
        read(tmp_path, rounds=log)


def test_a_value_that_is_a_name_too_is_read(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"what": "round", "round": 1}\n')
    found = read(tmp_path, rounds=ROUNDS | {"file": "r.jsonl", "format": "jsonl"})
    assert found.rounds.number.tolist() == [1]


@pytest.mark.parametrize("header", ["score,included,score", "score,included,included", "included,x,score,x"])
def test_scores_have_each_column_once(tmp_path, header):
    (tmp_path / "scores.csv").write_text(f"{header}\n1,1,1,1\n")
    with pytest.raises(RecordError, match="columns must be each there once"):
        read_scores(tmp_path / "scores.csv")


def test_without_a_sampler_everybody_is_in_every_round():
    guarantee = CLAIM.guarantee
    for release in (CLAIM.scheme.unamplified_release(), CLAIM.scheme.full_participation_release()):
        assert (
            bound_every_round(CLAIM).upper
            >= compute_certified_interval(release, guarantee.delta, guarantee.relation).upper
        )
    in_turn = compute_certified_interval(CLAIM.scheme.unamplified_release(), guarantee.delta, guarantee.relation).upper
    assert bound_every_round(CLAIM).upper > in_turn
