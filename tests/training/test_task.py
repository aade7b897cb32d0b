"""What is public is checked when a task is made, long before money moves; what clients hold never makes it fail."""

import dataclasses

import numpy as np
import pytest

from epsilog.schemes import ClientLevelCentral
from epsilog.training import AuthorizedRun, Federation, LocalTraining, Randomness, run_rounds, train_without_charge

CLASSES = {"loss": "cross-entropy", "widths": (3, 4, 3)}


def spoilt(array, value, dtype=None):
    array = array.astype(dtype or array.dtype)
    array[5] = value
    return array


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ({}, lambda t: {"test_features": t.test_features[:0], "test_targets": t.test_targets[:0]}, "at least one row"),
        ({}, lambda t: {"test_features": t.test_features[0]}, r"test_features must have shape \(m, f\)"),
        ({}, lambda t: {"test_targets": t.test_targets[:-1]}, r"test_targets must have shape \(20,\), got \(19,\)"),
        ({}, lambda t: {"test_targets": t.test_targets[:, None]}, r"test_targets must have shape \(20,\)"),
        ({}, lambda _: {"test_targets": np.full(20, 3.5)}, "test_targets must differ .*, got 3.5 everywhere"),
        ({}, lambda t: {"test_targets": t.test_targets[:1], "test_features": t.test_features[:1]}, "must differ"),
        ({}, lambda t: {"test_targets": spoilt(t.test_targets, np.nan)}, "test_targets must be finite .*in row 5"),
        ({}, lambda t: {"test_targets": spoilt(t.test_targets, 1e300)}, "at most 1e.100, got 1e.300 in row 5"),
        ({}, lambda t: {"test_features": spoilt(t.test_features, -np.inf)}, "test_features must be finite .*row 5"),
        ({}, lambda t: {"test_features": t.test_features[:, :2]}, "test features must have width 3, got 2"),
        ({}, lambda t: {"test_features": t.test_features.astype("float16")}, "test_features_dtype must be one of"),
        ({}, lambda t: {"test_features": t.test_features.tolist()}, "test_features must be a numpy array, got a list"),
        ({}, lambda t: {"test_targets": t.test_targets.astype(object)}, "test_targets must be real numbers"),
        ({}, lambda t: {"test_targets": t.test_targets > 0}, "must be real numbers .* got an array of bool"),
        ({"dtype": "float32"}, lambda t: {"test_targets": spoilt(t.test_targets, 1e39)}, "at most 3.4e.38"),
        (CLASSES, lambda t: {"test_targets": spoilt(t.test_targets, 3)}, "class numbers from 0 to 2, got 3 in row 5"),
        (CLASSES, lambda t: {"test_targets": spoilt(t.test_targets, -1)}, "class numbers from 0 to 2, got -1 in row 5"),
        (CLASSES, lambda t: {"test_targets": t.test_targets.astype(float)}, "test_targets must be whole class numbers"),
        (CLASSES, lambda t: {"test_targets": spoilt(t.test_targets, 255, "uint8")}, "got 255 in row 5"),
        ({}, lambda _: {"training": LocalTraining(1e200)}, r"learning_rate must be in \[0, 1e\+100\], got 1e\+200"),
        ({"dtype": "float32"}, lambda _: {"training": LocalTraining(1e50)}, "learning_rate must be in .* got 1e.50"),
        (CLASSES, lambda _: {"test_targets": np.full(20, 2)}, "of at least two classes .*, got class 2 in all of 20"),
        ({}, lambda _: {"model": None}, "model must be a Model, got a NoneType"),
        ({}, lambda _: {"training": {"learning_rate": 1.0}}, "training must be a LocalTraining, got a dict"),
        ({}, lambda _: {"clients": [np.eye(3)]}, "clients must be a Federation, got a list$"),
        ({}, lambda _: {"unit_is_client": "client"}, "unit_is_client must be"),
        ({}, lambda _: {"unit": " "}, "unit must be a string that is not blank"),
    ],
)
def test_public_inputs_are_refused_by_name(small_task, kind, change, says):
    task = small_task(**kind)
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(task, **change(task))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: {"features": c.features[..., 0]}, r"features must have shape \(rows, f\)"),
        (lambda c: {"features": c.features[:, :0]}, r"features must have shape \(rows, f\) with f at least 1"),
        (lambda c: {"targets": c.targets[:5]}, r"targets must have shape \(\d+,\), got \(5,\)"),
        (lambda c: {"targets": c.targets[:, None]}, r"targets must have shape"),
        (lambda c: {"sizes": c.sizes[:5]}, r"sizes must be not below 0 and \d+ in all, got \d+ in all"),
        (lambda c: {"sizes": c.sizes[:0]}, "sizes must be whole numbers .* at least one"),
        (lambda c: {"sizes": c.sizes.astype(float)}, "sizes must be whole numbers"),
        (lambda c: {"sizes": np.append(c.sizes, [-1, 1])}, "sizes must be not below 0"),
        (lambda c: {"sizes": c.sizes.tolist()}, "sizes must be a numpy array, got a list"),
        (lambda c: {"features": c.features.astype(int)}, "features_dtype must be one of float32, float64, got 'int64'"),
        (lambda c: {"features": c.features.astype(">f8")}, "features_dtype must be one of"),
        (lambda c: {"features": c.features.astype("longdouble")}, "features_dtype must be one of"),
        (lambda c: {"features": c.features.tolist()}, "features must be a numpy array, got a list"),
        (lambda _: {"targets": None}, "targets must be a numpy array, got a NoneType"),
    ],
)
def test_shapes_and_kinds_of_clients_arrays_are_public(small_task, change, says):
    clients = small_task().clients
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(clients, **change(clients))


