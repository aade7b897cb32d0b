"""The slow reference engine: one example at a time, with gradients by finite differences.

A test compares it with ``compiled`` on equal draws. The two share the formula of the loss and the clip factor alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import LocalDPSGD
from epsilog.training import clipping
from epsilog.training.engines import program
from epsilog.training.engines.base import ClippedSum, LocalEngine, RoundInputs, Vector
from epsilog.training.models import Model
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

STEP = 1e-5


@dataclass(frozen=True, eq=False)
class ReferenceEngine(LocalEngine):
    """Computes the results of the fast engine without its code."""

    task: Task

    def unusable(self, cohort: Ids) -> int:
        """Return the number of unusable rows, as ``Engine`` specifies."""
        return sum(int(self.task.clients.sizes[client]) - len(self._usable(client)) for client in cohort)

    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """Return the sum of updates, as ``LocalEngine`` specifies."""
        updates = []
        for client in now.cohort:
            rows = self._usable(client)
            if self.task.training.batch_size is not None:
                keys = now.batches(int(client)).words(len(rows)).tolist()
                rows = [row for _, row in sorted(zip(keys, rows, strict=True))]
            moved = self._local_run(now.model, rows, now.learning_rate(self.task)) - now.model
            updates.append(self._weight(client) * moved)
        return _clip_and_sum(updates, clip_norm, now.model)

    def sum_dp_sgd(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Return the sum of DP-SGD, as ``LocalEngine`` specifies."""
        model = now.model
        total, seen, padding = np.zeros_like(model), [_clip_and_sum([], runs.clip_norm, model)], []
        training = self.task.training
        step_size = now.learning_rate(self.task) / (runs.batch_probability * training.expected_examples)
        for client in now.cohort:
            rows, stream, here = self._usable(client), now.noise(int(client)), model
            joins = now.batches(int(client)).coins((runs.steps, len(rows)), runs.batch_probability)
            draws = runs.noise_stddev * stream.normals((runs.steps, model.size + 1))
            for step in range(runs.steps):
                joined = [row for row, joined in zip(rows, joins[step], strict=True) if joined]
                seen.append(_clip_and_sum([self._gradient(here, row) for row in joined], runs.clip_norm, model))
                here = here - step_size * (seen[-1].total + draws[step, :-1])
            total = total + self._weight(int(client)) * (here - model)
            padding.append(draws[:, -1].sum() / np.sqrt(runs.steps))
        largest = max(one.largest_norm or 0.0 for one in seen)
        clipped, dropped, count = (sum(getattr(one, name) for one in seen) for name in ("clipped", "dropped", "count"))
        return ClippedSum(total, largest, clipped, dropped, count, np.array(padding))

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return loss and score, as ``Engine`` specifies."""
        trained, (features, targets) = self.task.model, self.task.test_set()
        with program.use_full_precision():
            outputs = trained.apply(trained.unflatten(jnp.asarray(model)), jnp.asarray(features, jnp.float64))
            return float(trained.losses(outputs, targets).mean()), float(trained.compute_score(outputs, targets))

    def _local_run(self, model: Vector, rows: list[int], learning_rate: float) -> Vector:
        """Return the model after local steps that take the rows of a client in turn."""
        if not rows:
            return model
        size = min(self.task.training.batch_size or len(rows), len(rows))
        turns = itertools.cycle(rows)
        for _ in range(self.task.training.local_steps):
            slope = np.mean([self._gradient(model, next(turns)) for _ in range(size)], axis=0)
            model = model - learning_rate * slope
        return model

    def _weight(self, client: int) -> float:
        """Return the weight of a client: 1, or its number of rows divided by a larger cap."""
        cap = self.task.training.example_cap
        return 1.0 if cap is None else min(int(self.task.clients.sizes[client]) / cap, 1.0)

    def _usable(self, client: int) -> list[int]:
        """Return the rows with finite numbers and a valid class."""
        clients, model, kept = self.task.clients, self.task.model, []
        for row in range(*clients.rows_of(client).indices(len(clients.features))):
            target = float(clients.targets[row])
            numbers = clients.features[row].tolist()
            labelled = model.classes is None or 0 <= target < model.classes
            known = model.ids is None or all(number in range(model.ids) for number in numbers)
            if labelled and known and all(abs(number) <= 1e100 for number in [*numbers, target]):
                kept.append(row)
        return kept

    def _gradient(self, model: Vector, row: int) -> Vector:
        """Return central differences of the loss of one example; shape (d,)."""
        clients, kind = self.task.clients, self.task.model.target_type(np.dtype(np.float64))
        features, targets = clients.features[row : row + 1].astype(np.float64), clients.targets[row : row + 1]

        def losses(points: NDArray[np.float64]) -> NDArray[np.float64]:
            with program.use_full_precision():
                return np.asarray(_losses(self.task.model, points, features, targets.astype(kind)))

        return _differences(losses, model)


def clip_vector(vector: Vector, clip_norm: float) -> Vector:
    """Return a vector clipped to ``clip_norm``; zero if it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        factor = clipping.compute_clip_factors(np.linalg.norm(vector), clip_norm, xp=np)
    return np.asarray(factor * vector if factor > 0 else np.zeros_like(vector))


def _clip_and_sum(vectors: list[Vector], clip_norm: float, model: Vector) -> ClippedSum:
    """Return the sum of clipped vectors."""
    short = [clip_vector(vector, clip_norm) for vector in vectors]
    norms = [float(np.linalg.norm(vector)) for vector in short]
    changed = [not np.array_equal(one, other) for one, other in zip(short, vectors, strict=True)]
    dropped = [not np.isfinite(vector).all() for vector in vectors]
    return ClippedSum(
        sum(short, np.zeros_like(model)), max(norms, default=0.0), sum(changed), sum(dropped), len(vectors)
    )


@partial(jax.jit, static_argnames="model")
def _losses(model: Model, points: Any, features: Any, targets: Any) -> Any:
    """Return the loss of one example at several parameter vectors; shape (points,)."""
    return jax.vmap(lambda point: model.losses(model.apply(model.unflatten(point), features), targets)[0])(points)


def _differences(function: Callable[[NDArray[np.float64]], NDArray[np.float64]], point: Vector) -> NDArray[np.float64]:
    directions = STEP * np.eye(point.size)
    return (function(point + directions) - function(point - directions)) / (2 * STEP)
