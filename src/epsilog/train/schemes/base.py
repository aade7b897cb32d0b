"""What a scheme's training file must say: how a cohort changes the model, and what it cannot be trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import Scheme
from epsilog.train.engines import Clipped, Engine
from epsilog.train.noise import Stream
from epsilog.train.sampling import Ids
from epsilog.train.task import Task

Vector = NDArray[np.float64]


class Streams(Protocol):
    """The round's draws, by what they are for ("batches" or "noise"), and of whom: the server, or one client."""

    def __call__(self, purpose: str, *, client: int | None = None) -> Stream:
        """Opens the draws."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What a cohort does to the model.

    Attributes:
        step: what is added to the model; shape (d,).
        clipped: what the curator may see of the clipping.
        padding: the noise on coordinates whose true sum is 0.
    """

    step: Vector
    clipped: Clipped
    padding: Vector


class ChangeOf(Protocol):
    """A scheme's own part of a round."""

    def __call__(
        self, scheme: Any, engine: Engine, model: Vector, cohort: Ids, streams: Streams, /, *, private: bool
    ) -> Change:
        """Clips, sums and adds noise; without ``private`` it leaves out clip and noise."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """How one kind of scheme is trained.

    Attributes:
        change: computes a round's change of the model.
        require_fit: refuses a task that this scheme cannot be trained on, beyond what holds for every scheme.
    """

    change: ChangeOf
    require_fit: Callable[[Any, Task], None]


TRAINED: dict[type[Scheme], Trainer] = {}
"""How each scheme is trained; a subclass of one is not it."""


def trains(
    scheme: type[Scheme], *, require_fit: Callable[[Any, Task], None] = lambda *_: None
) -> Callable[[ChangeOf], ChangeOf]:
    """Decorates the function that computes the rounds of ``scheme``."""

    def keep(change: ChangeOf) -> ChangeOf:
        TRAINED[scheme] = Trainer(change, require_fit)
        return change

    return keep
