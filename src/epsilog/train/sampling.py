"""Who takes part: the sampling in this file is the sampling that is accounted.

Poisson means Poisson: no redraw to reach a minimum, no skipped empty round, no top-up.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from epsilog.terms.cohorts import CappedCohorts, Cohorts, CyclicCohorts, PoissonCohorts
from epsilog.train.noise import Stream

Ids = NDArray[np.int64]


@singledispatch
def cohort(cohorts: Cohorts, stream: Stream, round: int, participations: Ids) -> Ids:  # noqa: ARG001, A002
    """Picks a round's clients; sorted ids.

    Args:
        cohorts: how they are picked.
        stream: where the draws come from.
        round: 1, 2, ...
        participations: rounds that each client took part in so far; shape (clients,).
    """
    raise TypeError(f"no draw is written for {type(cohorts).__name__}")


@cohort.register
def _(cohorts: PoissonCohorts, stream: Stream, round: int, participations: Ids) -> Ids:  # noqa: ARG001, A002
    return poisson(stream, population=cohorts.clients, probability=cohorts.probability)


@cohort.register
def _(cohorts: CappedCohorts, stream: Stream, round: int, participations: Ids) -> Ids:  # noqa: ARG001, A002
    eligible = np.flatnonzero(participations < cohorts.max_participations)
    return without_replacement(stream, eligible=eligible, size=cohorts.cohort_size)


@cohort.register
def _(cohorts: CyclicCohorts, stream: Stream, round: int, participations: Ids) -> Ids:  # noqa: ARG001, A002
    return np.array(cohorts.due(round), dtype=np.int64)


def poisson(stream: Stream, *, population: int, probability: float) -> Ids:
    """Draws a cohort that each of ``population`` clients joins on its own with ``probability``; sorted ids.

    >>> from epsilog.train.noise import Randomness
    >>> poisson(Randomness.simulated(1).stream("cohort", 1), population=5, probability=1.0).tolist()
    [0, 1, 2, 3, 4]
    """
    return np.flatnonzero(stream.coins((population,), probability))


def without_replacement(stream: Stream, *, eligible: Ids, size: int) -> Ids:
    """Draws ``size`` of the eligible clients, every subset alike; all of them if there are fewer; sorted ids."""
    order = np.argsort(stream.uniforms((eligible.size,)), kind="stable")
    return np.sort(eligible[order[:size]])


def shuffled(stream: Stream, *, rows: int) -> NDArray[np.int64]:
    """Draws an order of a client's rows, every order alike; shape (rows,)."""
    return np.argsort(stream.words(rows), kind="stable")


def batches(stream: Stream, *, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
    """Draws Poisson batches: True where an example joins."""
    return stream.coins(shape, probability)
