"""Clients that send a direction of their own instead of an update: canaries, beside an engine for everybody else."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import numpy as np

from epsilog.terms import CheckError
from epsilog.training.canaries import make_canary_direction
from epsilog.training.engines.base import (
    ClippedSum,
    Engine,
    LocalDPSGD,
    RoundInputs,
    Vector,
    combine_sums,
    sum_noisy_updates,
)
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

HAIR = 1e-9  # how far below the bound a canary stays
Directions = Callable[[int], Vector | None]
"""What a canary sends, by its id, at length 1; None for one that is out, and sends nothing."""


@dataclass(frozen=True, slots=True)
class CanaryClients:
    """The canaries alone, as far as an engine of updates goes.

    Attributes:
        directions: what each sends.
        unclipped: how long that is where nobody clips.
    """

    directions: Directions
    unclipped: float

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """Every direction as long as the clip lets it be; who is out counts like a client without rows."""
        length = (1 - HAIR) * clip_norm if math.isfinite(clip_norm) else self.unclipped
        sent = [each for one in now.cohort.tolist() if (each := self.directions(one)) is not None]
        total = length * sum(sent, np.zeros(now.model.size))
        return ClippedSum(total, length if sent else 0.0, 0, 0, now.cohort.size)


class CanaryEngine:
    """An engine some of whose clients are canaries; see ``base.Engine``. The other engine never hears of them.

    Attributes:
        task: what the others train on.
    """

    def __init__(self, honest: Engine, ids: Collection[int], directions: Directions, *, unclipped: float = 0.0) -> None:
        self.task = honest.task
        self._honest, self._senders = honest, CanaryClients(directions, unclipped)
        self._ids = np.array(sorted(ids), dtype=np.int64)

    def unusable(self, cohort: Ids) -> int:
        """As the honest engine says."""
        return self._honest.unusable(cohort[~np.isin(cohort, self._ids)])

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As the honest engine says."""
        return self._honest.evaluate(model)

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """A canary's update is its direction."""
        honest, canaries = self._split_round(now)
        own = self._senders.sum_of_updates(canaries, clip_norm=clip_norm)
        return combine_sums([self._honest.sum_of_updates(honest, clip_norm=clip_norm), own], size=now.model.size)

    def sum_of_noisy_updates(self, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
        """A canary adds noise like anybody else, in or out."""
        honest, canaries = self._split_round(now)
        said = {"clip_norm": clip_norm, "noise_stddev": noise_stddev}
        own = sum_noisy_updates(self._senders, canaries, **said)
        return combine_sums([self._honest.sum_of_noisy_updates(honest, **said), own], size=now.model.size)

    def sum_of_noisy_runs(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:  # noqa: ARG002 - as every engine
        """There are no such canaries among examples: a whole client's direction is not what this noise hides."""
        raise CheckError("canaries", "absent where a scheme protects examples", f"{self._ids.size}")

    def _split_round(self, now: RoundInputs) -> tuple[RoundInputs, RoundInputs]:
        """The round of everybody else, and of the canaries."""
        here = np.isin(now.cohort, self._ids)
        return now.of(now.cohort[~here]), now.of(now.cohort[here])


def add_canary_clients(honest: Engine, task: Task) -> Engine:
    """An engine in which the canaries of a task take part; where nobody clips they send nothing."""
    canaries = task.canaries
    if canaries is None or not task.unit_is_client:  # canaries among examples are rows
        return honest
    first, included = task.clients.count - canaries.count, canaries.included
    sent = partial(make_canary_direction, canaries, size=task.model.size)
    ids = range(first, task.clients.count)
    return CanaryEngine(honest, ids, lambda one: sent(one - first) if included[one - first] else None)
