"""Gradients of a batch, and clipped gradients of single examples.

The gradient of an example is computed from its row alone, for every model: by ``vmap`` over batches of one, or one row
after the other where a model has grouped convolutions. XLA adds the groups of a batch with factors of zero: an infinity
in one row would make the gradients of its neighbors NaN, and they would be dropped.

In a layered model, the norm follows from the input of each layer and the slope of the loss at its output. This slope is
the derivative with respect to a zero that is added to the output. Other models form the gradient.

Gradients have the precision of the model. These rounded numbers are the contribution of the example: they are converted
to float64 once, and both norm and sum are computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from epsilog.training import clipping
from epsilog.training.models.base import Model, Params
from epsilog.training.models.layers import Layer

LAYER_ROWS = 8
"""Rows for which a layer forms gradients at a time, so that they stay in the cache (measured)."""
WHOLE_NUMBERS = 250_000
"""Numbers of full gradients that are formed at a time, for the same reason."""
_barrier: Callable[[Any], Any] = jax.lax.optimization_barrier


class Gradients(NamedTuple):
    """The gradients of some examples.

    Attributes:
        norms: L2 norms in float64; shape (n,).
        reached: mask of the examples with a finite norm; shape (n,).
        sum_weighted: returns their sum with factors (n,), in float64.
    """

    norms: Any
    reached: Any
    sum_weighted: Callable[[Any], Params]


class LayerGradients(NamedTuple):
    """The part of one layer in the gradients of some examples: squared norms (n,), and a sum as in ``Gradients``."""

    squares: Any
    sum_weighted: Callable[[Any], Params]


def compute_batch_gradient(model: Model, params: Params, x: Any, y: Any, weights: Any) -> Params:
    """Return the gradient of the sum of losses with weights (n,)."""

    def total(params: Params) -> Any:
        return (weights * model.losses(model.apply(params, x), y)).sum()

    return jax.grad(total)(params)


def compute_example_gradients(model: Model, params: Params, x: Any, y: Any, here: Any) -> Gradients:
    """Return the gradient of each example, by layers if possible, else formed.

    Args:
        model: the model.
        params: its parameters.
        x: features; shape (n, f).
        y: targets; shape (n,).
        here: mask of the examples that count; shape (n,). If none does, nothing is computed.
    """
    known = _list_known_norms(model, params, x[0])

    def compute() -> Any:
        return (
            _collect_layer_gradients(model, params, x, y, known)
            if known
            else _compute_full_gradients(model, params, x, y)
        )

    leaves, structure = jax.tree.flatten(_once(compute, here.any()))
    flat, reached = clipping.prepare_clip_factors([leaf.reshape(len(x), -1) for leaf in leaves], xp=jnp)
    shaped = [one.reshape(leaf.shape) for one, leaf in zip(flat, leaves, strict=True)]
    wide = jax.tree.unflatten(structure, shaped)
    if not known:
        whole = _wrap_gradients(wide)
        return Gradients(jnp.sqrt(whole.squares), reached, whole.sum_weighted)
    pieces = [
        _compute_by_example_norms(layer, own, *arrays) if ghost else _wrap_gradients(arrays)
        for layer, own, arrays, ghost in zip(model.layers, params, wide, known, strict=True)
    ]
    squares = [piece.squares for piece in pieces]

    def sum_weighted(factors: Any) -> Params:
        return tuple(piece.sum_weighted(factors) for piece in pieces)

    return Gradients(jnp.sqrt(sum(squares[1:], squares[0])), reached, sum_weighted)


def rows_at_once(model: Model, width: int, precision: Any) -> int | None:
    """Return the best number of gradients to form at a time; None if no gradient is formed."""
    limits: list[int | None] = []

    def look(vector: Any, row: Any) -> None:
        known = _list_known_norms(model, model.unflatten(vector), row)
        whole = max(LAYER_ROWS, WHOLE_NUMBERS // model.size)
        limits.append((None if all(known) else LAYER_ROWS) if known else whole)

    shape: Any = jax.ShapeDtypeStruct
    jax.eval_shape(look, shape((model.size,), precision), shape((width,), precision))
    return limits[0]


def _once(compute: Callable[[], Any], wanted: Any) -> Any:
    """Return the result of ``compute``, or zeros; each number is computed once for all readers.

    A compiler that computes a number a second time for the sum could round it differently than for the norm, since
    contraction into a multiply-add depends on nearby operations. Outputs of a branch are stored, and a branch with a
    barrier is not rewritten as a selection.
    """

    def branch() -> Any:
        return _barrier(compute())

    def blank() -> Any:
        return jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), jax.eval_shape(compute))

    return jax.lax.cond(wanted, branch, blank)


def _collect_layer_gradients(model: Model, params: Params, x: Any, y: Any, known: list[bool]) -> list[Any]:
    """Return input and slopes of each layer with known norms, and the gradients of the others."""
    found = []
    for place, (entered, slopes) in enumerate(zip(*_collect_inputs_and_slopes(model, params, x, y), strict=True)):
        alone = partial(_pulled_alone, model.layers[place], params[place])
        found.append((entered, slopes) if known[place] else _map_rows(model, alone, entered, slopes))
    return found


def _pulled_alone(layer: Layer, params: Params, row: Any, slope: Any) -> Params:
    return backpropagate_layer(layer, params, row[None], slope[None])


def _compute_by_example_norms(layer: Layer, params: Params, x: Any, slopes: Any) -> LayerGradients:
    """Return the part of a layer from its input and slopes in float64, without forming gradients."""
    squares, merged = layer.example_norms(x, slopes)  # type: ignore[misc] # its norms are known
    across = (len(x), *[1] * (merged.ndim - 1))
    wide = jax.tree.map(lambda part: jnp.asarray(part, jnp.float64), params)
    # With examples as the last axis, XLA's float64 product is twice as fast, since it sums them in order. The barrier
    # keeps XLA from undoing this layout.
    x = jnp.moveaxis(_barrier(jnp.moveaxis(x, 0, -1)), -1, 0)
    return LayerGradients(
        squares, lambda factors: backpropagate_layer(layer, wide, x, factors.reshape(across) * merged)
    )


def _compute_full_gradients(model: Model, params: Params, x: Any, y: Any) -> Params:
    """Return the full gradients of a model without layers."""

    def loss(params: Params, row: Any, target: Any) -> Any:
        return model.losses(model.apply(params, row[None]), target[None])[0]

    return _map_rows(model, lambda row, target: jax.grad(loss)(params, row, target), x, y)


def _map_rows(model: Model, compute: Callable[..., Any], *rows: Any) -> Any:
    """Return the results for each row, none of which depends on another row, whatever a row makes infinite."""
    if not model.shipped:  # kinds that are shipped have no grouped convolutions
        shape: Any = jax.ShapeDtypeStruct
        shapes = [shape(each.shape[1:], each.dtype) for each in rows]
        if any(map(_is_grouped, list_steps(jax.make_jaxpr(compute)(*shapes).jaxpr))):
            return jax.lax.map(lambda row: compute(*row), rows)
    return jax.vmap(compute)(*rows)


def _is_grouped(step: Any) -> bool:
    counts = [step.params.get(name, 1) for name in ("feature_group_count", "batch_group_count")]
    return counts != [1, 1]


def list_steps(jaxpr: Any) -> Iterator[Any]:
    """Yield all operations of a traced function, with those inside others."""
    for step in jaxpr.eqns:
        yield step
        for part in jax.tree.leaves(list(step.params.values()), is_leaf=lambda one: hasattr(one, "eqns")):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from list_steps(inner)


def _wrap_gradients(each: Any) -> LayerGradients:
    """Return the part of formed gradients, (n, ...) in float64."""
    squares = [(leaf**2).sum(axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(each)]
    return LayerGradients(
        sum(squares[1:], squares[0]),
        lambda factors: jax.tree.map(lambda leaf: jnp.tensordot(factors, leaf, axes=1), each),
    )


def backpropagate_layer(layer: Layer, params: Params, x: Any, slopes: Any) -> Params:
    """Return the gradient of the parameters of a layer for slopes at its output, in the precision of all three."""
    return jax.vjp(lambda params: layer.apply(params, x), params)[1](slopes)[0]


def _list_known_norms(model: Model, params: Params, row: Any) -> list[bool]:
    """Return whether the norms of each layer are known; empty if layers do not determine the gradient of an example.

    That is so if a row passes a layer twice or never, or as several rows.
    """
    forward, calls, whole = model.forward, dict[int, bool](), list[bool]()

    def call(place: int, x: Any) -> Any:
        left = model.layers[place].apply(params[place], x)
        whole.append(place not in calls and x.shape[:1] == left.shape[:1] == (1,))
        calls[place] = model.layers[place].example_norms(x, left) is not None
        return left

    if forward is not None:
        jax.eval_shape(lambda row: forward(call, row[None]), row)
    places = range(len(model.layers))
    return [calls[place] for place in places] if all(whole) and sorted(calls) == list(places) else []


def _collect_inputs_and_slopes(model: Model, params: Params, x: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """Return the input of each layer, and the slope of the loss at its output; both of shape (n, ...)."""

    def run(zeros: list[Any] | None, row: Any, target: Any) -> Any:
        entered, left = {}, {}

        def call(place: int, x: Any) -> Any:
            entered[place] = x
            left[place] = model.layers[place].apply(params[place], x)
            return left[place] if zeros is None else left[place] + zeros[place]

        assert model.forward is not None  # layers come with forward
        outputs = model.forward(call, row[None])
        places = range(len(model.layers))
        return model.losses(outputs, target[None])[0], ([entered[i] for i in places], [left[i] for i in places])

    shapes = jax.eval_shape(lambda row, target: run(None, row, target)[1][1], x[0], y[0])
    zeros = [jnp.zeros(one.shape, one.dtype) for one in shapes]
    slope = jax.grad(run, has_aux=True)
    slopes, (inputs, _) = _map_rows(model, lambda row, target: slope(zeros, row, target), x, y)
    return [one[:, 0] for one in inputs], [one[:, 0] for one in slopes]