def test_class_numbers_of_clients_must_be_whole_by_kind(small_task):
    task = small_task(**CLASSES)
    parts = task.clients
    with pytest.raises(ValueError, match="targets must be whole class numbers for cross-entropy"):
        dataclasses.replace(task, clients=Federation(parts.features, parts.targets.astype(float), parts.sizes))


@pytest.mark.parametrize("bad", [99, -1, 2**40])
def test_wrong_labels_of_clients_do_not_make_a_task_fail(small_task, bad):
    """A refusal would be an output computed from one client's data, with no noise in it."""
    task = small_task(**CLASSES)
    targets = task.clients.targets.copy()
    targets[0] = bad
    changed = dataclasses.replace(task, clients=dataclasses.replace(task.clients, targets=targets))
    assert not changed.clients.usable(task.model)[0]
    assert changed.clients.usable(task.model)[1:].all()
    assert changed.describe() == task.describe()
    assert changed.examples == task.examples


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number"),
        ({"local_steps": 0}, "local_steps must be at least 1, got 0"),
        ({"expected_examples": 0}, "expected_examples must be at least 1"),
    ],
)
def test_training_settings_are_checked(settings, says):
    with pytest.raises(ValueError, match=says):
        LocalTraining(0.1, **settings)


@pytest.mark.parametrize("kind", [{}, CLASSES, {"unit_is_client": False}], ids=str)
def test_a_task_describes_itself_by_its_public_facts(small_task, kind):
    task = dataclasses.replace(small_task(**kind), facts={"source": "drawn"})
    assert task.describe() == {
        "data": "small",
        "privacy_unit": "client" if kind.get("unit_is_client", True) else "example",
        "units": task.units,
        "clients": 12,
        "test_examples": 20,
        "model": {"kind": "mlp", "inputs": 3, "hidden": [4], "loss": task.model.loss, "parameters": task.model.size},
        "score": "R squared on the test set" if task.model.classes is None else "accuracy on the test set",
        "source": "drawn",
    }
    assert task.units == (12 if task.unit_is_client else task.examples)
    assert task.examples > 0


def test_a_task_without_a_test_set_is_trained_and_never_scored(small_task, tmp_path, charge_for):
    scored = small_task()
    task = dataclasses.replace(scored, test_features=None, test_targets=None)
    assert (task.is_scored, scored.is_scored) == (False, True)
    assert task.describe()["test_examples"] == 0
    scheme = ClientLevelCentral(12, 1.0, 2, 1.0, 2.0)
    paid = AuthorizedRun(scheme, charge_for(scheme, "client"), Randomness.from_seed(1))
    found = run_rounds(paid, task, folder=tmp_path / "run")
    assert [(one.test_loss, one.test_score, one.diverged) for one in found.records] == 2 * [(None, None, False)]
    same = train_without_charge(scheme, scored, randomness=Randomness.from_seed(1))
    assert np.array_equal(found.model, same.model)
    with pytest.raises(ValueError, match="test_targets must be a numpy array, got a NoneType"):
        dataclasses.replace(scored, test_targets=None)


def test_an_unscored_run_ends_with_a_model_that_its_precision_does_not_hold(small_task):
    task = dataclasses.replace(small_task(dtype="float32"), test_features=None, test_targets=None)
    scheme = ClientLevelCentral(12, 1.0, 3, 1e60, 2.0)
    (record,) = train_without_charge(scheme, task, randomness=Randomness.from_seed(1)).records
    assert (record.diverged, record.test_loss) == (True, None)
