"""The slow engine: NumPy, one example at a time, gradients by finite differences. Only to be obviously right.

It computes what ``engine`` computes from the same draws; a test holds the two together. It shares with the fast engine
the formula of the loss and the rule for the clip factor, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from epsilog.train import clipping, models
from epsilog.train.sampling import Ids
from epsilog.train.task import Task

Vector = NDArray[np.float64]
STEP = 1e-5


def sum_of_updates(
    task: Task, vector: Vector, cohort: Ids, *, clip_norm: float, orders: NDArray[np.int32] | None = None
) -> tuple[Vector, list[float]]:
    """Returns the sum of clipped updates, and every update's norm after clipping."""
    clipped = []
    for slot, client in enumerate(cohort):
        rows = _usable(task, client) if orders is None else orders[slot][: len(_usable(task, client))].tolist()
        clipped.append(clip(_local_run(task, vector, client, rows) - vector, clip_norm))
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
            joined = [row for row in _usable(task, client) if batches[slot, step, row]]
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


def _local_run(task: Task, model: Vector, client: int, rows: list[int]) -> Vector:
    """Takes a client's rows in turn, so many a step; with fewer than that, all of them in each."""
    if not rows:
        return model
    size = min(task.training.batch_size or len(rows), len(rows))
    turns = itertools.cycle(rows)
    for _ in range(task.training.local_steps):
        batch = [next(turns) for _ in range(size)]
        slope = np.mean([_gradient(task, model, client, row) for row in batch], axis=0)
        model = model - task.training.learning_rate * slope
    return model


def _usable(task: Task, client: int) -> list[int]:
    """The rows that count: present, with finite numbers, and a label of some class."""
    classes, kept = task.model.widths[-1], []
    for row in np.flatnonzero(task.clients.present[client]).tolist():
        target = float(task.clients.targets[client, row])
        numbers = [*task.clients.features[client, row].tolist(), target]
        labelled = task.model.loss != "cross-entropy" or 0 <= target < classes
        if labelled and all(abs(number) <= 1e100 for number in numbers):
            kept.append(row)
    return kept


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
