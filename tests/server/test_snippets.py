"""What the calculators hand over runs elsewhere as it stands, and gives the page's number."""

import contextlib
import io
import json
import re
import shlex
import tomllib
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

from epsilog.accounting import epsilon
from epsilog.cli.app import load
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.plan import plan_dp_sgd
from epsilog.server import snippets, worker
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, codec
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- a DP-SGD run, with the code for other libraries ------------------------------------------------------------------

DP_SGD = {"examples": 100, "batch_size": 16, "delta": 1e-3, "epochs": 2.0, "noise_multiplier": 1.5}
DP_SGD_CASES = {
    "poisson": DP_SGD,
    "steps": DP_SGD | {"epochs": None, "steps": 9, "clip_norm": 0.5},
    "part of an epoch": DP_SGD | {"epochs": 0.5},
    "target": DP_SGD | {"noise_multiplier": None, "epsilon": 3.0},
    "shuffled": DP_SGD | {"sampler": "shuffled"},
    "truncated": DP_SGD | {"sampler": "truncated-poisson", "max_batch_size": 20, "relation": "zero-out"},
}


def codes(name):
    return {one["name"]: one["code"] for one in asked("/dp-sgd/elsewhere", DP_SGD_CASES[name])["foreign"]}


def told(code):
    """The epsilon in the comment."""
    return float(re.search(r"# epsilon <= (\S+) at delta 0.001", code)[1])


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("name", DP_SGD_CASES)
def test_python_command_run_config_and_charge_give_the_pages_number(name, tmp_path):
    ask = DP_SGD_CASES[name]
    answer, found = asked("/dp-sgd", ask), asked("/dp-sgd/elsewhere", ask)
    shown = answer["epsilon"]["upper"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["python"], {})  # noqa: S102 - what is copied from the page is run as it stands
    assert [float(line) for line in printed.getvalue().split()] == [shown, answer["noise_multiplier"]]
    words = shlex.split(found["command"])
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epsilon"]["upper"] == shown
    assert (
        (found["run_config"] is None) == (name != "target") == (found["no_run_config"] is not None)
    )  # a cap is stated
    if found["run_config"] is not None:
        file = tmp_path / "calculated.toml"
        file.write_text(found["run_config"], encoding="utf-8")
        done = CliRunner().invoke(app, ["run", "--check", str(file), "--json"])
        assert done.exit_code == 0, done.output
        (checked,) = json.loads(done.stdout)
        assert shown <= checked["plan"]["epsilon"]["upper"] < shown * (1 + 1e-6)  # with outcomes of checks
    term = json.loads(parse_qs(urlsplit(found["charge"]).query)["release"][0])
    relation = NeighboringRelation(answer["relation"])
    assert epsilon(codec.from_json(term), delta=1e-3, relation=relation).upper == pytest.approx(shown, rel=2e-3)


@pytest.mark.slow
def test_a_library_that_cannot_do_this_says_so():
    assert codes("shuffled")["JAX Privacy"] is None
    assert codes("truncated")["Opacus"] is codes("truncated")["Flower"] is None
    assert all(code is not None for code in codes("poisson").values())


@pytest.mark.slow
def test_the_comment_is_the_cost_of_what_opacus_does():
    """100 examples in batches of 16 are 7 batches: it samples at 1/7 and takes 7 steps an epoch."""
    for name, steps in (("poisson", 14), ("steps", 9), ("part of an epoch", 4)):
        does = epsilon(Repeated(PoissonSampled(Gaussian(1.5), 1 / 7), steps), delta=1e-3)
        assert does.lower <= told(codes(name)["Opacus"]) <= does.upper * 1.01
        whole = epsilon(Repeated(PoissonSampled(Gaussian(1.5), 1 / 7), 7 * -(-steps // 7)), delta=1e-3)
        assert whole.lower <= told(codes(name)["Flower"]) <= whole.upper * 1.01
    shuffled = epsilon(Repeated(Gaussian(1.5), 2), delta=1e-3, relation=NeighboringRelation.ZERO_OUT)
    assert shuffled.upper <= told(codes("shuffled")["Opacus"]) <= shuffled.upper * 1.01
    assert told(codes("truncated")["JAX Privacy"]) >= asked("/dp-sgd", DP_SGD_CASES["truncated"])["epsilon"]["upper"]


@pytest.mark.slow
@pytest.mark.extended  # JAX compiles for ten seconds
@pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")  # jax_privacy's own call
@pytest.mark.parametrize("name", ["poisson", "truncated"])
def test_the_code_for_jax_privacy_runs(name):
    jnp = pytest.importorskip("jax.numpy")
    pytest.importorskip("jax_privacy")
    rng = np.random.default_rng(1)
    scope = {
        "data": rng.normal(size=(100, 3)),
        "params": {"w": jnp.zeros(3)},
        "loss": lambda params, rows: jnp.sum((rows @ params["w"] - 1) ** 2),
    }
    exec(codes(name)["JAX Privacy"], scope)  # noqa: S102
    assert np.isfinite(scope["params"]["w"]).all()
    assert np.abs(scope["params"]["w"]).max() > 0
    assert scope["selection"].iterations == asked("/dp-sgd", DP_SGD_CASES[name])["steps"]
    most = scope["selection"].truncated_batch_size or 100
    assert all(len(batch) <= most for batch in scope["selection"].batch_iterator(100))


def test_a_run_without_a_proof_has_no_number_in_its_comment(monkeypatch):
    def refuse(*_, **__):
        raise UnsupportedMechanismError(Gaussian(1.0), method="test")

    plan = plan_dp_sgd(**DP_SGD)
    monkeypatch.setattr(snippets, "bound_schedule_epsilon", refuse)
    code, _ = snippets.write_opacus(plan)
    assert code.endswith("# no bound is proven\n")
