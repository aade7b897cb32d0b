"""The fast engine: a loop over clients inside one compiled JAX program.

The loop runs to a traced count over a cohort padded to the capacity, so that Poisson cohorts of any size, noise levels
and clip norms share one compilation, and no padded slot costs work. One client at a time is what keeps a model's
working set in cache (measured: batching clients is slower for large models). Local training runs in the data's own
precision; norms of whole updates, clipping and sums over clients are float64.

Random draws come in as arrays: the engine itself is a pure function. ``reference`` says the same slowly.
"""

from __future__ import annotations

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
        clipped: how many of them clipping shortened (or dropped as not finite).
        count: how many there were.
    """

    total: Vector
    largest_norm: float
    clipped: int
    count: int

    @property
    def clipped_fraction(self) -> float:
        """The share that clipping shortened; 0 of none."""
        return self.clipped / self.count if self.count else 0.0


class Engine:
    """A task's data on the device, with the two computations of a round and the evaluation."""

    def __init__(self, task: Task) -> None:
        self.task = task
        clients = task.clients
        with jax.enable_x64(True):
            self._clients = tuple(jnp.asarray(part) for part in (clients.features, clients.targets, clients.present))
            self._test = jnp.asarray(task.test_features), jnp.asarray(task.test_targets)

    def sum_of_updates(self, vector: Vector, cohort: Ids, *, clip_norm: float) -> Clipped:
        """Trains each client of the cohort from ``vector``, clips the whole updates to ``clip_norm`` and sums them."""
        ids = np.zeros(self.task.population, dtype=np.int64)
        ids[: cohort.size] = cohort
        with jax.enable_x64(True):
            total, largest, clipped = _sum_of_updates(
                self.task.model,
                self.task.training,
                self._clients,
                vector=vector,
                ids=ids,
                count=cohort.size,
                clip_norm=clip_norm,
            )
        return Clipped(np.asarray(total), float(largest), int(clipped), int(cohort.size))

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
        with jax.enable_x64(True):
            total, largest, clipped, count = _sum_of_noisy_runs(
                self.task.model,
                self._clients,
                vector=vector,
                ids=ids,
                count=cohort.size,
                batches=batches,
                noise=noise,
                clip_norm=np.float64(clip_norm),
                step_size=np.float64(step_size),
            )
        return Clipped(np.asarray(total), float(largest), int(clipped), int(count))

    def evaluate(self, vector: Vector) -> tuple[float, float]:
        """Returns mean loss and score on the public test set."""
        with jax.enable_x64(True):
            loss, score = _evaluate(self.task.model, self._test, vector)
        return float(loss), float(score)


@partial(jax.jit, static_argnames=("model", "training"))
def _sum_of_updates(
    model: Dense, training: Training, clients: Any, *, vector: Any, ids: Any, count: Any, clip_norm: Any
) -> Any:
    features, targets, present = clients
    start = _layers(model, vector, features.dtype)

    def add(slot: Any, sums: Any) -> Any:
        total, largest, clipped = sums
        client = ids[slot]
        update = _local_update(model, training, start, (features[client], targets[client], present[client]))
        norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(update)))
        factor = clipping.factors(norm, clip_norm, xp=jnp)
        total = jax.tree.map(lambda whole, part: whole + jnp.where(factor > 0, factor * part, 0.0), total, update)
        return total, jnp.maximum(largest, jnp.where(factor > 0, factor * norm, 0.0)), clipped + (factor < 1)

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    total, largest, clipped = jax.lax.fori_loop(0, count, add, (zero, jnp.float64(0), jnp.int64(0)))
    return models.flatten(total, xp=jnp), largest, clipped


def _local_update(model: Dense, training: Training, start: Layers, client: tuple[Any, Any, Any]) -> Layers:
    """One client's difference after its local steps on mean gradients, in float64; an empty batch stands still."""
    capacity = client[0].shape[0]
    rows = training.batch_size or capacity

    def step(index: Any, layers: Layers) -> Layers:
        x, y, here = (jax.lax.dynamic_slice_in_dim(part, (index * rows) % capacity, rows) for part in client)
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
    features, targets, _ = clients
    precision = features.dtype
    start = _layers(model, vector, precision)

    def add(slot: Any, sums: Any) -> Any:
        client = ids[slot]
        x, y, here = features[client], targets[client], clients[2][client]

        def step(index: Any, carried: Any) -> Any:
            layers, largest, clipped, seen = carried
            joins = here & batches[slot, index]
            inputs, slopes = models.errors(model, layers, x, y, xp=jnp)
            norms = models.gradient_norms(inputs, slopes, xp=jnp)
            factor = jnp.where(joins, clipping.factors(norms, clip_norm.astype(precision), xp=jnp), 0)
            inputs, slopes = ([jnp.where(factor[:, None] > 0, part, 0) for part in parts] for parts in (inputs, slopes))
            summed = models.gradient(inputs, slopes, factor)
            drawn = _layers(model, noise[slot, index], precision)
            layers = _descend(layers, jax.tree.map(jnp.add, summed, drawn), step_size.astype(precision))
            largest = jnp.maximum(largest, jnp.where(factor > 0, factor * norms, 0).max())
            return layers, largest, clipped + (joins & (factor < 1)).sum(), seen + joins.sum()

        total, *seen = sums
        end, *seen = jax.lax.fori_loop(0, batches.shape[1], step, (start, *seen))
        return jax.tree.map(jnp.add, total, _difference(end, start)), *seen

    zero = jax.tree.map(lambda part: jnp.zeros(part.shape, jnp.float64), start)
    total, largest, clipped, seen = jax.lax.fori_loop(
        0, count, add, (zero, jnp.zeros((), precision), jnp.int64(0), jnp.int64(0))
    )
    return models.flatten(total, xp=jnp), largest, clipped, seen


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
