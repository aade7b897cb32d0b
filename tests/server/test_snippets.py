"""What the calculators hand over runs elsewhere as it stands, and gives the page's number."""

import contextlib
import io
import json
import shlex
import tomllib
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from epsilog import plan
from epsilog.accounting import epsilon
from epsilog.cli.app import load
from epsilog.pipeline import check_config, export_config
from epsilog.server import worker
from epsilog.terms import ConfigError, NeighboringRelation, codec
from epsilog.terms.formatting import format_upper
from epsilog.terms.messages import sentence

app = load()

RUN = {"population": 1000, "cohort_size": 100, "rounds": 20, "noise_multiplier": 1.5}
ONE_MODEL = {"rounds_per_release": 20}  # what a run config publishes
FEDERATED = {
    "poisson": RUN | ONE_MODEL | {"cap": 9.0},
    "zero-out": RUN
    | ONE_MODEL
    | {"cap": 9.0, "relation": "zero-out", "delta": 1e-5, "delta_cap": None, "privacy_unit": "Dr. O'Neill's \"ward\""},
    "fixed-size": RUN
    | {"sampling": "fixed-size", "relation": "replace-one", "rounds": 3, "rounds_per_release": 3, "cap": 50.0},
    "balls-in-bins": RUN | {"sampling": "balls-in-bins", "rounds": 10, "rounds_per_release": 10, "cap": 50.0},
    "group": RUN | ONE_MODEL | {"cap": 50.0, "group_size": 3, "releases_per_period": 2, "clip_norm": 0.25},
}
QUERIES = {
    "gaussian": {"epsilon": 1.0, "queries": 100, "mechanism": "gaussian", "delta": 1e-6},
    "pure": {"epsilon": 0.5, "queries": 7, "sensitivity": 3.0, "queries_used": 2},
    "weighted": {"epsilon": 1.0, "queries": 3, "weights": [1.0, 2.5, 1.0], "delta": 1e-6, "population": 5000},
}
FORMS = [("federated", name) for name in FEDERATED] + [("queries", name) for name in QUERIES]


def ask_of(page, name):
    return (FEDERATED if page == "federated" else QUERIES)[name]


def asked(path, ask):
    status, _, body = worker.answer_request(path, ask)
    assert status == 200, body
    return json.loads(body)


def number(page, answer):
    return answer["epsilon"]["upper"] if page == "federated" else answer["shares"][0]["optimal"]["scale"]


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize(("page", "name"), FORMS)
def test_what_is_handed_over_gives_the_pages_number(page, name, tmp_path):
    ask = ask_of(page, name)
    shown = number(page, asked(f"/{page}", {key: value for key, value in ask.items() if key != "cap"}))
    found = asked(f"/{page}/elsewhere", ask)

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["python"], {})  # noqa: S102 - what is copied from the page is run as it stands
    first, second = printed.getvalue().splitlines()
    assert float(first) == shown
    if page == "queries":  # the others take long
        assert second == sentence(asked(f"/{page}/interpretation", ask)["odds"])

    words = shlex.split(found["command"])
    assert words[0] == "epsilog"
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert number(page, json.loads(done.stdout)) == shown

    if found["run_config"] is not None:
        file = tmp_path / "calculated.toml"
        file.write_text(found["run_config"], encoding="utf-8")
        done = CliRunner().invoke(app, ["run", "--check", str(file), "--json"])
        assert done.exit_code == 0, done.output
        (told,) = json.loads(done.stdout)
        assert shown <= told["plan"]["epsilon"]["upper"] < shown * (1 + 1e-9)  # with the published outcomes of checks
        assert not told["whole"]
    assert (found["run_config"] is None) == (page == "queries") == (found["no_run_config"] is not None)

    if found["playground"] is not None:
        query = {key: value[0] for key, value in parse_qs(urlsplit(found["playground"]).query).items()}
        keys = {"mechanism": (0, str), "parameter": (1, float), "sampling_probability": (3, float), "count": (4, int)}
        parts = [line.split(":") for line in query["mix"].split("|")]
        mix = {
            "parts": [{key: kind(each[i]) for key, (i, kind) in keys.items() if each[i]} for each in parts],
            "delta": float(query["delta"]),
            "relation": query["relation"],
        }
        claimed = shown if page == "federated" else ask["epsilon"]
        assert asked("/account", mix)["epsilon"]["upper"] == pytest.approx(claimed, rel=1e-3)

    charge = {key: value[0] for key, value in parse_qs(urlsplit(found["charge"]).query).items()}
    release = codec.from_json(json.loads(charge["release"]))
    relation = NeighboringRelation(ask.get("relation", "add-or-remove-one"))
    priced = epsilon(release, delta=float(charge.get("delta", 0)), relation=relation).upper
    assert priced == pytest.approx(shown if page == "federated" else ask["epsilon"], rel=1e-3)


