"""Engines around other engines: clients that do not reply, or that send other updates than honest clients."""

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
"""Returns the direction of a canary, of norm 1, by its id; None for an excluded one, which sends nothing."""


class _Wrapper(Engine):
    """An engine around another one, which has the rows and scores models. Abstract."""

    def __init__(self, engine: Engine) -> None:
        self.task, self._engine = engine.task, engine

    def unusable(self, cohort: Ids) -> int:
        """Return the number of the inner engine, for all clients."""
        return self._engine.unusable(cohort)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return loss and score of the inner engine."""
        return self._engine.evaluate(model)


class SplitEngine(_Wrapper):
    """An engine that delegates some clients to a second engine.

    Attributes:
        task: the task of the honest clients.
    """

    def __init__(self, honest: Engine, ids: Collection[int], others: Summing) -> None:
        super().__init__(honest)
        self._others = others
        self._ids = np.array(sorted(ids), dtype=np.int64)

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of both engines."""
        here = np.isin(now.cohort, self._ids)
        honest = self._engine.sum_uploads(now.of(now.cohort[~here]), upload)
        others = self._others.sum_uploads(now.of(now.cohort[here]), upload)
        return combine_sums([honest, others], size=now.model.size)


class CanaryClients:
    """The canaries alone. Each sends a fixed direction instead of an update, and noise like all clients.

    Attributes:
        directions: returns the direction of each canary.
        unclipped: the norm of an upload without clipping.
    """

    def __init__(self, directions: Directions, unclipped: float = 0.0) -> None:
        self.directions, self.unclipped = directions, unclipped

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of directions at the clip norm; an excluded canary counts like a client without rows."""
        if isinstance(upload, LocalDPSGD):  # this noise does not protect the direction of a client
            raise CheckError("canaries", "absent if the scheme protects examples", "given")
        if isinstance(upload, NoisyUpdate):
            return add_client_noise(lambda: self._sum_directions(now, upload.clip_norm), now, upload.noise_stddev)
        return self._sum_directions(now, upload.clip_norm)

    def _sum_directions(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        length = (1 - CANARY_MARGIN) * clip_norm if math.isfinite(clip_norm) else self.unclipped
        sent = [each for one in now.cohort.tolist() if (each := self.directions(one)) is not None]
        total = length * sum(sent, np.zeros(now.model.size))
        return ClippedSum(total, length if sent else 0.0, 0, 0, now.cohort.size)


def add_canary_clients(honest: Engine, task: Task) -> Engine:
    """Return an engine with the canaries of a task; without clipping they send nothing."""
    canaries = task.canaries
    if canaries is None or not task.unit_is_client:  # canaries among examples are rows
        return honest
    first, included = task.clients.count - canaries.count, canaries.included
    sent = partial(make_canary_direction, canaries, size=task.model.size)
    directions = CanaryClients(lambda one: sent(one - first) if included[one - first] else None)
    return SplitEngine(honest, range(first, task.clients.count), directions)


class DropoutEngine(_Wrapper):
    """An engine with silent clients; their uploads and noise are missing from the sum.

    Attributes:
        task: the training task.
    """

    def __init__(self, engine: Engine, dropout: float) -> None:
        """Wrap an engine; ``dropout`` is the probability in [0, 1) that a client of a cohort does not reply."""
        super().__init__(engine)
        self._dropout = check.in_half_open_interval(0, 1)(dropout=dropout)

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of the uploads of clients that reply."""
        silent = [bool(now.replies(client).coins((1,), self._dropout)[0]) for client in now.cohort.tolist()]
        heard = now.of(now.cohort[~np.array(silent, dtype=bool)])
        found = self._engine.sum_uploads(heard, upload)
        return replace(found, silent=found.silent + sum(silent))
