"""Engines around another engine: some clients do not reply, or send something else than an honest update."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import numpy as np

from epsilog.schemes import LocalDPSGD, NoisyUpdate, Upload
from epsilog.terms import CheckError, check
from epsilog.training.canaries import make_canary_direction
from epsilog.training.engines.base import (
    ClippedSum,
    Engine,
    RoundInputs,
    Summing,
    Vector,
    add_client_noise,
    combine_sums,
)
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

CANARY_MARGIN = 1e-9  # relative distance of a canary's length from the clip norm
Directions = Callable[[int], Vector | None]
"""What a canary sends, by its id, at length 1; None for one that is out, and sends nothing."""


class SplitEngine(Engine):
    """An engine that leaves some clients to another one. The first one gets no round of theirs.

    Attributes:
        task: what the honest clients train on.
    """

    def __init__(self, honest: Engine, ids: Collection[int], others: Summing) -> None:
        self.task, self._honest, self._others = honest.task, honest, others
        self._ids = np.array(sorted(ids), dtype=np.int64)

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """As ``Engine`` says."""
        here = np.isin(now.cohort, self._ids)
        honest = self._honest.sum_uploads(now.of(now.cohort[~here]), upload)
        others = self._others.sum_uploads(now.of(now.cohort[here]), upload)
        return combine_sums([honest, others], size=now.model.size)

    def unusable(self, cohort: Ids) -> int:
        """As the honest engine says, of all clients' rows."""
        return self._honest.unusable(cohort)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As the honest engine says."""
        return self._honest.evaluate(model)


class CanaryClients:
    """The canaries alone. Each sends one direction instead of an update, and noise like all clients, in or out.

    Attributes:
        directions: what each sends.
        unclipped: the length of that where no clip applies.
    """

    def __init__(self, directions: Directions, unclipped: float = 0.0) -> None:
        self.directions, self.unclipped = directions, unclipped

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Sum directions as long as the clip lets them be; one that is out counts like a client without rows."""
        if isinstance(upload, LocalDPSGD):  # a whole client's direction is not what this noise hides
            raise CheckError("canaries", "absent where a scheme protects examples", "given")
        if isinstance(upload, NoisyUpdate):
            return add_client_noise(lambda: self._sum_directions(now, upload.clip_norm), now, upload.noise_stddev)
        return self._sum_directions(now, upload.clip_norm)

    def _sum_directions(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        length = (1 - CANARY_MARGIN) * clip_norm if math.isfinite(clip_norm) else self.unclipped
        sent = [each for one in now.cohort.tolist() if (each := self.directions(one)) is not None]
        total = length * sum(sent, np.zeros(now.model.size))
        return ClippedSum(total, length if sent else 0.0, 0, 0, now.cohort.size)


def add_canary_clients(honest: Engine, task: Task) -> Engine:
    """Return an engine in which the canaries of a task take part; without a clip they send nothing."""
    canaries = task.canaries
    if canaries is None or not task.unit_is_client:  # canaries among examples are rows
        return honest
    first, included = task.clients.count - canaries.count, canaries.included
    sent = partial(make_canary_direction, canaries, size=task.model.size)
    directions = CanaryClients(lambda one: sent(one - first) if included[one - first] else None)
    return SplitEngine(honest, range(first, task.clients.count), directions)


class DropoutEngine(Engine):
    """An engine in which some clients are silent: what is missing is missing from the sum, and nothing else changes.

    Attributes:
        task: what is trained on what.
    """

    def __init__(self, engine: Engine, dropout: float) -> None:
        """Wrap an engine.

        Args:
            engine: computes for those who reply.
            dropout: the probability that a client of a cohort does not reply, in [0, 1).
        """
        self.task, self._engine = engine.task, engine
        self._dropout = check.in_half_open_interval(0, 1)(dropout=dropout)

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Sum the uploads of those who reply; others' noise is missing, too."""
        silent = [bool(now.replies(client).coins((1,), self._dropout)[0]) for client in now.cohort.tolist()]
        heard = now.of(now.cohort[~np.array(silent, dtype=bool)])
        found = self._engine.sum_uploads(heard, upload)
        return replace(found, silent=found.silent + sum(silent))

    def unusable(self, cohort: Ids) -> int:
        """As the engine says, silent or not."""
        return self._engine.unusable(cohort)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As the engine says."""
        return self._engine.evaluate(model)
