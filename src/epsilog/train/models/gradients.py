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


class Piece(NamedTuple):
    """One layer's part of the gradients of some examples: squared norms (n,), and the sum that ``Gradients`` names."""

    squares: Any
    weighted: Callable[[Any], Params]


def of_batch(model: Model, params: Params, x: Any, y: Any, weights: Any) -> Params:
    """The gradient of the examples' losses, each times its weight (n,)."""

    def total(params: Params) -> Any:
        return (weights * model.losses(model.apply(params, x), y)).sum()

    return jax.grad(total)(params)


def of_examples(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    """Each example's gradient: by layers, where each holds numbers of its own for one input, or formed."""
    calls = _calls(model, params, x[0])
    if calls and sorted(calls) == list(range(len(model.layers))):
        return _layered(model, params, x, y)
    return _formed(model, params, x, y)


def _formed(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    def loss(params: Params, row: Any, target: Any) -> Any:
        return model.losses(model.apply(params, row[None]), target[None])[0]

    leaves, structure = jax.tree.flatten(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, x, y))
    parts, reached = clipping.within_reach([leaf.reshape(len(x), -1) for leaf in leaves], xp=jnp)
    whole = _whole([part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])
    return Gradients(
        jnp.sqrt(whole.squares), reached, lambda factors: jax.tree.unflatten(structure, whole.weighted(factors))
    )


def _layered(model: Model, params: Params, x: Any, y: Any) -> Gradients:
    inputs, slopes = _seen(model, params, x, y)
    flat = [one.reshape(len(x), -1) for one in (*inputs, *slopes)]
    parts, reached = clipping.within_reach(flat, xp=jnp)
    wide = [part.reshape(one.shape) for part, one in zip(parts, (*inputs, *slopes), strict=True)]
    pieces = [_piece(*one) for one in zip(model.layers, params, wide[: len(inputs)], wide[len(inputs) :], strict=True)]
    squares = [piece.squares for piece in pieces]

    def weighted(factors: Any) -> Params:
        return tuple(piece.weighted(factors) for piece in pieces)

    return Gradients(jnp.sqrt(sum(squares[1:], squares[0])), reached, weighted)


def _piece(layer: Layer, params: Params, x: Any, slopes: Any) -> Piece:
    """A layer's part: by its ghost norms, or by forming its gradients."""
    known = layer.ghost(x, slopes)
    if known is None:
        each = jax.vmap(lambda row, slope: pulled(layer, params, row[None], slope[None]))(x, slopes)
        return _whole(each)
    squares, standing = known
    across = (len(x), *[1] * (standing.ndim - 1))
    return Piece(squares, lambda factors: pulled(layer, params, x, factors.reshape(across) * standing))


def _whole(each: Any) -> Piece:
    """Gradients that are formed, (n, ...) in float64."""
    squares = [(leaf**2).sum(axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(each)]
    return Piece(
        sum(squares[1:], squares[0]),
        lambda factors: jax.tree.map(lambda leaf: jnp.tensordot(factors, leaf, axes=1), each),
    )


def pulled(layer: Layer, params: Params, x: Any, slopes: Any) -> Params:
    """The gradient of a layer's parameters where slopes reach its output, in float64.

    What enters is laid out with the examples last: XLA's product of doubles is twice as fast where they are summed over
    in order, and left alone it would undo the layout.
    """
    wide = jax.tree.map(lambda part: jnp.asarray(part, jnp.float64), params)
    kept: Callable[[Any], Any] = jax.lax.optimization_barrier
    x = jnp.moveaxis(kept(jnp.moveaxis(x, 0, -1)), -1, 0)
    return jax.vjp(lambda params: layer.apply(params, x), wide)[1](slopes)[0]


def _calls(model: Model, params: Params, row: Any) -> list[int]:
    """Which layers one row goes through; none where a layer sees it cut into several rows."""
    forward, calls, whole = model.forward, list[int](), list[bool]()

    def call(place: int, x: Any) -> Any:
        left = model.layers[place].apply(params[place], x)
        calls.append(place)
        whole.append(x.shape[:1] == left.shape[:1] == (1,))
        return left

    if forward is not None:
        jax.eval_shape(lambda row: forward(call, row[None]), row)
    return calls if all(whole) else []


def _seen(model: Model, params: Params, x: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """What enters each layer, and the loss's slope at each layer's output; both of shape (n, ...)."""

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
