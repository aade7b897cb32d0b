"""Back-propagation by hand against finite differences; norms without gradients against gradients."""

import numpy as np
import pytest

from epsilog.train import models
from epsilog.train.engines import reference
from epsilog.train.models import Dense

MODELS = [
    Dense((3, 1), "half-squared-error"),
    Dense((3, 5, 1), "half-squared-error"),
    Dense((3, 5, 4, 3), "cross-entropy"),
]


def case(model, examples=7):
    draws = np.random.default_rng(9)
    vector = draws.standard_normal(model.size)
    features = draws.standard_normal((examples, 3))
    classes = model.loss == "cross-entropy"
    return vector, features, draws.integers(0, 3, examples) if classes else draws.standard_normal(examples)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_gradients_are_the_slopes_of_the_loss(model):
    vector, features, targets = case(model)
    weights = np.linspace(0.0, 2.0, targets.size)
    parts = models.errors(model, models.unflatten(model, vector), features, targets, xp=np)
    ours = models.flatten(models.gradient(*parts, weights), xp=np)

    def loss(point):
        return float(weights @ models.losses(model, models.unflatten(model, point), features, targets, xp=np))

    assert ours == pytest.approx(reference._differences(loss, vector), abs=1e-8)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_norms_are_those_of_each_examples_gradient(model):
    vector, features, targets = case(model)
    inputs, slopes = models.errors(model, models.unflatten(model, vector), features, targets, xp=np)
    each = [models.flatten(models.gradient(inputs, slopes, row), xp=np) for row in np.eye(targets.size)]
    assert models.gradient_norms(inputs, slopes, xp=np) == pytest.approx(np.linalg.norm(each, axis=1))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_flattening_undoes_unflattening(model):
    vector = np.arange(model.size, dtype=float)
    assert np.array_equal(models.flatten(models.unflatten(model, vector), xp=np), vector)
    assert models.initial(model).shape == (model.size,)


def test_scores_are_r_squared_and_accuracy():
    linear = Dense((1, 1), "half-squared-error")
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 2.0, 4.0])
    assert models.score(linear, models.unflatten(linear, np.array([2.0, 0.0])), x, y, xp=np) == 1.0
    assert models.score(linear, models.unflatten(linear, np.array([0.0, 2.0])), x, y, xp=np) == 0.0
    classes = Dense((1, 2), "cross-entropy")
    layers = models.unflatten(classes, np.array([0.0, 1.0, 0.5, 0.0]))
    assert models.score(classes, layers, x, np.array([0, 1, 0]), xp=np) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Dense((3,), "half-squared-error"), "widths must name inputs and outputs"),
        (lambda: Dense((3, 2), "half-squared-error"), "widths must end in 1"),
        (lambda: Dense((3, 0, 1), "half-squared-error"), r"widths\[1\] must be at least 1, got 0"),
        (lambda: Dense((3, 1), "hinge"), "loss must be one of"),
    ],
)
def test_bad_descriptions_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
