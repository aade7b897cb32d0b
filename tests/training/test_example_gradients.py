"""Each example's gradient, formed in the model's precision: what is measured in float64 is what is summed.

A model of layers and one of the user's own are held against automatic differentiation, one example at a time, and
whole steps against the slow engine.
"""

import dataclasses
import functools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.training.test_engine import agree, noisy_runs, updates

from epsilog.training import Federation, LocalTraining, Task, clipping
from epsilog.training.engines import compiled
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.program import use_full_precision
from epsilog.training.engines.reference import ReferenceEngine
from epsilog.training.models import Model, build_model, gradients

TILE = 8
CNN = {"filters": [2], "kernel": 3, "hidden": [3]}


@pytest.fixture(autouse=True)
def _doubles():
    with use_full_precision():
        yield


def own(groups=1):
    """A convolution of JAX between rows of 36 numbers and three classes."""

    def init(key):
        first, second = jax.random.split(key)
        return {"kernel": jax.random.normal(first, (3, 2, 2 // groups, 4)), "out": jax.random.normal(second, (4, 3))}

    def apply(params, rows):
        images = jnp.stack([rows, rows**2], axis=-1).reshape(-1, 6, 6, 2)
        how = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "feature_group_count": groups}
        seen = jax.lax.conv_general_dilated(images, params["kernel"], (2, 1), "SAME", **how)
        return jnp.tanh(seen).mean(axis=(1, 2)) @ params["out"]

    return Model(init, apply, "cross-entropy", classes=3, inputs=36)


MODELS = {
    "shipped": lambda: build_model("cnn", inputs=36, classes=3, **CNN),
    "own": own,
    "grouped": lambda: own(groups=2),  # XLA mixes the rows of a batch where one has an infinity
}


def rows_of(model, count, dtype="float32", seed=1):
    draws = np.random.default_rng(seed)
    return draws.standard_normal((count, model.inputs)).astype(dtype), draws.integers(0, model.classes, count)


@functools.cache
def model_of(name):
    return MODELS[name]()


@functools.cache
def compiled_for(model):
    @jax.jit
    def found(vector, x, y, factors):
        each = gradients.compute_example_gradients(model, model.unflatten(vector), x, y, jnp.ones(len(x), bool))
        return each.norms, each.reached, model.flatten(each.sum_weighted(factors))

    return found


def ours(model, vector, x, y, factors):
    return tuple(map(np.asarray, compiled_for(model)(vector, x, y, factors)))


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(
    ("name", "dtype"), [("shipped", "float32"), ("shipped", "float64"), ("own", "float32"), ("grouped", "float32")]
)
def test_norms_and_sums_are_those_of_automatic_differentiation_one_example_at_a_time(name, dtype):
    model = model_of(name)
    x, y = rows_of(model, TILE + 3, dtype)
    vector = model.start.astype(dtype)

    @jax.jit
    def one(vector, row, target):
        return jax.grad(lambda v: model.losses(model.apply(model.unflatten(v), row[None]), target[None])[0])(vector)

    each = np.array([one(model.start, np.float64(row), target) for row, target in zip(x, y, strict=True)])
    factors = np.linspace(0.0, 2.0, len(x))
    norms, reached, summed = ours(model, vector, x, y, factors)
    near = 1e-5 if dtype == "float32" else 1e-12
    assert reached.all()
    lengths = np.linalg.norm(each, axis=1)
    assert norms == pytest.approx(lengths, rel=near, abs=near * lengths.max())
    assert summed == pytest.approx(factors @ each, rel=near, abs=near * np.abs(each).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_summed_are_the_very_numbers_that_were_formed(name):
    """With a factor of 1, an example's gradient in the sum is whole numbers of the model's own precision."""
    model = model_of(name)
    x, y = rows_of(model, TILE)
    convolution = slice(0, 20) if name == "shipped" else slice(None)  # dense layers after it are products in float64
    for place in range(TILE):
        norms, _, summed = ours(model, model.start.astype("float32"), x, y, np.eye(TILE)[place])
        assert summed.any()
        assert np.array_equal(summed[convolution], summed[convolution].astype("float32"))
        assert norms[place] == pytest.approx(math.sqrt(math.fsum(summed**2)), rel=1e-14)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip_norm", [1e-9, 0.3])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e18])
def test_no_example_is_longer_than_the_bound_in_exact_arithmetic(name, clip_norm, scale):
    model = model_of(name)
    x, y = rows_of(model, TILE)
    x, vector = (x * np.float32(scale)).astype("float32"), model.start.astype("float32")
    norms, reached, _ = ours(model, vector, x, y, np.zeros(TILE))
    factors = np.where(reached, clipping.compute_clip_factors(norms, clip_norm, xp=np), 0.0)
    for place in range(TILE):
        _, _, summed = ours(model, vector, x, y, factors * np.eye(TILE)[place])
        assert sum(Fraction(float(one)) ** 2 for one in summed) <= Fraction(clip_norm) ** 2


@pytest.mark.parametrize("name", MODELS)
def test_an_example_is_the_same_to_the_bit_wherever_it_stands_and_whoever_stands_beside_it(name):
    """Else one person's row would move what others contribute, which no clip bounds."""
    model = model_of(name)
    found = set()
    for place in range(TILE):
        x, y = rows_of(model, TILE, seed=place)
        (x[place],), (y[place],) = rows_of(model, 1, seed=99)
        norms, _, summed = ours(model, model.start.astype("float32"), x, y, np.eye(TILE)[place])
        found.add((float(norms[place]), summed.tobytes()))
    assert len(found) == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("bad", [1e30, 3e38])
def test_a_gradient_that_is_not_finite_is_dropped_and_its_neighbors_are_untouched(name, bad):
    model = model_of(name)
    x, y = rows_of(model, TILE)
    clean, vector = x.copy(), model.start.astype("float32")
    x[3, ::2], x[3, 1::2] = bad, -bad
    _, reached, summed = ours(model, vector, x, y, (np.arange(TILE) != 3) * 1.0)
    _, _, without = ours(model, vector, clean, y, (np.arange(TILE) != 3) * 1.0)
    assert np.array_equal(summed, without)
    if not reached[3]:
        norms, _, summed = ours(model, vector, x, y, np.eye(TILE)[3])
        assert norms[3] == 0
        assert not summed.any()
    assert bad < 1e38 or not reached[3]


@pytest.mark.parametrize("kind", ["mlp", "cnn", "own"])
def test_the_compiler_stores_what_is_measured_and_summed(kind):
    """Numbers that leave a branch are stored; a compiler may compute any other again, rounded differently."""
    options = CNN if kind == "cnn" else {}
    model = model_of("own") if kind == "own" else build_model(kind, inputs=36, classes=3, **options)
    x, y = rows_of(model, TILE)

    def found(vector, x, y, here):
        each = gradients.compute_example_gradients(model, model.unflatten(vector), x, y, here)
        return each.norms, model.flatten(each.sum_weighted(1.0 / each.norms))

    compiled_text = jax.jit(found).lower(model.start.astype("float32"), x, y, np.ones(TILE, bool)).compile().as_text()
    assert compiled_text.count(" conditional(") == 1


SIZES = (0, 1, 7, 8, 9, 17)  # empty, one, one short of a tile, a tile, one beyond, and three tiles


@functools.cache
def engine_of(engine, dtype):
    draws, count = np.random.default_rng(4), sum(SIZES)
    features, targets = draws.standard_normal((count, 36)).astype(dtype), draws.integers(0, 3, count)
    task = Task(
        name="images",
        unit="image",
        unit_is_client=False,
        model=model_of("shipped"),
        training=LocalTraining(0.1, local_steps=2, expected_examples=8),
        clients=Federation(features, targets, np.array(SIZES)),
        test_features=features[:6],
        test_targets=np.arange(6) % 3,
        facts={},
    )
    return engine(task)


@pytest.mark.slow
def test_batches_of_every_size_are_those_of_the_slow_engine():
    fast, slow = engine_of(CompiledEngine, "float64"), engine_of(ReferenceEngine, "float64")
    narrow = engine_of(CompiledEngine, "float32")
    agree(*(updates(engine, 0.2, np.arange(len(SIZES))) for engine in (fast, slow)))
    for client in range(len(SIZES)):
        settings = {"cohort": np.array([client]), "batch_probability": 1.0, "steps": 2}
        expected = noisy_runs(slow, 0.2, **settings)
        agree(noisy_runs(fast, 0.2, **settings), expected)
        rough = noisy_runs(narrow, 0.2, **settings)
        assert rough.total == pytest.approx(expected.total, abs=1e-5)
        assert (rough.dropped, rough.count) == (expected.dropped, expected.count)


def test_convolutions_are_formed_eight_at_a_time_and_dense_layers_are_not_formed():
    def rows(model):
        return gradients.rows_at_once(model, model.inputs, np.dtype("float32"))

    dense = build_model("mlp", inputs=36, classes=3)
    assert rows(build_model("cnn", inputs=784, classes=10)) == 8
    assert rows(dense) is None
    whole = dataclasses.replace(dense, layers=(), forward=None)
    assert rows(whole) == gradients.WHOLE_NUMBERS // whole.size
    assert compiled._tiles(29_994, most=256, limit=8) == (8, False)
    assert compiled._tiles(29_994, most=256) == (256, True)
    assert compiled._tiles(29_994, most=256, limit=100).size <= 100
    assert compiled._tiles(4, usual=23) == (24, False)


@pytest.mark.parametrize("parameters", [1, 42, 650, 30_000, 8_000_000])
def test_tiles_for_any_number_of_rows_cost_less_than_twice_the_best(parameters):
    def cost(size, rows):
        return -(-rows // size) * (size + compiled.TILE_COST[0] + compiled.TILE_COST[1] / parameters)

    tiles = compiled._tiles(parameters)
    assert not tiles.single
    for rows in (1, 8, 9, 100, 256, 257, 5000):
        assert cost(tiles.size, rows) < 2 * min(cost(size, rows) for size in compiled.SIZES)


@pytest.mark.slow
def test_no_batch_is_no_work():
    """Where no row takes part, nothing is formed, and the sum is zero."""
    model = model_of("shipped")
    x, y = rows_of(model, TILE)

    @jax.jit
    def found(vector):
        each = gradients.compute_example_gradients(model, model.unflatten(vector), x, y, jnp.zeros(TILE, bool))
        return each.norms, model.flatten(each.sum_weighted(jnp.ones(TILE)))

    norms, summed = found(model.start.astype("float32"))
    assert not norms.any()
    assert not summed.any()
