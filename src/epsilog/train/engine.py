"""The fast engine: a loop over clients inside one compiled JAX program.

The loop runs to a traced count over a cohort padded to the capacity, so that Poisson cohorts of any size, noise levels
and clip norms share one compilation, and no padded slot costs work. One client at a time is what keeps a model's
working set in cache (measured: batching clients is slower for large models). Local training runs in the data's own
precision; whatever a guarantee rests on is float64: norms, clipping, sums over examples and over clients.

Random draws come in as arrays: the engine itself is a pure function. ``reference`` says the same slowly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from epsilog.train import clipping, models
from epsilog.train.models import Dense, Layers
from epsilog.train.sampling import Ids
from epsilog.train.task import Task, Training

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clipped:
    """A sum over a cohort, and what its curator may see of it.

    Attributes:
        total: the sum; shape (d,).
        largest_norm: largest L2 norm after clipping, of updates or of example gradients.
        clipped: how many of them clipping shortened, or dropped.
        dropped: how many of them were not finite, or had no finite norm, and counted as zero.
        count: how many there were.
    """

    total: Vector
    largest_norm: float
    clipped: int
    dropped: int
    count: int

    @property
    def clipped_fraction(self) -> float:
        """The share that clipping shortened; 0 of none."""
        return self.clipped / self.count if self.count else 0.0


class Engine:
    """A task's data on the device, with the two computations of a round and the evaluation.

    Attributes:
        task: what is trained on what.
        usable: rows that count in training; shape (clients, n).
        unusable: how many rows of each client are there and do not count; shape (clients,).
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        rows = task.usable_rows()
        self.usable = rows[2]
        self.unusable = (task.clients.present & ~self.usable).sum(axis=1)
        with _exact():
            self._clients = tuple(jnp.asarray(part) for part in rows)
            self._test = tuple(jnp.asarray(part) for part in task.test_set())

    def sum_of_updates(
        self, vector: Vector, cohort: Ids, *, clip_norm: float, orders: NDArray[np.int32] | None = None
    ) -> Clipped:
        """Trains each client of the cohort from ``vector``, clips the whole updates to ``clip_norm`` and sums them.

        Args:
            vector: the global model; shape (d,).
            cohort: ids; at most as many as there are slots.
            clip_norm: bound on each client's whole update.
            orders: each client's rows in the order in which its batches take them, usable rows first; shape (slots, n).
                Asked for where the task's training has a batch size; without one there is a slot for everybody.
        """
        orders = np.zeros((self.task.clients.count, 1), dtype=np.int32) if orders is None else orders
        ids = np.zeros(orders.shape[0], dtype=np.int64)
        ids[: cohort.size] = cohort
        with _exact():
            total, largest, clipped, dropped = _sum_of_updates(
                self.task.model,
                self.task.training,
                self._clients,
                vector=vector,
                ids=ids,
                count=cohort.size,
                orders=orders,
                clip_norm=clip_norm,
            )
        return Clipped(np.asarray(total), float(largest), int(clipped), int(dropped), int(cohort.size))

    def sum_of_noisy_runs(
        self,
        vector: Vector,
        cohort: Ids,
        *,
        batches: NDArray[np.bool_],
        noise: Vector,
        clip_norm: float,
        batch_probability: float,
    ) -> Clipped:
        """Runs DP-SGD at each client of the cohort from ``vector`` and sums the model differences.

        Args:
            vector: the global model; shape (d,).
            cohort: ids; at most as many as there are slots.
            batches: who joins which step; shape (slots, steps, n).
            noise: added to each step's sum of clipped gradients; shape (slots, steps, d).
            clip_norm: bound on each example's gradient.
            batch_probability: p; a step is (sum + noise) / (p * nominal_examples), times the learning rate.
        """
        ids = np.zeros(batches.shape[0], dtype=np.int64)
        ids[: cohort.size] = cohort
        step_size = self.task.training.learning_rate / (batch_probability * self.task.training.nominal_examples)
        with _exact():
            total, largest, clipped, dropped, count = _sum_of_noisy_runs(
                self.task.model,
                self._clients,
                vector=vector,
                ids=ids,
                count=cohort.size,
                batches=batches,
                noise=noise,
                clip_norm=np.float64(clip_norm),
                step_size=np.float64(step_size).astype(self.task.clients.features.dtype),
            )
        return Clipped(np.asarray(total), float(largest), int(clipped), int(dropped), int(count))

    def evaluate(self, vector: Vector) -> tuple[float, float]:
        """Returns mean loss and score on the public test set."""
        with _exact():
            loss, score = _evaluate(self.task.model, self._test, vector)
        return float(loss), float(score)


