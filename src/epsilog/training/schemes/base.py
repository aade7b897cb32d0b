"""What a scheme's training file states: how a cohort changes the model, and what it cannot be trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme, Upload, remove_protection
from epsilog.training.engines import ClientStreams, ClippedSum, Engine, RoundInputs
from epsilog.training.noise import RandomStream
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

Vector = NDArray[np.float64]
PADDING = 16  # coordinates whose true sum is 0 that a round of central noise adds


class RoundStreams(Protocol):
    """The round's draws, by what they are for ("batches" or "noise"), and of whom: the server, or one client."""

    def __call__(self, purpose: str, *, client: int | None = None) -> RandomStream:
        """Open the draws."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundUpdate:
    """What a cohort does to the model.

    Attributes:
        step: what is added to the model; shape (d,).
        clipped: what the curator may see of the clipping.
        padding: the noise on coordinates whose true sum is 0.
        memory: what the scheme remembers for the next round; shape (m,), any m.
        clip_norm: what this round clipped to; None for the scheme's own.
        unclipped: the noisy fraction of updates within it; None where the scheme does not ask.
        aborted: whether too few replied: then nothing was seen, and nothing moves.
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
        memory: what the scheme remembered in the round before; empty before the first.
        cohort: who takes part; sorted ids.
        streams: the round's draws.
        private: False leaves out clip and noise, for a baseline without protection.
        learning_rate_factor: multiplies the task's learning rate.
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
        """What an engine needs to know of it; each client has its own streams."""

        def of(purpose: str) -> ClientStreams:
            return lambda client: self.streams(purpose, client=client)

        batches, noise, replies = of("batches"), of("noise"), of("replies")
        return RoundInputs(self.model, self.cohort, batches, noise, replies, self.learning_rate_factor)

    def sum_uploads(self, engine: Engine, upload: Upload, *, cohort: Ids | None = None) -> ClippedSum:
        """Sum what the cohort, or some other clients, upload; without clip and noise in a baseline."""
        inputs = self.inputs if cohort is None else self.inputs.of(cohort)
        return engine.sum_uploads(inputs, upload if self.private else remove_protection(upload))


class RoundFunction(Protocol):
    """A scheme's own part of a round."""

    def __call__(self, scheme: Any, engine: Engine, now: RoundContext, /) -> RoundUpdate:
        """Clips, sums and adds noise."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """How one kind of scheme is trained.

    Attributes:
        change: computes a round's change of the model.
        require_fit: refuses a task that this scheme cannot be trained on, beyond what holds for every scheme.
    """

    change: RoundFunction
    require_fit: Callable[[Any, Task], None]


TRAINED: dict[type[Scheme], Trainer] = {}
"""How each scheme is trained; a subclass of one is not it."""


def register_trainer(
    scheme: type[Scheme], *, require_fit: Callable[[Any, Task], None] = lambda *_: None
) -> Callable[[RoundFunction], RoundFunction]:
    """Decorate the function that computes the rounds of ``scheme``."""

    def keep(change: RoundFunction) -> RoundFunction:
        TRAINED[scheme] = Trainer(change, require_fit)
        return change

    return keep
