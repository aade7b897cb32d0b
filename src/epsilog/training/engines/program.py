"""The compiled program: a loop over clients, their steps, and tiles of the rows of a step.

Loops run to traced counts. Clients and cohorts of all sizes, all clip norms and noise levels therefore share one
compilation, a step costs only its rows, and padded slots cost nothing. One client at a time keeps the working set of a
model in cache (measured: batches of clients are slower for large models). Local training has the precision of the data.
All that the guarantee depends on is float64: norms, clipping, sums over examples and over clients. Random draws are
arguments, so the program is a pure function.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from epsilog.training import clipping
from epsilog.training.models import Model, gradients
from epsilog.training.models.base import Params

LANES = 16, 64  # parallel sums (measured)


class TileSize(NamedTuple):
    """The rows that are computed at a time."""

    size: int
    single: bool


class ClientWork(NamedTuple):
    """The work of some clients.

    Attributes:
        features: features of all rows; shape (rows, f).
        targets: targets of all rows; shape (rows,).
        picks: concatenated lists of rows of the clients; shape (capacity,).
        lists: beginning and length of the list of each client; shape (slots, 2).
        first: position in the list where each step begins; after the end of the list it continues at the beginning.
        counts: number of rows of each step; both of shape (slots, steps).
        weights: weight of each client, at most 1; shape (slots,).
        count: number of slots with a client.
    """

    features: Any
    targets: Any
    picks: Any
    lists: Any
    first: Any
    counts: Any
    weights: Any
    count: Any


@contextlib.contextmanager
def use_full_precision() -> Iterator[None]:
    """Enable float64, and products in full float32, which accelerators shorten by default."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@partial(jax.jit, static_argnames=("model", "tiles"))
def sum_updates(
    model: Model, tiles: TileSize, work: ClientWork, *, vector: Any, clip_norm: Any, learning_rate: Any
) -> Any:
    """Return the sum of clipped updates, the largest norm, and the numbers of clipped, dropped and all updates."""
    start = model.unflatten(vector.astype(work.features.dtype))

    def add(slot: Any, sums: Any) -> Any:
        total, largest, clipped, dropped = sums
        end = jax.lax.fori_loop(0, work.first.shape[1], partial(step, slot), start)
        update, weight = _change(end, start), work.weights[slot]
        there = work.lists[slot, 1] > 0  # a client without rows has no update, whatever a model computes from zeros
        norm = jnp.where(there, weight * jnp.sqrt(sum(map(_sum_squares, jax.tree.leaves(update)))), 0.0)
        factor = clipping.compute_clip_factors(norm, clip_norm, xp=jnp)
        kept = there & (factor > 0)
        total = jax.tree.map(lambda summed, part: summed + jnp.where(kept, factor * weight * part, 0.0), total, update)
        largest = jnp.maximum(largest, jnp.where(factor > 0, factor * norm, 0.0))
        return total, largest, clipped + (factor < 1), dropped + (factor == 0)

    def step(slot: Any, index: Any, params: Params) -> Params:
        taken = work.counts[slot, index]

        def gradient(x: Any, y: Any, here: Any, summed: Any) -> Any:
            weights = here.astype(x.dtype) / jnp.maximum(taken, 1).astype(x.dtype)
            return jax.tree.map(jnp.add, summed, gradients.compute_batch_gradient(model, params, x, y, weights))

        zero = jax.tree.map(jnp.zeros_like, params)
        summed = _over_tiles(tiles, work, (slot, index), gradient, zero)
        return _descend(params, summed, learning_rate)

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    total, *seen = jax.lax.fori_loop(0, work.count, add, (zero, jnp.float64(0), jnp.int64(0), jnp.int64(0)))
    return model.flatten(total), *seen, work.count


