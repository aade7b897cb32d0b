"""Noise at the client, for the whole client: the mean of the cohort's noisy updates."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelClientSide
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer


@register_trainer(ClientLevelClientSide)
def compute_update(scheme: ClientLevelClientSide, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Mean of the clients' clipped and noisy updates. A client's padding is one coordinate more of its own noise."""
    clipped = engine.sum_of_noisy_updates(
        now.computed,
        clip_norm=scheme.clip_norm if now.private else np.inf,
        noise_stddev=scheme.noise_stddev if now.private else 0.0,
    )
    return RoundUpdate(clipped.total / max(now.cohort.size, 1), clipped, clipped.padding)
