"""Models: the kinds that are shipped, each with the same sums on both engines; own ones; bad ones are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.training.test_engine import agree, noisy_runs, updates

from epsilog.terms import CheckError
from epsilog.training import Federation, LocalTraining, Task, models
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine
from epsilog.training.models import Model, base


def images(draws, rows):
    """A bright half of an image of 6 x 6: which one?"""
    labels = draws.integers(0, 2, rows)
    bright = np.arange(6) // 3 == labels[:, None]
    return (bright[:, :, None] + 0.1 * draws.standard_normal((rows, 6, 6))).reshape(rows, -1), labels


def ratings(draws, rows):
    """Items of two genres: who took one of a genre rates it high, and the other low."""
    genre, item, other = draws.integers(0, 2, rows), draws.integers(0, 4, rows), draws.integers(0, 4, rows)
    liked = draws.integers(0, 2, rows)
    others = np.stack([1 + 4 * genre + other, np.zeros(rows)], axis=1)
    return np.column_stack([1 + 4 * np.where(liked, genre, 1 - genre) + item, others]), 2.0 * liked - 1.0


def text(draws, rows):
    """The symbol that stood two places ago comes again."""
    windows = draws.integers(0, 4, (rows, 3))
    return windows.astype(float), windows[:, 1]


KINDS = {
    "cnn": (images, 2, {"filters": [2], "kernel": 3, "hidden": [3]}),
    "recommender": (ratings, None, {"items": 9, "width": 2}),
    "next-character": (text, 4, {"width": 2, "hidden": [3]}),
}


def task(kind, *, unit_is_client=True, bigger=None, clients=20):
    rows_of, classes, options = KINDS[kind]
    draws = np.random.default_rng(7)
    (rows, targets), test = rows_of(draws, 10 * clients), rows_of(draws, 100)
    return Task(
        name=kind,
        unit="client" if unit_is_client else "row",
        unit_is_client=unit_is_client,
        model=models.build_model(kind, inputs=rows.shape[1], classes=classes, **options | (bigger or {})),
        training=LocalTraining(0.3, local_steps=4, expected_examples=10),
        clients=Federation(rows, targets, np.full(clients, 10)),
        test_features=test[0],
        test_targets=test[1],
        facts={},
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_gives_both_engines_the_same_sums(kind):
    for unit_is_client, compute in ((True, updates), (False, noisy_runs)):
        made = task(kind, unit_is_client=unit_is_client, clients=3)
        agree(*(compute(engine(made), cohort=np.array([0, 2])) for engine in (CompiledEngine, ReferenceEngine)), 1e-7)


@pytest.mark.parametrize(
    ("kind", "inputs", "classes", "options", "size"),
    [
        ("cnn", 784, 10, {}, 5 * 5 * 16 + 16 + 5 * 5 * 16 * 32 + 32 + 512 * 32 + 32 + 32 * 10 + 10),
        (
            "cnn",
            3 * 20 * 12,
            4,
            {"filters": [2], "kernel": 3, "height": 20, "channels": 3, "hidden": []},
            56 + 9 * 5 * 2 * 4 + 4,
        ),
        ("recommender", 4, None, {"items": 100}, 100 * (1 + 8 + 8) + 8 + 1),
        ("recommender", 1, None, {"items": 100}, 100 * (1 + 8) + 8 + 1),
        ("next-character", 10, 80, {}, 80 * 8 + 80 * 64 + 64 + 64 * 80 + 80),
    ],
)
def test_a_kind_has_the_parameters_that_its_options_say(kind, inputs, classes, options, size):
    assert models.build_model(kind, inputs=inputs, classes=classes, **options).size == size


@pytest.mark.slow
def test_an_item_that_is_none_counts_for_nobody():
    """A user of one item, filled up with zeros, is that user."""
    short, long = (models.build_model("recommender", inputs=inputs, classes=None, items=9) for inputs in (2, 4))
    params = short.unflatten(np.random.default_rng(1).standard_normal(short.size).astype(np.float32))
    rows = np.array([[1, 5], [2, 7]], dtype=np.float32)
    filled = np.pad(rows, ((0, 0), (0, 2)))
    assert long.apply(params, filled) == pytest.approx(np.asarray(short.apply(params, rows)))


@pytest.mark.parametrize(
    ("kind", "inputs", "classes", "options", "says"),
    [
        ("forest", 3, None, {}, "kind must be one of linear, mlp"),
        ("mlp", 3, None, {"hidden": [3, 0]}, r"hidden\[1\] must be at least 1, got 0"),
        ("mlp", 0, None, {}, "inputs must be at least 1, got 0"),
        ("mlp", 3, 1, {}, "classes must be at least 2, got 1"),
        ("linear", 3, None, {"depth": 3}, r"depth must be an option of linear \(it has"),
        ("mlp", 3, None, {"depth": 3}, r"depth must be an option of mlp \(hidden\)"),
        ("cnn", 783, 10, {}, "inputs must be the numbers of square images with 1 channels, got 783"),
        ("cnn", 784, 10, {"height": 27}, "inputs must be the numbers of images 27 high"),
        ("cnn", 4, 10, {"height": 99}, "inputs must be the numbers of images 99 high"),
        ("cnn", 64, 10, {}, r"filters must be few enough for images of 8 x 8, got \(16, 32\)"),
        ("cnn", 784, 10, {"filters": []}, "filters must name at least one convolution"),
        ("cnn", 784, 10, {"kernel": 0}, "kernel must be at least 1, got 0"),
        ("recommender", 3, None, {}, "items must be given for recommender, got nothing"),
        ("recommender", 3, 5, {"items": 9}, "classes must be absent for recommender"),
        ("recommender", 3, None, {"items": 2**24 + 1}, "items must be in"),
        ("next-character", 3, None, {}, "classes must be given for next-character"),
        ("next-character", 3, 9, {"depth": 2}, r"depth must be an option of next-character \(width, hidden, symbols\)"),
    ],
)
def test_bad_options_are_refused(kind, inputs, classes, options, says):
    with pytest.raises(CheckError, match=says):
        models.build_model(kind, inputs=inputs, classes=classes, **options)


def test_scores_are_r_squared_and_accuracy():
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 2.0, 4.0])
    assert base.r_squared(2 * x, y) == 1.0
    assert base.r_squared(0 * x + 2, y) == 0.0
    assert base.accuracy(np.array([[0, 1], [1, 0], [2, 0]]), np.array([1, 0, 1])) == pytest.approx(2 / 3)


def own(**changes):
    return Model(
        **{"init": lambda: {"w": jnp.ones(3)}, "apply": lambda p, x: x @ p["w"], "loss": "half-squared-error"} | changes
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: own(loss="hinge"), "loss must be one of"),
        (lambda: own(classes=3), "classes must be absent for half-squared-error, got 3"),
        (lambda: own(loss="cross-entropy"), "classes must be given for cross-entropy, got None"),
        (lambda: own(init=dict), "init must make at least one parameter"),
        (
            lambda: own(init=lambda: {"w": jnp.ones(3), "step": jnp.zeros(1, int)}),
            "init must make arrays of real numbers",
        ),
        (lambda: own(init=lambda: {"w": jnp.log(jnp.arange(3.0) - 1)}), "init must make finite numbers"),
    ],
)
def test_bad_descriptions_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_an_init_that_takes_a_key_gets_a_public_one():
    one, two = (own(init=lambda key: {"w": jax.random.normal(key, 3)}) for _ in range(2))
    assert np.array_equal(one.start, two.start)
    assert one.start.any()


def test_a_kind_is_built_once():
    one, two = (models.build_model("mlp", inputs=3, classes=None, hidden=[5]) for _ in range(2))
    assert one is two
