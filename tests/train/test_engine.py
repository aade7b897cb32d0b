"""The fast engine computes what the slow one computes, from the same draws."""

import numpy as np
import pytest

from epsilog.terms import ClientLevelCentral
from epsilog.train import Randomness, models, reference, rounds, sampling
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
    orders = shuffles(task) if batch_size else None
    ours = Engine(task).sum_of_updates(start(task), COHORT, clip_norm=clip_norm, orders=orders)
    total, norms = reference.sum_of_updates(task, start(task), COHORT, clip_norm=clip_norm, orders=orders)
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
    assert noisy.total == pytest.approx(total, abs=1e-5)
    assert noisy.largest_norm <= 0.3


def test_no_update_and_no_gradient_is_longer_than_the_bound(small_task):
    task = small_task(change=lambda features, *_: np.multiply(features, 1e6, out=features))
    engine = Engine(task)
    for client in range(task.clients.count):
        ours = engine.sum_of_updates(start(task), np.array([client]), clip_norm=0.5)
        assert np.linalg.norm(ours.total) <= 0.5
        assert ours.largest_norm <= 0.5
    assert engine.sum_of_noisy_runs(start(task), COHORT, clip_norm=0.5, **draws(task)).largest_norm <= 0.5


def test_a_client_whose_update_is_not_finite_counts_as_zero_and_is_counted(small_task):
    def spoil(features, *_):
        features[2] = 1e99  # a row that can be used, and that makes local training diverge

    task, rest = small_task(change=spoil, local_steps=8), COHORT[COHORT != 2]
    engine = Engine(task)
    spoilt = engine.sum_of_updates(start(task), COHORT, clip_norm=0.4)
    without = engine.sum_of_updates(start(task), rest, clip_norm=0.4)
    assert np.array_equal(spoilt.total, without.total)
    assert (spoilt.dropped, without.dropped) == (1, 0)
    assert spoilt.clipped == without.clipped + 1


def spoilt_row(part, bad):
    def spoil(features, targets, present):
        present[2, 0] = True
        if part == "features":
            features[2, 0, 0] = bad
        else:
            targets[2, 0] = bad

    return spoil


def remove_row(features, targets, present):
    features[2, 0] = targets[2, 0] = present[2, 0] = 0


ROWS = [
    *(
        pytest.param("half-squared-error", part, bad)
        for part in ("features", "targets")
        for bad in (np.nan, np.inf, 1e300)
    ),
    *(pytest.param("cross-entropy", "targets", bad) for bad in (99, -1, 3, 2**62)),
    pytest.param("cross-entropy", "features", np.nan),
]


