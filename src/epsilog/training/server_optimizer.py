"""Server optimizer and learning-rate schedules: public post-processing of the noisy step of a round.

The step is already protected. Optimizer and schedule depend on steps and on the number of the round alone, so they cost
no privacy, and their state is as public as the models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check

Vector = NDArray[np.float64]
OPTIMIZERS = ("sgd", "momentum", "adam")
SCHEDULES = ("constant", "cosine", "step")
SECOND_MOMENTUM, FLOOR = 0.99, 1e-3  # of Adam, as Reddi et al. 2021 use them at a server


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the server applies the step of a round to the model.

    Attributes:
        optimizer: "sgd" adds the step; "momentum" adds a decaying sum of all steps so far (Polyak 1964). "adam" divides
            their moving average by the root of that of their squares (Kingma & Ba 2015, Algorithm 1). It is FedAdam of
            Reddi et al. 2021 (arXiv:2003.00295), with its floor of 1e-3 and second momentum of 0.99.
        learning_rate: multiplies the change; None for 1. "adam" requires it.
        schedule: how the learning rate changes over the rounds.
        momentum: decay factor per round; None for 0.9. "sgd" has none.
    """

    optimizer: Annotated[str, check.one_of(OPTIMIZERS)] = "sgd"
    learning_rate: Annotated[float | None, check.optional(check.positive())] = None
    schedule: Annotated[str, check.one_of(SCHEDULES)] = "constant"
    momentum: Annotated[float | None, check.optional(check.in_half_open_interval(0, 1))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.optimizer == "adam" and self.learning_rate is None:
            raise CheckError("learning_rate", "given for adam", "nothing")
        if self.optimizer == "sgd" and self.momentum is not None:
            raise CheckError("momentum", "absent for sgd", f"{self.momentum}")

    def apply_step(
        self, model: Vector, step: Vector, memory: Vector, *, done: int, rounds: int
    ) -> tuple[Vector, Vector]:
        """Return the model after the step of a round, and the state for the next round.

        Args:
            model: the model before the round; shape (d,).
            step: the noisy step of the round; shape (d,).
            memory: the state after the round before; empty before the first.
            done: the number of the round, from 1.
            rounds: number of planned rounds.
        """
        rate = (1.0 if self.learning_rate is None else self.learning_rate) * compute_learning_rate_factor(
            self.schedule, done, rounds
        )
        keep = 0.9 if self.momentum is None else self.momentum
        if self.optimizer == "sgd":
            return model + rate * step, memory
        first, second = np.split(memory, 2) if self.optimizer == "adam" else (memory, memory[:0])
        first = first if first.size else np.zeros_like(step)
        if self.optimizer == "momentum":
            summed = keep * first + step
            return model + rate * summed, summed
        second = second if second.size else np.zeros_like(step)
        mean, square = keep * first + (1 - keep) * step, SECOND_MOMENTUM * second + (1 - SECOND_MOMENTUM) * step**2
        fair = mean / (1 - keep**done), square / (1 - SECOND_MOMENTUM**done)
        return model + rate * fair[0] / (np.sqrt(fair[1]) + FLOOR), np.concatenate([mean, square])


def compute_learning_rate_factor(schedule: str, done: int, rounds: int) -> float:
    """Return the factor of the learning rate in a round; 1 in the first.

    "cosine" falls along half a cosine wave that reaches 0 after the last round; "step" falls to 0.1 after half of the
    rounds and to 0.01 after three quarters.

    >>> [compute_learning_rate_factor("step", done, 4) for done in (1, 2, 3, 4)]
    [1.0, 1.0, 0.1, 0.01]
    """
    rounds = check.integer(1)(rounds=rounds)
    before = check.integer(1)(done=done) - 1
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * before / rounds))
    if schedule == "step":
        return (1.0, 0.1, 0.01)[(2 * before >= rounds) + (4 * before >= 3 * rounds)]
    return 1.0
