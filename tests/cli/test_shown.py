"""What commands show as text, in this process: every line that a reader relies on is there, with the right side."""

import importlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epsilog.accounting import epsilon
from epsilog.cli import programme, show
from epsilog.cli.app import NOT_VERIFIED, app
from epsilog.plan import federated, queries
from epsilog.spend import selftest
from epsilog.terms import DeltaPolicy, Gaussian, Interval, NeighboringRelation, PoissonSampled, Repeated, codec
from epsilog.terms.digits import lower_text, upper_text

importlib.import_module("epsilog.cli.main")  # puts the commands in their places
ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def shown(*args):
    done = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


def test_an_interval_shows_both_sides_each_rounded_its_own_way():
    found = Interval(1.23456789, 2.3456789, "m", ADD)
    assert show.interval_text(found) == "at most 2.34568 (at least 1.23456)"
    assert show.interval_text(Interval(1.23456789, 1.23456789, "m", ADD)) == "1.23457"


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console, "_width", 200)


def test_an_account_shows_bounds_method_relation_and_assumptions(capsys):
    code, _ = shown("account", "--noise-multiplier", 1.1, "-q", 0.01, "--rounds", 100, "--delta", 1e-5)
    text = capsys.readouterr().out + _
    found = epsilon(Repeated(PoissonSampled(Gaussian(1.1), 0.01), 100), delta=1e-5)
    assert code == 0, text
    for part in ("Certified interval", upper_text(found.upper, 6), lower_text(found.lower, 6), found.method[:30]):
        assert part in text
    assert "add-or-remove-one" in text
    assert text.count("Assumes:") == len(found.assumptions) > 0


@pytest.mark.parametrize(("lost", "accepted", "code"), [(0, 5, 0), (1, 5, NOT_VERIFIED), (0, 6, NOT_VERIFIED)])
def test_a_selftest_that_finds_something_does_not_end_well(monkeypatch, lost, accepted, code):
    killed = selftest.KillReport(kills=3, acknowledged=9, lost=lost, unacknowledged=0, doubled=0, entries=20)
    raced = selftest.RaceReport(attempts=10, cap=5, accepted=accepted, refused=10 - accepted, entries=9)
    monkeypatch.setattr(selftest, "kill_campaign", lambda *_, **__: killed)
    monkeypatch.setattr(selftest, "race_campaign", lambda *_, **__: raced)
    assert shown("selftest")[0] == code
    assert shown("selftest", "--json")[0] == code


def test_a_runs_summary_tells_every_finding_that_is_not_well(capsys):
    bound = codec.encode(Interval(1.0, 2.0, "m", ADD))
    report = {
        "identity": {"name": "scores"},
        "simulation": True,
        "claim": {"statement": "a statement", "epsilon": bound, "unamplified": {"upper": 7.0}},
        "budget": {"epsilon": "4", "delta": "1e-5", "scope": "acme"},
        "result": {"score_name": "accuracy", "test_score": 0.75},
        "utility": {"without_dp": [{"test_score": 0.5}, {"test_score": 0.8125}], "study": []},
        "accounting": {"formula": {"total": 1.5, "verdict": "the formula is below"}},
        "verification": {
            "verdict": "failed",
            "findings": [
                {"check": "noise", "verdict": "failed", "says": "it is weak"},
                {"check": "rounds", "verdict": "passed", "says": "all are here"},
                {"check": "delta", "verdict": "warned", "says": "it is large"},
                {"check": "norms", "verdict": "failed", "says": "they are long"},
            ],
        },
    }
    programme._summary(report, Path("runs"))
    text = capsys.readouterr().out
    for part in ("scores (simulation)", "a statement", "at most 2 (at least 1)", "epsilon 4, delta 1e-5 in acme"):
        assert part in text
    for part in ("noise: it is weak", "delta: it is large", "norms: they are long", "the formula is below", "0.8125"):
        assert part in text
    assert "all are here" not in text


def test_json_of_an_account_is_the_release_the_interval_and_the_estimate():
    code, text = shown("account", "--noise-multiplier", 1.1, "-q", 0.01, "--rounds", 100, "--delta", 1e-5, "--json")
    release, document = Repeated(PoissonSampled(Gaussian(1.1), 0.01), 100), json.loads(text)
    assert code == 0
    assert codec.from_json(document["release"]) == release
    assert codec.decode(document["interval"]) == epsilon(release, delta=1e-5)
    assert document["formula"]["side"] == "estimate"
    assert document["formula"]["total"] > 0


def test_every_option_of_queries_reaches_its_argument():
    options = {
        "-e": 2.0,
        "-Q": 3,
        "--weights": "1,2,4",
        "--population": 5000,
        "--queries-used": 2,
        "--sensitivity": 3.0,
    }
    given = [part for pair in options.items() for part in pair]
    code, text = shown("plan", "queries", *given, "--mechanism", "gaussian", "--delta-cap", 0, "--json")
    assert code == 0, text
    found = queries(
        epsilon=2.0,
        queries=3,
        weights=[1.0, 2.0, 4.0],
        population=5000,
        queries_used=2,
        sensitivity=3.0,
        mechanism="gaussian",
        policy=DeltaPolicy(None),
    )
    assert json.loads(text) == json.loads(json.dumps(found.to_json()))


@pytest.mark.parametrize(("cap", "policy"), [(1e-7, DeltaPolicy(1e-7)), (0, DeltaPolicy(None))])
def test_every_option_of_a_federated_plan_reaches_its_argument(cap, policy):
    options = {
        "-N": 50_000,
        "-m": 500,
        "-T": 20,
        "-z": 1.2,
        "--releases-per-period": 2,
        "--privacy-unit": "phone",
        "--delta-cap": cap,
    }
    given = [part for pair in options.items() for part in pair]
    code, text = shown("plan", "federated", *given, "--json")
    assert code == 0, text
    found = federated(
        population=50_000,
        cohort_size=500,
        rounds=20,
        noise_multiplier=1.2,
        policy=policy,
        releases_per_period=2,
        privacy_unit="phone",
    )
    assert json.loads(text) == json.loads(json.dumps(found.to_json()))
