"""Models of the user's own: a few lines of JAX, or a Python file that a run config names."""

import dataclasses
import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.training.test_engine import agree, noisy_runs, updates

from epsilog.terms import CheckError
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine
from epsilog.training.models import Model, parse_model_kind
from epsilog.training.models.probe import require_per_example


def stripes(draws, rows, side=6):
    """Images of horizontal or vertical stripes, flattened, and which of the two they are."""
    labels = draws.integers(0, 2, rows)
    waves = np.sin(np.arange(side) * np.pi + draws.uniform(0, 6, (rows, 1)))
    images = np.where(labels[:, None, None] == 1, waves[:, :, None], waves[:, None, :]) * np.ones((side, side))
    return (images + 0.1 * draws.standard_normal(images.shape)).reshape(rows, -1).astype(np.float32), labels


def own_cnn():
    """What the docs show: a convolution of the user's own."""

    def init(key):
        first, second = jax.random.split(key)
        return {"filters": jax.random.normal(first, (4, 1, 3, 3)) / 3, "out": jax.random.normal(second, (4, 2)) / 2}

    def apply(params, rows):
        images = rows.reshape(-1, 1, 6, 6)
        seen = jax.nn.relu(jax.lax.conv(images, params["filters"], (1, 1), "VALID"))
        return seen.mean(axis=(2, 3)) @ params["out"]

    return Model(init, apply, "cross-entropy", classes=2)


def image_task(model, *, unit_is_client=True, dtype=np.float32):
    draws = np.random.default_rng(2)
    (rows, labels), test = stripes(draws, 200), stripes(draws, 100)
    return Task(
        name="stripes",
        unit="client" if unit_is_client else "image",
        unit_is_client=unit_is_client,
        model=model,
        training=LocalTraining(0.5, local_steps=4, expected_examples=10),
        clients=Federation(rows.astype(dtype), labels, np.full(20, 10)),
        test_features=test[0].astype(dtype),
        test_targets=test[1],
        facts={},
    )


@pytest.mark.slow
def test_a_users_own_cnn_gives_both_engines_the_same_sums():
    whole, apart = (
        image_task(own_cnn(), dtype=np.float64),
        image_task(own_cnn(), unit_is_client=False, dtype=np.float64),
    )
    cohort = np.array([3, 7])
    agree(*(updates(engine(whole), cohort=cohort) for engine in (CompiledEngine, ReferenceEngine)), 1e-7)
    agree(*(noisy_runs(engine(apart), cohort=cohort) for engine in (CompiledEngine, ReferenceEngine)), 1e-6)


@pytest.mark.slow
def test_parameters_may_be_any_pytree():
    """A registered class with places that hold nothing, as libraries of modules make them."""

    @dataclasses.dataclass
    class Module:
        weights: jax.Array
        rest: None = None

    jax.tree_util.register_dataclass(Module, data_fields=["weights", "rest"], meta_fields=[])
    model = Model(lambda: [Module(jnp.arange(3.0))], lambda p, x: x @ p[0].weights, "half-squared-error")
    assert model.start.tolist() == [0, 1, 2]
    (again,) = model.unflatten(model.start + 1)
    assert again.weights.tolist() == [1, 2, 3]
    assert again.rest is None
    require_per_example(model, inputs=3)


