"""Central noise at the client level: the sum of clipped updates plus noise, over the public expected cohort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from epsilog.terms import ClientLevelCentral
from epsilog.train import sampling
from epsilog.train.sampling import Ids
from epsilog.train.schemes.base import Change, Streams, Vector, merged, slots_within, trains

if TYPE_CHECKING:
    from epsilog.train.engine import Clipped, Engine

PADDING = 16  # coordinates a round whose true sum is 0


@trains(ClientLevelCentral)
def change(
    scheme: ClientLevelCentral, engine: Engine, model: Vector, cohort: Ids, streams: Streams, /, *, private: bool
) -> Change:
    """Sum of clipped updates plus noise, over the public expected cohort."""
    clipped = _sum_of_updates(engine, model, cohort, streams, clip_norm=scheme.clip_norm if private else np.inf)
    draws = streams("noise").normals((clipped.total.size + PADDING,))
    noisy = np.append(clipped.total, np.zeros(PADDING)) + (scheme.noise_stddev if private else 0.0) * draws
    return Change(noisy[:-PADDING] / scheme.expected_cohort, clipped, noisy[-PADDING:])


def _sum_of_updates(engine: Engine, model: Vector, cohort: Ids, streams: Streams, *, clip_norm: float) -> Clipped:
    """The cohort's clipped updates; with a batch size, every client's rows are shuffled for the round."""
    if engine.task.training.batch_size is None:
        return engine.sum_of_updates(model, cohort, clip_norm=clip_norm)
    stream, usable = streams("batches"), engine.usable
    slots = slots_within(usable.shape[0], draws=usable.shape[1])
    parts = []
    for first in range(0, cohort.size, slots):
        part = cohort[first : first + slots]
        orders = np.zeros((slots, usable.shape[1]), dtype=np.int32)
        orders[: part.size] = sampling.shuffled(stream, usable=usable[part])
        parts.append(engine.sum_of_updates(model, part, clip_norm=clip_norm, orders=orders))
    return merged(parts, model.size)
