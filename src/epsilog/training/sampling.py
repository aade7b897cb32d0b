"""Sampling of cohorts, exactly as accounted.

Poisson sampling never draws again to reach a minimum, skips no empty round and adds no clients.
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
    """The past of a run that a sampler depends on; private, since it names participants.

    Attributes:
        round: the round to draw: 1, 2, ...
        participations: number of rounds in which each client took part so far; shape (clients,).
        slots: round of the cycle of each client, from 0, if it is drawn for a whole cycle; else empty.
    """

    round: int
    participations: Ids
    slots: Ids = field(default_factory=lambda: NO_SLOTS)


@singledispatch
def draw_slots(cohorts: Cohorts, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    """Return the round of the cycle of each client, drawn at the beginning of a cycle; empty for other samplers."""
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
    """Draw the cohort of a round; return sorted ids.

    Args:
        cohorts: the sampler.
        stream: the source of the draws.
        before: the past, with the slots of the current cycle.
    """
    raise TypeError(f"cohorts must be a known sampler, got {type(cohorts).__name__}")


@draw_cohort.register
def _(cohorts: PoissonSampler, stream: RandomStream, before: SamplerHistory) -> Ids:  # noqa: ARG001
    return np.flatnonzero(stream.coins((cohorts.clients,), cohorts.probability))


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


def draw_without_replacement(stream: RandomStream, *, eligible: Ids, size: int) -> Ids:
    """Draw ``size`` eligible clients, all subsets equally likely, or all if there are fewer; return sorted ids."""
    order = np.argsort(stream.uniforms((eligible.size,)), kind="stable")
    return np.sort(eligible[order[:size]])


def draw_integers(stream: RandomStream, *, count: int, below: int) -> Ids:
    """Draw uniform integers from 0 to ``below - 1``; words beyond the last multiple of ``below`` are drawn again."""
    limit, drawn = (1 << 64) // below * below, NO_SLOTS
    while drawn.size < count:
        words = stream.words(count - drawn.size)
        kept = words[words <= np.uint64(limit - 1)]
        drawn = np.concatenate([drawn, (kept % np.uint64(below)).astype(np.int64)])
    return drawn


def draw_permutation(stream: RandomStream, *, rows: int) -> NDArray[np.int64]:
    """Draw a uniform permutation of the rows of a client; shape (rows,)."""
    return np.argsort(stream.words(rows))  # equal 64-bit words do not occur in practice
