"""What schemes with clients in turn share: the fresh noise of a round, and what is made of it."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import InTurn
from epsilog.terms import check
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, Change, Now, Vector

MOST_REMEMBERED = 250_000_000  # numbers: 2 GB, written to the disk in every round


def require_memory(**numbers: int) -> None:
    """Refuses noise of which a round cannot be remembered; the number is named for what it counts."""
    check.integer(0, MOST_REMEMBERED)(**numbers)


def fresh_noise(scheme: InTurn, now: Now) -> tuple[Vector, Vector]:
    """The round's row of Z, and the padding, which is Z's own: it is not correlated."""
    drawn = (scheme.noise_stddev if now.private else 0.0) * now.streams("noise").normals((now.model.size + PADDING,))
    return drawn[:-PADDING], drawn[-PADDING:]


def changed(scheme: InTurn, engine: Engine, now: Now, *, row: Vector, padding: Vector, memory: Vector) -> Change:
    """The sum of clipped updates and a row of C^-1 Z, over the public size of a cohort.

    After the last round nothing is remembered: noise that is known undoes the privacy.
    """
    clipped = engine.sum_of_updates(now.computed, clip_norm=scheme.clip_norm if now.private else np.inf)
    kept = memory if now.round < scheme.rounds else np.zeros(0)
    return Change((clipped.total + row) / scheme.expected_cohort, clipped, padding, kept)
