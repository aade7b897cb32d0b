"""Central noise that is correlated over rounds: x = C^-1 z, one row per round."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelBufferedNoise, ClientLevelCorrelatedNoise, RoundRobinScheme
from epsilog.terms import check
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, RoundContext, RoundUpdate, Vector, register_trainer
from epsilog.training.task import Task

MAX_REMEMBERED = 250_000_000  # numbers of state: 2 GB, written to disk in each round


def require_noise_memory(**numbers: int) -> None:
    """Refuse noise with more state than a checkpoint can hold; the argument names what it counts."""
    check.integer(0, MAX_REMEMBERED)(**numbers)


def require_band_memory(scheme: ClientLevelCorrelatedNoise, task: Task) -> None:
    """Refuse bands and models with more state than a checkpoint can hold."""
    require_noise_memory(bands_times_parameters=(scheme.bands - 1) * task.model.size)


@register_trainer(ClientLevelCorrelatedNoise, require_fit=require_band_memory)
def compute_banded_update(scheme: ClientLevelCorrelatedNoise, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Return the sum of clipped updates with banded noise.

    C x = z means z_t = c_0 x_t + c_1 x_(t-1) + ..., which determines x_t. The state is the last rows of x, the newest
    first.
    """
    fresh, padding = draw_fresh_noise(scheme, now)
    first, *others = scheme.coefficients
    before = now.memory.reshape(-1, fresh.size)
    row = (fresh - np.asarray(others)[: len(before)] @ before) / first
    kept = np.concatenate([row[None], before])[: scheme.bands - 1]
    return compute_correlated_update(scheme, engine, now, row=row, padding=padding, memory=kept.reshape(-1))


def require_buffer_memory(scheme: ClientLevelBufferedNoise, task: Task) -> None:
    """Refuse buffers and models with more state than a checkpoint can hold."""
    require_noise_memory(buffers_times_parameters=len(scheme.decays) * task.model.size)


@register_trainer(ClientLevelBufferedNoise, require_fit=require_buffer_memory)
def compute_buffered_update(scheme: ClientLevelBufferedNoise, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Return the sum of clipped updates with buffered noise.

    C x = z means z_t = x_t + sum_i w_i B_i with B_i = x_(t-1) + d_i x_(t-2) + d_i^2 x_(t-3) + ..., which determines
    x_t. The next B_i is d_i B_i + x_t. The state is the buffers B.
    """
    fresh, padding = draw_fresh_noise(scheme, now)
    decays, weights = np.asarray(scheme.decays), np.asarray(scheme.weights)
    buffers = now.memory.reshape(-1, fresh.size) if now.memory.size else np.zeros((decays.size, fresh.size))
    row = fresh - weights @ buffers
    memory = (decays[:, None] * buffers + row).reshape(-1)
    return compute_correlated_update(scheme, engine, now, row=row, padding=padding, memory=memory)


def draw_fresh_noise(scheme: RoundRobinScheme, now: RoundContext) -> tuple[Vector, Vector]:
    """Draw the row of Z of this round, and the padding, which is independent."""
    drawn = (scheme.noise_stddev if now.private else 0.0) * now.streams("noise").normals((now.model.size + PADDING,))
    return drawn[:-PADDING], drawn[-PADDING:]


def compute_correlated_update(
    scheme: RoundRobinScheme, engine: Engine, now: RoundContext, *, row: Vector, padding: Vector, memory: Vector
) -> RoundUpdate:
    """Return the sum of clipped updates and a row of C^-1 Z, divided by the public expected cohort.

    After the last round the state is empty: anyone who knows the noise could remove it.
    """
    clipped = now.sum_uploads(engine, scheme.upload)
    kept = memory if now.round < scheme.rounds else np.zeros(0)
    return RoundUpdate((clipped.total + row) / scheme.expected_cohort, clipped, padding, kept)
