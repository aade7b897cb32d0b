"""One round, from the global model to the next: sample, train, clip, add noise, release.

The scheme alone decides who is sampled, what is clipped and how much noise is drawn; it is the same object that the
accountant priced. Everything random comes from three streams a round: "cohort", "batches" and "noise", the last two
one for each client where clients draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme
from epsilog.terms import CheckError, CustodyRecord, RoundRecord, check
from epsilog.terms.disclosed import Private, Released
from epsilog.training import clipping, sampling
from epsilog.training.engines import Engine
from epsilog.training.federation import iterate_blocks
from epsilog.training.noise import Randomness
from epsilog.training.sampling import SamplerHistory
from epsilog.training.schemes import TRAINED, RoundContext
from epsilog.training.server_optimizer import compute_learning_rate_factor
from epsilog.training.task import Task

__all__ = ["RoundResult", "TrainingState", "compute_next_round", "hash_run_inputs", "make_initial_state"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingState(Private):
    """What a round hands to the next.

    Attributes:
        round: rounds done.
        model: the released global model; shape (d,).
        participations: rounds that each client took part in; shape (clients,).
        memory: what the scheme remembers besides; shape (m,). It may undo the noise: it is the curator's own.
        server: what the server's optimiser remembers of the noisy steps; public, and empty where it needs nothing.
        slots: each client's round of the cycle, where they are drawn for a whole cycle; the curator's own.
    """

    round: int
    model: Vector
    participations: NDArray[np.int64]
    memory: Vector = field(default_factory=lambda: np.zeros(0))
    server: Vector = field(default_factory=lambda: np.zeros(0))
    slots: sampling.Ids = field(default_factory=lambda: sampling.NO_SLOTS)


@dataclass(frozen=True, slots=True, eq=False)
class RoundResult:
    """A round that was computed: the next state and both records of it. Nothing of it has been released yet."""

    state: TrainingState
    record: RoundRecord
    custody: CustodyRecord


def make_initial_state(task: Task) -> TrainingState:
    """The public state before the first round."""
    return TrainingState(0, task.model.start, np.zeros(task.clients.count, dtype=np.int64))


def hash_model(model: Vector) -> Released:
    """SHA-256 of a model's bytes as little-endian doubles, 64 hex digits."""
    return Released.of(np.ascontiguousarray(model, "<f8").data)


def hash_run_inputs(scheme: Scheme, task: Task) -> str:
    """SHA-256 of what a run goes on with after a kill: the scheme, the model, its training, every number of the data.

    A cap on participations counts clients by their place in the data, and under one scheme. Of rows that lie elsewhere
    it is who the clients are.
    """
    arrays = [
        task.model.start,
        task.clients.features,
        task.clients.targets,
        task.clients.sizes,
        *task.test_set(),
    ]
    stated: tuple[object, ...] = (scheme, task.name, task.unit, task.model.describe(), task.training)
    stated += (task.clients.names,) if task.canaries is None else (task.clients.names, task.canaries.commitment)
    whole = hashlib.sha256(hashlib.sha256(repr(stated).encode()).digest())
    for array in arrays:
        whole.update(hashlib.sha256(f"{array.dtype.str}{array.shape}".encode()).digest())
        content = hashlib.sha256()
        for block in iterate_blocks(array):
            content.update(np.ascontiguousarray(array[block]).data)
        whole.update(content.digest())
    return whole.hexdigest()


