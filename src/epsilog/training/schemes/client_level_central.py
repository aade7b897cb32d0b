"""Central noise at the client level: the sum of clipped updates plus noise, over the public expected cohort."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelCentral
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, RoundContext, RoundUpdate, register_trainer


@register_trainer(ClientLevelCentral)
def compute_update(scheme: ClientLevelCentral, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Sum of clipped updates plus noise, over the public expected cohort."""
    clipped = engine.sum_of_updates(now.computed, clip_norm=scheme.clip_norm if now.private else np.inf)
    noisy = now.streams("noise").normals((clipped.total.size + PADDING,))
    noisy *= scheme.noise_stddev if now.private else 0.0
    noisy[:-PADDING] += clipped.total
    return RoundUpdate(noisy[:-PADDING] / scheme.expected_cohort, clipped, noisy[-PADDING:])
