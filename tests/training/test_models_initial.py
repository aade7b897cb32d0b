"""A warm start: public numbers, bound by their hash, in the place of a kind's own."""

import dataclasses
import hashlib

import numpy as np
import pytest
from tests.training.fixed import Fixed

from epsilog import npz
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError
from epsilog.training import Randomness, train_without_charge
from epsilog.training.models import ReleasedModel, build_model, parse_model_kind
from epsilog.training.rounds import hash_model, hash_run_inputs


def mlp(**options):
    return build_model("mlp", inputs=3, classes=None, hidden=[4], **options)


def test_training_goes_on_from_a_model_that_was_released(small_task, tmp_path):
    scheme = ClientLevelCentral(12, 0.5, 2, 0.2, 1.0)
    cold = small_task()
    released = train_without_charge(scheme, cold, randomness=Randomness.from_seed(1), engine=Fixed).model
    np.save(tmp_path / "released.npy", released)
    kind = parse_model_kind("mlp", folder=tmp_path, warm_start="released.npy", hidden=[4])
    warm = dataclasses.replace(cold, model=kind.build(inputs=3, classes=None))
    assert np.array_equal(warm.model.start, released)
    assert warm.describe()["model"]["warm_start"]["sha256"] == hash_model(released)
    assert "declared public" in warm.describe()["model"]["warm_start"]["data"]
    assert hash_run_inputs(scheme, warm) != hash_run_inputs(scheme, cold)


def test_the_file_of_a_released_model_starts_another(tmp_path):
    released = ReleasedModel(mlp(), np.arange(21.0))
    (tmp_path / "model.npz").write_bytes(npz.encode_npz(released.arrays))
    assert parse_model_kind("mlp", tmp_path, "model.npz", hidden=[4]).vector.tolist() == released.vector.tolist()
    (tmp_path / "model.npz").write_bytes(b"PK")
    with pytest.raises(
        CheckError, match=r"warm_start must be an \.npy file of numbers, or the \.npz file of a released"
    ):
        parse_model_kind("mlp", tmp_path, "model.npz", hidden=[4])


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f8"])
def test_an_array_starts_a_model_as_a_file_does(dtype):
    vector = np.arange(21, dtype=dtype) / 4
    model = mlp(warm_start=vector)
    assert model.start.tolist() == vector.tolist()
    assert model.facts["warm_start"]["sha256"] == hashlib.sha256(vector.astype("<f8").tobytes()).hexdigest()
    assert model.layers  # norms are known still
    assert model.shipped


def save(path, what):
    np.save(path, what, allow_pickle=True)


def archive(path):
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(21))


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (None, "released model, got w.npy: No such file"),
        (lambda path: path.write_bytes(b"no numbers"), "warm_start must be an .npy file of numbers"),
        (lambda path: path.write_bytes(b""), "warm_start must be an .npy file of numbers"),
        (
            lambda path: save(path, np.array([{}])),
            "warm_start must be an .npy file of numbers, .*, got w.npy: .*pickle",
        ),
        (archive, "warm_start must be an .npy file of numbers, or the .npz file of a released model, got w.npy: "),
        (lambda path: save(path, np.zeros(20)), "warm_start must hold the model's 21 parameters, got 20"),
        (lambda path: save(path, np.zeros((21, 1))), r"warm_start must be finite real numbers of shape \(d,\)"),
        (lambda path: save(path, np.zeros(21, int)), "warm_start must be finite real numbers"),
        (lambda path: save(path, np.full(21, np.nan)), "warm_start must be finite real numbers"),
        (lambda path: save(path, np.full(21, np.inf)), "warm_start must be finite real numbers"),
    ],
)
def test_what_is_no_start_is_refused(tmp_path, write, says):
    if write is not None:
        write(tmp_path / "w.npy")
    with pytest.raises(CheckError, match=says):
        parse_model_kind("mlp", folder=tmp_path, warm_start="w.npy", hidden=[4]).build(inputs=3, classes=None)
