"""Trains on 1,797 handwritten digits of 8 by 8 pixels, of scikit-learn, and protects whole clients.

pip install scikit-learn
python examples/data-sets/digits.py

Who wrote which digit is not in the set, so clients are made: a public permutation deals 1,500 digits out to 100
clients; the other 297 are the test set. Data: Alpaydin & Kaynak 1998 (UCI), CC BY 4.0.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from epsilog.pipeline import PlanConfig, run
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

CLIENTS, EACH = 100, 15


def load() -> Task:
    """Return the training problem."""
    whole = load_digits()
    order = np.random.default_rng(0).permutation(len(whole.target))
    features, targets = whole.data[order] / 16, whole.target[order]
    most = CLIENTS * EACH
    clients = Federation(features[:most], targets[:most], np.full(CLIENTS, EACH))
    model, training = build_model("linear", inputs=64, classes=10), LocalTraining(learning_rate=0.5, local_steps=8)
    return Task("digits", "client", True, model, training, clients, features[most:], targets[most:])


if __name__ == "__main__":
    task = load()
    settings = {"sampling_probability": 0.3, "rounds": 40, "clip_norm": 1.0}
    outcome = run(PlanConfig.for_simulation(task, "client-level-central", epsilon=8, delta="1e-3", **settings), task)
    print(outcome.report["claim"]["statement"])
    print("accuracy:", outcome.report["result"]["test_score"])
