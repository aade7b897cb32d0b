"""Honest logs pass; each kind of dishonest log is caught, and what it leaves of the claim is said."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.verification.logs.damaged import (
    ONLY_CLIENTS,
    ONLY_ROUNDS,
    ONLY_SIZES,
    in_every_round,
)
from tests.verification.logs.simulated import MAPPING, C, N, Q, T, Z, honest, save

from epsilog.reports import format_verified_claim
from epsilog.terms import LOG_EVIDENCE_KINDS, RecordError, Status
from epsilog.verification import bound_every_round
from epsilog.verification.logs import verify_logs


def found(folder, run, **changes):
    """What the checks that did not pass say, by check."""
    outcome = verify_logs(save(run, folder, **changes))
    return outcome, {one.code for one in outcome.findings if one.status is not Status.PASSED}


def test_honest_logs_pass(tmp_path):
    outcome, wrong = found(tmp_path, honest())
    assert (outcome.status, wrong) == (Status.PASSED, set())
    said = format_verified_claim(outcome)
    assert said.startswith("The logs are attested by their author")
    assert f"({N}" not in said
    assert "(N = 400)" in said
    assert all("guarantee" in one.message for one in outcome.what_ifs if one.private)


@pytest.mark.slow
def test_a_rejected_sampler_leaves_the_unamplified_claim(tmp_path):
    outcome, _ = found(tmp_path, in_every_round(honest()))
    said = format_verified_claim(outcome)
    assert "only the unamplified claim remains" in said
    assert bound_every_round(outcome.evidence.claim).upper > 40
    assert "(47.6, 1e-5)" in said


@pytest.mark.slow
def test_anything_else_that_fails_leaves_none(tmp_path):
    outcome, _ = found(tmp_path, honest(stddev=0.8 * C * Z))
    assert "Checks failed (noise), so no guarantee is supported." in format_verified_claim(outcome)


@pytest.mark.slow
def test_what_was_not_logged_is_not_checked(tmp_path):
    unseen = {
        ONLY_ROUNDS: {"attempts", "clipping", "norms", "divisor", "noise", "custody", "participation", "population"},
        ONLY_SIZES: {"attempts", "clipping", "norms", "divisor", "noise", "custody", "population"},
        ONLY_CLIENTS: {"attempts", "clipping", "norms", "divisor", "noise", "population"},
    }
    for mapping, checks in unseen.items():
        outcome, wrong = found(tmp_path, honest(), mapping=mapping)
        assert wrong == {f"{check}/not-checked" for check in checks}
        assert outcome.status is Status.NOT_CHECKED
        amplified = "Nothing shows who took part" not in format_verified_claim(outcome)
        assert amplified == (mapping is ONLY_CLIENTS)


@pytest.mark.slow
def test_sizes_alone_are_tested_too(tmp_path):
    run = honest()
    run.took_part = [ids[::2] for ids in run.took_part]
    run.norms = [norms[::2] for norms in run.norms]
    assert "participation/sampler-mismatch" in found(tmp_path, run, mapping=ONLY_SIZES)[1]
    everywhere = found(tmp_path, in_every_round(honest()), mapping=ONLY_SIZES)[1]
    assert "participation/sampler-mismatch" not in everywhere  # as its finding says
    assert "custody/not-checked" in everywhere


@pytest.mark.slow
def test_a_plan_of_ours_is_a_claim_too(tmp_path):
    from tests.reports.drawn import make_plan, train

    folder = tmp_path / "run"
    train(folder, tmp_path / "ledger.db", make_plan())
    path = folder / "mapping.toml"
    path.write_text("""
