"""Who takes part: the sampling in this file is the sampling that is accounted.

Poisson means Poisson: no redraw to reach a minimum, no skipped empty round, no top-up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes.cohorts import (
    BallsInBinsSampler,
    CappedSampler,
    Cohorts,
    FixedSizeSampler,
    PoissonSampler,
    RoundRobinSampler,
)
from epsilog.training.noise import RandomStream

Ids = NDArray[np.int64]


NO_SLOTS: Ids = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SamplerHistory:
    """What a sampler must know of the rounds before; it names who takes part, so it is the curator's own.

    Attributes:
        round: the round that is due: 1, 2, ...
        participations: rounds that each client took part in so far; shape (clients,).
        slots: each client's round of the cycle, from 0, where it is drawn for a whole cycle; else empty.
    """

    round: int
    participations: Ids
    slots: Ids = field(default_factory=lambda: NO_SLOTS)


@singledispatch
def draw_slots(cohorts: Cohorts, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    """Each client's round of the cycle; drawn where a cycle begins, and empty where there is nothing of the kind."""
    return NO_SLOTS


@draw_slots.register
def _(cohorts: BallsInBinsSampler, stream: RandomStream, before: SamplerHistory) -> Ids:
    if cohorts.slot(before.round):
        return before.slots
    if not before.slots.size:
        return draw_integers(stream, count=cohorts.clients, below=cohorts.cycle_length)
    places = draw_integers(stream, count=cohorts.clients, below=cohorts.cycle_length // cohorts.separation)
    return before.slots % cohorts.separation + cohorts.separation * places


@singledispatch
def draw_cohort(cohorts: Cohorts, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    """Pick a round's clients; sorted ids.

    Args:
        cohorts: how they are picked.
        stream: where the draws come from.
        before: with the slots of this round's cycle.
    """
    raise TypeError(f"no draw is written for {type(cohorts).__name__}")


@draw_cohort.register
def _(cohorts: PoissonSampler, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    return draw_poisson_cohort(stream, population=cohorts.clients, probability=cohorts.probability)


@draw_cohort.register
def _(cohorts: FixedSizeSampler, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    return draw_without_replacement(stream, eligible=np.arange(cohorts.clients), size=cohorts.cohort_size)


@draw_cohort.register
def _(cohorts: BallsInBinsSampler, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    return np.flatnonzero(before.slots == cohorts.slot(before.round))


@draw_cohort.register
def _(cohorts: CappedSampler, stream: RandomStream, before: SamplerHistory) -> Ids:
    eligible = np.flatnonzero(before.participations < cohorts.max_participations)
    return draw_without_replacement(stream, eligible=eligible, size=cohorts.cohort_size)


@draw_cohort.register
def _(cohorts: RoundRobinSampler, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    return np.array(cohorts.due(before.round), dtype=np.int64)


def draw_poisson_cohort(stream: RandomStream, *, population: int, probability: float) -> Ids:
    """Draw a cohort that each of ``population`` clients joins on its own with ``probability``; sorted ids.

    >>> from epsilog.training.noise import Randomness
    >>> draw_poisson_cohort(Randomness.from_seed(1).stream("draw_cohort", 1), population=5, probability=1.0).tolist()
    [0, 1, 2, 3, 4]
    """
    return np.flatnonzero(stream.coins((population,), probability))


def draw_without_replacement(stream: RandomStream, *, eligible: Ids, size: int) -> Ids:
    """Draw ``size`` of the eligible clients, every subset alike; all of them if there are fewer; sorted ids."""
    order = np.argsort(stream.uniforms((eligible.size,)), kind="stable")
    return np.sort(eligible[order[:size]])


def draw_integers(stream: RandomStream, *, count: int, below: int) -> Ids:
    """Draw whole numbers from 0, every one alike: words beyond the last whole multiple are drawn again."""
    limit, drawn = (1 << 64) // below * below, NO_SLOTS
    while drawn.size < count:
        words = stream.words(count - drawn.size)
        kept = words[words <= np.uint64(limit - 1)]
        drawn = np.concatenate([drawn, (kept % np.uint64(below)).astype(np.int64)])
    return drawn


def draw_permutation(stream: RandomStream, *, rows: int) -> NDArray[np.int64]:
    """Draw an order of a client's rows, every order alike; shape (rows,)."""
    return np.argsort(stream.words(rows))  # two of 64 bits that are alike are not met: no need to keep their order


def draw_poisson_batches(stream: RandomStream, *, shape: tuple[int, ...], probability: float) -> NDArray[np.bool_]:
    """Draw Poisson batches: True where an example joins."""
    return stream.coins(shape, probability)
