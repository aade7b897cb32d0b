"""Central noise that is correlated over all rounds: x = C^-1 z, a row a round, out of a few buffers."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelBufferedNoise
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.schemes.round_robin import compute_correlated_update, draw_fresh_noise, require_noise_memory
from epsilog.training.task import Task


def require_buffer_memory(scheme: ClientLevelBufferedNoise, task: Task) -> None:
    """Refuses buffers and models of which a round cannot be remembered."""
    require_noise_memory(buffers_times_parameters=len(scheme.decays) * task.model.size)


@register_trainer(ClientLevelBufferedNoise, require_fit=require_buffer_memory)
def compute_update(scheme: ClientLevelBufferedNoise, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Sum of clipped updates plus correlated noise.

    C x = z says z_t = x_t + sum_i w_i B_i with B_i = x_(t-1) + d_i x_(t-2) + d_i^2 x_(t-3) + ..., which gives x_t; the
    next B_i is d_i B_i + x_t. The buffers B are remembered.
    """
    fresh, padding = draw_fresh_noise(scheme, now)
    decays, weights = np.asarray(scheme.decays), np.asarray(scheme.weights)
    buffers = now.memory.reshape(-1, fresh.size) if now.memory.size else np.zeros((decays.size, fresh.size))
    row = fresh - weights @ buffers
    memory = (decays[:, None] * buffers + row).reshape(-1)
    return compute_correlated_update(scheme, engine, now, row=row, padding=padding, memory=memory)
