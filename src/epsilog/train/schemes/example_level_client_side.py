"""Noise at the client, for one example: the mean of the cohort's noisy differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilog.terms import ExampleLevelClientSide, check
from epsilog.train import sampling
from epsilog.train.sampling import Ids
from epsilog.train.schemes.base import Change, Streams, Vector, merged, slots_within, trains
from epsilog.train.task import Task

if TYPE_CHECKING:
    from epsilog.train.engine import Engine

MOST_DRAWS = 500_000_000  # of one client in a round: 4 GB


def require_draws(scheme: ExampleLevelClientSide, task: Task) -> None:
    """Refuses a round in which one client needs more draws than memory holds."""
    draws = scheme.local_steps * (task.clients.present.shape[1] + task.model.size + 1)
    check.integer(1, MOST_DRAWS)(draws_of_a_client=draws)


@trains(ExampleLevelClientSide, require_fit=require_draws)
def change(
    scheme: ExampleLevelClientSide, engine: Engine, model: Vector, cohort: Ids, streams: Streams, /, *, private: bool
) -> Change:
    """Mean of the clients' noisy differences. A client's padding is its steps' noise, scaled back to one step's."""
    steps, size, rows = scheme.local_steps, model.size, engine.task.clients.features.shape[1]
    joins, draws = streams("batches"), streams("noise")
    slots = slots_within(scheme.cohort_size, draws=steps * max(rows, size + 1))
    parts, padding = [], [np.zeros(0)]
    for first in range(0, cohort.size, slots):
        batches = sampling.batches(joins, shape=(slots, steps, rows), probability=scheme.batch_probability)
        noise = (scheme.noise_stddev if private else 0.0) * draws.normals((slots, steps, size + 1))
        part = cohort[first : first + slots]
        summed = engine.sum_of_noisy_runs(
            model,
            part,
            batches=batches,
            noise=noise[..., :-1],
            clip_norm=scheme.clip_norm if private else np.inf,
            batch_probability=scheme.batch_probability,
        )
        parts.append(summed)
        padding.append(noise[: part.size, :, -1].sum(axis=1) / np.sqrt(steps))
    clipped = merged(parts, size)
    return Change(clipped.total / max(cohort.size, 1), clipped, np.concatenate(padding))
