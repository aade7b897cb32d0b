"""Central noise that is correlated over rounds: x = C^-1 z, a row a round, from the rows before it."""

from __future__ import annotations

import numpy as np

from epsilog.terms import ClientLevelCorrelatedNoise, check
from epsilog.train.engines import Engine
from epsilog.train.schemes.base import PADDING, Change, Now, trains
from epsilog.train.task import Task

MOST_REMEMBERED = 250_000_000  # numbers: 2 GB, written to the disk in every round


def require_memory(scheme: ClientLevelCorrelatedNoise, task: Task) -> None:
    """Refuses bands and models of which a round cannot be remembered."""
    check.integer(0, MOST_REMEMBERED)(bands_times_parameters=(scheme.bands - 1) * task.model.size)


@trains(ClientLevelCorrelatedNoise, require_fit=require_memory)
def change(scheme: ClientLevelCorrelatedNoise, engine: Engine, now: Now, /) -> Change:
    """Sum of clipped updates plus correlated noise, over the public size of a cohort.

    C x = z says z_t = c_0 x_t + c_1 x_(t-1) + ..., which gives x_t. The last rows of x are remembered, the newest
    first; the padding is z's own, before it is correlated.
    """
    clipped = engine.sum_of_updates(now.computed, clip_norm=scheme.clip_norm if now.private else np.inf)
    size, (first, *others) = clipped.total.size, scheme.coefficients
    fresh = (scheme.noise_stddev if now.private else 0.0) * now.streams("noise").normals((size + PADDING,))
    before = now.memory.reshape(-1, size)
    row = (fresh[:size] - np.asarray(others)[: len(before)] @ before) / first
    needed = scheme.bands - 1 if now.round < scheme.rounds else 0  # noise that is known undoes the privacy
    kept = np.concatenate([row[None], before])[:needed]
    return Change((clipped.total + row) / scheme.expected_cohort, clipped, fresh[size:], kept.reshape(-1))
