"""Noise at the client, for one example: the mean of the cohort's noisy differences."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ExampleLevelClientSide
from epsilog.terms import CheckError
from epsilog.training.engines import Engine, LocalDPSGD
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task

MOST_NORMALS = 500_000_000  # of one client in a round: 4 GB


def require_normals(scheme: ExampleLevelClientSide, task: Task) -> None:
    """Refuses a round in which a client needs more normals than memory holds.

    Steps and the model are public. How many rows the largest client has is not, so it refuses nothing.
    """
    normals = scheme.local_steps * (task.model.size + 1)
    if normals > MOST_NORMALS:
        bound = f"so few that a client needs at most {MOST_NORMALS} normals in a round"
        raise CheckError("local_steps", bound, f"{scheme.local_steps}")


@register_trainer(ExampleLevelClientSide, require_fit=require_normals)
def compute_update(scheme: ExampleLevelClientSide, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Mean of the clients' noisy differences. A client's padding is its steps' noise, scaled back to one step's."""
    runs = LocalDPSGD(
        scheme.local_steps,
        scheme.batch_probability,
        clip_norm=scheme.clip_norm if now.private else np.inf,
        noise_stddev=scheme.noise_stddev if now.private else 0.0,
    )
    clipped = engine.sum_of_noisy_runs(now.computed, runs)
    return RoundUpdate(clipped.total / max(now.cohort.size, 1), clipped, clipped.padding)
