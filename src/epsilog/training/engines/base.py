"""The contract of an engine: it gets a round and what each client may upload, and returns the sum of the uploads.

Draws come in as streams, one for each client of the round, so that no engine's order of work, and no other client,
changes what a client draws. Under a simulation every engine therefore gives the same model.
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
"""The round's draws of one client, by its id."""
log = logging.getLogger(__name__)


def reject_draws(client: int) -> RandomStream:
    """Stand in for draws that an upload does not need."""
    raise AssertionError(f"the upload of client {client} must not need these draws")


@dataclass(frozen=True, slots=True, eq=False)
class RoundInputs:
    """What the clients of a cohort compute from, under every scheme.

    Attributes:
        model: the global model; shape (d,).
        cohort: ids, each once.
        batches: a client's draws for its rows: keys that shuffle them, or coins that let them join.
        noise: a client's draws of normals.
        replies: a simulated client's draws of whether it replies.
        learning_rate_factor: multiplies the task's learning rate in this round.
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
    """A sum over a cohort, and what its curator may see of it.

    Attributes:
        total: the sum; shape (d,).
        largest_norm: largest L2 norm after clipping, of updates or of example gradients; None if clients keep it.
        clipped: how many of them clipping shortened, or dropped.
        dropped: how many of them were not finite, or had no finite norm, and counted as zero.
        count: how many there were.
        padding: each client's noise on a coordinate whose true sum is 0, scaled to one step's; empty if none is added.
        silent: clients of the cohort that sent nothing readable; they are not in ``count``.
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
        """The fraction that clipping shortened; 0 of none."""
        return self.clipped / self.count if self.count else 0.0


class Summing(Protocol):
    """The part of an engine that computes a round."""

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """As ``Engine`` says."""


class Engine(ABC):
    """A task's data, at one place or at many, with the computation of a round and the evaluation.

    A row that no step can use (see ``Federation.usable``) counts as absent. Sums are float64. A client's change is
    multiplied by its weight (``task.training.weights`` of its size); an update's before it is clipped.

    Attributes:
        task: what is trained on what.
    """

    task: Task

    @abstractmethod
    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Train each client of the cohort from the model, and sum what they upload.

        - ``RawUpdate``: whole updates, each clipped. ``batches`` shuffle a client's usable rows, where the task's
          training has a batch size.
        - ``NoisyUpdate``: the same; each client adds noise of its own. From ``noise`` a client takes d normals, and one
          more for the padding.
        - ``LocalDPSGD``: model differences after DP-SGD. A step is (sum of clipped gradients + noise) /
          (p * nominal_examples), times the learning rate. For each step a client takes a coin for each of its usable
          rows from ``batches``, and from ``noise`` d normals and one more for the padding.

        Args:
            now: the round.
            upload: what leaves a client, with its clip norm and noise.
        """

    @abstractmethod
    def unusable(self, cohort: Ids) -> int:
        """Count the cohort's rows that are there and cannot be used."""

    @abstractmethod
    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return mean loss and score on the public test set; only asked for where the task has one."""


class RowEngine(Engine):
    """An engine that holds the rows of all clients and computes their updates and DP-SGD itself. Abstract."""

    def __init__(self, task: Task) -> None:
        self.task = task
        clients = task.clients
        self._weights = task.training.weights(clients.sizes)
        self._usable, self._ends = clients.usable(task.model), clients.client_offsets
        self._precision = clients.features.dtype
        self._kind = task.model.target_type(self._precision)

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """As ``Engine`` says."""
        match upload:
            case RawUpdate(clip_norm):
                return self.sum_updates(now, clip_norm)
            case NoisyUpdate(clip_norm, noise_stddev):
                return add_client_noise(lambda: self.sum_updates(now, clip_norm), now, noise_stddev)
            case LocalDPSGD():
                return self.sum_dp_sgd(now, upload)

    @abstractmethod
    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """Sum the cohort's clipped updates, without noise."""

    @abstractmethod
    def sum_dp_sgd(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Sum the cohort's model differences after DP-SGD."""

    def unusable(self, cohort: Ids) -> int:
        """As ``Engine`` says."""
        return sum(int((~self._usable[self._rows_of(client)]).sum()) for client in cohort.tolist())

    def _rows_of(self, client: int) -> slice:
        """Return where a client's rows lie."""
        end = int(self._ends[client])
        return slice(end - int(self.task.clients.sizes[client]), end)


def add_client_noise(sum_updates: Callable[[], ClippedSum], now: RoundInputs, noise_stddev: float) -> ClippedSum:
    """Add each client's noise to a sum of clipped updates.

    Draws depend on no data: they are made while the updates are computed.
    """
    with ThreadPoolExecutor(1) as executor:
        drawing = executor.submit(_sum_noise, now, noise_stddev)
        clipped = sum_updates()
        total, padding = drawing.result()
    return replace(clipped, total=clipped.total + total, padding=padding)


def _sum_noise(now: RoundInputs, noise_stddev: float) -> tuple[Vector, Vector]:
    """Return all clients' noise in one sum, and what each drew for its padding."""
    total, padding, drawn = np.zeros(now.model.size), np.zeros(now.cohort.size), np.empty(now.model.size + 1)
    for place, client in enumerate(now.cohort.tolist()):
        now.noise(client).fill(drawn)
        drawn *= noise_stddev
        total += drawn[:-1]
        padding[place] = drawn[-1]
    return total, padding


def sum_clipped(updates: Iterable[Vector], clip_norm: float, *, size: int) -> ClippedSum:
    """Clip whole updates of ``size`` numbers each and sum them; one that has no finite norm counts as zero."""
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
    """Clip gradients, one in each row (n, d), and sum them in doubles; one that has no norm counts as zero."""
    (wide,), reached = clipping.prepare_clip_factors([each], xp=np)
    norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    factors = np.where(reached, clipping.compute_clip_factors(norms, clip_norm, xp=np), 0.0)
    shortened, dropped = int((factors < 1).sum()), int((factors == 0).sum())
    return ClippedSum(factors @ wide, float((factors * norms).max(initial=0.0)), shortened, dropped, len(each))


def compute_gradients_or_nan(
    gradients: Callable[[Any, Any], NDArray[np.floating]], features: Any, targets: Any, *, size: int
) -> NDArray[np.floating]:
    """Return each example's gradient of ``size`` numbers; NaN, which every clip drops, where user code fails on it.

    One example's failure must not keep the others' gradients from the sum: that would move it by more than a clip.

    Args:
        gradients: (features, targets) -> one gradient in each row (n, d).
        features: of n examples.
        targets: of those.
        size: d.
    """
    try:
        return gradients(features, targets)
    except MemoryError:  # the machine's, and no example's
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
    """Return the sum of sums of ``size`` numbers each; 0 numbers leave the totals out."""
    counts = (sum(getattr(part, name) for part in parts) for name in ("clipped", "dropped", "count", "silent"))
    clipped, dropped, count, silent = counts
    total = sum((part.total for part in parts if size), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(part.padding for part in parts)])
    largest = max((part.largest_norm or 0.0 for part in parts), default=0.0)
    return ClippedSum(total, largest, clipped, dropped, count, padding, silent)
