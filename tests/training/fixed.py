"""An engine whose clients always send the same updates: rounds without a model, for tests of samplers and noise."""

# ruff: noqa: ARG002 - an engine's face

import numpy as np

from epsilog.training.engines import RowEngine
from epsilog.training.engines.base import sum_clipped


class Fixed(RowEngine):
    """Client i's update is row i, clipped."""

    def __init__(self, task, updates=None):
        super().__init__(task)
        count = (task.clients.count, task.model.size)
        self.updates = np.ones(count) / np.sqrt(count[1]) if updates is None else updates

    def evaluate(self, model):
        return 1.0, 0.0

    def sum_updates(self, now, clip_norm):
        return sum_clipped(self.updates[now.cohort], clip_norm, size=self.task.model.size)

    def sum_dp_sgd(self, now, runs):
        raise NotImplementedError