def words(*, spoil=None):
    """Windows of three words, and the one that comes next: the first of them."""
    draws = np.random.default_rng(4)
    rows = draws.integers(0, 5, (60, 3)).astype(np.float32)
    labels = rows[:, 0].astype(int)
    if spoil is not None:
        rows[0, 0] = spoil
    model = Model(
        lambda: {"table": jnp.eye(5), "out": jnp.zeros((3, 5, 5))},
        lambda p, x: jnp.einsum("ntk,tkc->nc", p["table"][x.astype(int)], p["out"]),
        "cross-entropy",
        classes=5,
        ids=5,
    )
    sizes = np.full(6, 10)
    return Task(
        "words", "client", True, model, LocalTraining(1.0, 4), Federation(rows, labels, sizes), rows[1:], labels[1:], {}
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", [CompiledEngine, ReferenceEngine])
def test_a_row_with_an_id_that_there_is_not_cannot_be_used(engine):
    """Nothing is said of it: a refusal would tell."""
    for id_, unusable in ((None, 0), (5.0, 1), (-1.0, 1), (0.5, 1), (np.nan, 1), (1e30, 1)):
        assert engine(words(spoil=id_)).unusable(np.arange(6)) == unusable


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"batch_size": 2}, pytest.param({}, marks=pytest.mark.slow)])
def test_what_a_model_makes_of_blank_rows_reaches_nobody(small_task, settings):
    """A norm of a row is no number at zero: neither the fill of a tile nor a client without rows may show it."""

    def apply(params, x):
        return (x / jnp.sqrt((x**2).sum(axis=1, keepdims=True))) @ params["w"]

    model = Model(lambda: {"w": jnp.ones(3)}, apply, "half-squared-error")
    task = dataclasses.replace(small_task(**settings), model=model)
    for compute in (updates, noisy_runs):
        ours = compute(CompiledEngine(task))
        agree(ours, compute(ReferenceEngine(task)), 1e-7)
        assert ours.dropped == 0


def normalised(x, axis):
    return (x - x.mean(axis, keepdims=True)) / jnp.sqrt(x.var(axis, keepdims=True) + 1e-5)


def own(**changes):
    start = {"init": lambda: {"w": jnp.ones(3)}, "apply": lambda p, x: x @ p["w"], "loss": "half-squared-error"}
    return Model(**start | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"apply": lambda p, x: normalised(x, 0) @ p["w"]}, "apply must be a function of each row alone .*BatchNorm"),
        ({"apply": lambda p, x: x @ p["w"] / len(x)}, "apply must be a function of each row alone"),
        (
            {"init": lambda: {"w": jnp.zeros(3)}, "apply": lambda p, x: normalised(x, 0) @ p["w"]},
            "apply must be a function of each row alone",
        ),
        ({"apply": lambda p, x: x @ p["w"] + np.random.standard_normal()}, "apply must be the same function each time"),  # noqa: NPY002
        ({"apply": lambda p, x: (x @ p["w"]).sum()}, "apply must give an output for each row, got shape"),
        ({"apply": lambda p, x: (x @ p["w"], p)}, "apply must give an output for each row, got a tuple"),
        ({"apply": lambda p, x: x @ p["v"]}, "apply must take rows of 3 features, got KeyError: 'v'"),
        ({"loss": lambda o, t: ((o - t) ** 2).mean()}, r"loss must give one number for each example, got shape \(\)"),
        ({"loss": lambda o, t: (o - o.mean() - t) ** 2}, "loss must be a function of each row alone"),
        (
            {"init": lambda: {"w": jnp.zeros((3, 2))}, "loss": "cross-entropy", "classes": 4},
            r"apply must give 4 outputs for each row, got shape \(6, 2\)",
        ),
        ({"score": lambda o, t: o - t}, r"score must give one number for a test set, got shape \(6,\)"),
    ],
)
def test_a_model_that_cannot_be_trained_by_example_is_refused(changes, says):
    with pytest.raises(CheckError, match=says):
        require_per_example(own(**changes), inputs=3)


def test_a_task_tries_its_model_at_birth(small_task):
    with pytest.raises(CheckError, match="BatchNorm"):
        dataclasses.replace(small_task(), model=own(apply=lambda p, x: normalised(x, 0) @ p["w"]))


CODE = """
import jax.numpy as jnp
from epsilog.training.models import Model

def linear(*, inputs, classes, start=0.0):
    assert classes is None
    return Model(lambda: {"w": jnp.full(inputs, start)}, lambda p, x: x @ p["w"], "half-squared-error")

def counted(**_):
    return Model(lambda: jnp.zeros((3, 7)), lambda p, x: x @ p, "cross-entropy", classes=7)

def nothing(**_):
    return None
"""


