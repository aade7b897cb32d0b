"""One round, from the global model to the next: sample, train, clip, add noise, release.

The scheme alone decides who is sampled, what is clipped and how much noise is drawn; it is the same object that the
accountant priced. Everything random comes from three streams a round: "cohort", "batches" and "noise".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import check
from epsilog.terms.rounds import CustodyRecord, RoundRecord
from epsilog.terms.schemes import ClientLevelCentral, ExampleLevelClientSide, Scheme
from epsilog.train import clipping, models, sampling
from epsilog.train.noise import Randomness
from epsilog.train.task import Task

if TYPE_CHECKING:
    from epsilog.train.engine import Clipped, Engine

Vector = NDArray[np.float64]
Trainable = ClientLevelCentral | ExampleLevelClientSide
Change = tuple[Vector, sampling.Ids, "Clipped", Vector]
PADDING = 16  # coordinates a round whose true sum is 0; at the example level one for each participant
CHUNK = 4_000_000  # draws held in memory at once
MOST_DRAWS = 500_000_000  # of one client in a round: 4 GB


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a round hands to the next.

    Attributes:
        round: rounds done.
        model: the released global model; shape (d,).
        participations: rounds that each client took part in; shape (clients,).
    """

    round: int
    model: Vector
    participations: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A round that was computed: the next state and both records of it. Nothing of it has been released yet."""

    state: State
    record: RoundRecord
    custody: CustodyRecord


def begin(task: Task) -> State:
    """The public state before the first round."""
    return State(0, models.initial(task.model), np.zeros(task.clients.count, dtype=np.int64))


def output_hash(model: Vector) -> str:
    """SHA-256 of a model's bytes as little-endian doubles, 64 hex digits."""
    return hashlib.sha256(model.astype("<f8").tobytes()).hexdigest()


def bound_to(scheme: Scheme, task: Task) -> str:
    """SHA-256 of what a run goes on with after a kill: the scheme, the model, its training, every number of the data.

    A cap on participations counts clients by their place in the data, and under one scheme.
    """
    arrays = [task.clients.features, task.clients.targets, task.clients.present, task.test_features, task.test_targets]
    parts: list[bytes | memoryview] = [repr((scheme, task.name, task.unit, task.model, task.training)).encode()]
    for array in arrays:
        parts += [f"{array.dtype.str}{array.shape}".encode(), np.ascontiguousarray(array).data]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def require_fit(scheme: Scheme, task: Task) -> Trainable:
    """Returns the scheme, or refuses one that protects another unit or counts another population than the task has."""
    if type(scheme) not in (ClientLevelCentral, ExampleLevelClientSide):  # nor for what may call itself one of them
        raise TypeError(f"no training is written for {type(scheme).__name__}")
    assert isinstance(scheme, Trainable)
    if task.unit_is_client != isinstance(scheme, ClientLevelCentral):
        raise ValueError(f"privacy_unit must be the one that {scheme.kind} protects, got {task.unit!r}")
    if scheme.clients != task.clients.count:
        raise ValueError(f"clients must be {task.clients.count}, the task's, got {scheme.clients!r}")
    if isinstance(scheme, ClientLevelCentral) and scheme.sampling_probability == 0:
        raise ValueError("sampling_probability must be above 0 to train, got 0")
    low, high = clipping.SMALLEST_CLIP, clipping.LARGEST_CLIP
    check.within(low, high)(clip_norm=scheme.clip_norm)
    if scheme.noise_multiplier:
        check.within(low, high)(noise_stddev=scheme.noise_stddev)
    check.integer(1, clipping.LARGEST_MODEL)(parameters=task.model.size)
    if isinstance(scheme, ExampleLevelClientSide):
        draws = scheme.local_steps * (task.clients.present.shape[1] + task.model.size + 1)
        check.integer(1, MOST_DRAWS)(draws_of_a_client=draws)
    return scheme


