"""Models: gradients against finite differences, norms without gradients against gradients, bad ones refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epsilog.training import models
from epsilog.training.engines import reference
from epsilog.training.engines.program import use_full_precision
from epsilog.training.models import Model, base, gradients

MODELS = {
    "linear": models.build_model("linear", inputs=3, classes=None),
    "one hidden layer": models.build_model("mlp", inputs=3, classes=None, hidden=[5]),
    "two, and classes": models.build_model("mlp", inputs=3, classes=3, hidden=[5, 4]),
}
KINDS = pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, id=name, marks=[pytest.mark.slow] if name == "one hidden layer" else [])
        for name, model in MODELS.items()
    ],
)


def case(model, examples=7):
    draws = np.random.default_rng(9)
    vector = draws.standard_normal(model.size)
    features = draws.standard_normal((examples, 3))
    return vector, features, draws.integers(0, 3, examples) if model.classes else draws.standard_normal(examples)


@pytest.fixture(autouse=True)
def _doubles():
    with use_full_precision():
        yield


@KINDS
def test_gradients_are_the_slopes_of_the_loss(model):
    vector, features, targets = case(model)
    weights = np.linspace(0.0, 2.0, targets.size)

    @jax.jit
    @jax.vmap
    def loss(point):
        return weights @ model.losses(model.apply(model.unflatten(point), features), targets)

    @jax.jit
    def ours(vector):
        return model.flatten(
            gradients.compute_batch_gradient(model, model.unflatten(vector), features, targets, weights)
        )

    expected = reference._differences(lambda points: np.asarray(loss(points)), vector)
    assert ours(vector) == pytest.approx(expected, abs=1e-8)


@pytest.mark.slow_beyond(1)
@KINDS
def test_norms_are_those_of_each_examples_gradient(model):
    vector, features, targets = case(model)
    weights = np.linspace(0.0, 2.0, targets.size)

    @jax.jit
    def found(vector):
        params = model.unflatten(vector)
        ghost = gradients.compute_example_gradients(model, params, features, targets, np.ones(len(features), bool))
        one = jax.vmap(
            lambda row: model.flatten(gradients.compute_batch_gradient(model, params, features, targets, row))
        )
        return ghost.norms, model.flatten(ghost.sum_weighted(weights)), one(jnp.eye(targets.size))

    norms, summed, each = found(vector)
    assert norms == pytest.approx(np.linalg.norm(each, axis=1))
    assert summed == pytest.approx(weights @ np.asarray(each))


@KINDS
def test_flattening_undoes_unflattening(model):
    vector = np.arange(model.size, dtype=float)
    assert np.array_equal(model.flatten(model.unflatten(vector)), vector)
    assert model.start.shape == (model.size,)


def test_scores_are_r_squared_and_accuracy():
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 2.0, 4.0])
    assert base.r_squared(2 * x, y) == 1.0
    assert base.r_squared(0 * x + 2, y) == 0.0
    assert base.accuracy(np.array([[0, 1], [1, 0], [2, 0]]), np.array([1, 0, 1])) == pytest.approx(2 / 3)


def own(**changes):
    return Model(
        **{"init": lambda: {"w": jnp.ones(3)}, "apply": lambda p, x: x @ p["w"], "loss": "half-squared-error"} | changes
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: models.build_model("forest", inputs=3, classes=None), "kind must be one of linear, mlp"),
        (
            lambda: models.build_model("mlp", inputs=3, classes=None, hidden=[3, 0]),
            r"hidden\[1\] must be at least 1, got 0",
        ),
        (lambda: models.build_model("mlp", inputs=0, classes=None), "inputs must be at least 1, got 0"),
        (lambda: models.build_model("mlp", inputs=3, classes=1), "classes must be at least 2, got 1"),
        (
            lambda: models.build_model("linear", inputs=3, classes=None, depth=3),
            r"depth must be an option of linear \(it has",
        ),
        (
            lambda: models.build_model("mlp", inputs=3, classes=None, depth=3),
            r"depth must be an option of mlp \(hidden\)",
        ),
        (lambda: own(loss="hinge"), "loss must be one of"),
        (lambda: own(classes=3), "classes must be absent for half-squared-error, got 3"),
        (lambda: own(loss="cross-entropy"), "classes must be given for cross-entropy, got None"),
        (lambda: own(init=dict), "init must make at least one parameter"),
        (
            lambda: own(init=lambda: {"w": jnp.ones(3), "step": jnp.zeros(1, int)}),
            "init must make arrays of real numbers",
        ),
        (lambda: own(init=lambda: {"w": jnp.log(jnp.arange(3.0) - 1)}), "init must make finite numbers"),
    ],
)
def test_bad_descriptions_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_an_init_that_takes_a_key_gets_a_public_one():
    one, two = (own(init=lambda key: {"w": jax.random.normal(key, 3)}) for _ in range(2))
    assert np.array_equal(one.start, two.start)
    assert one.start.any()


def test_a_kind_is_built_once():
    assert models.build_model("mlp", inputs=3, classes=None, hidden=[5]) is MODELS["one hidden layer"]
