"""Noise at the client, for the whole client: the mean of the cohort's noisy updates."""

from __future__ import annotations

import numpy as np

from epsilog.terms import ClientLevelClientSide
from epsilog.train.engines import Engine
from epsilog.train.schemes.base import Change, Now, trains


@trains(ClientLevelClientSide)
def change(scheme: ClientLevelClientSide, engine: Engine, now: Now, /) -> Change:
    """Mean of the clients' clipped and noisy updates. A client's padding is one coordinate more of its own noise."""
    clipped = engine.sum_of_updates(
        now.model,
        now.cohort,
        clip_norm=scheme.clip_norm if now.private else np.inf,
        batches=lambda client: now.streams("batches", client=client),
    )
    noisy, padding = clipped.total.copy(), np.zeros(now.cohort.size)
    for place, client in enumerate(now.cohort.tolist()):
        noise = scheme.noise_stddev * now.streams("noise", client=client).normals((noisy.size + 1,))
        noisy += float(now.private) * noise[:-1]
        padding[place] = float(now.private) * noise[-1]
    return Change(noisy / max(now.cohort.size, 1), clipped, padding)
