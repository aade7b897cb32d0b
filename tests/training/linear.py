"""An engine of a few lines in NumPy: a linear model with half the squared error, its gradients by hand."""

import numpy as np

from epsilog.training import clipping
from epsilog.training.engines import ClippedSum, RowEngine


def slopes(model, features, targets):
    """Each example's gradient; shape (n, d)."""
    errors = features @ model[:-1] + model[-1] - targets
    return errors[:, None] * np.column_stack([features, np.ones(len(features))])


class LinearEngine(RowEngine):
    """A task's data, with the computations of a round and the evaluation."""

    def rows(self, client):
        here = self.task.clients.rows_of(client)
        return self.task.clients.features[here], self.task.clients.targets[here]

    def sum_updates(self, now, clip_norm):
        model = now.model
        total, norms, clipped = np.zeros_like(model), [0.0], 0
        for client in now.cohort.tolist():
            features, targets = self.rows(client)
            at, size = model, min(self.task.training.batch_size or len(features), len(features))
            order = np.arange(len(features))
            if self.task.training.batch_size is not None:
                order = np.argsort(now.batches(client).words(len(features)), kind="stable")
            for step in range(self.task.training.local_steps if size else 0):
                rows = order[np.arange(step * size, (step + 1) * size) % len(order)]
                rate = now.learning_rate(self.task)
                at = at - rate * slopes(at, features[rows], targets[rows]).mean(axis=0)
            factor = float(clipping.compute_clip_factors(np.linalg.norm(at - model), clip_norm, xp=np))
            total, clipped = total + factor * (at - model), clipped + (factor < 1)
            norms.append(float(np.linalg.norm(factor * (at - model))))
        return ClippedSum(total, max(norms), clipped, 0, len(now.cohort))

    def sum_dp_sgd(self, now, runs):
        model, training = now.model, self.task.training
        total, padding = np.zeros_like(model), []
        step_size = now.learning_rate(self.task) / (runs.batch_probability * training.expected_examples)
        for client in now.cohort.tolist():
            (features, targets), at = self.rows(client), model
            joins = now.batches(client).coins((runs.steps, len(features)), runs.batch_probability)
            drawn = runs.noise_stddev * now.noise(client).normals((runs.steps, model.size + 1))
            for step in range(runs.steps):
                each = slopes(at, features[joins[step]], targets[joins[step]])
                factors = clipping.compute_clip_factors(np.linalg.norm(each, axis=1), runs.clip_norm, xp=np)
                at = at - step_size * ((factors[:, None] * each).sum(axis=0) + drawn[step, :-1])
            total = total + (at - model)
            padding.append(drawn[:, -1].sum() / np.sqrt(runs.steps))
        return ClippedSum(total, 0.0, 0, 0, 0, np.array(padding))

    def evaluate(self, model):
        features, targets = self.task.test_set()
        return float(np.square(features @ model[:-1] + model[-1] - targets).mean() / 2), 0.0
