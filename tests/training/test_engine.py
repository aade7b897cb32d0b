"""The fast engine computes what the slow one computes, from the same draws; what holds for it alone is here, too."""

import dataclasses
import math

import numpy as np
import pytest

from epsilog.schemes import LocalDPSGD, NoisyUpdate, RawUpdate
from epsilog.training import Federation, Randomness
from epsilog.training.engines import RoundInputs, compiled, program
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine

COHORT = np.array([0, 2, 3, 7, 11])


def start(task):
    return np.random.default_rng(1).standard_normal(task.model.size)


def batches(client):
    return Randomness.from_seed(3).stream("batches", 1, client)


def noise(client):
    return Randomness.from_seed(4).stream("noise", 1, client)


def replies(client):
    return Randomness.from_seed(5).stream("replies", 1, client)


def updates(engine, clip_norm=0.4, cohort=COHORT):
    return engine.sum_uploads(RoundInputs(start(engine.task), cohort, batches, replies=replies), RawUpdate(clip_norm))


def noisy_updates(engine, clip_norm=0.4, cohort=COHORT):
    now = RoundInputs(start(engine.task), cohort, batches, noise, replies)
    return engine.sum_uploads(now, NoisyUpdate(clip_norm, 0.1))


def noisy_runs(engine, clip_norm=0.4, cohort=COHORT, **settings):
    runs = LocalDPSGD(**{"steps": 3, "batch_probability": 0.5, "clip_norm": clip_norm, "noise_stddev": 0.1} | settings)
    return engine.sum_uploads(RoundInputs(start(engine.task), cohort, batches, noise, replies), runs)


def agree(ours, theirs, tolerance=1e-7):
    assert ours.total == pytest.approx(theirs.total, abs=tolerance)
    assert ours.padding == pytest.approx(theirs.padding)
    assert ours.largest_norm == pytest.approx(theirs.largest_norm)
    assert (ours.clipped, ours.dropped, ours.count) == (theirs.clipped, theirs.dropped, theirs.count)


def uneven(small_task, sizes, **settings):
    """The small task with clients of other sizes."""
    task, random, rows = small_task(**settings), np.random.default_rng(8), sum(sizes)
    clients = Federation(random.standard_normal((rows, 3)), random.standard_normal(rows), np.array(sizes))
    return dataclasses.replace(task, clients=clients)


LINE, CLASSES = {"widths": (3, 1)}, {"widths": (3, 4, 3), "loss": "cross-entropy"}
EXAMPLES = {"unit_is_client": False, "sizes_are_public": True, "expected_examples": 4}
SIZES = [3, 0, 41, 1, 120, 9, 0, 16]
CASES = {
    "layers": lambda task: task(**EXAMPLES),
    "batches": lambda task: task(**EXAMPLES, batch_size=2),
    "classes": lambda task: task(**EXAMPLES, **CLASSES),
    "weights": lambda task: task(**EXAMPLES, **LINE, example_cap=4),
    "sizes": lambda task: uneven(task, SIZES, **EXAMPLES, **LINE, local_steps=2),
    "batches of clients of other sizes": lambda task: uneven(task, SIZES, **LINE, local_steps=2, batch_size=40),
}


@pytest.mark.slow_beyond(1)
@pytest.mark.every(1)
@pytest.mark.parametrize("case", CASES)
def test_both_engines_compute_the_same_sums(small_task, case):
    task = CASES[case](small_task)
    engines = CompiledEngine(task), ReferenceEngine(task)
    cohort = COHORT if task.clients.count > COHORT.max() else np.arange(task.clients.count)
    for clip_norm in (0.05, np.inf):
        agree(*(updates(engine, clip_norm, cohort) for engine in engines), 1e-8)
    if case != "batches of clients of other sizes":
        for clip_norm in (0.3, np.inf):
            agree(*(noisy_runs(engine, clip_norm, cohort) for engine in engines))


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "local_steps"), [(1, 7), (5, 1), (6, 7), (7, 1), (100, 7)])
def test_batches_of_every_size_agree_with_the_slow_engine(small_task, batch_size, local_steps):
    task = small_task(**LINE, batch_size=batch_size, local_steps=local_steps)
    agree(updates(CompiledEngine(task), 0.25), updates(ReferenceEngine(task), 0.25), 1e-8)


@pytest.mark.slow
def test_float32_training_agrees_to_its_own_precision(small_task):
    narrow, wide = CompiledEngine(small_task(dtype="float32")), ReferenceEngine(small_task())
    assert updates(narrow).total.dtype == np.float64
    for sums in (updates, noisy_runs):
        assert sums(narrow, 0.3).total == pytest.approx(sums(wide, 0.3).total, abs=1e-5)
    assert noisy_runs(narrow, 0.3).largest_norm <= 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("size", "dtype"), [(3, "float64"), (5000, "float32")])
def test_squares_in_lanes_leave_no_number_out(size, dtype):
    """Held against correctly rounded sums; a number that is not finite is never lost in a lane."""
    drawn = np.random.default_rng(size).standard_normal(size).astype(dtype)
    with program.use_full_precision():
        assert float(program._sum_squares(drawn)) == pytest.approx(math.fsum(np.float64(drawn) ** 2), rel=1e-13)
        for place in (0, size - 1):
            for bad in (np.nan, np.inf):
                spoilt = drawn.copy()
                spoilt[place] = bad
                assert not np.isfinite(program._sum_squares(spoilt))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"batch_size": 2}, {"dtype": "float64", "widths": (3, 1)}], ids=str)
