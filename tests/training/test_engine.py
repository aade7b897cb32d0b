"""The fast engine computes what the slow one computes, from the same draws."""

import dataclasses
import math

import numpy as np
import pytest

from epsilog.schemes import ClientLevelCentral, LocalDPSGD, NoisyUpdate, RawUpdate
from epsilog.training import Federation, Randomness, rounds
from epsilog.training.engines import RoundInputs, compiled, program
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine

COHORT = np.array([0, 2, 3, 7, 11])
MODELS = [
    {"widths": (3, 4, 1)},
    pytest.param({"widths": (3, 1)}, marks=pytest.mark.slow),
    pytest.param({"widths": (3, 4, 3), "loss": "cross-entropy"}, marks=pytest.mark.slow),
]


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


@pytest.mark.parametrize("clip_norm", [0.05, 0.25, np.inf])
@pytest.mark.parametrize("kind", MODELS, ids=str)
@pytest.mark.parametrize("batch_size", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_sums_of_clipped_updates_agree(small_task, kind, clip_norm, batch_size):
    task = small_task(batch_size=batch_size, **kind)
    agree(updates(CompiledEngine(task), clip_norm), updates(ReferenceEngine(task), clip_norm), 1e-8)


@pytest.mark.parametrize("clip_norm", [0.3, np.inf])
@pytest.mark.parametrize("kind", MODELS, ids=str)
def test_sums_of_noisy_runs_agree(small_task, kind, clip_norm):
    task = small_task(unit_is_client=False, expected_examples=4, **kind)
    agree(noisy_runs(CompiledEngine(task), clip_norm), noisy_runs(ReferenceEngine(task), clip_norm))


@pytest.mark.slow
def test_float32_training_agrees_to_its_own_precision(small_task):
    narrow, wide = CompiledEngine(small_task(dtype="float32")), ReferenceEngine(small_task())
    assert updates(narrow).total.dtype == np.float64
    assert updates(narrow).total == pytest.approx(updates(wide).total, abs=1e-5)
    assert noisy_runs(narrow, 0.3).total == pytest.approx(noisy_runs(wide, 0.3).total, abs=1e-5)
    assert noisy_runs(narrow, 0.3).largest_norm <= 0.3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [3, 1024, 5000])
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


def spoilt_row(part, bad):
    def spoil(features, targets, present):
        present[2, 0] = True
        if part == "features":
            features[2, 0, 0] = bad
        else:
            targets[2, 0] = bad

    return spoil


def remove_row(features, targets, present):
    present[2, 0] = False