@pytest.mark.parametrize(("loss", "part", "bad"), ROWS)
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_row_that_cannot_be_used_is_as_good_as_absent_and_is_counted(small_task, loss, part, bad, batch_size):
    kind = {"loss": loss, "widths": (3, 4, 3 if loss == "cross-entropy" else 1), "batch_size": batch_size}
    spoilt, removed = (small_task(change=change, **kind) for change in (spoilt_row(part, bad), remove_row))
    assert not small_task(change=remove_row, **kind).clients.present[2, 0]
    engines = Engine(spoilt), Engine(removed)
    assert [engine.unusable[2] for engine in engines] == [1, 0]
    orders = shuffles(removed) if batch_size else None
    totals = [engine.sum_of_updates(start(spoilt), COHORT, clip_norm=0.4, orders=orders).total for engine in engines]
    assert np.array_equal(*totals)
    assert np.isfinite(totals[0]).all()
    runs = [engine.sum_of_noisy_runs(start(spoilt), COHORT, clip_norm=0.4, **draws(spoilt)) for engine in engines]
    assert np.array_equal(runs[0].total, runs[1].total)
    assert runs[0].count == runs[1].count


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, -1.0])
def test_padding_never_matters(small_task, bad):
    def fill(features, targets, present):
        features[~present], targets[~present] = bad, bad

    for settings in ({}, {"batch_size": 2}, {"dtype": "float32"}):
        tasks = small_task(**settings), small_task(change=fill, **settings)
        orders = shuffles(tasks[0]) if "batch_size" in settings else None
        sums = [Engine(task).sum_of_updates(start(task), COHORT, clip_norm=0.4, orders=orders) for task in tasks]
        assert np.array_equal(sums[0].total, sums[1].total)
        assert sums[0].total.any()
        assert not Engine(tasks[1]).unusable.any()
        runs = [Engine(task).sum_of_noisy_runs(start(task), COHORT, clip_norm=0.4, **draws(task)) for task in tasks]
        assert np.array_equal(runs[0].total, runs[1].total)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_example_of_huge_features_and_a_tiny_error_is_clipped_all_the_same(small_task, dtype):
    """The norm of its gradient is a product whose factors' squares overflow and vanish; it was called 0."""
    huge, tiny = (1.7e19, 9e-20) if dtype == "float32" else (1e99, 1e-98)

    def spoil(features, targets, present):
        features[:], targets[:], present[:] = 0, 0, False
        features[0, 0, 0], targets[0, 0], present[0, 0] = huge, tiny, True

    task = small_task(change=spoil, unit_is_client=False, widths=(3, 1), dtype=dtype, nominal_examples=1)
    ours = Engine(task).sum_of_noisy_runs(
        np.zeros(4),
        np.array([0]),
        batches=np.ones((1, 1, 6), dtype=bool),
        noise=np.zeros((1, 1, 4)),
        clip_norm=0.01,
        batch_probability=1.0,
    )
    assert 0 < np.linalg.norm(ours.total) <= 0.1 * 0.01 * (1 + 1e-6)  # learning rate times clip, in dtype's precision
    assert ours.clipped == 1


def shuffles(task):
    return sampling.shuffled(
        Randomness.simulated(3).stream("batches", 1), usable=task.clients.usable(task.model)[COHORT]
    )


@pytest.mark.parametrize("batch_size", [1, 2, 5, 6, 7, 100])
@pytest.mark.parametrize("local_steps", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_batches_of_every_size_agree_with_the_slow_engine(small_task, batch_size, local_steps):
    task = small_task(widths=(3, 1), batch_size=batch_size, local_steps=local_steps)
    ours = Engine(task).sum_of_updates(start(task), COHORT, clip_norm=0.25, orders=shuffles(task))
    total, norms = reference.sum_of_updates(task, start(task), COHORT, clip_norm=0.25, orders=shuffles(task))
    assert ours.total == pytest.approx(total, abs=1e-8)
    assert ours.largest_norm == pytest.approx(max(norms))


def test_a_batch_of_everybody_is_no_batch(small_task):
    whole, batched = small_task(), small_task(batch_size=6)
    ours = Engine(batched).sum_of_updates(start(whole), COHORT, clip_norm=0.25, orders=shuffles(batched))
    assert ours.total == pytest.approx(Engine(whole).sum_of_updates(start(whole), COHORT, clip_norm=0.25).total)


def test_a_row_between_the_first_and_the_last_is_trained_on(small_task):
    """With fewer rows in all steps than a client holds, it is chance that says which: over rounds, every row counts."""

    def one_client(features, targets, present):
        features[:], targets[:], present[:] = 0, 0, False
        features[0, :, 0], targets[0], present[0] = 1, 2.0 ** np.arange(6), True

    task = small_task(change=one_client, widths=(3, 1), batch_size=1, local_steps=1)
    scheme = ClientLevelCentral(12, 1.0, 40, 1000.0, 1e-12)
    seen = set()
    for number in range(40):
        state = rounds.State(number, np.zeros(4), np.zeros(12, dtype=np.int64))
        moved = 12 * rounds.next_round(scheme, Engine(task), state, Randomness.simulated(1)).state.model[0] / 0.1
        seen.add(round(moved))
    assert seen == {1, 2, 4, 8, 16, 32}


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
