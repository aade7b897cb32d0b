"""The fast engine: which rows every step takes, listed here, and computed by one compiled JAX program (``program``).

Rows stay on the device where they fit, and are fetched for a part of a cohort at a time where they do not. The slow
engine, ``reference``, says the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import LocalDPSGD
from epsilog.training import sampling
from epsilog.training.engines import program
from epsilog.training.engines.base import ClientStreams, ClippedSum, RoundInputs, RowEngine, Vector
from epsilog.training.engines.program import ClientWork, TileSize, use_full_precision
from epsilog.training.models import gradients
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

RESIDENT = 256_000_000  # bytes of features that may stay on the device
FETCHED = 32_000_000  # bytes of features that are fetched at a time where they may not
LISTED = 1 << 18  # rows that are listed at a time
DRAWN = 4_000_000  # normals that are held at a time
SLOTS = 4096  # clients that are computed at a time
SIZES = (*range(8, 128, 8), *range(128, 257, 32))
TILE_COST = 6, 30_000  # what one more tile costs, in rows, and in rows times parameters


@dataclass(frozen=True, slots=True)
class StepIndices:
    """Which rows the steps of some clients take.

    Attributes:
        rows: each client's list, numbers among its own usable rows, one client after another.
        lengths: of the lists; shape (clients,).
        first: where each step begins in its client's list; a step that reaches the end continues at the beginning.
        counts: how many rows each step takes; both of shape (clients, steps).
    """

    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]


class CompiledEngine(RowEngine):
    """Computes the two kinds of client work by the compiled program."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        clients = task.clients
        before = np.concatenate([[0], np.cumsum(self._usable, dtype=np.int64)])
        self._place = before[self._ends - clients.sizes]  # where each client begins among all usable rows
        self._counts = before[self._ends] - self._place  # usable rows of each client
        row = clients.features.shape[1] * self._precision.itemsize
        self._fetched = max(int(self._counts.max(initial=1)), FETCHED // row)  # rows
        with use_full_precision():
            self._test = tuple(map(_on_device, task.test_set()))
            everything = slice(None) if self._usable.all() else self._usable
            self._resident = self._rows(everything) if clients.features.nbytes <= RESIDENT else None

    def unusable(self, cohort: Ids) -> int:
        """As ``Engine`` says."""
        return int((self.task.clients.sizes[cohort] - self._counts[cohort]).sum())

    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """As ``RowEngine`` says."""
        compute = partial(
            program.sum_updates,
            self.task.model,
            self._tiles,
            vector=now.model,
            clip_norm=clip_norm,
            learning_rate=np.asarray(now.learning_rate(self.task), self._precision),
        )
        parts, slots = [], min(SLOTS, self._counts.size)
        with use_full_precision():
            for part in self._parts(now.cohort, self._counts, slots):
                turns = self._local_batches(now.batches, part)
                parts.append(compute(self._work(part, turns, capacity=_capacity(self._counts), slots=slots)))
        return _merge_parts(parts, now.model.size)

    def sum_dp_sgd(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """As ``RowEngine`` says."""
        p, training, size = runs.batch_probability, self.task.training, now.model.size
        nominal = p * training.nominal_examples
        taken = math.ceil(nominal + 2 * math.sqrt(nominal * (1 - p)))  # in most steps of a client of the nominal size
        listed = self._counts * runs.steps
        room = 1 << max(0, now.cohort.size - 1).bit_length()  # few sizes, since each is compiled; no more than needed
        slots = max(1, min(self._counts.size, SLOTS, DRAWN // (runs.steps * (size + 1)), room))
        compute = partial(
            program.sum_dp_sgd,
            self.task.model,
            _tiles(size, usual=taken, limit=self._at_once),
            vector=now.model,
            clip_norm=np.float64(runs.clip_norm),
            noise_stddev=np.float64(runs.noise_stddev),
            step_size=np.asarray(now.learning_rate(self.task) / (p * training.nominal_examples), self._precision),
        )
        parts, padding = [], [np.zeros(0)]
        with use_full_precision():
            for part in self._parts(now.cohort, listed, slots):
                drawn = np.empty((slots, runs.steps, size + 1))  # of slots beyond the part nothing is read
                for slot, client in enumerate(part.tolist()):
                    now.noise(client).fill(drawn[slot])
                turns = self._poisson_batches(now.batches, runs, part)
                work = self._work(part, turns, capacity=_capacity(listed), slots=slots)
                parts.append(compute(work, noise=drawn))
                padding.append((runs.noise_stddev * drawn[: len(part), :, -1]).sum(axis=1) / np.sqrt(runs.steps))
        return _merge_parts(parts, size, np.concatenate(padding))

    @cached_property
    def _tiles(self) -> TileSize:
        """Of local steps."""
        return _tiles(self.task.model.size, most=self.task.training.batch_size)

    @cached_property
    def _at_once(self) -> int | None:
        """How many rows of noisy steps are best computed at a time."""
        return gradients.rows_at_once(self.task.model, self.task.clients.features.shape[1], self._precision)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As ``Engine`` says."""
        with use_full_precision():
            loss, score = program.evaluate(self.task.model, self._test, model)
        return float(loss), float(score)

    def _local_batches(self, batches: ClientStreams, part: Ids) -> StepIndices:
        """Local steps: all of a client's rows in each, or its shuffled rows in turn."""
        training, lengths = self.task.training, self._counts[part]
        steps = np.arange(training.local_steps)
        if training.batch_size is None:
            rows = [np.arange(count) for count in lengths]
            return StepIndices(
                _join_rows(rows), lengths, np.outer(0 * lengths, steps), np.outer(lengths, steps * 0 + 1)
            )
        counts = np.minimum(lengths, training.batch_size)
        rows = [
            sampling.draw_permutation(batches(c), rows=n) for c, n in zip(part.tolist(), lengths.tolist(), strict=True)
        ]
        first = np.outer(counts, steps) % np.maximum(lengths, 1)[:, None]
        return StepIndices(_join_rows(rows), lengths, first, np.outer(counts, steps * 0 + 1))

    def _poisson_batches(self, batches: ClientStreams, runs: LocalDPSGD, part: Ids) -> StepIndices:
        """Noisy steps: in each, the rows that a coin of their own lets join."""
        p, shapes = runs.batch_probability, ((runs.steps, count) for count in self._counts[part].tolist())
        joins = [
            sampling.draw_poisson_batches(batches(c), shape=s, probability=p)
            for c, s in zip(part.tolist(), shapes, strict=True)
        ]
        counts = np.array([each.sum(axis=1) for each in joins])
        rows = [np.nonzero(each)[1] for each in joins]
        return StepIndices(_join_rows(rows), counts.sum(axis=1), np.cumsum(counts, axis=1) - counts, counts)

    def _parts(self, cohort: Ids, listed: NDArray[np.int64], slots: int) -> Iterator[Ids]:
        """Cut a cohort into parts of at most so many clients, rows that are listed, and rows that are fetched."""
        limits = np.array([slots, LISTED, np.inf if self._resident else self._fetched])
        weights = np.stack([np.ones(cohort.size), listed[cohort], self._counts[cohort]], axis=1)
        if cohort.size and (weights.sum(axis=0) <= limits).all():
            yield cohort
            return
        first, load = 0, np.zeros(3)
        for place, weight in enumerate(weights):
            if place > first and (load + weight > limits).any():
                yield cohort[first:place]
                first, load = place, np.zeros(3)
            load += weight
        if first < cohort.size:
            yield cohort[first:]

    def _work(self, part: Ids, turns: StepIndices, *, capacity: int, slots: int) -> ClientWork:
        """What some clients compute, in arrays whose shapes are the same for every part of a cohort."""
        counts = self._counts[part]
        starts = self._place[part] if self._resident else np.cumsum(counts) - counts
        picks = np.zeros(capacity, dtype=np.int32)
        picks[: turns.rows.size] = turns.rows + np.repeat(starts, turns.lengths)
        lists = np.stack([np.cumsum(turns.lengths) - turns.lengths, turns.lengths], axis=1)
        features, targets = self._resident or self._fetch(part)
        places, first, counts = (
            _pad_to_slots(each.astype(np.int32), slots) for each in (lists, turns.first, turns.counts)
        )
        return ClientWork(
            features, targets, picks, places, first, counts, _pad_to_slots(self._weights[part], slots), len(part)
        )

    def _rows(self, which: Any) -> tuple[Any, Any]:
        """Features and targets of some rows, on the device; where there are none, one of zeros, which no step takes."""
        clients = self.task.clients
        features, targets = clients.features[which], clients.targets[which].astype(self._kind)
        if not len(features):
            features, targets = np.zeros((1, features.shape[1]), self._precision), np.zeros(1, self._kind)
        return _on_device(features), _on_device(targets)

    def _fetch(self, part: Ids) -> tuple[Any, Any]:
        """The usable rows of a part of a cohort, one client after another, in arrays of one size."""
        clients = self.task.clients
        features = np.zeros((self._fetched, clients.features.shape[1]), self._precision)
        targets = np.zeros(self._fetched, self._kind)
        at = 0
        for client in part.tolist():
            lies = self._rows_of(client)
            to, usable = slice(at, at + int(self._counts[client])), self._usable[lies]
            features[to], targets[to] = clients.features[lies][usable], clients.targets[lies][usable]
            at = to.stop
        return jax.device_put(features), jax.device_put(targets)


def _on_device(array: NDArray[Any]) -> Any:
    """A copy on the device: a CPU would share the array itself, and ``asarray`` compiles for every shape."""
    return jax.device_put(array.copy())


def _join_rows(rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def _pad_to_slots(array: NDArray[Any], slots: int) -> NDArray[Any]:
    """The same with zeros below, so that there is a row for every slot."""
    whole = np.zeros((slots, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole


def _capacity(listed: NDArray[np.int64]) -> int:
    """How many rows may be listed at a time: as many as memory should hold, and whatever one client needs."""
    return int(max(listed.max(initial=1), min(LISTED, listed.sum())))


def _tiles(parameters: int, *, most: int | None = None, usual: int | None = None, limit: int | None = None) -> TileSize:
    """The tiles of steps that take ``most`` rows at most, ``usual`` ones, or any number; none has more than ``limit``.

    Public facts alone decide. Tiles of another size round otherwise, and many steps make much of that: if the rows of
    one client changed the tiles, they would move the updates of all others.
    """
    sizes = [size for size in SIZES if limit is None or size <= limit]
    one_more = TILE_COST[0] + TILE_COST[1] / parameters
    rows = most or usual
    if rows is None:  # of no number of rows does this cost twice as much as the best size for it
        return TileSize(next((size for size in sizes if size >= one_more), sizes[-1]), single=False)
    size = min(sizes, key=lambda size: -(-rows // size) * (size + one_more))
    return TileSize(size, single=most is not None and most <= size)


def _merge_parts(parts: list[Any], size: int, padding: Vector | None = None) -> ClippedSum:
    """What the parts of a cohort come to together."""
    totals, largest, *counts = zip(*parts, strict=True) if parts else ((), (), (), (), ())
    clipped, dropped, count = (int(sum(map(int, each))) for each in counts)
    total = sum((np.asarray(one) for one in totals), np.zeros(size))
    nothing = np.zeros(0) if padding is None else padding
    return ClippedSum(total, max(map(float, largest), default=0.0), clipped, dropped, count, nothing)
