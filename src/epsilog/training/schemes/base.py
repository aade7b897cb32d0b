"""What the training of a scheme defines: how a cohort changes the model, and which tasks fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme, Upload, remove_protection
from epsilog.training.engines import ClippedSum, Engine, RoundInputs
from epsilog.training.engines.base import ClientStreams
from epsilog.training.noise import RandomStream
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

Vector = NDArray[np.float64]
PADDING = 16  # extra coordinates of central noise, on a true sum of 0


class RoundStreams(Protocol):
    """The draws of a round by purpose ("batches" or "noise"), of the server or of one client."""

    def __call__(self, purpose: str, *, client: int | None = None) -> RandomStream:
        """Return the draws."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundUpdate:
    """The update of a model by one round.

    Attributes:
        step: the change of the model before the server optimizer; shape (d,).
        clipped: the clipping statistics, for the curator alone.
        padding: noise on coordinates with a true sum of 0.
        memory: state of the scheme for the next round; shape (m,), any m.
        clip_norm: the clip norm of this round; None for that of the scheme.
        unclipped: the noisy fraction of updates within the clip norm; None if the scheme does not measure it.
        aborted: whether too few clients replied; then the server saw nothing, and the model stays the same.
    """

    step: Vector
    clipped: ClippedSum
    padding: Vector
    memory: Vector = field(default_factory=lambda: np.zeros(0))
    clip_norm: float | None = None
    unclipped: float | None = None
    aborted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RoundContext:
    """The inputs of a round.

    Attributes:
        round: 1, 2, ...
        model: the released global model; shape (d,).
        memory: state of the scheme after the round before; empty before the first.
        cohort: sorted ids of the participants.
        streams: the draws of the round.
        private: False omits clipping and noise, for a baseline without protection.
        learning_rate_factor: multiplies the learning rate of the task.
    """

    round: int
    model: Vector
    memory: Vector
    cohort: Ids
    streams: RoundStreams
    private: bool
    learning_rate_factor: float = 1.0

    @property
    def inputs(self) -> RoundInputs:
        """Return the inputs of an engine; each client has its own streams."""

        def of(purpose: str) -> ClientStreams:
            return lambda client: self.streams(purpose, client=client)

        batches, noise, replies = of("batches"), of("noise"), of("replies")
        return RoundInputs(self.model, self.cohort, batches, noise, replies, self.learning_rate_factor)

    def sum_uploads(self, engine: Engine, upload: Upload, *, cohort: Ids | None = None) -> ClippedSum:
        """Return the sum of the uploads of the cohort, or of other clients; a baseline has no clipping and no noise."""
        inputs = self.inputs if cohort is None else self.inputs.of(cohort)
        return engine.sum_uploads(inputs, upload if self.private else remove_protection(upload))


RoundFunction = Callable[[Any, Engine, RoundContext], RoundUpdate]
"""(scheme, engine, now) -> the clipped, summed and noisy update of a round: what depends on the scheme."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """The training functions of one scheme.

    Attributes:
        change: computes the update of a round.
        require_fit: refuses a task that does not fit this scheme, beyond the checks for all schemes.
    """

    change: RoundFunction
    require_fit: Callable[[Any, Task], None]


TRAINED: dict[type[Scheme], Trainer] = {}
"""Trainers by the class of the scheme; a subclass needs its own."""


def register_trainer(
    scheme: type[Scheme], *, require_fit: Callable[[Any, Task], None] = lambda *_: None
) -> Callable[[RoundFunction], RoundFunction]:
    """Return a decorator for the function that computes the rounds of ``scheme``."""

    def keep(change: RoundFunction) -> RoundFunction:
        TRAINED[scheme] = Trainer(change, require_fit)
        return change

    return keep
