"""Noise at the client, for one example: the mean of the cohort's noisy differences."""

from __future__ import annotations

import numpy as np

from epsilog.terms import ExampleLevelClientSide, check
from epsilog.train.engines import Engine, NoisyRuns
from epsilog.train.sampling import Ids
from epsilog.train.schemes.base import Change, Streams, Vector, trains
from epsilog.train.task import Task

MOST_DRAWS = 500_000_000  # of one client in a round: 4 GB


def require_draws(scheme: ExampleLevelClientSide, task: Task) -> None:
    """Refuses a round in which one client needs more draws than memory holds."""
    draws = scheme.local_steps * (int(task.clients.sizes.max()) + task.model.size + 1)
    check.integer(1, MOST_DRAWS)(draws_of_a_client=draws)


@trains(ExampleLevelClientSide, require_fit=require_draws)
def change(
    scheme: ExampleLevelClientSide, engine: Engine, model: Vector, cohort: Ids, streams: Streams, /, *, private: bool
) -> Change:
    """Mean of the clients' noisy differences. A client's padding is its steps' noise, scaled back to one step's."""
    runs = NoisyRuns(
        scheme.local_steps,
        scheme.batch_probability,
        clip_norm=scheme.clip_norm if private else np.inf,
        noise_stddev=scheme.noise_stddev if private else 0.0,
    )
    clipped = engine.sum_of_noisy_runs(
        model,
        cohort,
        runs=runs,
        batches=lambda client: streams("batches", client=client),
        noise=lambda client: streams("noise", client=client),
    )
    return Change(clipped.total / max(cohort.size, 1), clipped, clipped.padding)
