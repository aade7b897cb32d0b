"""An engine whose clients always send the same updates: rounds without a model, for tests of samplers and noise."""

# ruff: noqa: ARG002 - an engine's face

import numpy as np

from epsilog.train.engines import Clipped
from epsilog.train.engines.base import noisy_updates


class Fixed:
    """Client i's update is row i, clipped."""

    def __init__(self, task, updates=None):
        self.task = task
        count = (task.clients.count, task.model.size)
        self.updates = np.ones(count) / np.sqrt(count[1]) if updates is None else updates

    def unusable(self, cohort):
        return 0

    def evaluate(self, model):
        return 1.0, 0.0

    def sum_of_updates(self, model, cohort, *, clip_norm, batches, pace=1.0):
        norms = np.linalg.norm(self.updates[cohort], axis=1)
        shares = np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))
        total = (shares[:, None] * self.updates[cohort]).sum(axis=0)
        largest = float((shares * norms).max(initial=0.0))
        return Clipped(total, largest, int((shares < 1).sum()), 0, cohort.size)

    def sum_of_noisy_updates(self, model, cohort, **settings):
        return noisy_updates(self, model, cohort, **settings)
