"""The code that the DP-SGD page hands over runs as it stands, in each library, and its comment is what it costs."""

import contextlib
import io
import json
import re
import shlex
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

from epsilog.accounting import epsilon
from epsilog.cli.app import load
from epsilog.mechanisms import Gaussian, PoissonSampled, Repeated
from epsilog.plan import plan_dp_sgd
from epsilog.server import dp_sgd_snippets, worker
from epsilog.terms import NeighboringRelation, codec

RUN = {"examples": 100, "batch_size": 16, "delta": 1e-3, "epochs": 2.0, "noise_multiplier": 1.5}
CASES = {
    "poisson": RUN,
    "steps": RUN | {"epochs": None, "steps": 9, "clip_norm": 0.5},
    "part of an epoch": RUN | {"epochs": 0.5},
    "target": RUN | {"noise_multiplier": None, "epsilon": 3.0},
    "shuffled": RUN | {"sampler": "shuffled"},
    "truncated": RUN | {"sampler": "truncated-poisson", "max_batch_size": 20, "relation": "zero-out"},
}


def asked(path, ask):
    status, _, body = worker.answer_request(path, ask)
    assert status == 200, body
    return json.loads(body)


def codes(name):
    return {one["name"]: one["code"] for one in asked("/dp-sgd/elsewhere", CASES[name])["foreign"]}


def told(code):
    """The epsilon in the comment."""
    return float(re.search(r"# epsilon <= (\S+) at delta 0.001", code)[1])


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("name", CASES)
def test_python_command_run_config_and_charge_give_the_pages_number(name, tmp_path):
    ask = CASES[name]
    answer, found = asked("/dp-sgd", ask), asked("/dp-sgd/elsewhere", ask)
    shown = answer["epsilon"]["upper"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["python"], {})  # noqa: S102 - what is copied from the page is run as it stands
    assert [float(line) for line in printed.getvalue().split()] == [shown, answer["noise_multiplier"]]
    words = shlex.split(found["command"])
    done = CliRunner().invoke(load(), [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epsilon"]["upper"] == shown
    assert (
        (found["run_config"] is None) == (name != "target") == (found["no_run_config"] is not None)
    )  # a cap is stated
    if found["run_config"] is not None:
        file = tmp_path / "calculated.toml"
        file.write_text(found["run_config"], encoding="utf-8")
        done = CliRunner().invoke(load(), ["run", "--check", str(file), "--json"])
        assert done.exit_code == 0, done.output
        (checked,) = json.loads(done.stdout)
        assert shown <= checked["plan"]["epsilon"]["upper"] < shown * (1 + 1e-6)  # with outcomes of checks
    term = json.loads(parse_qs(urlsplit(found["charge"]).query)["release"][0])
    relation = NeighboringRelation(answer["relation"])
    assert epsilon(codec.from_json(term), delta=1e-3, relation=relation).upper == pytest.approx(shown, rel=2e-3)


def test_a_library_that_cannot_do_this_says_so():
    assert codes("shuffled")["JAX Privacy"] is None
    assert codes("truncated")["Opacus"] is codes("truncated")["Flower"] is None
    assert all(code is not None for code in codes("poisson").values())


def test_the_comment_is_the_cost_of_what_opacus_does():
    """100 examples in batches of 16 are 7 batches: it samples at 1/7 and takes 7 steps an epoch."""
    for name, steps in (("poisson", 14), ("steps", 9), ("part of an epoch", 4)):
        does = epsilon(Repeated(PoissonSampled(Gaussian(1.5), 1 / 7), steps), delta=1e-3)
        assert does.lower <= told(codes(name)["Opacus"]) <= does.upper * 1.01
        whole = epsilon(Repeated(PoissonSampled(Gaussian(1.5), 1 / 7), 7 * -(-steps // 7)), delta=1e-3)
        assert whole.lower <= told(codes(name)["Flower"]) <= whole.upper * 1.01
    shuffled = epsilon(Repeated(Gaussian(1.5), 2), delta=1e-3, relation=NeighboringRelation.ZERO_OUT)
    assert shuffled.upper <= told(codes("shuffled")["Opacus"]) <= shuffled.upper * 1.01
    assert told(codes("truncated")["JAX Privacy"]) >= asked("/dp-sgd", CASES["truncated"])["epsilon"]["upper"]


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
    assert scope["selection"].iterations == asked("/dp-sgd", CASES[name])["steps"]
    most = scope["selection"].truncated_batch_size or 100
    assert all(len(batch) <= most for batch in scope["selection"].batch_iterator(100))


def test_a_run_without_a_proof_has_no_number_in_its_comment(monkeypatch):
    from epsilog.terms import UnsupportedMechanismError

    def refuse(*_, **__):
        raise UnsupportedMechanismError(Gaussian(1.0), method="test")

    plan = plan_dp_sgd(**RUN)
    monkeypatch.setattr(dp_sgd_snippets, "bound_schedule_epsilon", refuse)
    code, _ = dp_sgd_snippets.write_opacus(plan)
    assert code.endswith("# no bound is proven\n")
