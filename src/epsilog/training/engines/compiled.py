"""The fast engine: it lists the rows of each step, which one compiled JAX program (``program``) computes.

Rows stay on the device if they fit; else the rows of a part of a cohort are copied at a time. The slow engine,
``reference``, gives equal results.
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

RESIDENT = 256_000_000  # bytes of features that can stay on the device
FETCHED = 32_000_000  # bytes of features to copy at a time otherwise
LISTED = 1 << 18  # rows in one list
DRAWN = 4_000_000  # normals in memory at a time
SLOTS = 4096  # clients per program call
SIZES = (*range(8, 128, 8), *range(128, 257, 32))
TILE_COST = 6, 30_000  # cost of one more tile, in rows, and in rows times parameters


@dataclass(frozen=True, slots=True)
class StepIndices:
    """The rows of each step of some clients.

    Attributes:
        rows: concatenated lists of the clients; each holds positions among the usable rows of its client.
        lengths: lengths of the lists; shape (clients,).
        first: position in the list where each step begins; after the end of the list it continues at the beginning.
        counts: number of rows of each step; both of shape (clients, steps).
    """

    rows: NDArray[np.int64]
    lengths: NDArray[np.int64]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]


class CompiledEngine(RowEngine):
    """Computes updates and DP-SGD by the compiled program."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        clients = task.clients
        row = clients.features.shape[1] * self._precision.itemsize
        self._fetched = max(int(self._counts.max(initial=1)), FETCHED // row)  # rows
        with use_full_precision():
            self._test = tuple(map(_on_device, task.test_set()))
            everything = slice(None) if self._usable.all() else self._usable
            self._resident = self._rows(everything) if clients.features.nbytes <= RESIDENT else None

    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """Return the sum of updates, as ``LocalEngine`` specifies."""
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
        """Return the sum of DP-SGD, as ``LocalEngine`` specifies."""
        p, training, size = runs.batch_probability, self.task.training, now.model.size
        nominal = p * training.expected_examples
        taken = math.ceil(
            nominal + 2 * math.sqrt(nominal * (1 - p))
        )  # upper limit for most steps of a client of the nominal size
        listed = self._counts * runs.steps
        enough = 1 << max(0, now.cohort.size - 1).bit_length()  # few different sizes, since each is compiled
        slots = max(1, min(self._counts.size, SLOTS, DRAWN // (runs.steps * (size + 1)), enough))
        compute = partial(
            program.sum_dp_sgd,
            self.task.model,
            _tiles(size, usual=taken, limit=self._at_once),
            vector=now.model,
            clip_norm=np.float64(runs.clip_norm),
            noise_stddev=np.float64(runs.noise_stddev),
            step_size=np.asarray(now.learning_rate(self.task) / (p * training.expected_examples), self._precision),
        )
        parts, padding = [], [np.zeros(0)]
        with use_full_precision():
            for part in self._parts(now.cohort, listed, slots):
                drawn = np.empty((slots, runs.steps, size + 1))  # slots beyond the part are never read
                for slot, client in enumerate(part.tolist()):
                    now.noise(client).fill(drawn[slot])
                turns = self._poisson_batches(now.batches, runs, part)
                work = self._work(part, turns, capacity=_capacity(listed), slots=slots)
                parts.append(compute(work, noise=drawn))
                padding.append((runs.noise_stddev * drawn[: len(part), :, -1]).sum(axis=1) / np.sqrt(runs.steps))
        return _merge_parts(parts, size, np.concatenate(padding))

    @cached_property
    def _tiles(self) -> TileSize:
        """Tiles of local steps."""
        return _tiles(self.task.model.size, most=self.task.training.batch_size)

    @cached_property
    def _at_once(self) -> int | None:
        """Best number of rows of noisy steps to compute at a time."""
        return gradients.rows_at_once(self.task.model, self.task.clients.features.shape[1], self._precision)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return loss and score, as ``Engine`` specifies."""
        with use_full_precision():
            loss, score = program.evaluate(self.task.model, self._test, model)
        return float(loss), float(score)

    def _local_batches(self, batches: ClientStreams, part: Ids) -> StepIndices:
        """Return the rows of local steps: all rows of a client in each, or its shuffled rows in turn."""
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
        """Return the rows of noisy steps, drawn by Poisson sampling."""
        p, shapes = runs.batch_probability, ((runs.steps, count) for count in self._counts[part].tolist())
        joins = [batches(client).coins(shape, p) for client, shape in zip(part.tolist(), shapes, strict=True)]
        counts = np.array([each.sum(axis=1) for each in joins])
        rows = [np.nonzero(each)[1] for each in joins]
        return StepIndices(_join_rows(rows), counts.sum(axis=1), np.cumsum(counts, axis=1) - counts, counts)

    def _parts(self, cohort: Ids, listed: NDArray[np.int64], slots: int) -> Iterator[Ids]:
        """Yield parts of a cohort within the limits on clients, listed rows and copied rows."""
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
        """Return the work of some clients in arrays of equal shape for all parts of a cohort."""
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
        """Return features and targets of rows on the device; one unused row of zeros if the selection is empty."""
        clients = self.task.clients
        features, targets = clients.features[which], clients.targets[which].astype(self._kind)
        if not len(features):
            features, targets = np.zeros((1, features.shape[1]), self._precision), np.zeros(1, self._kind)
        return _on_device(features), _on_device(targets)

    def _fetch(self, part: Ids) -> tuple[Any, Any]:
        """Return the usable rows of a part of a cohort, in the order of clients, in arrays of fixed size."""
        clients = self.task.clients
        features = np.zeros((self._fetched, clients.features.shape[1]), self._precision)
        targets = np.zeros(self._fetched, self._kind)
        at = 0
        for client in part.tolist():
            rows = self._rows_of(client)
            to, usable = slice(at, at + int(self._counts[client])), self._usable[rows]
            features[to], targets[to] = clients.features[rows][usable], clients.targets[rows][usable]
            at = to.stop
        return jax.device_put(features), jax.device_put(targets)


def _on_device(array: NDArray[Any]) -> Any:
    """Return a copy on the device: a CPU would share the array, and ``asarray`` compiles for each shape."""
    return jax.device_put(array.copy())


def _join_rows(rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def _pad_to_slots(array: NDArray[Any], slots: int) -> NDArray[Any]:
    """Return an array padded with zeros to one row per slot."""
    whole = np.zeros((slots, *array.shape[1:]), array.dtype)
    whole[: len(array)] = array
    return whole


def _capacity(listed: NDArray[np.int64]) -> int:
    """Return the number of rows in one list: a fixed limit, or more if one client needs them."""
    return int(max(listed.max(initial=1), min(LISTED, listed.sum())))


def _tiles(parameters: int, *, most: int | None = None, usual: int | None = None, limit: int | None = None) -> TileSize:
    """Return tiles of at most ``limit`` rows for steps of at most ``most`` rows, of ``usual`` rows, or of any number.

    Only public facts decide. Tiles of other sizes round differently, and many steps amplify the difference: if the rows
    of one client changed the tiles, they would change the updates of all others.
    """
    sizes = [size for size in SIZES if limit is None or size <= limit]
    one_more = TILE_COST[0] + TILE_COST[1] / parameters
    rows = most or usual
    if rows is None:  # for any number of rows, this costs less than twice the best size
        return TileSize(next((size for size in sizes if size >= one_more), sizes[-1]), single=False)
    size = min(sizes, key=lambda size: -(-rows // size) * (size + one_more))
    return TileSize(size, single=most is not None and most <= size)


def _merge_parts(parts: list[Any], size: int, padding: Vector | None = None) -> ClippedSum:
    """Return the sum of the parts of a cohort."""
    totals, largest, *counts = zip(*parts, strict=True) if parts else ((), (), (), (), ())
    clipped, dropped, count = (int(sum(map(int, each))) for each in counts)
    total = sum((np.asarray(one) for one in totals), np.zeros(size))
    noise = np.zeros(0) if padding is None else padding
    return ClippedSum(total, max(map(float, largest), default=0.0), clipped, dropped, count, noise)