@contextlib.contextmanager
def _exact() -> Iterator[None]:
    """Doubles where they are asked for, and whole float32: accelerators shorten products unless told not to."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@partial(jax.jit, static_argnames=("model", "training"))
def _sum_of_updates(
    model: Dense, training: Training, clients: Any, *, vector: Any, ids: Any, count: Any, orders: Any, clip_norm: Any
) -> Any:
    start = _layers(model, vector, clients[0].dtype)

    def add(slot: Any, sums: Any) -> Any:
        total, largest, clipped, dropped = sums
        client = tuple(part[ids[slot]] for part in clients)
        update = _local_update(model, training, start, client, orders[slot])
        norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(update)))
        factor = clipping.factors(norm, clip_norm, xp=jnp)
        total = jax.tree.map(lambda whole, part: whole + jnp.where(factor > 0, factor * part, 0.0), total, update)
        largest = jnp.maximum(largest, jnp.where(factor > 0, factor * norm, 0.0))
        return total, largest, clipped + (factor < 1), dropped + (factor == 0)

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    total, *seen = jax.lax.fori_loop(0, count, add, (zero, jnp.float64(0), jnp.int64(0), jnp.int64(0)))
    return models.flatten(total, xp=jnp), *seen


def _local_update(model: Dense, training: Training, start: Layers, client: tuple[Any, Any, Any], order: Any) -> Layers:
    """One client's difference after its local steps on mean gradients, in float64; an empty batch stands still."""
    usable = client[2].sum()
    size = client[0].shape[0] if training.batch_size is None else min(training.batch_size, client[0].shape[0])

    def step(index: Any, layers: Layers) -> Layers:
        x, y, here = client
        if training.batch_size is not None:
            places = jnp.arange(size)
            rows = order[(index * size + places) % jnp.maximum(usable, 1)]
            x, y, here = x[rows], y[rows], places < usable
        inputs, slopes = models.errors(model, layers, x, y, xp=jnp)
        weights = (here / jnp.maximum(here.sum(), 1)).astype(x.dtype)
        return _descend(layers, models.gradient(inputs, slopes, weights), training.learning_rate)

    end = jax.lax.fori_loop(0, training.local_steps, step, start)
    return _difference(end, start)


@partial(jax.jit, static_argnames="model")
def _sum_of_noisy_runs(
    model: Dense,
    clients: Any,
    *,
    vector: Any,
    ids: Any,
    count: Any,
    batches: Any,
    noise: Any,
    clip_norm: Any,
    step_size: Any,
) -> Any:
    precision = clients[0].dtype
    start = _layers(model, vector, precision)

    def add(slot: Any, sums: Any) -> Any:
        x, y, here = (part[ids[slot]] for part in clients)

        def step(index: Any, carried: Any) -> Any:
            layers, largest, clipped, dropped, seen = carried
            joins = here & batches[slot, index]
            inputs, slopes = models.errors(model, layers, x, y, xp=jnp)
            parts, reached = clipping.within_reach([*inputs, *slopes], xp=jnp)
            inputs, slopes = parts[: len(inputs)], parts[len(inputs) :]
            norms = models.gradient_norms(inputs, slopes, xp=jnp)
            factor = jnp.where(joins & reached, clipping.factors(norms, clip_norm, xp=jnp), 0.0)
            summed = models.gradient(inputs, slopes, factor)
            noisy = jax.tree.map(jnp.add, summed, models.unflatten(model, noise[slot, index]))
            layers = _descend(layers, jax.tree.map(lambda part: part.astype(precision), noisy), step_size)
            largest = jnp.maximum(largest, jnp.where(factor > 0, factor * norms, 0.0).max())
            clipped, dropped = clipped + (joins & (factor < 1)).sum(), dropped + (joins & (factor == 0)).sum()
            return layers, largest, clipped, dropped, seen + joins.sum()

        total, *seen = sums
        end, *seen = jax.lax.fori_loop(0, batches.shape[1], step, (start, *seen))
        return jax.tree.map(jnp.add, total, _difference(end, start)), *seen

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    nothing = jnp.float64(0), jnp.int64(0), jnp.int64(0), jnp.int64(0)
    total, *seen = jax.lax.fori_loop(0, count, add, (zero, *nothing))
    return models.flatten(total, xp=jnp), *seen


@partial(jax.jit, static_argnames="model")
def _evaluate(model: Dense, test: Any, vector: Any) -> Any:
    layers = _layers(model, vector, test[0].dtype)
    return models.losses(model, layers, *test, xp=jnp).mean(), models.score(model, layers, *test, xp=jnp)


def _layers(model: Dense, vector: Any, precision: Any) -> Layers:
    return models.unflatten(model, vector.astype(precision))


def _descend(layers: Layers, gradient: Layers, step_size: Any) -> Layers:
    return tuple((w - step_size * dw, b - step_size * db) for (w, b), (dw, db) in zip(layers, gradient, strict=True))


def _difference(end: Layers, start: Layers) -> Layers:
    """``end - start`` in float64, whatever precision the run had."""
    wide: Layers = jax.tree.map(lambda new, old: new.astype(jnp.float64) - old.astype(jnp.float64), end, start)
    return wide
