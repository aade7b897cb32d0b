"""A federation of two kinds of people that a linear model tells apart; small, and quick to train."""

from functools import cache, partial

import numpy as np
import pytest

from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

CLIENTS, ROWS, WIDTH = 40, 6, 4


linear = cache(partial(build_model, "linear", classes=2))  # one object: what is compiled for it is shared by all tests


def classes_task(*, unit_is_client=True, seed=1, width=WIDTH, clients=CLIENTS):
    draws = np.random.default_rng(seed)
    targets = draws.integers(0, 2, CLIENTS * ROWS + 400)
    features = draws.standard_normal((targets.size, width)) + 1.5 * (2 * targets[:, None] - 1) * (np.arange(width) == 0)
    people, test = slice(0, clients * ROWS), slice(CLIENTS * ROWS, None)
    return Task(
        name="two kinds",
        unit="client" if unit_is_client else "row",
        unit_is_client=unit_is_client,
        model=linear(inputs=width),
        training=LocalTraining(0.3, local_steps=4, expected_examples=ROWS),
        clients=Federation(features[people], targets[people], np.full(clients, ROWS)),
        test_features=features[test],
        test_targets=targets[test],
        facts={"score": "accuracy"},
    )


@pytest.fixture(name="task")
def _task():
    return classes_task()


@pytest.fixture(name="make_task")
def _make_task():
    return classes_task


def central(z, rounds=8):
    return ClientLevelCentral(CLIENTS, 0.5, rounds, 0.5, z)


def client_side(z, rounds=6):
    return ExampleLevelClientSide(CLIENTS, 20, rounds, rounds, 0.5, 1, 0.5, z)


@pytest.fixture(name="central")
def _central():
    return central


@pytest.fixture(name="client_side")
def _client_side():
    return client_side
