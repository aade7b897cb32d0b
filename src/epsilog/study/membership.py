"""Was somebody among the clients? The attack asks how well the released model fits a unit's rows.

Half of the units, by coins, are left out of training; the attacker knows everybody's rows and the last model, and
guesses that those with a small loss took part (Yeom, Giacomelli, Fredrikson & Jha 2018, arXiv:1709.01604).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import check
from epsilog.train import Federation, Randomness, Task

Vector = NDArray[np.float64]
BLOCK = 8192  # rows whose losses are computed at a time


@dataclass(frozen=True, slots=True)
class Attack:
    """How well scores tell members from others.

    Attributes:
        auc: the chance that a member scores above another unit, ties counting half; 0.5 is guessing.
        tpr: the share of members above the threshold that at most ``fpr`` of the others pass.
        fpr: the false positive rate that the threshold is set to.
        members: units that took part.
        others: units that were left out.
    """

    auc: float
    tpr: float
    fpr: float
    members: int
    others: int

    @property
    def beyond_chance(self) -> bool:
        """Whether the area is more than three standard errors above guessing (Mann & Whitney 1947)."""
        variance = (self.members + self.others + 1) / (12 * self.members * self.others)
        return self.auc > 0.5 + 3 * math.sqrt(variance)


def halved(task: Task, seed: int) -> tuple[Task, NDArray[np.bool_]]:
    """Leaves out each unit by a coin of its own.

    Returns:
        The task without their rows, in which they still take their turns, and who took part: one flag a unit (a client,
        or a row).
    """
    clients, coins = task.clients, Randomness.simulated(seed).stream("membership", 0)
    if task.unit_is_client:
        members = coins.coins((clients.count,), 0.5)
        rows = np.repeat(members, clients.sizes)
    else:
        members = rows = coins.coins((len(clients.features),), 0.5)
    whose = np.repeat(np.arange(clients.count), clients.sizes)[rows]
    sizes = np.bincount(whose, minlength=clients.count)
    kept = Federation(np.asarray(clients.features[rows]), np.asarray(clients.targets[rows]), sizes)
    return replace(task, clients=kept), members


def losses_of_units(task: Task, model: Vector) -> Vector:
    """Each unit's mean loss under a model; nan for a client without rows that can be used; shape (units,)."""
    clients, usable = task.clients, task.clients.usable(task.model)
    params = task.model.unflatten(model.astype(clients.features.dtype))
    losses = np.full(len(clients.features), np.nan)
    kind = task.model.target_type(clients.features.dtype)
    for first in range(0, losses.size, BLOCK):
        rows = np.flatnonzero(usable[first : first + BLOCK]) + first
        if rows.size:
            outputs = task.model.apply(params, clients.features[rows])
            losses[rows] = np.asarray(task.model.losses(outputs, clients.targets[rows].astype(kind)))
    if not task.unit_is_client:
        return losses
    whose = np.repeat(np.arange(clients.count), clients.sizes)
    sums = np.bincount(whose[usable], losses[usable], minlength=clients.count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(whose[usable], minlength=clients.count))


def attack(scores: Vector, members: NDArray[np.bool_], *, fpr: float) -> Attack:
    """Measures how well large scores tell members; a score that is not a number is left out.

    Args:
        scores: shape (units,).
        members: who took part; shape (units,).
        fpr: false positive rate to set the threshold to, in (0, 1).

    >>> found = attack(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False]), fpr=0.5)
    >>> found.auc, found.tpr
    (1.0, 1.0)
    """
    fpr = check.between(0, 1)(fpr=fpr)
    told = ~np.isnan(scores)
    inside, outside = scores[told & members], np.sort(scores[told & ~members])
    check.integer(1)(members=inside.size)
    check.integer(1)(others=outside.size)
    below, upto = (np.searchsorted(outside, inside, side=side) for side in ("left", "right"))
    auc = float((below + upto).sum() / (2 * inside.size * outside.size))
    threshold = outside[outside.size - 1 - int(fpr * outside.size)]
    return Attack(auc, float((inside > threshold).mean()), fpr, int(inside.size), int(outside.size))