def test_no_client_touches_what_another_one_sends(small_task, settings):
    """Lists and tiles are shared: what fills them up must not be anybody's row."""

    def spoil(features, *_):
        features[1], features[4:7], features[8:11] = 1e99, -1e99, 1e99

    engines = [CompiledEngine(small_task(change=change, **settings)) for change in (None, spoil)]
    for compute in (updates, noisy_runs):
        sums = [compute(engine) for engine in engines]
        assert np.array_equal(sums[0].total, sums[1].total)
        assert sums[0].total.any()


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(("dtype", "huge", "tiny"), [("float32", 1.7e19, 9e-20), ("float64", 1e99, 1e-98)])
def test_an_example_of_huge_features_and_a_tiny_error_is_clipped_all_the_same(small_task, dtype, huge, tiny):
    """The norm of its gradient is a product whose factors' squares overflow and vanish; it was called 0."""

    def spoil(features, targets, present):
        features[:], targets[:], present[:] = 0, 0, False
        features[0, 0, 0], targets[0, 0], present[0, 0] = huge, tiny, True

    task = small_task(change=spoil, unit_is_client=False, widths=(3, 1), dtype=dtype, expected_examples=1)
    runs = LocalDPSGD(steps=1, batch_probability=1.0, clip_norm=0.01, noise_stddev=0.0)
    ours = CompiledEngine(task).sum_uploads(RoundInputs(np.zeros(4), np.array([0]), batches, noise), runs)
    assert 0 < np.linalg.norm(ours.total) <= 0.1 * 0.01 * (1 + 1e-6)  # learning rate times clip, in dtype's precision
    assert ours.clipped == 1


@pytest.mark.slow
def test_a_gradient_without_a_finite_norm_is_dropped_and_counted(small_task):
    def make_huge(features, *_):
        features[2] = 1e99

    engine = CompiledEngine(small_task(**EXAMPLES, **LINE, change=make_huge))
    alone = noisy_runs(engine, cohort=np.array([2]), batch_probability=1.0, noise_stddev=0.0)
    rows = int(engine.task.clients.sizes[2])
    assert (alone.dropped, alone.clipped, alone.count, alone.largest_norm) == (3 * rows, 3 * rows, 3 * rows, 0.0)
    assert not alone.total.any()


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(("resident", "bad"), [(0, None), (compiled.RESIDENT, np.nan)])
def test_where_nobody_has_a_usable_row_the_noise_alone_is_sent(small_task, monkeypatch, resident, bad):
    """A failure would tell, after the charge was started, that no row of anybody's could be used."""
    monkeypatch.setattr(compiled, "RESIDENT", resident)

    def spoil(features, _targets, present):
        if bad is None:
            present[:] = False
        else:
            features[:] = bad

    task = small_task(**LINE, change=spoil, batch_size=2)
    ours, theirs = CompiledEngine(task), ReferenceEngine(task)
    assert not updates(ours).total.any()
    for compute in (updates, noisy_runs):
        agree(compute(ours), compute(theirs), 1e-12)
    assert ours.unusable(COHORT) == theirs.unusable(COHORT) == task.clients.sizes[COHORT].sum()


def test_batches_go_round_a_clients_rows_however_many_it_takes(small_task):
    rows, steps = 2**17, 2**15  # 2^32 turns in all: more than the program's numbers hold
    engine = CompiledEngine(uneven(small_task, [rows], batch_size=rows - 1, local_steps=steps))
    turns = engine._local_batches(batches, np.array([0]))
    assert turns.first[0, [0, 1, 2, steps - 1]].tolist() == [0, rows - 1, rows - 2, (steps - 1) * (rows - 1) % rows]
    assert turns.first.max() < rows


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("limits", [{"RESIDENT": 0, "FETCHED": 0, "DRAWN": 0, "LISTED": 0}, {"SLOTS": 2}], ids=" ".join)
def test_parts_of_a_cohort_and_rows_that_are_fetched_change_nothing_but_memory(small_task, monkeypatch, limits):
    def spoil(features, *_):
        features[7, 0] = np.nan

    task = small_task(**LINE, batch_size=2, change=spoil)
    whole = [compute(CompiledEngine(task)) for compute in (updates, noisy_runs)]
    for name, limit in limits.items():
        monkeypatch.setattr(compiled, name, limit)
    parts = [compute(CompiledEngine(task)) for compute in (updates, noisy_runs)]
    for one, other in zip(whole, parts, strict=True):
        agree(one, other, 1e-12)


def test_one_compilation_serves_every_cohort_clip_and_engine(small_task):
    task = small_task()
    updates(CompiledEngine(task))
    made = program.sum_updates._cache_size()
    for cohort, clip_norm in ((COHORT[:2], 1.0), (COHORT[:0], 2.0), (np.arange(12), np.inf)):
        updates(CompiledEngine(task), clip_norm, cohort)
    assert program.sum_updates._cache_size() == made
