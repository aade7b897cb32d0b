"""Gradients: of a batch, and of each example on its own, clipped.

An example's gradient is computed from its row alone, whatever the model is (``vmap`` over batches of one). Where a
model is made of layers, its norm comes from what enters each layer and from the loss's slope at each layer's output,
which is the derivative with respect to a zero that is added there; otherwise the gradient is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from epsilog.train import clipping
from epsilog.train.models.base import Model, Params
from epsilog.train.models.layers import Layer


class Gradients(NamedTuple):
    """The gradients of some examples.

    Attributes:
        norms: L2, in float64; shape (n,).
        reached: which examples have a norm; shape (n,).
        weighted: sums them, each times its factor (n,), in float64.
    """

    norms: Any
    reached: Any
    weighted: Callable[[Any], Params]


def of_batch(model: Model, params: Params, x: Any, y: Any, weights: Any) -> Params:
    """The gradient of the examples' losses, each times its weight (n,)."""

    def total(params: Params) -> Any:
        return (weights * model.losses(model.apply(params, x), y)).sum()

    return jax.grad(total)(params)


def of_examples(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    """Each example's gradient: as layers know it, or formed."""
    return _ghost(model, params, x, y) if model.layers else _formed(model, params, x, y)


def _formed(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    def loss(params: Params, row: Any, target: Any) -> Any:
        return model.losses(model.apply(params, row[None]), target[None])[0]

    each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, x, y)
    leaves, structure = jax.tree.flatten(each)
    wide, reached = clipping.within_reach([leaf.reshape(len(x), -1) for leaf in leaves], xp=jnp)
    shapes = [leaf.shape[1:] for leaf in leaves]

    def weighted(factors: Any) -> Params:
        return jax.tree.unflatten(
            structure, [(factors @ part).reshape(shape) for part, shape in zip(wide, shapes, strict=True)]
        )

    return Gradients(jnp.sqrt(sum((part**2).sum(axis=1) for part in wide)), reached, weighted)


def _ghost(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    inputs, slopes = _seen(model, params, x, y)
    parts, reached = clipping.within_reach([*inputs, *slopes], xp=jnp)
    inputs, slopes = parts[: len(inputs)], parts[len(inputs) :]
    seen = list(zip(model.layers, inputs, slopes, strict=True))
    squares = [layer.squared_norms(entered, slope) for layer, entered, slope in seen]

    def weighted(factors: Any) -> Params:
        return tuple(
            pulled(layer, part, entered, factors[:, None] * slope)
            for (layer, entered, slope), part in zip(seen, params, strict=True)
        )

    return Gradients(jnp.sqrt(sum(squares[1:], squares[0])), reached, weighted)


def _seen(model: Model, params: Params, x: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """What enters each layer, and the loss's slope at each layer's output."""

    def run(zeros: list[Any] | None, row: Any, target: Any) -> Any:
        entered, left = {}, {}

        def call(place: int, x: Any) -> Any:
            entered[place] = x
            left[place] = model.layers[place].apply(params[place], x)
            return left[place] if zeros is None else left[place] + zeros[place]

        assert model.forward is not None  # it came with the layers
        outputs = model.forward(call, row[None])
        places = range(len(model.layers))
        return model.losses(outputs, target[None])[0], ([entered[i] for i in places], [left[i] for i in places])

    shapes = jax.eval_shape(lambda row, target: run(None, row, target)[1][1], x[0], y[0])
    zeros = [jnp.zeros(one.shape, one.dtype) for one in shapes]
    slopes, (inputs, _) = jax.vmap(jax.grad(run, has_aux=True), in_axes=(None, 0, 0))(zeros, x, y)
    return [one[:, 0] for one in inputs], [one[:, 0] for one in slopes]


def pulled(layer: Layer, params: Params, x: Any, slopes: Any) -> Params:
    """The gradient of a layer's parameters where slopes reach its output; it is linear in them."""
    wide = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), params)
    return jax.vjp(lambda params: layer.apply(params, x), wide)[1](slopes)[0]
