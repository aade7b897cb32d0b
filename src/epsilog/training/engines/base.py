"""The contract of an engine: it receives a round and a kind of upload, and returns the sum of the uploads.

Each client of a round has its own stream of draws, so neither the order of work nor another client changes its draws.
In a simulation, all engines therefore give the same model.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import LocalDPSGD, NoisyUpdate, RawUpdate, Upload
from epsilog.terms.disclosed import Private
from epsilog.training import clipping
from epsilog.training.noise import RandomStream
from epsilog.training.sampling import Ids
from epsilog.training.task import Task

Vector = NDArray[np.float64]
ClientStreams = Callable[[int], RandomStream]
"""Returns the draws of one client in the round, by its id."""
log = logging.getLogger(__name__)


def reject_draws(client: int) -> RandomStream:
    """Fail: the upload must not need these draws."""
    raise AssertionError(f"the upload of client {client} must not need these draws")


@dataclass(frozen=True, slots=True, eq=False)
class RoundInputs:
    """The inputs of a round for an engine, under every scheme.

    Attributes:
        model: the global model; shape (d,).
        cohort: distinct ids of clients.
        batches: draws of a client that shuffle its rows or sample its batches.
        noise: draws of a client for its noise.
        replies: draws of a simulated client that decide whether it replies.
        learning_rate_factor: multiplies the learning rate of the task in this round.
    """

    model: Vector
    cohort: Ids
    batches: ClientStreams = reject_draws
    noise: ClientStreams = reject_draws
    replies: ClientStreams = reject_draws
    learning_rate_factor: float = 1.0

    def of(self, cohort: Ids) -> RoundInputs:
        """Return the same round for other clients."""
        return replace(self, cohort=cohort)

    def learning_rate(self, task: Task) -> float:
        """Return the task's learning rate in this round."""
        return self.learning_rate_factor * task.training.learning_rate


@dataclass(frozen=True, slots=True, repr=False)
class ClippedSum(Private):
    """A sum over a cohort, and statistics for the curator alone.

    Attributes:
        total: the sum; shape (d,).
        largest_norm: largest L2 norm after clipping, of updates or of example gradients; None if only clients know it.
        clipped: number of updates or gradients that clipping shortened or dropped.
        dropped: number of those without a finite norm, which counted as zero.
        count: number of all of them.
        padding: noise of each client on a coordinate with a true sum of 0, scaled to one step; empty without noise.
        silent: number of clients of the cohort without a readable upload; ``count`` does not include them.
    """

    total: Vector
    largest_norm: float | None
    clipped: int
    dropped: int
    count: int
    padding: Vector = field(default_factory=lambda: np.zeros(0))
    silent: int = 0

    __hash__ = Private.__hash__

    @property
    def clipped_fraction(self) -> float:
        """Return the fraction that clipping shortened; 0 if there were none."""
        return self.clipped / self.count if self.count else 0.0


