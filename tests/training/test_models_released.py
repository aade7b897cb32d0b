"""A released model in its user's hands: arrays by name, predictions, and files that are not its own."""

import numpy as np
import pytest

from epsilog import npz
from epsilog.terms import CheckError
from epsilog.training.models import Model, ReleasedModel, build_model

FEATURES = np.array([[1.0, 2.0], [-3.0, 0.5], [np.nan, 1.0], [np.inf, 1.0]])


def linear(classes, vector):
    model = build_model("linear", inputs=2, classes=classes)
    return ReleasedModel(model, np.array(vector, dtype=float))


def test_a_line_predicts_numbers_and_says_nothing_of_rows_that_it_cannot_use():
    released = linear(None, [2, -1, 10])
    assert released.predict(FEATURES).tolist()[:2] == [10, 3.5]
    assert np.isnan(released.predict(FEATURES)[2:]).all()
    assert released.predict(np.zeros((0, 2))).shape == (0,)


def test_classes_are_the_likeliest_ones():
    released = linear(3, [1, 0, -1, 0, 1, -1, 0, 0, 0])
    assert released.outputs(FEATURES)[:2].tolist() == [[1, 2, -3], [-3, 0.5, 2.5]]
    assert released.predict(FEATURES).tolist() == [1, 2, -1, -1]


def test_arrays_are_named_by_their_place_in_the_users_own_tree(tmp_path):
    import jax.numpy as jnp

    model = Model(
        lambda: {"out": [jnp.zeros(2), jnp.ones(())], "deep": {"w": jnp.zeros((2, 2))}},
        lambda p, x: (x @ p["deep"]["w"]) @ p["out"][0] + p["out"][1],
        "half-squared-error",
    )
    released = ReleasedModel(model, np.arange(7.0))
    assert {name: array.tolist() for name, array in released.arrays.items()} == {
        "deep.w": [[0, 1], [2, 3]],
        "out.0": [4, 5],
        "out.1": 6,
    }
    (tmp_path / "model.npz").write_bytes(npz.encode_npz(released.arrays))
    again = ReleasedModel.read(tmp_path / "model.npz", model)
    assert again.vector.tobytes() == released.vector.tobytes()
    assert again.predict([[1.0, 1.0]]).tolist() == [2 * 4 + 4 * 5 + 6]


@pytest.mark.parametrize("other", ["a.b", "w.npy", "../w", "a b"])
def test_paths_that_are_no_names_are_numbered(other):
    """Two of one path, or one that a file would read as another's, would lose an array."""
    import jax.numpy as jnp

    model = Model(
        lambda: {"a": {"b": jnp.zeros(2)}, other: jnp.zeros(3)},
        lambda p, x: x @ p["a"]["b"] + p[other].sum(),
        "half-squared-error",
    )
    released = ReleasedModel(model, np.arange(5.0))
    assert list(released.arrays) == ["0", "1"]
    assert npz.concatenate_arrays(npz.decode_npz(npz.encode_npz(released.arrays))).tolist() == released.vector.tolist()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "model must be a released model's NPZ file, got model.npz: No such file"),
        (b"nothing", "model must be a released model's NPZ file, got model.npz: File is not a zip file"),
        (
            npz.encode_npz({"0.0": np.zeros((2, 1))}),
            r"model must hold the arrays of the model \(0.0 \(2, 1\), 0.1 \(1,\)\)",
        ),
        (npz.encode_npz({"0.0": np.zeros((1, 2)), "0.1": np.zeros(1)}), "model must hold the arrays"),
        (npz.encode_npz({"0.1": np.zeros((2, 1)), "0.0": np.zeros(1)}), "model must hold the arrays"),
    ],
)
def test_another_models_file_is_refused(tmp_path, content, says):
    if content is not None:
        (tmp_path / "model.npz").write_bytes(content)
    with pytest.raises(CheckError, match=says):
        ReleasedModel.read(tmp_path / "model.npz", build_model("linear", inputs=2, classes=None))


def test_a_vector_of_another_length_is_no_model():
    with pytest.raises(CheckError, match=r"vector must have shape \(3,\), got \(2,\)"):
        linear(None, [0, 0])