ROWS = [
    *(
        pytest.param("half-squared-error", part, bad)
        for part in ("features", "targets")
        for bad in (np.nan, np.inf, 1e300)
    ),
    *(pytest.param("cross-entropy", "targets", bad, marks=pytest.mark.slow) for bad in (99, -1, 3, 2**62)),
    pytest.param("cross-entropy", "features", np.nan, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("loss", "part", "bad"), ROWS)
@pytest.mark.parametrize("batch_size", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_row_that_cannot_be_used_is_as_good_as_absent_and_is_counted(small_task, loss, part, bad, batch_size):
    kind = {"loss": loss, "widths": (3, 4, 3 if loss == "cross-entropy" else 1), "batch_size": batch_size}
    spoilt, removed = (small_task(change=change, **kind) for change in (spoilt_row(part, bad), remove_row))
    engines = CompiledEngine(spoilt), CompiledEngine(removed)
    assert [engine.unusable(np.array([2])) for engine in engines] == [1, 0]
    for compute in (updates, noisy_runs):
        sums = [compute(engine) for engine in engines]
        assert np.array_equal(sums[0].total, sums[1].total)
        assert np.isfinite(sums[0].total).all()
        assert sums[0].count == sums[1].count


@pytest.mark.slow
@pytest.mark.parametrize("bad", [1e99, -1e99])
def test_no_client_touches_what_another_one_sends(small_task, bad):
    """Lists and tiles are shared: what fills them up must not be anybody's row."""

    def spoil(features, *_):
        features[1], features[4:7], features[8:11] = bad, bad, bad

    for settings in ({}, {"batch_size": 2}, {"dtype": "float64", "widths": (3, 1)}):
        engines = [CompiledEngine(small_task(change=change, **settings)) for change in (None, spoil)]
        for compute in (updates, noisy_runs):
            sums = [compute(engine) for engine in engines]
            assert np.array_equal(sums[0].total, sums[1].total)
            assert sums[0].total.any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_example_of_huge_features_and_a_tiny_error_is_clipped_all_the_same(small_task, dtype):
    """The norm of its gradient is a product whose factors' squares overflow and vanish; it was called 0."""
    huge, tiny = (1.7e19, 9e-20) if dtype == "float32" else (1e99, 1e-98)

    def spoil(features, targets, present):
        features[:], targets[:], present[:] = 0, 0, False
        features[0, 0, 0], targets[0, 0], present[0, 0] = huge, tiny, True

    task = small_task(change=spoil, unit_is_client=False, widths=(3, 1), dtype=dtype, expected_examples=1)
    runs = LocalDPSGD(steps=1, batch_probability=1.0, clip_norm=0.01, noise_stddev=0.0)
    ours = CompiledEngine(task).sum_uploads(RoundInputs(np.zeros(4), np.array([0]), batches, noise), runs)
    assert 0 < np.linalg.norm(ours.total) <= 0.1 * 0.01 * (1 + 1e-6)  # learning rate times clip, in dtype's precision
    assert ours.clipped == 1


@pytest.mark.parametrize("batch_size", [1, 2, 5, 6, 7, 100])
@pytest.mark.parametrize("local_steps", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_batches_of_every_size_agree_with_the_slow_engine(small_task, batch_size, local_steps):
    task = small_task(widths=(3, 1), batch_size=batch_size, local_steps=local_steps)
    agree(updates(CompiledEngine(task), 0.25), updates(ReferenceEngine(task), 0.25), 1e-8)


@pytest.mark.slow
def test_a_row_between_the_first_and_the_last_is_trained_on(small_task):
    """With fewer rows in all steps than a client holds, it is chance that says which: over rounds, every row counts."""

    def one_client(features, targets, present):
        features[:], targets[:], present[:] = 0, 0, False
        features[0, :, 0], targets[0], present[0] = 1, 2.0 ** np.arange(6), True

    task = small_task(change=one_client, widths=(3, 1), batch_size=1, local_steps=1)
    scheme = ClientLevelCentral(12, 1.0, 40, 1000.0, 1e-12)
    seen = set()
    for number in range(40):
        state = rounds.TrainingState(number, np.zeros(4), np.zeros(12, dtype=np.int64))
        moved = (
            12
            * rounds.compute_next_round(scheme, CompiledEngine(task), state, Randomness.from_seed(1)).state.model[0]
            / 0.1
        )
        seen.add(round(moved))
    assert seen == {1, 2, 4, 8, 16, 32}


@pytest.mark.slow
@pytest.mark.parametrize("resident", [0, compiled.RESIDENT])
@pytest.mark.parametrize("bad", [None, np.nan])
def test_where_nobody_has_a_usable_row_the_noise_alone_is_sent(small_task, monkeypatch, resident, bad):
    """A failure would tell, after the charge was started, that no row of anybody's could be used."""
    monkeypatch.setattr(compiled, "RESIDENT", resident)

    def spoil(features, _targets, present):
        if bad is None:
            present[:] = False
        else:
            features[:] = bad

    for settings in ({}, {"batch_size": 2}):
        task = small_task(widths=(3, 1), change=spoil, **settings)
        ours, theirs = CompiledEngine(task), ReferenceEngine(task)
        assert not updates(ours).total.any()
        for compute in (updates, noisy_runs):
            agree(compute(ours), compute(theirs), 1e-12)
        assert ours.unusable(COHORT) == theirs.unusable(COHORT) == task.clients.sizes[COHORT].sum()


def uneven(small_task, sizes, **settings):
    task = small_task(widths=(3, 4, 1), **settings)
    random = np.random.default_rng(8)
    rows = sum(sizes)
    clients = Federation(random.standard_normal((rows, 3)), random.standard_normal(rows), np.array(sizes))
    return dataclasses.replace(task, clients=clients)


def test_batches_go_round_a_clients_rows_however_many_it_takes(small_task):
    rows, steps = 2**17, 2**15  # 2^32 turns in all: more than the program's numbers hold
    engine = CompiledEngine(uneven(small_task, [rows], batch_size=rows - 1, local_steps=steps))
    turns = engine._local_batches(batches, np.array([0]))
    assert turns.first[0, [0, 1, 2, steps - 1]].tolist() == [0, rows - 1, rows - 2, (steps - 1) * (rows - 1) % rows]
    assert turns.first.max() < rows


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 7, 40])
def test_clients_of_very_different_sizes_agree(small_task, batch_size):
    task = uneven(small_task, [3, 0, 41, 1, 300, 9, 0, 16], batch_size=batch_size, local_steps=2)
    cohort = np.arange(8)
    for compute in (updates, noisy_runs):
        agree(compute(CompiledEngine(task), cohort=cohort), compute(ReferenceEngine(task), cohort=cohort))


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits",
    [{"RESIDENT": 0, "LISTED": 0}, {"RESIDENT": 0, "FETCHED": 0, "DRAWN": 0}, {"SLOTS": 2}],
    ids=" ".join,
)
def test_parts_of_a_cohort_and_rows_that_are_fetched_change_nothing_but_memory(small_task, monkeypatch, limits):
    def spoil(features, *_):
        features[7, 0] = np.nan

    tasks = small_task(change=spoil), small_task(batch_size=2, change=spoil)
    whole = [compute(CompiledEngine(task)) for task in tasks for compute in (updates, noisy_runs)]
    for name, limit in limits.items():
        monkeypatch.setattr(compiled, name, limit)
    parts = [compute(CompiledEngine(task)) for task in tasks for compute in (updates, noisy_runs)]
    for one, other in zip(whole, parts, strict=True):
        agree(one, other, 1e-12)


def test_one_compilation_serves_every_cohort_clip_and_engine(small_task):
    task = small_task()
    updates(CompiledEngine(task))
    made = program.sum_updates._cache_size()
    for cohort, clip_norm in ((COHORT[:2], 1.0), (COHORT[:0], 2.0), (np.arange(12), np.inf)):
        updates(CompiledEngine(task), clip_norm, cohort)
    assert program.sum_updates._cache_size() == made


@pytest.mark.parametrize("engine", [CompiledEngine, ReferenceEngine])
def test_evaluation_is_mean_loss_and_score(small_task, engine):
    task = small_task()
    model, test = task.model, (task.test_features, task.test_targets)
    outputs = model.apply(model.unflatten(start(task)), test[0])
    loss, score = engine(task).evaluate(start(task))
    assert loss == pytest.approx(float(model.losses(outputs, test[1]).mean()))
    assert score == pytest.approx(float(model.compute_score(outputs, test[1])))
