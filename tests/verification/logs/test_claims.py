"""A plan is a claim only if it holds together, and its noise is what logs of sums can show."""

import json

import pytest

from epsilog.plan.registered_plan import build_registered_plan
from epsilog.reports import format_verified_claim
from epsilog.schemes import (
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ClientLevelDistributed,
)
from epsilog.terms import CheckError, NeighboringRelation, Status
from epsilog.verification.logs import verify_logs
from epsilog.verification.logs.mapping import parse_mapping
from epsilog.verification.logs.reading import read_claim

MAPPING = """
[claim]
plan = "plan.json"
[rounds]
file = "rounds.csv"
format = "csv"
first_round = 1
columns = { round = "round" }
"""


def planned(folder, build, relation, *, simulation=False, guarantee=None):
    plan = build_registered_plan(
        build,
        name="x",
        noise_multiplier=4.0,
        budget_epsilon=1e6,
        delta=1e-5,
        relation=NeighboringRelation(relation),
        privacy_unit="client",
        population=300,
        budget={"scope": "s", "epsilon": "1e6", "delta": "1e-5", "delta_rationale": "r"},
        simulation=simulation,
        details={},
    ).to_json()
    plan["guarantee"] |= guarantee or {}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "rounds.csv").write_text("round\n1\n2\n3\n4\n")
    (folder / "mapping.toml").write_text(MAPPING)
    return folder / "mapping.toml"


def in_turn(z):
    return ClientLevelCentral(300, None, 4, 1.0, z, sampling="cyclic", cycle_length=2)


@pytest.mark.parametrize(
    ("build", "relation"),
    [
        (lambda z: ClientLevelClientSide(300, 20, 4, 2, 1.0, z), "zero-out"),
        (lambda z: ClientLevelDistributed(300, 20, 10, 4, 2, 1.0, 0.01, 30, z), "zero-out"),
        (lambda z: ClientLevelCorrelatedNoise(300, 2, 4, 2, 1.0, z), "zero-out"),
        (lambda z: ClientLevelBufferedNoise(300, 2, 4, (0.9,), (0.3,), 1.0, z), "zero-out"),
    ],
    ids=["client-side", "distributed", "correlated", "buffered"],
)
def test_noise_that_is_not_drawn_for_one_sum_is_refused(tmp_path, build, relation):
    planned(tmp_path, build, relation)
    mapping = parse_mapping({"claim": {"plan": "plan.json"}, "rounds": _rounds()})
    with pytest.raises(CheckError, match="independent noise for each round's sum"):
        read_claim(mapping, tmp_path)


def _rounds():
    return {"file": "rounds.csv", "format": "csv", "first_round": 1, "columns": {"round": "round"}}


@pytest.mark.parametrize("wrong", [{"relation": "add-or-remove-one"}, {"population": 10**9}, {"epsilon": 99.0}])
def test_a_plan_that_contradicts_itself_claims_nothing(tmp_path, wrong):
    found = verify_logs(planned(tmp_path, in_turn, "zero-out", guarantee=wrong), required=())
    codes = {one.code: one.status for one in found.findings}
    assert codes["plan/inconsistent"] is Status.FAILED
    assert "no guarantee is supported" in format_verified_claim(found)


@pytest.mark.parametrize("simulation", [True, False])
def test_a_simulation_protects_nobody_in_logs_either(tmp_path, simulation):
    found = verify_logs(planned(tmp_path, in_turn, "zero-out", simulation=simulation), required=())
    assert {one.code for one in found.findings} >= {"plan/passed"}
    assert ("its noise protects nobody" in format_verified_claim(found)) == simulation
