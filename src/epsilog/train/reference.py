"""The slow engine: NumPy, one example at a time, gradients by finite differences. Only to be obviously right.

It computes what ``engine`` computes from the same draws; a test holds the two together. It shares with the fast engine
the formula of the loss and the rule for the clip factor, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from epsilog.train import clipping, models
from epsilog.train.sampling import Ids
from epsilog.train.task import Task

Vector = NDArray[np.float64]
STEP = 1e-5


def sum_of_updates(task: Task, vector: Vector, cohort: Ids, *, clip_norm: float) -> tuple[Vector, list[float]]:
    """Returns the sum of clipped updates, and every update's norm after clipping."""
    clipped = [clip(_local_run(task, vector, client) - vector, clip_norm) for client in cohort]
    return sum(clipped, np.zeros_like(vector)), [float(np.linalg.norm(update)) for update in clipped]


def sum_of_noisy_runs(
    task: Task,
    vector: Vector,
    cohort: Ids,
    *,
    batches: NDArray[np.bool_],
    noise: Vector,
    clip_norm: float,
    batch_probability: float,
) -> tuple[Vector, list[float]]:
    """Returns the sum of noisy model differences, and every clipped gradient's norm."""
    total, norms = np.zeros_like(vector), []
    for slot, client in enumerate(cohort):
        model = vector
        for step in range(batches.shape[1]):
            joined = np.flatnonzero(batches[slot, step] & task.clients.present[client]).tolist()
            gradients = [clip(_gradient(task, model, client, row), clip_norm) for row in joined]
            norms += [float(np.linalg.norm(gradient)) for gradient in gradients]
            noisy = sum(gradients, np.zeros_like(vector)) + noise[slot, step]
            model = model - task.training.learning_rate * noisy / (batch_probability * task.training.nominal_examples)
        total = total + (model - vector)
    return total, norms


def clip(vector: Vector, clip_norm: float) -> Vector:
    """Shortens a vector to ``clip_norm``; anything that is not finite becomes zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        factor = clipping.factors(np.linalg.norm(vector), clip_norm, xp=np)
    return np.asarray(factor * vector if factor > 0 else np.zeros_like(vector))


def _local_run(task: Task, model: Vector, client: int) -> Vector:
    rows = range(task.clients.features.shape[1])
    size = task.training.batch_size or len(rows)
    for step in range(task.training.local_steps):
        first = step * size % len(rows)
        batch = [row for row in rows[first : first + size] if task.clients.present[client, row]]
        if batch:
            slope = np.mean([_gradient(task, model, client, row) for row in batch], axis=0)
            model = model - task.training.learning_rate * slope
    return model


def _gradient(task: Task, model: Vector, client: int, row: int) -> Vector:
    """Central differences of one example's loss; shape (d,)."""
    features = task.clients.features[client, row : row + 1]
    targets = task.clients.targets[client, row : row + 1]

    def loss(vector: Vector) -> float:
        layers = models.unflatten(task.model, vector)
        return float(models.losses(task.model, layers, features, targets, xp=np)[0])

    return _differences(loss, model)


def _differences(function: Callable[[Vector], float], point: Vector) -> Vector:
    directions = STEP * np.eye(point.size)
    return np.array([(function(point + one) - function(point - one)) / (2 * STEP) for one in directions])
