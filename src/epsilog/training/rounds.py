"""One round, from the global model to the next: sample, train, clip, add noise, release.

The scheme alone decides on sampling, clipping and noise, and the accountant computed the cost of the same object. All
randomness comes from three streams per round: "cohort", "batches" and "noise". If clients draw, each has its own
"batches" and "noise".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
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

__all__ = [
    "RoundResult",
    "TrainingState",
    "compute_next_round",
    "hash_run_inputs",
    "make_initial_state",
]

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingState(Private):
    """The state after a round, from which the next one begins.

    Attributes:
        round: number of finished rounds.
        model: the released global model; shape (d,).
        participations: number of rounds in which each client took part; shape (clients,).
        memory: further state of the scheme; shape (m,). It could undo the noise, so it is private.
        server: state of the server optimizer, computed from noisy steps alone; public, and possibly empty.
        slots: round of the cycle of each client, if it is drawn for a whole cycle; private.
    """

    round: int
    model: Vector
    participations: NDArray[np.int64]
    memory: Vector = field(default_factory=lambda: np.zeros(0))
    server: Vector = field(default_factory=lambda: np.zeros(0))
    slots: sampling.Ids = field(default_factory=lambda: sampling.NO_SLOTS)


@dataclass(frozen=True, slots=True, eq=False)
class RoundResult:
    """A computed round that is not released yet: the next state and both records."""

    state: TrainingState
    record: RoundRecord
    custody: CustodyRecord


def make_initial_state(task: Task) -> TrainingState:
    """Return the public state before the first round."""
    return TrainingState(0, task.model.start, np.zeros(task.clients.count, dtype=np.int64))


def hash_model(model: Vector) -> Released:
    """Return the SHA-256 of a model as little-endian doubles, 64 hex digits."""
    return Released.of(np.ascontiguousarray(model, "<f8").data)


def hash_run_inputs(scheme: Scheme, task: Task) -> str:
    """Return the SHA-256 of the inputs that a resumed run must have again: scheme, model, training and all data.

    A cap on participations counts clients by their positions in the data, under one scheme. If clients hold their own
    rows, their names replace the data.
    """
    arrays = [task.model.start, task.clients.features, task.clients.targets, task.clients.sizes, *task.test_set()]
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
    """Return the scheme if it fits the task: same privacy unit, same number of clients, reliable clip and noise."""
    trainer = TRAINED.get(type(scheme))  # a subclass does not count
    if trainer is None:
        raise TypeError(f"scheme must have a registered trainer, got {type(scheme).__name__}")
    if task.unit_is_client != scheme.unit_is_client:
        raise CheckError("privacy_unit", f"the unit that {scheme.kind} protects", repr(task.unit))
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
    """Refuse withdrawals under a scheme with public numbers of replies, which would disclose their number."""
    if scheme.replies_are_public:
        raise CheckError("withdrawn", f"absent for {scheme.kind}, which publishes the number of replies", "given")


def list_withdrawn(scheme: Scheme, withdrawn: Iterable[int]) -> tuple[int, ...]:
    """Return the positions of withdrawn clients; refuse any other number, which would keep a client in the run."""
    gone = check.sequence_of(check.integer(0, scheme.clients - 1))(withdrawn=tuple(withdrawn))
    if gone:
        require_withdrawal_support(scheme)
    return gone


def compute_next_round(
    scheme: Scheme,
    engine: Engine,
    state: TrainingState,
    randomness: Randomness,
    *,
    private: bool = True,
    withdrawn: Iterable[int] = (),
) -> RoundResult:
    """Return the result of round ``state.round + 1``.

    Args:
        scheme: the protection.
        engine: the task with its data and computations.
        state: the state after the round before.
        randomness: the source of all draws; a simulated one gives the same result again.
        private: False omits clipping and noise, for a baseline without protection.
        withdrawn: positions of clients that no longer take part. The sampler draws them as before, and the round
            leaves them out: probabilities, divisor, noise and cost stay the same for all others. Empty if clients add
            the noise.

    Returns:
        The result. A model without a finite loss is released, too, and its record states this: only the released model
        and public data decide it.

    Raises:
        CheckError: ``withdrawn`` holds anything but positions of clients, or the scheme does not allow withdrawals.
    """
    positions = list_withdrawn(scheme, withdrawn)
    done, training = state.round + 1, engine.task.training
    drawing, before = randomness.stream("cohort", done), SamplerHistory(done, state.participations, state.slots)
    slots = sampling.draw_slots(scheme.cohorts, drawing, before)
    drawn = sampling.draw_cohort(scheme.cohorts, drawing, replace(before, slots=slots))
    gone = np.isin(drawn, np.array(positions, dtype=np.int64))
    cohort = drawn[~gone]
    streams = partial(randomness.stream, round=done)
    speed = compute_learning_rate_factor(training.schedule, done, scheme.rounds)
    now = RoundContext(done, state.model, state.memory, cohort, streams, private, speed)
    with np.errstate(over="ignore", invalid="ignore"):
        change = TRAINED[type(scheme)].change(scheme, engine, now)
        model, server = training.server.apply_step(
            state.model, change.step, state.server, done=done, rounds=scheme.rounds
        )
    if change.aborted:  # the server saw nothing
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