[claim]
plan = "plan.json"
[rounds]
file = "rounds.jsonl"
format = "jsonl"
at = "term"
first_round = 1
[rounds.columns]
round = "round"
clip_norm = "clip_norm"
noise = { column = "noise_stddev", unit = "absolute", on = "sum" }
padding = { column = "padding", unit = "absolute", on = "sum" }
""")
    outcome = verify_logs(path, required=["settings", "padding"])
    assert outcome.status is Status.PASSED
    assert verify_logs(path).status is Status.NOT_CHECKED
    (folder / "plan.json").write_text("{}")
    with pytest.raises(RecordError, match=r"plan\.json is not a plan"):
        verify_logs(path)


def of_sampling(run, sampling, relation, **needs):
    run.claim = {name: value for name, value in run.claim.items() if name != "sampling_probability"}
    run.claim |= {"sampling": sampling, "relation": relation} | needs
    return run


def who(run, took_part):
    run.took_part = [np.flatnonzero(there) for there in took_part]
    run.norms = [np.full(ids.size, C / 2) for ids in run.took_part]
    return run


BINS = np.random.default_rng(5).integers(0, 20, (3, N))  # where each of the clients is, in each of three cycles
SAMPLINGS = {
    "fixed-size": ("replace-one", {"cohort_size": 20}, np.random.default_rng(4).random((T, N)).argsort(axis=1) < 20),
    "balls-in-bins": ("add-or-remove-one", {"cycle_length": 20}, [BINS[t // 20] == t % 20 for t in range(T)]),
    "cyclic": ("zero-out", {"cycle_length": 20}, [BINS[0] == t % 20 for t in range(T)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_each_sampling_is_told_from_the_others(tmp_path, sampling):
    relation, needs, there = SAMPLINGS[sampling]
    words = lambda rows: [row | {"client": f"device-{row['client']}"} for row in rows]  # noqa: E731
    named = {"clients": words, "mapping": MAPPING.partition("[enrollment]")[0]}
    for changes in ({}, named):
        run = of_sampling(who(honest(), there), sampling, relation, **needs)
        assert found(tmp_path, run, **changes)[1] <= {"population/not-checked"}
        for other, (_, _, elsewhere) in SAMPLINGS.items():
            if other != sampling:
                run = of_sampling(who(honest(), elsewhere), sampling, relation, **needs)
                assert any(code.startswith("participation/") for code in found(tmp_path, run, **changes)[1]), other


EXAMPLES = Path(__file__).parents[3] / "examples" / "logs"
ENDS = {
    "flower": (Status.PASSED, ("cohorts", "settings")),
    "opacus": (Status.PASSED, ("cohorts", "settings", "divisor")),
    "nvflare": (Status.PASSED, ("cohorts", "clients", "norms", "enrollment")),
    "jax-privacy": (Status.PASSED, ("cohorts", "settings", "divisor", "padding")),
    "generic": (Status.PASSED, LOG_EVIDENCE_KINDS),
}


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("name", ENDS)
def test_each_example_passes_on_what_it_logs(name):
    verdict, required = ENDS[name]
    path = EXAMPLES / name / "mapping.toml"
    assert verify_logs(path, required=required).status is verdict
    for more in set(LOG_EVIDENCE_KINDS) - set(required):
        assert verify_logs(path, required=[*required, more]).status is Status.NOT_CHECKED, more
    assert (
        "The claim assumes what these logs do not show" in format_verified_claim(verify_logs(path)) or name == "generic"
    )


STORED = Path(__file__).parent / "nvflare"  # what the engine for FLARE wrote, before it was removed
SET_AND_SEEN = ("settings", "padding")


@pytest.mark.parametrize(
    ("alter", "verdict"),
    [
        (lambda rows: rows, Status.PASSED),
        (lambda rows: rows[:5] + rows[6:], Status.FAILED),
        (lambda rows: [row.replace('"noise_stddev":0.8', '"noise_stddev":0.56') for row in rows], Status.FAILED),
        (lambda rows: [*rows[:-1], rows[0].replace('"round":1,', '"round":12,')], Status.FAILED),
    ],
    ids=["as they are", "a round less", "30% less noise", "noise used twice"],
)
def test_rounds_of_a_run_over_flare_are_read_by_a_mapping(tmp_path, alter, verdict):
    rows = (STORED / "rounds.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "rounds.jsonl").write_text("".join(alter(rows)), encoding="utf-8")
    mapping = shutil.copy(STORED / "mapping.toml", tmp_path)
    assert verify_logs(Path(mapping), required=SET_AND_SEEN).status is verdict


SAMPLERS = {
    "poisson": {"sampling_probability": Q},
    "fixed-size": {"sampling_probability": None, "cohort_size": 20, "relation": "replace-one"},
    "balls-in-bins": {"sampling_probability": None, "cycle_length": 20},
    "cyclic": {"sampling_probability": None, "cycle_length": 20, "relation": "zero-out"},
    "everybody": {"sampling": "poisson", "sampling_probability": 1.0},
}


@pytest.mark.parametrize("sampling", SAMPLERS)
@pytest.mark.parametrize("beyond", [1, 10**6])
def test_more_clients_than_there_are_fail(tmp_path, sampling, beyond):
    run = honest()
    run.claim |= {"sampling": sampling} | SAMPLERS[sampling]
    run.claim = {name: value for name, value in run.claim.items() if value is not None}
    usual = N if sampling == "everybody" else 20
    counted = lambda rows: [row | {"clients": N + beyond if row["round"] == 5 else usual} for row in rows]  # noqa: E731
    assert verify_logs(save(run, tmp_path, rounds=counted, mapping=ONLY_SIZES)).status == "failed"
