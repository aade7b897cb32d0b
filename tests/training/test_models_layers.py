"""Layers know the norm of each example's gradient: it is that of the gradient that is formed, and so is the sum."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epsilog.training.engines.program import use_full_precision
from epsilog.training.models import build_layered_model, gradients
from epsilog.training.models.layers import Conv, Dense, Embedding


@pytest.fixture(autouse=True)
def _doubles():
    with use_full_precision():
        yield


SHAPES = [
    (Dense(3, 2), (5, 3)),
    (Dense(2, 3), (4, 3, 2)),
    (Embedding(3, 2), (4, 5)),
    (Embedding(4, 3), (6,)),
    (Conv(2, 3, 2), (3, 4, 3, 2)),
]


def one_layer(layer, shape):
    """A model of one layer whose loss gives each of its outputs a slope of its own."""

    def forward(call, x):
        return call(0, x.reshape(len(x), *shape))

    def loss(outputs, targets):
        flat = outputs.reshape(len(outputs), -1)
        return (jnp.sin(flat * (1.0 + jnp.arange(flat.shape[1]))) * (targets[:, None] + flat)).sum(axis=1)

    return build_layered_model((layer,), forward, loss)


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(("layer", "shape"), SHAPES, ids=str)
def test_ghost_norms_and_sums_are_those_of_gradients_that_are_formed(layer, shape):
    model, random = one_layer(layer, shape[1:]), np.random.default_rng(sum(shape))
    rows = random.standard_normal((shape[0], math.prod(shape[1:])))
    if isinstance(layer, Embedding):
        rows = random.integers(0, layer.ids, rows.shape).astype(float)
    targets, factors = random.standard_normal(shape[0]), random.uniform(0, 2, shape[0])

    @jax.jit
    def found(vector):
        params = model.unflatten(vector)
        ways = (model, dataclasses.replace(model, forward=None))  # without it, whole gradients are formed
        found = [
            gradients.compute_example_gradients(way, params, rows, targets, np.ones(len(rows), bool)) for way in ways
        ]
        return [(each.norms, each.reached, model.flatten(each.sum_weighted(factors))) for each in found]

    ours, theirs = found(random.standard_normal(model.size))
    assert ours[1].all()
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(np.asarray(other), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_a_word_that_stands_twice_is_measured_as_one_number_of_the_gradient():
    """Opposite slopes at both places cancel in the gradient; equal ones double it, where their squares would not."""
    ids, layer = np.array([[1.0, 1.0], [1.0, 0.0]]), Embedding(3, 1)
    for slopes, expected in (([[1.0], [1.0]], [4, 2]), ([[1.0], [-1.0]], [0, 2])):
        squares, standing = layer.example_norms(jnp.asarray(ids), jnp.asarray([slopes, slopes]))
        assert squares.tolist() == expected
        assert (standing**2).sum(axis=(1, 2)).tolist() == expected


@pytest.mark.slow
def test_a_sum_over_positions_that_cancels_is_no_longer_than_its_norm():
    """Slopes of 1e12 cancel to 1: what is clipped to the bound must be what is summed."""
    x, slopes = np.ones((1, 2, 1)), np.array([[[1e12], [1.0 - 1e12]]])
    layer, params = Dense(1, 1), (np.zeros((1, 1)), np.zeros(1))
    assert layer.example_norms(jnp.asarray(x), jnp.asarray(slopes)) is None
    each = gradients.backpropagate_layer(layer, params, jnp.asarray(x), jnp.asarray(slopes))
    piece = gradients._wrap_gradients([part[None] for part in each])
    summed = np.concatenate([np.ravel(part) for part in piece.sum_weighted(1.0 / jnp.sqrt(piece.squares))])
    assert np.linalg.norm(summed) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_convolution_is_a_convolution():
    random = np.random.default_rng(3)
    layer, x = Conv(2, 3, 3), random.standard_normal((4, 6, 5, 2))
    weights, bias = layer.init(random)
    theirs = jax.lax.conv_general_dilated(
        x, weights.reshape(3, 3, 2, 3), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert layer.apply((weights, bias + 0.5), x) == pytest.approx(np.asarray(theirs) + 0.5)


def twice(call, x):
    return call(0, call(0, x))


def cut(call, x):
    return call(0, x.reshape(-1, 1)).reshape(len(x), -1).sum(axis=1)


def never(_, x):
    return x.sum(axis=1)


@pytest.mark.parametrize(
    ("width", "forward"),
    [(2, twice), pytest.param(1, cut, marks=pytest.mark.slow), pytest.param(2, never, marks=pytest.mark.slow)],
    ids=["twice", "cut", "never"],
)
def test_where_ghost_norms_would_be_wrong_gradients_are_formed(width, forward):
    """A layer that is called twice has two parts that add up; rows cut into several are no examples."""

    def loss(outputs, targets):
        return ((outputs.reshape(len(targets), -1) - targets[:, None]) ** 2).sum(axis=1)

    model, random = build_layered_model((Dense(width, width),), forward, loss), np.random.default_rng(1)
    vector, x, y = jnp.asarray(random.standard_normal(model.size)), random.standard_normal((5, 2)), np.ones(5)

    def one(vector, row, target):
        return model.losses(model.apply(model.unflatten(vector), row[None]), target[None])[0]

    @jax.jit
    def found(vector):
        each = gradients.compute_example_gradients(model, model.unflatten(vector), x, y, np.ones(5, bool))
        formed = jax.vmap(jax.grad(one), in_axes=(None, 0, 0))(vector, x, y)
        return each.norms, model.flatten(each.sum_weighted(jnp.arange(5.0))), formed

    norms, summed, formed = found(vector)
    assert norms == pytest.approx(np.linalg.norm(formed, axis=1))
    assert summed == pytest.approx(np.arange(5.0) @ formed)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Dense(10**6, 10**6), r"parameters must be in \[1, 8000000\], got 1000001000000"),
        (lambda: Embedding(10**7, 1), "parameters must be in"),
        (lambda: Conv(10**3, 10**3, 10**2), "parameters must be in"),
        (lambda: Dense(0, 1), "inputs must be at least 1, got 0"),
        (lambda: Dense(1, 1, gain=-1), "gain must be finite and at least 0, got -1"),
        (lambda: Embedding(2, 0), "width must be at least 1, got 0"),
        (lambda: Conv(1, 1, 0), "kernel must be at least 1, got 0"),
    ],
)
def test_bad_layers_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