class Summing(Protocol):
    """The part of an engine that computes a round."""

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of uploads, as ``Engine`` specifies."""


class Engine(ABC):
    """A task with the computation of a round and the evaluation of models.

    A row that no step can use (see ``Federation.usable``) counts as absent. Sums are float64. The change of a client is
    multiplied by its weight (``task.training.weights`` of its size); an update is weighted before it is clipped.

    Attributes:
        task: the training task.
    """

    task: Task

    @abstractmethod
    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Train each client of the cohort from the model, and return the sum of the uploads.

        - ``RawUpdate``: clipped updates. If the training has a batch size, ``batches`` shuffles the usable rows of a
          client.
        - ``NoisyUpdate``: the same, with noise of each client. A client takes d normals from ``noise``, and one more
          for the padding.
        - ``LocalDPSGD``: model differences after DP-SGD. A step is (sum of clipped gradients + noise) /
          (p * expected_examples), times the learning rate. In each step a client takes one coin per usable row from
          ``batches``, and d normals and one more for the padding from ``noise``.

        Args:
            now: the inputs of the round.
            upload: the kind of upload, with its clip norm and noise.
        """

    @abstractmethod
    def unusable(self, cohort: Ids) -> int:
        """Return the number of rows of the cohort that no step can use."""

    @abstractmethod
    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return mean loss and score on the public test set of the task, which must have one."""


class LocalEngine(Engine):
    """An engine that computes all uploads itself. Abstract: subclasses compute updates and DP-SGD."""

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of uploads, as ``Engine`` specifies."""
        match upload:
            case RawUpdate(clip_norm):
                return self.sum_updates(now, clip_norm)
            case NoisyUpdate(clip_norm, noise_stddev):
                return add_client_noise(lambda: self.sum_updates(now, clip_norm), now, noise_stddev)
            case LocalDPSGD():
                return self.sum_dp_sgd(now, upload)

    @abstractmethod
    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """Return the sum of the clipped updates of the cohort, without noise."""

    @abstractmethod
    def sum_dp_sgd(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Return the sum of the model differences of the cohort after DP-SGD."""


class RowEngine(LocalEngine):
    """An engine that holds the rows of all clients, and knows which of them a step can use. Abstract."""

    def __init__(self, task: Task) -> None:
        self.task = task
        clients = task.clients
        self._weights = task.training.weights(clients.sizes)
        self._usable, self._ends = clients.usable(task.model), clients.client_offsets
        usable_before = np.concatenate([[0], np.cumsum(self._usable, dtype=np.int64)])
        self._place = usable_before[self._ends - clients.sizes]  # first row of each client among all usable rows
        self._counts = usable_before[self._ends] - self._place  # usable rows of each client
        self._precision = clients.features.dtype
        self._kind = task.model.target_type(self._precision)

    def unusable(self, cohort: Ids) -> int:
        """Return the number of unusable rows, as ``Engine`` specifies."""
        return int((self.task.clients.sizes[cohort] - self._counts[cohort]).sum())

    def _rows_of(self, client: int) -> slice:
        """Return the slice of the rows of a client."""
        end = int(self._ends[client])
        return slice(end - int(self.task.clients.sizes[client]), end)


def add_client_noise(sum_updates: Callable[[], ClippedSum], now: RoundInputs, noise_stddev: float) -> ClippedSum:
    """Return a sum of clipped updates plus the noise of each client.

    The noise depends on no data, so it is drawn while the updates are computed.
    """
    with ThreadPoolExecutor(1) as executor:
        drawing = executor.submit(_sum_noise, now, noise_stddev)
        clipped = sum_updates()
        total, padding = drawing.result()
    return replace(clipped, total=clipped.total + total, padding=padding)


def _sum_noise(now: RoundInputs, noise_stddev: float) -> tuple[Vector, Vector]:
    """Return the sum of the noise of all clients, and the padding of each."""
    total, padding, drawn = np.zeros(now.model.size), np.zeros(now.cohort.size), np.empty(now.model.size + 1)
    for place, client in enumerate(now.cohort.tolist()):
        now.noise(client).fill(drawn)
        drawn *= noise_stddev
        total += drawn[:-1]
        padding[place] = drawn[-1]
    return total, padding


def sum_clipped(updates: Iterable[Vector], clip_norm: float, *, size: int) -> ClippedSum:
    """Return the sum of clipped updates of ``size`` numbers; one without a finite norm counts as zero."""
    total, norms, clipped, dropped, count = np.zeros(size), [0.0], 0, 0, 0
    for update in updates:
        with np.errstate(over="ignore", invalid="ignore"):
            factor = float(clipping.compute_clip_factors(np.linalg.norm(update), clip_norm, xp=np))
        count, clipped, dropped = count + 1, clipped + (factor < 1), dropped + (factor == 0)
        if factor > 0:
            short = factor * update
            total += short
            norms.append(float(np.linalg.norm(short)))
    return ClippedSum(total, max(norms), clipped, dropped, count)


def sum_clipped_examples(each: NDArray[np.floating], clip_norm: float) -> ClippedSum:
    """Return the float64 sum of clipped gradients (n, d); one without a finite norm counts as zero."""
    (wide,), reached = clipping.prepare_clip_factors([each], xp=np)
    norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    factors = np.where(reached, clipping.compute_clip_factors(norms, clip_norm, xp=np), 0.0)
    shortened, dropped = int((factors < 1).sum()), int((factors == 0).sum())
    return ClippedSum(factors @ wide, float((factors * norms).max(initial=0.0)), shortened, dropped, len(each))


def compute_gradients_or_nan(
    gradients: Callable[[Any, Any], NDArray[np.floating]], features: Any, targets: Any, *, size: int
) -> NDArray[np.floating]:
    """Return the gradient of each example; NaN, which every clip drops, if user code fails on it.

    The failure of one example must not remove the gradients of others: a sum could change by more than a clip norm.

    Args:
        gradients: (features, targets) -> gradients, the rows of (n, d).
        features: features of n examples.
        targets: targets of the examples.
        size: d.
    """
    try:
        return gradients(features, targets)
    except MemoryError:  # of the machine, not of an example
        raise
    except Exception:
        if len(features) < 2:
            log.exception("the gradient of an example failed and counts as zero")
            return np.full((len(features), size), np.nan)
    half = len(features) // 2
    parts = (slice(None, half), slice(half, None))
    apart = [compute_gradients_or_nan(gradients, features[one], targets[one], size=size) for one in parts]
    return np.concatenate(apart)


def combine_sums(parts: Sequence[ClippedSum], *, size: int) -> ClippedSum:
    """Return the sum of sums of ``size`` numbers; size 0 leaves out the totals."""
    counts = (sum(getattr(part, name) for part in parts) for name in ("clipped", "dropped", "count", "silent"))
    clipped, dropped, count, silent = counts
    total = sum((part.total for part in parts if size), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(part.padding for part in parts)])
    largest = max((part.largest_norm or 0.0 for part in parts), default=0.0)
    return ClippedSum(total, largest, clipped, dropped, count, padding, silent)