def test_a_model_from_a_file_says_which_code_it_is(tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    model = parse_model_kind("net:linear", folder=tmp_path, start=2.0).build(inputs=3, classes=None)
    assert model.start.tolist() == [2.0] * 3
    digest = hashlib.sha256(CODE.encode()).hexdigest()
    assert model.describe() == {
        "kind": "net:linear",
        "inputs": 3,
        "start": 2.0,
        "code_sha256": digest,
        "loss": "half-squared-error",
        "parameters": 3,
    }
    assert not model.shipped


def test_no_option_passes_for_a_fact_of_the_model(tmp_path):
    (tmp_path / "net.py").write_text(CODE.replace("start=0.0", "start=0.0, **_"))
    claims = {"kind": "linear", "loss": "none", "parameters": 1, "code_sha256": "0"}
    options = {name: claim for name, claim in claims.items() if name != "kind"}
    told = parse_model_kind("net:linear", tmp_path, **options).build(inputs=3, classes=None).describe()
    assert not claims.items() & told.items()
    assert own(facts=claims).describe()["kind"] == "own"


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("net:linear", {"depth": 2}, "kind must be code that makes a model .*got TypeError: .*depth"),
        ("net:linear", {"start": {"a": 1}}, "start must be text, finite numbers, or lists of them"),
        ("net:linear", {"start": float("nan")}, "start must be text, finite numbers, or lists of them"),
        ("net:counted", {}, "kind must be a factory of a model of None classes, as the data has, got 7"),
        ("net:nothing", {}, "kind must be a factory of an epsilog.training.models.Model, got one of a NoneType"),
        ("net:missing", {}, "kind must be a function of its module, got 'net:missing'"),
        ("net:jnp", {}, "kind must be a function of its module"),
        ("other:linear", {}, "kind must be a function in other.py, got 'other:linear': No such file"),
        ("../net:linear", {}, "kind must be module:factory"),
        ("wrong:linear", {}, "kind must be code that makes a model .*got SyntaxError"),
    ],
)
def test_a_file_that_makes_no_model_is_refused(tmp_path, kind, options, says):
    (tmp_path / "net.py").write_text(CODE)
    (tmp_path / "wrong.py").write_text("def linear(:")
    with pytest.raises(CheckError, match=says):
        parse_model_kind(kind, folder=tmp_path, **options).build(inputs=3, classes=None)


def test_a_file_cannot_import_what_lies_beside_it_and_is_not_hashed(tmp_path):
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "net.py").write_text("import helper\n" + CODE)
    with pytest.raises(CheckError, match="ModuleNotFoundError: No module named 'helper'"):
        parse_model_kind("net:linear", folder=tmp_path).build(inputs=3, classes=None)


def asked(value):
    """Calls back into Python, which may fail on what it is told; its slope is JAX's own."""
    out = jax.ShapeDtypeStruct(value.shape, value.dtype)
    return jax.pure_callback(lambda one: one, out, value, vmap_method="expand_dims")


@jax.custom_vjp
def backwards(value):
    return value


backwards.defvjp(lambda value: (value, None), lambda _, slope: (asked(slope),))


def told(value):
    jax.debug.callback(lambda _: None, value)
    return value


CALLS = {
    "of rows": lambda params, x: asked(x) @ params["w"],
    "inside a branch": lambda params, x: jax.lax.cond(x[0, 0] > 9, asked, lambda one: one, x) @ params["w"],
    "inside a loop": lambda params, x: jax.lax.fori_loop(0, 2, lambda _, one: jax.jit(asked)(one), x) @ params["w"],
    "of slopes alone": lambda params, x: backwards(x @ params["w"]),
    "for its effect": lambda params, x: told(x) @ params["w"],
}


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("apply", CALLS.values(), ids=CALLS)
def test_a_model_that_calls_python_back_is_refused_since_a_row_could_make_that_fail(apply):
    with pytest.raises(
        CheckError, match=r"apply must be made of JAX operations without callbacks, .*, got \w+_callback"
    ):
        require_per_example(own(apply=apply), inputs=3)
