"""Modules of Flax and Equinox, wrapped as docs/models.md says, train as our own dense network does."""

import dataclasses

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.training import Federation, LocalTraining, Randomness, Task, train_without_charge
from epsilog.training.models import Model, build_model

INPUTS, HIDDEN, CLASSES = 4, 5, 3
OURS = build_model("mlp", inputs=INPUTS, classes=CLASSES, hidden=[HIDDEN])
SCHEMES = [ClientLevelCentral(8, 0.5, 2, 0.2, 1.0), ExampleLevelClientSide(8, 4, 2, 2, 0.5, 1, 0.2, 1.0)]


class Dense(nn.Module):
    """Two dense layers, in Flax' Linen."""

    @nn.compact
    def __call__(self, rows):
        seen = nn.relu(nn.Dense(HIDDEN)(rows))
        return nn.Dense(CLASSES)(seen)


class Layers(nnx.Module):
    """The same in Flax' NNX."""

    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(INPUTS, HIDDEN, rngs=rngs), nnx.Linear(HIDDEN, CLASSES, rngs=rngs)

    def __call__(self, rows):
        return self.last(nnx.relu(self.first(rows)))


def weights_and_biases():
    """Our own start, layer by layer."""
    (first, first_bias), (last, last_bias) = OURS.unflatten(jnp.asarray(OURS.start))
    return first, first_bias, last, last_bias


def linen():
    net = Dense()
    first, first_bias, last, last_bias = weights_and_biases()
    start = {"Dense_0": {"kernel": first, "bias": first_bias}, "Dense_1": {"kernel": last, "bias": last_bias}}
    return lambda: start, lambda p, x: net.apply({"params": p}, x)


def with_nnx():
    graph, state = nnx.split(Layers(nnx.Rngs(0)))
    start = nnx.to_pure_dict(state)
    first, first_bias, last, last_bias = weights_and_biases()
    start["first"] |= {"kernel": first, "bias": first_bias}
    start["last"] |= {"kernel": last, "bias": last_bias}
    return lambda: start, lambda p, x: nnx.merge(graph, nnx.State(p))(x)


def equinox():
    net = eqx.nn.MLP(INPUTS, CLASSES, HIDDEN, 1, key=jax.random.key(0))
    first, first_bias, last, last_bias = weights_and_biases()
    new = (first.T, first_bias, last.T, last_bias)
    net = eqx.tree_at(lambda n: [part for layer in n.layers for part in (layer.weight, layer.bias)], net, new)
    params, rest = eqx.partition(net, eqx.is_inexact_array)
    return lambda: params, lambda p, x: jax.vmap(eqx.combine(p, rest))(x)


def task_of(model, *, unit_is_client):
    draws = np.random.default_rng(3)
    sizes = np.array([4, 1, 6, 0, 3, 5, 2, 3])
    rows, goals = draws.standard_normal((sizes.sum(), INPUTS)), draws.integers(0, CLASSES, sizes.sum())
    return Task(
        "small",
        "client" if unit_is_client else "example",
        unit_is_client,
        model,
        LocalTraining(0.3, local_steps=2),
        Federation(rows, goals, sizes),
        rows[:9],
        goals[:9],
    )


def outputs_of(task, model):
    """What a released model makes of the rows: parameters stand in another order in every framework."""
    with jax.enable_x64(True):
        return np.asarray(task.model.apply(task.model.unflatten(jnp.asarray(model)), task.clients.features))


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.kind)
@pytest.mark.parametrize("module", [linen, with_nnx, equinox])
def test_two_rounds_are_those_of_our_own_network(module, scheme):
    """Without noise, whose coordinates would be dealt out otherwise; clipping is on."""
    quiet = dataclasses.replace(scheme, noise_multiplier=0.0)
    theirs = Model(*module(), "cross-entropy", classes=CLASSES)
    assert theirs.size == OURS.size
    found = []
    for model in (OURS, theirs):
        task = task_of(model, unit_is_client=scheme.unit_is_client)
        released = train_without_charge(quiet, task, randomness=Randomness.from_seed(5)).model
        found.append(outputs_of(task, released))
        assert not np.allclose(found[-1], outputs_of(task, model.start), atol=1e-4), "it has moved"
    assert np.allclose(*found, atol=1e-7)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.kind)
def test_a_module_starts_as_it_says_and_trains_with_noise(scheme):
    net, row = Dense(), jnp.zeros((1, INPUTS))

    def init(key):
        return net.init(key, row)["params"]

    model = Model(init, lambda p, x: net.apply({"params": p}, x), "cross-entropy", classes=CLASSES)
    curve = train_without_charge(
        scheme, task_of(model, unit_is_client=scheme.unit_is_client), randomness=Randomness.from_seed(5)
    )
    assert len(curve.records) == 2
    assert all(np.isfinite(record.test_loss) for record in curve.records)
    assert np.abs(curve.model - model.start).max() > 0.01