@pytest.mark.parametrize("trials", ["fixed:4", "poisson:3"])
def test_the_python_code_of_tuning_runs(trials):
    ask = RUN | {"rounds": 2, "trials": trials}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(asked("/federated/elsewhere", ask)["python"], {})  # noqa: S102 - what is copied from the page is run as it stands
    assert float(printed.getvalue().splitlines()[0]) == asked("/federated", ask)["epsilon"]["upper"]


def test_what_is_exported_carries_the_cap_and_the_boundary_and_never_the_runs_own_figure():
    """Without a cap, the budget of a run config was the run's own epsilon."""
    stated = {"rounds_per_release": 4, "late_replies": "close-early", "adaptive_clip": True, "privacy_unit": "ward"}
    for cap in (None, 7.25):
        found = asked("/federated/elsewhere", RUN | ONE_MODEL | {"cap": cap})
        own = asked("/federated", RUN | ONE_MODEL)["epsilon"]["upper"]
        texts = [found["python"], found["command"], found["run_config"] or ""]
        for digits in range(3, 17):
            assert not [text for text in texts if f"{own:.{digits}g}" in text or format_upper(own, digits) in text]
        assert (found["run_config"] is None) == (cap is None)
        assert "cap" in found["no_run_config"] if cap is None else 'epsilon = "7.25"' in found["run_config"]
        assert ("cap=7.25" in found["python"]) == (cap is not None)
    python = asked("/federated/elsewhere", RUN | stated)["python"]
    assert all(f"{name} = {value!r}" in python or f"{name}={value!r}" in python for name, value in stated.items())


@pytest.mark.slow
def test_a_plan_that_no_run_config_can_state_says_why():
    kept = {"sampling": "balls-in-bins", "rounds": 25}  # a run config draws bins anew, and costs less
    for more in (
        kept,
        {"adaptive_clip": True},
        {"late_replies": "replace"},
        {"trials": "fixed:4"},
        {"noise_multiplier": 0.0},
    ):
        found = asked("/federated/elsewhere", RUN | more)
        assert found["run_config"] is None
        assert found["no_run_config"].endswith(".")


def test_a_run_config_that_is_checked_keeps_to_its_budget(tmp_path):
    file = tmp_path / "calculated.toml"
    text = export_config(plan.plan_federated(**RUN), cap=9.0)
    file.write_text(text)
    assert check_config(file).plan.budget["epsilon"] == "9.0"
    file.write_text(text.replace('epsilon = "9.0"', 'epsilon = "0.1"'))
    done = CliRunner().invoke(app, ["run", "--check", str(file)])
    assert done.exit_code != 0
    assert "above the budget of 0.1" in str(done.exception)
    file.write_text(text.replace("rounds = 20", "rounds = 0", 1))
    with pytest.raises(ConfigError, match="rounds"):
        check_config(file)


def test_a_file_keeps_to_the_cap_and_to_each_stated_fact(tmp_path):
    """A cap of 0.5 was raised to the price, and a model after each round became one after the last."""
    file = tmp_path / "calculated.toml"
    asks = {
        "rounds_per_release": RUN | {"cap": 9.0, "rounds_per_release": 4, "clip_norm": 0.25, "releases_per_period": 2},
        "above the budget of 0.5": RUN | ONE_MODEL | {"cap": 0.5, "delta": 1e-5, "delta_cap": None},
    }
    for wrong, ask in asks.items():
        found = asked("/federated/elsewhere", ask)
        assert found["no_run_config"].startswith("It is refused as it is: ")
        file.write_text(found["run_config"])
        stated = tomllib.loads(found["run_config"])
        assert float(stated["budget"]["epsilon"]) == ask["cap"]
        assert float(stated["budget"]["delta"]) == ask.get("delta", 1e-6)
        assert stated["coverage"]["rounds_per_release"] == ask["rounds_per_release"]
        assert stated["scheme"]["rounds"] == 20
        assert stated["scheme"]["noise_multiplier"] == 1.5
        assert stated["scheme"]["clip_norm"] == ask.get("clip_norm", 1.0)
        assert ("# This is one of 2 releases in a period" in found["run_config"]) == ("releases_per_period" in ask)
        done = CliRunner().invoke(app, ["run", "--check", str(file)])
        assert done.exit_code != 0
        assert wrong in str(done.exception)
