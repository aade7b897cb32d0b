"""A federation small enough for the slow engine: twelve clients, up to six examples, one client empty."""

import numpy as np
import pytest

from epsilog.train import Federation, Task, Training
from epsilog.train.models import Dense

CLIENTS, ROWS = 12, 6


def small_task(
    *, unit_is_client=True, widths=(3, 4, 1), loss="half-squared-error", dtype="float64", change=None, **training
):
    draws = np.random.default_rng(5)
    features = draws.standard_normal((CLIENTS, ROWS, widths[0]))
    targets = draws.standard_normal((CLIENTS, ROWS))
    if loss == "cross-entropy":
        targets = draws.integers(0, widths[-1], (CLIENTS, ROWS))
    present = np.arange(ROWS) < draws.integers(1, ROWS + 1, CLIENTS)[:, None]
    present[3] = False
    features[~present], targets[~present] = 0, 0
    if change is not None:
        change(features, targets, present)
    return Task(
        name="small",
        unit="client" if unit_is_client else "example",
        unit_is_client=unit_is_client,
        model=Dense(widths, loss),
        training=Training(0.1, **({"local_steps": 3} | training)),
        clients=Federation(
            features.astype(dtype), targets if loss == "cross-entropy" else targets.astype(dtype), present
        ),
        test_features=draws.standard_normal((20, widths[0])).astype(dtype),
        test_targets=draws.integers(0, widths[-1], 20) if loss == "cross-entropy" else draws.standard_normal(20),
        facts={},
    )


@pytest.fixture(name="small_task")
def _small_task():
    return small_task
