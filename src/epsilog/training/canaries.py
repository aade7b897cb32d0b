"""Canaries in training: their slots, their contents, and their scores under a released model.

At the client level, a canary is a client that sends one random direction, of the clip norm's length, whenever it takes
part. Its score is the cosine of that direction and the model's change. At the example level, a canary is a row of
random numbers with a random target. Its score is the decrease of its loss. An excluded canary leaves its slot empty, or
leaves a row that no step can use: a neighbor under every relation that training supports.

Scores depend on the released model, on public facts and on the canaries' contents, never on their coins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import Canaries, CheckError, check
from epsilog.training.federation import Federation, Floats
from epsilog.training.noise import Randomness, RandomStream
from epsilog.training.task import CANARY_SLOT_BOUND, Task

Vector = NDArray[np.float64]


def draw_canaries(count: int, randomness: Randomness) -> Canaries:
    """Return canaries with a new secret, which determines everything about them.

    Args:
        count: number of canaries.
        randomness: the operating system's, or a simulation's: equal seeds draw equal canaries.
    """
    words = randomness.stream("canaries", 0).words(4)
    return Canaries(count, words.astype("<u8").tobytes().hex())


def add_canary_slots(task: Task, canaries: int) -> Task:
    """Return the task with empty slots for canaries, which count as units.

    Args:
        task: a task that holds its clients' rows.
        canaries: number of slots to add.
    """
    more = check.integer(1)(canaries=canaries)
    if not task.unit_is_client:
        return replace(task, population=task.units + more)
    population = None if task.population is None else task.population + more
    return replace(task, clients=task.clients.pad_clients(task.clients.count + more), population=population)


def insert_canaries(task: Task, canaries: Canaries) -> Task:
    """Return the task with canaries in its empty slots; see ``add_canary_slots``.

    Client canaries take the last slots. Example canaries go to the clients in turn, and the population counts them.

    Raises:
        CheckError: there are too few empty slots, the clients hold their own rows, or the task has canaries already.
    """
    if task.canaries is not None:
        raise CheckError("canaries", "absent before they are inserted", f"{task.canaries.count}")
    if task.clients.names:
        raise CheckError("canaries", "absent if clients hold their own rows", f"{canaries.count}")
    if task.unit_is_client:
        return replace(task, canaries=canaries)
    if task.units < task.examples + canaries.count:
        raise CheckError("canaries", CANARY_SLOT_BOUND, f"{canaries.count}")
    features, targets = make_canary_rows(canaries, task)
    features[~canaries.included] = np.nan  # present, but no step can use them
    owners = np.arange(canaries.count) % task.clients.count
    return replace(task, clients=_with_rows(task.clients, owners, features, targets), canaries=canaries)


def _with_rows(clients: Federation, owners: NDArray[np.int64], features: Floats, targets: NDArray[Any]) -> Federation:
    """Return the clients with further rows, each after the rows of its owner."""
    order = np.argsort(owners, kind="stable")  # clients without rows share an offset with their neighbors
    at, features, targets = clients.client_offsets[owners[order]], features[order], targets[order]
    sizes = clients.sizes + np.bincount(owners, minlength=clients.count)
    return Federation(np.insert(clients.features, at, features, axis=0), np.insert(clients.targets, at, targets), sizes)


def make_canary_rows(canaries: Canaries, task: Task) -> tuple[Floats, NDArray[Any]]:
    """Return the row of each canary, included or not: random numbers in (-1, 1) or ids, and a target or a class."""
    model, width = task.model, task.clients.features.shape[1]
    features = np.empty((canaries.count, width), task.clients.features.dtype)
    targets = np.empty(canaries.count, task.clients.targets.dtype)
    for one in range(canaries.count):
        drawn = _stream(canaries, "row", one).uniforms((width + 1,))
        features[one] = _spread(drawn[:-1], model.ids)
        targets[one] = _spread(drawn[-1:], model.classes)[0]
    return features, targets


def _spread(uniforms: Vector, count: int | None) -> Vector:
    """Return uniform numbers in (-1, 1), or uniform integers from 0 to ``count - 1``."""
    return 2 * uniforms - 1 if count is None else np.floor(count * uniforms)


def make_canary_direction(canaries: Canaries, one: int, size: int) -> Vector:
    """Return the direction that canary ``one`` sends, of norm 1; shape (size,)."""
    drawn = _stream(canaries, "direction", one).normals((size,))
    return np.asarray(drawn / np.linalg.norm(drawn))


def _stream(canaries: Canaries, purpose: str, one: int) -> RandomStream:
    return RandomStream.from_key(canaries.key(purpose, one))


def compute_canary_scores(task: Task, model: Vector) -> Vector:
    """Return the score of each canary, included or not, under a released model; higher if it seems included.

    Args:
        task: a task with canaries.
        model: a released model; shape (d,). One that is not finite gives every canary the score 0.

    Returns:
        Cosines, or decreases of losses; shape (m,), finite.
    """
    canaries = task.canaries
    if canaries is None:
        raise CheckError("canaries", "inserted into the task first", "none")
    if not np.isfinite(model).all():
        return np.zeros(canaries.count)
    if task.unit_is_client:
        return _cosines(canaries, model - task.model.start)
    features, targets = make_canary_rows(canaries, task)
    with np.errstate(over="ignore", invalid="ignore"):
        fell = task.model.compute_losses(task.model.start, features, targets)
        fell -= task.model.compute_losses(model, features, targets)
    return np.where(np.isfinite(fell), fell, 0.0)


def _cosines(canaries: Canaries, moved: Vector) -> Vector:
    length = float(np.linalg.norm(moved))
    if not 0 < length < np.inf:
        return np.zeros(canaries.count)
    ahead = moved / length
    return np.array([float(make_canary_direction(canaries, one, moved.size) @ ahead) for one in range(canaries.count)])
