"""The fast engine computes what the slow one computes, from the same draws."""

import numpy as np
import pytest

from epsilog.train import models, reference
from epsilog.train.engine import Engine

COHORT = np.array([0, 2, 3, 7, 11])
MODELS = [
    {"widths": (3, 4, 1)},
    pytest.param({"widths": (3, 1)}, marks=pytest.mark.slow),
    pytest.param({"widths": (3, 4, 3), "loss": "cross-entropy"}, marks=pytest.mark.slow),
]


def start(task):
    return np.random.default_rng(1).standard_normal(task.model.size)


def draws(task, steps=3):
    random = np.random.default_rng(2)
    slots, rows = COHORT.size + 2, task.clients.features.shape[1]
    return {
        "batches": random.random((slots, steps, rows)) < 0.5,
        "noise": 0.1 * random.standard_normal((slots, steps, task.model.size)),
        "batch_probability": 0.5,
    }


@pytest.mark.parametrize("clip_norm", [0.05, 0.25, np.inf])
@pytest.mark.parametrize("kind", MODELS, ids=str)
@pytest.mark.parametrize("batch_size", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_sums_of_clipped_updates_agree(small_task, kind, clip_norm, batch_size):
    task = small_task(batch_size=batch_size, **kind)
    ours = Engine(task).sum_of_updates(start(task), COHORT, clip_norm=clip_norm)
    total, norms = reference.sum_of_updates(task, start(task), COHORT, clip_norm=clip_norm)
    assert ours.total == pytest.approx(total, abs=1e-8)
    assert ours.largest_norm == pytest.approx(max(norms))
    assert ours.count == COHORT.size
    assert ours.clipped == sum(norm > clip_norm * (1 - 1e-6) for norm in norms)


@pytest.mark.parametrize("clip_norm", [0.3, np.inf])
@pytest.mark.parametrize("kind", MODELS, ids=str)
def test_sums_of_noisy_runs_agree(small_task, kind, clip_norm):
    task = small_task(unit_is_client=False, nominal_examples=4, **kind)
    ours = Engine(task).sum_of_noisy_runs(start(task), COHORT, clip_norm=clip_norm, **draws(task))
    total, norms = reference.sum_of_noisy_runs(task, start(task), COHORT, clip_norm=clip_norm, **draws(task))
    assert ours.total == pytest.approx(total, abs=1e-7)
    assert ours.largest_norm == pytest.approx(max(norms))
    assert ours.count == len(norms)


@pytest.mark.slow
def test_float32_training_agrees_to_its_own_precision(small_task):
    narrow, wide = small_task(dtype="float32"), small_task()
    ours = Engine(narrow).sum_of_updates(start(narrow), COHORT, clip_norm=0.4)
    total, _ = reference.sum_of_updates(wide, start(narrow), COHORT, clip_norm=0.4)
    assert ours.total.dtype == np.float64
    assert ours.total == pytest.approx(total, abs=1e-5)
    noisy = Engine(narrow).sum_of_noisy_runs(start(narrow), COHORT, clip_norm=0.3, **draws(narrow))
    total, _ = reference.sum_of_noisy_runs(wide, start(narrow), COHORT, clip_norm=0.3, **draws(narrow))
    assert noisy.total == pytest.approx(total, abs=0.02)  # the clip stays 0.1% below its bound
    assert noisy.largest_norm <= 0.3


def test_no_update_and_no_gradient_is_longer_than_the_bound(small_task):
    task = small_task(change=lambda features, *_: np.multiply(features, 1e6, out=features))
    engine = Engine(task)
    for client in range(task.population):
        ours = engine.sum_of_updates(start(task), np.array([client]), clip_norm=0.5)
        assert np.linalg.norm(ours.total) <= 0.5
        assert ours.largest_norm <= 0.5
    assert engine.sum_of_noisy_runs(start(task), COHORT, clip_norm=0.5, **draws(task)).largest_norm <= 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_client_that_is_not_finite_counts_as_zero(small_task, bad):
    def spoil(features, *_):
        features[2, 0, 0] = bad

    task, rest = small_task(change=spoil), COHORT[COHORT != 2]
    engine = Engine(task)
    spoilt = engine.sum_of_updates(start(task), COHORT, clip_norm=0.4)
    assert np.array_equal(spoilt.total, engine.sum_of_updates(start(task), rest, clip_norm=0.4).total)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_an_example_that_is_not_finite_counts_as_zero(small_task, bad):
    def spoil(features, targets, present):
        features[2, 0, 0] = bad

    def remove(features, targets, present):
        features[2, 0] = targets[2, 0] = present[2, 0] = 0

    runs = [small_task(change=change, unit_is_client=False) for change in (spoil, remove)]
    spoilt, removed = (
        Engine(task).sum_of_noisy_runs(start(task), COHORT, clip_norm=0.4, **draws(task)).total for task in runs
    )
    assert spoilt == pytest.approx(removed, abs=1e-12)


def test_empty_clients_and_cohorts_are_zero_updates(small_task):
    task = small_task()
    engine = Engine(task)
    for cohort in (np.array([], dtype=int), np.array([3])):
        ours = engine.sum_of_updates(start(task), cohort, clip_norm=0.4)
        assert not ours.total.any()
        assert ours.largest_norm == 0


def test_an_empty_client_still_sends_its_noise(small_task):
    task = small_task(unit_is_client=False)
    fixed = draws(task)
    ours = Engine(task).sum_of_noisy_runs(start(task), np.array([3]), clip_norm=0.4, **fixed)
    step = task.training.learning_rate / (0.5 * task.training.nominal_examples)
    assert ours.total == pytest.approx(-step * fixed["noise"][0].sum(axis=0))


def test_one_compilation_serves_every_cohort_clip_and_engine(small_task):
    from epsilog.train import engine as module

    task = small_task()
    Engine(task).sum_of_updates(start(task), COHORT, clip_norm=0.4)
    compiled = module._sum_of_updates._cache_size()
    for cohort, clip_norm in ((COHORT[:2], 1.0), (COHORT[:0], 2.0), (np.arange(12), np.inf)):
        Engine(task).sum_of_updates(start(task), cohort, clip_norm=clip_norm)
    assert module._sum_of_updates._cache_size() == compiled


def test_evaluation_is_mean_loss_and_score(small_task):
    task = small_task()
    layers = models.unflatten(task.model, start(task))
    loss, score = Engine(task).evaluate(start(task))
    test = task.test_features, task.test_targets
    assert loss == pytest.approx(models.losses(task.model, layers, *test, xp=np).mean())
    assert score == pytest.approx(models.score(task.model, layers, *test, xp=np))