def next_round(
    scheme: Trainable, engine: Engine, state: State, randomness: Randomness, *, private: bool = True
) -> Outcome:
    """Computes round ``state.round + 1``.

    Args:
        scheme: how people are protected.
        engine: the task's data and computations.
        state: after the round before.
        randomness: where draws come from; a simulated one gives the same outcome again.
        private: False leaves out clip and noise, for a baseline that protects nobody.

    Returns:
        The outcome. A model without a finite loss is released as well, and its record says so: that is read off the
        released model and public data alone, so nobody's data shows in it.
    """
    done = state.round + 1
    compute = _central if isinstance(scheme, ClientLevelCentral) else _client_side
    with np.errstate(over="ignore", invalid="ignore"):
        change, cohort, clipped, padding = compute(scheme, engine, state, randomness, private=private)  # type: ignore[arg-type]
        model = state.model + change
    scored = engine.evaluate(model)
    loss, score = scored if np.isfinite([*model, *scored]).all() else (None, None)
    participations = state.participations.copy()
    participations[cohort] += 1
    return Outcome(
        State(done, model, participations),
        RoundRecord(
            done, output_hash(model), scheme.noise_stddev, scheme.clip_norm, tuple(padding.tolist()), loss, score
        ),
        CustodyRecord(
            done,
            tuple(cohort.tolist()),
            clipped.largest_norm,
            clipped.clipped_fraction,
            clipped.dropped,
            int(engine.unusable[cohort].sum()),
        ),
    )


def _central(
    scheme: ClientLevelCentral, engine: Engine, state: State, randomness: Randomness, *, private: bool
) -> Change:
    """Sum of clipped updates plus noise, over the public expected cohort."""
    done = state.round + 1
    cohort = sampling.poisson(
        randomness.stream("cohort", done), population=scheme.clients, probability=scheme.sampling_probability
    )
    clipped = _sum_of_updates(engine, state, cohort, randomness, clip_norm=scheme.clip_norm if private else np.inf)
    draws = randomness.stream("noise", done).normals((clipped.total.size + PADDING,))
    noisy = np.append(clipped.total, np.zeros(PADDING)) + (scheme.noise_stddev if private else 0.0) * draws
    return noisy[:-PADDING] / scheme.expected_cohort, cohort, clipped, noisy[-PADDING:]


def _sum_of_updates(
    engine: Engine, state: State, cohort: sampling.Ids, randomness: Randomness, *, clip_norm: float
) -> Clipped:
    """The cohort's clipped updates; with a batch size, every client's rows are shuffled for the round."""
    if engine.task.training.batch_size is None:
        return engine.sum_of_updates(state.model, cohort, clip_norm=clip_norm)
    stream, usable = randomness.stream("batches", state.round + 1), engine.usable
    slots = max(1, min(usable.shape[0], CHUNK // usable.shape[1]))
    parts = []
    for first in range(0, cohort.size, slots):
        part = cohort[first : first + slots]
        orders = np.zeros((slots, usable.shape[1]), dtype=np.int32)
        orders[: part.size] = sampling.shuffled(stream, usable=usable[part])
        parts.append(engine.sum_of_updates(state.model, part, clip_norm=clip_norm, orders=orders))
    return _merged(parts, state.model.size)


def _client_side(
    scheme: ExampleLevelClientSide, engine: Engine, state: State, randomness: Randomness, *, private: bool
) -> Change:
    """Mean of the clients' noisy differences. A client's padding is its steps' noise, scaled back to one step's."""
    done, steps, size = state.round + 1, scheme.local_steps, state.model.size
    eligible = np.flatnonzero(state.participations < scheme.max_participations)
    cohort = sampling.without_replacement(randomness.stream("cohort", done), eligible=eligible, size=scheme.cohort_size)
    joins, draws = randomness.stream("batches", done), randomness.stream("noise", done)
    rows = engine.task.clients.features.shape[1]
    slots = max(1, min(scheme.cohort_size, CHUNK // (steps * max(rows, size + 1))))
    parts, padding = [], [np.zeros(0)]
    for first in range(0, cohort.size, slots):
        batches = sampling.batches(joins, shape=(slots, steps, rows), probability=scheme.batch_probability)
        noise = (scheme.noise_stddev if private else 0.0) * draws.normals((slots, steps, size + 1))
        part = cohort[first : first + slots]
        summed = engine.sum_of_noisy_runs(
            state.model,
            part,
            batches=batches,
            noise=noise[..., :-1],
            clip_norm=scheme.clip_norm if private else np.inf,
            batch_probability=scheme.batch_probability,
        )
        parts.append(summed)
        padding.append(noise[: part.size, :, -1].sum(axis=1) / np.sqrt(steps))
    clipped = _merged(parts, size)
    return clipped.total / max(cohort.size, 1), cohort, clipped, np.concatenate(padding)


def _merged(parts: list[Clipped], size: int) -> Clipped:
    from epsilog.train.engine import Clipped

    return Clipped(
        sum((part.total for part in parts), np.zeros(size)),
        max((part.largest_norm for part in parts), default=0.0),
        sum(part.clipped for part in parts),
        sum(part.dropped for part in parts),
        sum(part.count for part in parts),
    )
