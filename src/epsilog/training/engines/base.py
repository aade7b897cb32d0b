"""What an engine must do: clipped sums over a cohort, wherever the clients are computed.

Draws come in as streams, one for each client of the round, so that no engine's order of work, and no client beside
another, changes what a client draws. Under a simulation every engine therefore gives the same model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

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
    """Stands for draws that nobody will need."""
    raise AssertionError(f"client {client} was promised that it draws nothing")


@dataclass(frozen=True, slots=True, eq=False)
class RoundInputs:
    """What the clients of a cohort compute from, whatever the scheme.

    Attributes:
        model: the global model; shape (d,).
        cohort: ids, each once.
        batches: a client's draws for its rows: keys that shuffle them, or coins that let them join.
        noise: a client's draws of normals.
        replies: a simulated client's draws of whether it replies.
        pace: what the task's learning rate is multiplied by in this round.
    """

    model: Vector
    cohort: Ids
    batches: ClientStreams = reject_draws
    noise: ClientStreams = reject_draws
    replies: ClientStreams = reject_draws
    pace: float = 1.0

    def of(self, cohort: Ids) -> RoundInputs:
        """The same round for others."""
        return replace(self, cohort=cohort)


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
        silent: clients of the cohort from whom nothing came that could be read; they are not in ``count``.
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
        """The share that clipping shortened; 0 of none."""
        return self.clipped / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class LocalDPSGD:
    """DP-SGD as each client of a cohort runs it.

    Attributes:
        steps: noisy steps.
        batch_probability: p, with which each example joins each step on its own.
        clip_norm: C, the bound on each example's gradient; ``inf`` clips nothing.
        noise_stddev: of the noise on each step's sum of clipped gradients.
    """

    steps: int
    batch_probability: float
    clip_norm: float
    noise_stddev: float


def sum_clipped(updates: Iterable[Vector], clip_norm: float, *, size: int) -> ClippedSum:
    """Clips whole updates of ``size`` numbers each and sums them; one that has no finite norm counts as zero."""
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
    """Clips gradients, one in each row (n, d), and sums them in doubles; one that has no norm counts as zero."""
    (wide,), reached = clipping.prepare_clip_factors([each], xp=np)
    norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    factors = np.where(reached, clipping.compute_clip_factors(norms, clip_norm, xp=np), 0.0)
    shortened, dropped = int((factors < 1).sum()), int((factors == 0).sum())
    return ClippedSum(factors @ wide, float((factors * norms).max(initial=0.0)), shortened, dropped, len(each))


def compute_gradients_or_nan(
    gradients: Callable[[Any, Any], NDArray[np.floating]], features: Any, targets: Any, *, size: int
) -> NDArray[np.floating]:
    """Each example's gradient of ``size`` numbers; NaN, which every clip drops, where somebody's code fails on it.

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
    """The sum of sums of ``size`` numbers each; 0 numbers leave the totals out."""
    counts = (sum(getattr(part, name) for part in parts) for name in ("clipped", "dropped", "count", "silent"))
    clipped, dropped, count, silent = counts
    total = sum((part.total for part in parts if size), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(part.padding for part in parts)])
    largest = max((part.largest_norm or 0.0 for part in parts), default=0.0)
    return ClippedSum(total, largest, clipped, dropped, count, padding, silent)


class Engine(Protocol):
    """A task's data, wherever it lies, with the computations of a round and the evaluation.

    A row that no step can use (see ``Federation.usable``) is as good as absent. What is summed is float64. A client's
    change is multiplied by its weight (``task.training.weights`` of its size), an update's before it is clipped.
    """

    @property
    def task(self) -> Task:
        """What is trained on what."""

    def unusable(self, cohort: Ids) -> int:
        """How many rows of the cohort are there and cannot be used."""

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """Trains each client of the cohort from the model, clips its whole update and sums them.

        Args:
            now: the round; batches shuffle a client's usable rows, where the task's training has a batch size.
            clip_norm: bound on each client's whole update.
        """

    def sum_of_noisy_updates(self, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
        """As ``sum_of_updates``, and each client adds noise of its own to its clipped update.

        Engines that hold the rows leave it to ``sum_noisy_updates``.

        Args:
            now: the round; of noise a client takes d normals, and one more for the padding.
            clip_norm: bound on each client's whole update.
            noise_stddev: of each client's noise.
        """

    def sum_of_noisy_runs(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Runs DP-SGD at each client of the cohort from the model and sums the model differences.

        A step is (sum of clipped gradients + noise) / (p * nominal_examples), times the learning rate.

        Args:
            now: the round; for each step a client takes a coin for each of its usable rows from batches, and from noise
                d normals and one more for the padding.
            runs: steps, sampling, clip and noise.
        """

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Returns mean loss and score on the public test set; only asked for where the task has one."""


class Updates(Protocol):
    """As much of an engine as sums clipped updates."""

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """As ``Engine`` says."""


def sum_noisy_updates(engine: Updates, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
    """``Engine.sum_of_noisy_updates`` of whoever has the rows: a sum of clipped updates, and noise on it.

    Draws depend on nobody's data: they are made beside the updates.
    """
    with ThreadPoolExecutor(1) as beside:
        drawing = beside.submit(_summed_noise, now, noise_stddev)
        clipped = engine.sum_of_updates(now, clip_norm=clip_norm)
        noise = drawing.result()
    return replace(clipped, total=clipped.total + noise.total, padding=noise.padding)


def _summed_noise(now: RoundInputs, noise_stddev: float) -> ClippedSum:
    """Every client's noise in one sum, and what each drew for its padding."""
    total, padding, drawn = np.zeros(now.model.size), np.zeros(now.cohort.size), np.empty(now.model.size + 1)
    for place, client in enumerate(now.cohort.tolist()):
        now.noise(client).fill(drawn)
        drawn *= noise_stddev
        total += drawn[:-1]
        padding[place] = drawn[-1]
    return ClippedSum(total, None, 0, 0, 0, padding)
