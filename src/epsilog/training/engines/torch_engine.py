"""The PyTorch engine: one client at a time, with example gradients by ``torch.func``.

Local training has the precision of the data; norms, clipping and sums are float64 in NumPy, by the rule of all engines.
It runs on the CPU. PyTorch is imported on first use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import LocalDPSGD
from epsilog.terms import CheckError
from epsilog.training import sampling
from epsilog.training.engines.base import (
    ClippedSum,
    RoundInputs,
    RowEngine,
    Vector,
    combine_sums,
    compute_gradients_or_nan,
    sum_clipped,
    sum_clipped_examples,
)
from epsilog.training.models.torch_modules import compute_torch_gradients
from epsilog.training.task import Task

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)
FORMED = 8_000_000  # numbers of gradients in memory: 64 MB
ROWS = 1024  # rows in one batch without example gradients


class TorchEngine(RowEngine):
    """An engine for models from ``models.from_torch``."""

    def __init__(self, task: Task) -> None:
        if task.model.framework != "torch":
            raise CheckError("model", "a PyTorch model (models.from_torch)", f"one of {task.model.framework}")
        super().__init__(task)

    def sum_updates(self, now: RoundInputs, clip_norm: float) -> ClippedSum:
        """Return the sum of updates, as ``LocalEngine`` specifies."""
        updates = (self._update_or_none(now, client) for client in now.cohort.tolist())
        return sum_clipped(updates, clip_norm, size=now.model.size)

    def sum_dp_sgd(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """Return the sum of DP-SGD, as ``LocalEngine`` specifies."""
        total, padding, seen = np.zeros(now.model.size), np.zeros(now.cohort.size), list[ClippedSum]()
        for place, client in enumerate(now.cohort.tolist()):
            change, padding[place], steps = self._noisy_run(now, runs, client)
            total += change
            seen.append(combine_sums(steps, size=0))
        whole = combine_sums(seen, size=0)
        return ClippedSum(total, whole.largest_norm, whole.clipped, whole.dropped, whole.count, padding)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return loss and score, as ``Engine`` specifies."""
        import torch

        trained, (features, targets) = self.task.model, self.task.test_set()
        goals = torch.as_tensor(targets)
        with torch.no_grad():
            params = trained.unflatten(self._tensor(model))
            parts = [trained.apply(params, torch.as_tensor(features[rows])) for rows in _parts(len(goals), ROWS)]
            outputs = torch.cat(parts)
            return float(trained.losses(outputs, goals).mean()), float(trained.compute_score(outputs, goals))

    def _update_or_none(self, now: RoundInputs, client: int) -> Vector:
        """Return the update of a client; NaN, which counts as zero, if the module fails on its rows."""
        try:
            return self._update(now, client)
        except MemoryError:  # of the machine, not of a client
            raise
        except Exception:
            log.exception("the update of a client failed and counts as zero")
            return np.full(now.model.size, np.nan)

    def _update(self, now: RoundInputs, client: int) -> Vector:
        """Return the weighted update of a client before clipping."""
        training, (features, targets) = self.task.training, self._rows(client)
        count = len(features)
        if not count:
            return np.zeros(now.model.size)
        size = min(training.batch_size or count, count)
        order = (
            np.arange(count)
            if training.batch_size is None
            else sampling.draw_permutation(now.batches(client), rows=count)
        )
        here = start = self._tensor(now.model)
        for step in range(training.local_steps):
            taken = order[np.arange(step * size, (step + 1) * size) % count]
            slope = self._slope(here, features[taken], targets[taken])
            here = here - now.learning_rate(self.task) * slope
        return float(self._weights[client]) * _difference(here, start)

    def _noisy_run(self, now: RoundInputs, runs: LocalDPSGD, client: int) -> tuple[Vector, float, list[ClippedSum]]:
        """Return the weighted change of a client after DP-SGD, its padding, and the clipped sum of each step."""
        (features, targets), training = self._rows(client), self.task.training
        shape = (runs.steps, len(features))
        joins = now.batches(client).coins(shape, runs.batch_probability)
        drawn = runs.noise_stddev * now.noise(client).normals((runs.steps, now.model.size + 1))
        step_size = now.learning_rate(self.task) / (runs.batch_probability * training.expected_examples)
        here, seen = (start := self._tensor(now.model)), []
        for joined, noise in zip(joins, drawn, strict=True):
            clipped = self._clipped_gradients(here, features[joined], targets[joined], runs.clip_norm)
            here = here - step_size * self._tensor(clipped.total + noise[:-1])
            seen.append(clipped)
        change = float(self._weights[client]) * _difference(here, start)
        return change, float(drawn[:, -1].sum() / np.sqrt(runs.steps)), seen

    def _slope(self, vector: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """Return the gradient of the mean loss; shape (d,)."""
        import torch

        model, whole = self.task.model, torch.zeros_like(vector)
        here = vector.clone().requires_grad_()
        for rows in _parts(len(features), ROWS):
            with torch.enable_grad():
                losses = model.losses(model.apply(model.unflatten(here), features[rows]), targets[rows])
                mean = losses.sum() / len(features)
            whole += torch.autograd.grad(mean, here)[0]
        return whole

    def _clipped_gradients(self, vector: Tensor, features: Tensor, targets: Tensor, clip_norm: float) -> ClippedSum:
        """Return the sum of clipped example gradients."""
        parts, size = [], len(vector)

        def compute_gradients(features: Tensor, targets: Tensor) -> NDArray[np.floating]:
            return np.asarray(compute_torch_gradients(self.task.model, vector, features, targets).numpy())

        for rows in _parts(len(features), max(1, FORMED // size)):
            each = compute_gradients_or_nan(compute_gradients, features[rows], targets[rows], size=size)
            parts.append(sum_clipped_examples(each, clip_norm))
        return combine_sums(parts, size=size)

    def _rows(self, client: int) -> tuple[Tensor, Tensor]:
        """Return the usable rows of a client."""
        import torch

        rows, clients = self._rows_of(client), self.task.clients
        usable = self._usable[rows]
        features, targets = clients.features[rows][usable], clients.targets[rows][usable].astype(self._kind)
        return torch.from_numpy(np.array(features)), torch.from_numpy(np.array(targets))

    def _tensor(self, vector: Vector) -> Tensor:
        """Return a vector in the precision of local training."""
        import torch

        with np.errstate(over="ignore"):
            return torch.from_numpy(vector.astype(self._precision))


def _difference(end: Tensor, start: Tensor) -> Vector:
    """Return ``end - start`` in float64."""
    return np.asarray((end.double() - start.double()).numpy())


def _parts(count: int, size: int) -> Iterator[slice]:
    return (slice(first, first + size) for first in range(0, count, size))
