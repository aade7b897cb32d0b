"""Central noise that is correlated over a band of rounds: x = C^-1 z, a row a round, from the rows before it."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelCorrelatedNoise
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.schemes.round_robin import compute_correlated_update, draw_fresh_noise, require_noise_memory
from epsilog.training.task import Task


def require_band_memory(scheme: ClientLevelCorrelatedNoise, task: Task) -> None:
    """Refuses bands and models of which a round cannot be remembered."""
    require_noise_memory(bands_times_parameters=(scheme.bands - 1) * task.model.size)


@register_trainer(ClientLevelCorrelatedNoise, require_fit=require_band_memory)
def compute_update(scheme: ClientLevelCorrelatedNoise, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Sum of clipped updates plus correlated noise.

    C x = z says z_t = c_0 x_t + c_1 x_(t-1) + ..., which gives x_t. The last rows of x are remembered, the newest
    first.
    """
    fresh, padding = draw_fresh_noise(scheme, now)
    first, *others = scheme.coefficients
    before = now.memory.reshape(-1, fresh.size)
    row = (fresh - np.asarray(others)[: len(before)] @ before) / first
    kept = np.concatenate([row[None], before])[: scheme.bands - 1]
    return compute_correlated_update(scheme, engine, now, row=row, padding=padding, memory=kept.reshape(-1))