def require_matching_scheme(scheme: Scheme, task: Task) -> Scheme:
    """Return the scheme, or refuses one that protects another unit or counts another population than the task has."""
    trainer = TRAINED.get(type(scheme))  # not for what may call itself one of them
    if trainer is None:
        raise TypeError(f"no training is written for {type(scheme).__name__}")
    if task.unit_is_client != scheme.unit_is_client:
        raise CheckError("privacy_unit", f"the one that {scheme.kind} protects", repr(task.unit))
    if scheme.clients != task.clients.count:
        raise CheckError("clients", f"{task.clients.count}, the task's", repr(scheme.clients))
    low, high = clipping.SMALLEST_CLIP, clipping.LARGEST_CLIP
    check.in_closed_interval(low, high)(clip_norm=scheme.clip_norm)
    if scheme.noise_multiplier:
        check.in_closed_interval(low, high)(noise_stddev=scheme.noise_stddev)
    check.integer(1, clipping.LARGEST_MODEL)(parameters=task.model.size)
    trainer.require_fit(scheme, task)
    return scheme


def require_withdrawal_support(scheme: Scheme) -> None:
    """Refuse clients that withdraw where the public records would tell how many."""
    if scheme.replies_are_public:
        raise CheckError("withdrawn", f"absent for {scheme.kind}, whose public records tell how many replied", "given")


def compute_next_round(
    scheme: Scheme,
    engine: Engine,
    state: TrainingState,
    randomness: Randomness,
    *,
    private: bool = True,
    withdrawn: Collection[int] = (),
) -> RoundResult:
    """Compute round ``state.round + 1``.

    Args:
        scheme: how people are protected.
        engine: the task's data and computations.
        state: after the round before.
        randomness: where draws come from; a simulated one gives the same outcome again.
        private: False leaves out clip and noise, for a baseline without protection.
        withdrawn: clients that take part no more. They are drawn as ever and left out: for everybody else nothing
            changes, neither chances nor divisor nor noise, and the price holds. Nobody, where clients add the noise.

    Returns:
        The outcome. A model without a finite loss is released as well, and its record says so: that is read off the
        released model and public data alone, so nobody's data shows in it.
    """
    if withdrawn:
        require_withdrawal_support(scheme)
    done, training = state.round + 1, engine.task.training
    drawing, before = randomness.stream("cohort", done), SamplerHistory(done, state.participations, state.slots)
    slots = sampling.draw_slots(scheme.cohorts, drawing, before)
    drawn = sampling.draw_cohort(scheme.cohorts, drawing, replace(before, slots=slots))
    gone = np.isin(drawn, np.array(sorted(withdrawn), dtype=np.int64))
    cohort = drawn[~gone]
    streams, speed = (
        partial(randomness.stream, round=done),
        compute_learning_rate_factor(training.schedule, done, scheme.rounds),
    )
    now = RoundContext(done, state.model, state.memory, cohort, streams, private, speed)
    with np.errstate(over="ignore", invalid="ignore"):
        change = TRAINED[type(scheme)].change(scheme, engine, now)
        model, server = training.server.apply_step(
            state.model, change.step, state.server, done=done, rounds=scheme.rounds
        )
    if change.aborted:  # nothing was seen
        model, server = state.model, state.server
    scored = engine.evaluate(model) if engine.task.is_scored else ()
    reach = clipping.get_largest_trainable(engine.task.clients.features.dtype)
    diverged = not (np.abs(model).max() <= reach and np.isfinite(scored).all())
    loss, score = (None, None) if diverged or not scored else scored
    participations = state.participations.copy()
    participations[cohort] += 1
    clip_norm = scheme.clip_norm if change.clip_norm is None else change.clip_norm
    return RoundResult(
        TrainingState(
            done, model, participations, change.memory[: None if not diverged else 0], server, slots
        ),  # none after the last
        RoundRecord(
            done,
            hash_model(model),
            scheme.noise_multiplier * clip_norm,
            clip_norm,
            tuple(change.padding.tolist()),
            loss,
            score,
            change.unclipped,
            diverged,
            change.aborted,
        ),
        CustodyRecord(
            done,
            tuple(cohort.tolist()),
            change.clipped.largest_norm,
            change.clipped.clipped_fraction,
            change.clipped.dropped,
            engine.unusable(cohort),
            change.clipped.silent,
            tuple(drawn[gone].tolist()),
        ),
    )
