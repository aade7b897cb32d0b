"""What schemes with clients in turn share: the fresh noise of a round, and what is made of it."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import RoundRobinScheme
from epsilog.terms import check
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, RoundContext, RoundUpdate, Vector

MOST_REMEMBERED = 250_000_000  # numbers: 2 GB, written to the disk in every round


def require_noise_memory(**numbers: int) -> None:
    """Refuses noise of which a round cannot be remembered; the number is named for what it counts."""
    check.integer(0, MOST_REMEMBERED)(**numbers)


def draw_fresh_noise(scheme: RoundRobinScheme, now: RoundContext) -> tuple[Vector, Vector]:
    """The round's row of Z, and the padding, which is Z's own: it is not correlated."""
    drawn = (scheme.noise_stddev if now.private else 0.0) * now.streams("noise").normals((now.model.size + PADDING,))
    return drawn[:-PADDING], drawn[-PADDING:]


def compute_correlated_update(
    scheme: RoundRobinScheme, engine: Engine, now: RoundContext, *, row: Vector, padding: Vector, memory: Vector
) -> RoundUpdate:
    """The sum of clipped updates and a row of C^-1 Z, over the public size of a cohort.

    After the last round nothing is remembered: noise that is known undoes the privacy.
    """
    clipped = engine.sum_of_updates(now.computed, clip_norm=scheme.clip_norm if now.private else np.inf)
    kept = memory if now.round < scheme.rounds else np.zeros(0)
    return RoundUpdate((clipped.total + row) / scheme.expected_cohort, clipped, padding, kept)
