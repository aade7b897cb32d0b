"""Central noise at the client level: the sum of clipped updates plus noise, over the public expected cohort."""

from __future__ import annotations

import numpy as np

from epsilog.terms import ClientLevelCentral
from epsilog.train.engines import Engine
from epsilog.train.sampling import Ids
from epsilog.train.schemes.base import Change, Streams, Vector, trains

PADDING = 16  # coordinates a round whose true sum is 0


@trains(ClientLevelCentral)
def change(
    scheme: ClientLevelCentral, engine: Engine, model: Vector, cohort: Ids, streams: Streams, /, *, private: bool
) -> Change:
    """Sum of clipped updates plus noise, over the public expected cohort."""
    clipped = engine.sum_of_updates(
        model,
        cohort,
        clip_norm=scheme.clip_norm if private else np.inf,
        batches=lambda client: streams("batches", client=client),
    )
    draws = streams("noise").normals((clipped.total.size + PADDING,))
    noisy = np.append(clipped.total, np.zeros(PADDING)) + (scheme.noise_stddev if private else 0.0) * draws
    return Change(noisy[:-PADDING] / scheme.expected_cohort, clipped, noisy[-PADDING:])
