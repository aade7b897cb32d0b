"""Canaries in training: their places, their content, and how a released model is scored for them.

At the client level, a canary is a client that sends one random direction, of the clip norm's length, whenever it takes
part. Its score is the cosine of that direction and the model's change. At the example level, a canary is a row of
random numbers with a random target. Its score is how far its loss fell. An excluded canary leaves its place empty, or a
row that no step can use: a neighbor in every relation that training is priced for.

Scores depend on the released model, on public facts and on the canaries' content, never on their coins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import Canaries, CheckError, check
from epsilog.training.federation import Federation, Floats
from epsilog.training.models import Model
from epsilog.training.noise import Randomness, RandomStream
from epsilog.training.task import CANARY_SLOT_BOUND, Task

Vector = NDArray[np.float64]
COSINE, LOSS = "cosine", "loss"
AT_ONCE = 1024  # rows that are pushed through a model in one go


def draw_canaries(count: int, randomness: Randomness) -> Canaries:
    """Draw the secret that determines everything about the canaries.

    Args:
        count: how many there are.
        randomness: the operating system's; or a simulation's, under which the same seed draws the same canaries.
    """
    words = randomness.stream("canaries", 0).words(4)
    return Canaries(count, words.astype("<u8").tobytes().hex())


def add_canary_slots(task: Task, canaries: int) -> Task:
    """The same task with empty places for as many canaries; they count among the units from then on.

    Args:
        task: whose clients' rows lie here.
        canaries: how many places are added.
    """
    more = check.integer(1)(canaries=canaries)
    if not task.unit_is_client:
        return replace(task, population=task.units + more)
    population = None if task.population is None else task.population + more
    return replace(task, clients=task.clients.pad_clients(task.clients.count + more), population=population)


def insert_canaries(task: Task, canaries: Canaries) -> Task:
    """Put canaries into places that are empty; see ``add_canary_slots``.

    Clients take the last places. Examples lie one with each client in turn; there must be units enough declared.

    Raises:
        CheckError: too few empty places, rows that lie elsewhere, or canaries that are there already.
    """
    if task.canaries is not None:
        raise CheckError("canaries", "put in once", f"{task.canaries.count} there")
    if task.clients.names:
        raise CheckError("canaries", "absent where clients' rows lie with themselves", f"{canaries.count}")
    if task.unit_is_client:
        return replace(task, canaries=canaries)
    if task.units < task.examples + canaries.count:
        raise CheckError("canaries", CANARY_SLOT_BOUND, f"{canaries.count}")
    features, targets = make_canary_rows(canaries, task)
    features[~canaries.included] = np.nan  # there, and of use to no step
    whose = np.arange(canaries.count) % task.clients.count
    return replace(task, clients=_with_rows(task.clients, whose, features, targets), canaries=canaries)


def _with_rows(clients: Federation, whose: NDArray[np.int64], features: Floats, targets: NDArray[Any]) -> Federation:
    """The same clients, each with further rows behind its own."""
    order = np.argsort(whose, kind="stable")  # rows of neighbors without any of their own begin at the same place
    at, features, targets = clients.client_offsets[whose[order]], features[order], targets[order]
    sizes = clients.sizes + np.bincount(whose, minlength=clients.count)
    return Federation(np.insert(clients.features, at, features, axis=0), np.insert(clients.targets, at, targets), sizes)


def make_canary_rows(canaries: Canaries, task: Task) -> tuple[Floats, NDArray[Any]]:
    """The row that each canary is, in or out: numbers from -1 to 1, or ids, and such a target or a class."""
    model, width = task.model, task.clients.features.shape[1]
    features = np.empty((canaries.count, width), task.clients.features.dtype)
    targets = np.empty(canaries.count, task.clients.targets.dtype)
    for one in range(canaries.count):
        drawn = _stream(canaries, "row", one).uniforms((width + 1,))
        features[one] = _spread(drawn[:-1], model.ids)
        targets[one] = _spread(drawn[-1:], model.classes)[0]
    return features, targets


def _spread(uniforms: Vector, count: int | None) -> Vector:
    """Uniforms over (-1, 1), or over so many whole numbers from 0."""
    return 2 * uniforms - 1 if count is None else np.floor(count * uniforms)


def make_canary_direction(canaries: Canaries, one: int, size: int) -> Vector:
    """What canary ``one`` sends, at length 1; shape (size,)."""
    drawn = _stream(canaries, "direction", one).normals((size,))
    return np.asarray(drawn / np.linalg.norm(drawn))


def _stream(canaries: Canaries, purpose: str, one: int) -> RandomStream:
    return RandomStream.from_key(canaries.key(purpose, one))


def name_canary_score(task: Task) -> str:
    """How canaries are scored where this unit is protected."""
    return COSINE if task.unit_is_client else LOSS


def compute_canary_scores(task: Task, model: Vector) -> Vector:
    """Score every canary of a task by a released model, whether it was in or out; higher for those that seem in.

    Args:
        task: with canaries.
        model: as released; shape (d,). One that is not finite gives every canary the same score.

    Returns:
        Cosines, or how far losses fell; shape (m,), finite.
    """
    canaries = task.canaries
    if canaries is None:
        raise CheckError("canaries", "put into the task first", "none")
    if not np.isfinite(model).all():
        return np.zeros(canaries.count)
    if task.unit_is_client:
        return _cosines(canaries, model - task.model.start)
    features, targets = make_canary_rows(canaries, task)
    with np.errstate(over="ignore", invalid="ignore"):
        fell = _losses(task.model, task.model.start, features, targets) - _losses(task.model, model, features, targets)
    return np.where(np.isfinite(fell), fell, 0.0)


def _cosines(canaries: Canaries, moved: Vector) -> Vector:
    length = float(np.linalg.norm(moved))
    if not 0 < length < np.inf:
        return np.zeros(canaries.count)
    ahead = moved / length
    return np.array([float(make_canary_direction(canaries, one, moved.size) @ ahead) for one in range(canaries.count)])


def _losses(model: Model, vector: Vector, features: Floats, targets: NDArray[Any]) -> Vector:
    """Each row's loss under the parameters of a vector, in the data's own precision; shape (m,)."""
    goals, found = targets.astype(model.target_type(features.dtype)), np.empty(len(features))
    with model.doubles():
        params = model.unflatten(model.asarray(vector.astype(features.dtype)))
        for first in range(0, len(features), AT_ONCE):
            rows = slice(first, first + AT_ONCE)
            outputs = model.apply(params, model.asarray(features[rows]))
            losses = model.losses(outputs, model.asarray(goals[rows]))
            found[rows] = np.asarray(losses.detach() if model.framework == "torch" else losses)
    return found
