"""A simulation that is stated in Python has a budget of its own, whatever else was tried on the same task."""

from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.ledger import open_ledger
from epsilog.pipeline import PlanConfig, simulation
from epsilog.pipeline.preparation import make_plan, prepare_task
from epsilog.pipeline.steps import reserve_plan
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

FACTS = {"clip_norm": 1.0, "sampling_probability": 0.5, "rounds": 3}


@pytest.fixture
def task():
    rows = np.linspace(-1, 1, 24).reshape(12, 2)
    clients = Federation(rows, np.arange(12) % 2, np.full(6, 2))
    model = build_model("linear", inputs=2, classes=2)
    return Task("toy", "clinic", True, model, LocalTraining(0.1), clients, None, None)


@pytest.mark.slow
def test_each_config_on_a_task_has_a_budget_of_its_own(task, tmp_path):
    """One budget for a task's name was spent by the first run config, and had the first one's caps."""
    stated = [
        {"epsilon": "4", "delta": "1e-3"},
        {"epsilon": "2", "delta": "1e-3"},
        {"epsilon": "4", "delta": "1e-4"},
        {"epsilon": "4", "delta": "1e-3", "seed": 1},
        {"epsilon": "4", "delta": "1e-3", "clip_norm": 2.0},
    ]
    scopes = []
    with open_ledger(tmp_path / "ledger.db") as books:
        for number, one in enumerate([*stated, stated[0]]):
            config = PlanConfig.for_simulation(task, "client-level-central", **FACTS | one)
            plan = make_plan(prepare_task(config, task))
            charge = reserve_plan(books, plan, tmp_path / str(number))
            scopes.append(charge.scope)
            assert books.balance(charge.scope).caps["epsilon"] == one["epsilon"]
    assert len(set(scopes)) == len(stated)
    assert scopes[-1] == scopes[0]  # the same config again finds the same charge
    assert all(scope.startswith("simulations/toy-") for scope in scopes)


def test_comparisons_state_the_last_round_of_each_training(task, monkeypatch):
    trained, told = [], []

    def train(scheme, *_, private, **__):
        trained.append((scheme, private))
        rounds = [10 * len(trained) + number for number in range(3)]
        return SimpleNamespace(records=[SimpleNamespace(test_loss=at, test_score=-at) for at in rounds])

    monkeypatch.setattr("epsilog.training.train_without_charge", train)
    monkeypatch.setattr(simulation, "run_negative_control", lambda *_, **__: SimpleNamespace(to_json=dict))
    observer = SimpleNamespace(stage=lambda _: None, comparison=lambda done, total: told.append((done, total)))
    plan, *others = (SimpleNamespace(scheme="planned"), *(SimpleNamespace(noise_multiplier=z) for z in (4.0, 1.0)))
    schemes = list(zip((0.5, 2.0), others, strict=True))
    found = simulation.measure_utility(schemes, plan, task, 7, observer, further_seeds=2)
    assert found.baseline_rounds == ((10, -10), (11, -11), (12, -12))
    assert found.study == ((0.5, 4.0, 22, -22), (2.0, 1.0, 32, -32))
    assert found.further_pairs == ((-42, -52), (-62, -72))
    bare, private = ("planned", False), ("planned", True)
    assert trained == [bare, *((one, True) for one in others), private, bare, private, bare]
    assert told == [(done, 8) for done in range(1, 9)]