@partial(jax.jit, static_argnames=("model", "tiles"))
def sum_dp_sgd(
    model: Model,
    tiles: TileSize,
    work: ClientWork,
    *,
    vector: Any,
    noise: Any,
    clip_norm: Any,
    noise_stddev: Any,
    step_size: Any,
) -> Any:
    """Return the sum of DP-SGD runs, the largest norm, and the numbers of clipped, dropped and all gradients."""
    precision = work.features.dtype
    start = model.unflatten(vector.astype(precision))

    def add(slot: Any, sums: Any) -> Any:
        total, *seen = sums
        end, *seen = jax.lax.fori_loop(0, work.first.shape[1], partial(step, slot), (start, *seen))
        weight = work.weights[slot]
        return jax.tree.map(lambda summed, part: summed + weight * part, total, _change(end, start)), *seen

    def step(slot: Any, index: Any, carried: Any) -> Any:
        params, *seen = carried
        taken = work.counts[slot, index]

        def clipped_gradients(x: Any, y: Any, here: Any, sums: Any) -> Any:
            summed, largest, clipped, dropped = sums
            each = gradients.compute_example_gradients(model, params, x, y, here)
            factor = jnp.where(here & each.reached, clipping.compute_clip_factors(each.norms, clip_norm, xp=jnp), 0.0)
            summed = jax.tree.map(jnp.add, summed, each.sum_weighted(factor))
            largest = jnp.maximum(largest, jnp.where(factor > 0, factor * each.norms, 0.0).max())
            return summed, largest, clipped + (here & (factor < 1)).sum(), dropped + (here & (factor == 0)).sum()

        drawn = model.unflatten(noise_stddev * noise[slot, index])  # without the padding
        sums = (drawn, *seen[:-1])
        noisy, *seen_now = _over_tiles(tiles, work, (slot, index), clipped_gradients, sums)
        params = _descend(params, jax.tree.map(lambda part: part.astype(precision), noisy), step_size)
        return params, *seen_now, seen[-1] + taken

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    nothing = jnp.float64(0), jnp.int64(0), jnp.int64(0), jnp.int64(0)
    total, *seen = jax.lax.fori_loop(0, work.count, add, (zero, *nothing))
    return model.flatten(total), *seen


def _over_tiles(tiles: TileSize, work: ClientWork, place: tuple[Any, Any], add: Any, sums: Any) -> Any:
    """Return the sum of ``add`` over the rows of a step of a client.

    The first row of the step, which the model can use, fills the last tile; zeros fill the tile of an empty step.
    """
    (begin, length), first, taken = work.lists[place[0]], work.first[place], work.counts[place]

    def one(index: Any, sums: Any) -> Any:
        turns = index * tiles.size + jnp.arange(tiles.size)
        here = turns < taken
        ids = work.picks[begin + (first + jnp.where(here, turns, 0)) % jnp.maximum(length, 1)]
        x, y = jnp.where(taken > 0, work.features[ids], 0), jnp.where(taken > 0, work.targets[ids], 0)
        return add(x, y, here, sums)

    return one(0, sums) if tiles.single else jax.lax.fori_loop(0, (taken + tiles.size - 1) // tiles.size, one, sums)


@partial(jax.jit, static_argnames="model")
def evaluate(model: Model, test: Any, vector: Any) -> Any:
    """Return mean loss and score on a test set."""
    features, targets = test
    outputs = model.apply(model.unflatten(vector.astype(features.dtype)), features)
    return model.losses(outputs, targets).mean(), model.compute_score(outputs, targets)


def _descend(params: Params, gradient: Params, step_size: Any) -> Params:
    return jax.tree.map(lambda part, slope: part - step_size * slope, params, gradient)


def _change(end: Params, start: Params) -> Params:
    """Return the change of a client in the precision of its run; norm, weight and sum use exactly these numbers."""
    return jax.tree.map(jnp.subtract, end, start)


def _sum_squares(part: Any) -> Any:
    """Return the sum of squares of an array, in float64.

    On a CPU, one chain of additions is slow, and the compiler may not split it, so several chains run in parallel.
    """
    return jax.lax.platform_dependent(part.reshape(-1), cpu=_in_lanes, default=lambda flat: (_wide(flat) ** 2).sum())


def _in_lanes(flat: Any) -> Any:
    size, blocks = math.prod(LANES), flat.size // math.prod(LANES)

    def add(index: Any, lanes: Any) -> Any:
        return lanes + _wide(jax.lax.dynamic_slice(flat, (index * size,), (size,))).reshape(LANES) ** 2

    lanes = jax.lax.fori_loop(0, blocks, add, jnp.zeros(LANES, jnp.float64)) if blocks else jnp.float64(0)
    return jnp.sum(lanes) + (_wide(flat[blocks * size :]) ** 2).sum()


def _wide(part: Any) -> Any:
    return part.astype(jnp.float64)
