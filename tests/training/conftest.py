"""A federation small enough for the slow engine: twelve clients, up to six examples, one client empty."""

import dataclasses

import numpy as np
import pytest

from epsilog.ledger import ChargeRequest
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

CLIENTS, ROWS = 12, 6


def dense(widths, loss):
    classes = widths[-1] if loss == "cross-entropy" else None
    return build_model("mlp", inputs=widths[0], classes=classes, hidden=widths[1:-1])


def small_task(
    *,
    unit_is_client=True,
    sizes_are_public=False,
    widths=(3, 4, 1),
    loss="half-squared-error",
    dtype="float64",
    change=None,
    **training,
):
    draws = np.random.default_rng(5)
    features = draws.standard_normal((CLIENTS, ROWS, widths[0]))
    targets = draws.standard_normal((CLIENTS, ROWS))
    if loss == "cross-entropy":
        targets = draws.integers(0, widths[-1], (CLIENTS, ROWS))
    present = np.arange(ROWS) < draws.integers(1, ROWS + 1, CLIENTS)[:, None]
    present[3] = False
    if change is not None:
        change(features, targets, present)
    with np.errstate(over="ignore"):
        features = features.astype(dtype)
    return Task(
        name="small",
        unit="client" if unit_is_client else "example",
        unit_is_client=unit_is_client,
        model=dense(widths, loss),
        training=LocalTraining(0.1, **({"local_steps": 3} | training)),
        clients=Federation(features[present], targets[present], present.sum(axis=1)),
        test_features=draws.standard_normal((20, widths[0])).astype(dtype),
        test_targets=draws.integers(0, widths[-1], 20) if loss == "cross-entropy" else draws.standard_normal(20),
        facts={},
        sizes_are_public=sizes_are_public,
    )


class MemoryCharge:
    """A charge that lives in this process, stored as the ledger stores it, and strict about the order of its verbs."""

    def __init__(self, scheme, unit, *, simulation=True, state="reserved", rounds=None):
        self.scheme = scheme
        stored = ChargeRequest(scheme.release(), privacy_unit=unit, delta="1e-6", rounds=rounds, simulation=simulation)
        stored = dataclasses.replace(stored, relation=scheme.relations[0])
        self.request, self.state = ChargeRequest.from_json(stored.to_json()), state
        self.started, self.rounds_released = [], {}

    def repriced(self, scheme):
        """The same books with another scheme written into them."""
        other = MemoryCharge(scheme, self.request.privacy_unit, state=self.state)
        other.started, other.rounds_released = self.started, self.rounds_released
        return other

    def start(self):
        assert self.state == "reserved"
        self.state = "started"

    def round_started(self, round_number):
        assert self.state == "started"
        assert round_number == len(self.rounds_released) + 1
        self.started.append(round_number)

    def round_released(self, round_number, *, output_hash):
        assert round_number == self.started[-1]
        assert round_number not in self.rounds_released, "released twice"
        self.rounds_released[round_number] = output_hash


@pytest.fixture(name="small_task")
def _small_task():
    return small_task


@pytest.fixture(name="charge_for")
def _charge_for():
    return MemoryCharge
