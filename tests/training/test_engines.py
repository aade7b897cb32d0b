"""What every training engine promises, on each engine that we have: a new one adds one name to the list.

That two engines compute the same sums from the same draws is in ``test_engine``.
"""

import dataclasses

import numpy as np
import pytest
from tests.extent import amount
from tests.training.test_engine import COHORT, noise, noisy_runs, noisy_updates, start, updates

from epsilog.training import Federation
from epsilog.training.engines import SplitEngine
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine
from epsilog.training.engines.wrappers import DropoutEngine

SUMS = pytest.mark.parametrize("sums", [updates, noisy_updates, noisy_runs])
EMPTY = 3  # the client without rows


def nobody_drops_out(task):
    return DropoutEngine(CompiledEngine(task), 0.0)


def two_engines(task):
    return SplitEngine(CompiledEngine(task), {2, 3, 5}, CompiledEngine(task))


ENGINES = [CompiledEngine, ReferenceEngine, nobody_drops_out, two_engines]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def engine(request):
    return request.param


@SUMS
def test_a_sum_is_that_of_the_same_draws_again_in_doubles_and_of_the_models_shape(small_task, engine, sums):
    task = small_task()
    first, second = (sums(engine(task)) for _ in range(2))
    assert np.array_equal(first.total, second.total)
    assert first.total.any()
    assert (first.total.dtype, first.total.shape) == (np.float64, (task.model.size,))


@SUMS
def test_the_sum_of_a_cohort_is_that_of_its_clients_in_any_order(small_task, engine, sums):
    made = engine(small_task())
    parts = [sums(made, cohort=np.array([client])) for client in COHORT]
    for cohort in (COHORT, COHORT[::-1]):
        whole = sums(made, cohort=cohort)
        assert whole.total == pytest.approx(sum(part.total for part in parts), abs=1e-12)
        for count in ("clipped", "dropped", "count"):
            assert getattr(whole, count) == sum(getattr(part, count) for part in parts)
        assert whole.largest_norm == max(part.largest_norm for part in parts)


@pytest.mark.parametrize("clip_norm", [1e-3, 0.5, np.inf])
def test_no_client_moves_the_sum_further_than_the_bound(small_task, engine, clip_norm):
    made = engine(small_task(change=lambda features, *_: np.multiply(features, 1e3, out=features)))
    for client in COHORT:
        ours = updates(made, clip_norm, np.array([client]))
        assert np.linalg.norm(ours.total) <= clip_norm
        assert ours.largest_norm <= clip_norm
        assert ours.clipped == (client != EMPTY and clip_norm < np.inf)
    assert noisy_runs(made, clip_norm).largest_norm <= clip_norm


@SUMS
def test_nobody_is_a_sum_of_nothing(small_task, engine, sums):
    ours = sums(engine(small_task()), cohort=np.array([], dtype=int))
    assert not ours.total.any()
    assert not ours.padding.size
    assert (ours.largest_norm, ours.clipped, ours.dropped, ours.count) == (0, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize(
    ("sums", "batch_size"),
    [
        (updates, None),
        *(pytest.param(*more, marks=pytest.mark.extended) for more in ((updates, 40), (noisy_runs, None))),
    ],
)
def test_how_many_rows_others_have_moves_no_bit_of_a_sum(small_task, sums, batch_size):
    """Tiles of another size round otherwise: the rows of a client that takes no part would move all others' updates."""
    widths = (20, 60, 3)
    base = small_task(widths=widths, loss="cross-entropy", dtype="float32", local_steps=5, batch_size=batch_size)

    def total(rows, resident=256_000_000):
        sizes = [*range(20, 80, 6), rows]
        drawn = [np.random.default_rng(client) for client in range(len(sizes))]
        features = [one.standard_normal((size, 20)) for one, size in zip(drawn, sizes, strict=True)]
        targets = [one.integers(0, 3, size) for one, size in zip(drawn, sizes, strict=True)]
        clients = Federation.from_arrays(features, targets, dtype="float32")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("epsilog.training.engines.compiled.RESIDENT", resident)
            made = CompiledEngine(dataclasses.replace(base, clients=clients))
        return sums(made, cohort=np.arange(10)).total

    alone = total(0)
    assert alone.any()
    assert np.array_equal(total(amount(300, 20_000)), alone)
    assert np.array_equal(total(3000, resident=0), alone)


def test_a_client_without_rows_sends_no_update_and_all_of_its_noise(small_task, engine):
    task, cohort = small_task(unit_is_client=False), np.array([EMPTY])
    silent = updates(engine(task), cohort=cohort)
    assert not silent.total.any()
    assert (silent.count, silent.clipped) == (1, 0)
    noisy = noisy_runs(engine(task), cohort=cohort, noise_stddev=0.3)
    step = task.training.learning_rate / (0.5 * task.training.expected_examples)
    drawn = 0.3 * noise(EMPTY).normals((3, task.model.size + 1))
    assert noisy.total == pytest.approx(-step * drawn[:, :-1].sum(axis=0))
    assert noisy.padding == pytest.approx(drawn[:, -1].sum() / np.sqrt(3))


def test_client_noise_is_added_to_clipped_updates_one_draw_a_client(small_task, engine):
    made = engine(small_task())
    drawn = 0.1 * np.stack([noise(client).normals((made.task.model.size + 1,)) for client in COHORT])
    noisy, clipped = noisy_updates(made), updates(made)
    assert noisy.total == pytest.approx(clipped.total + drawn[:, :-1].sum(axis=0), abs=1e-12)
    assert sorted(noisy.padding) == pytest.approx(sorted(drawn[:, -1]))
    assert (noisy.largest_norm, noisy.clipped, noisy.count) == (clipped.largest_norm, clipped.clipped, clipped.count)


def test_a_client_whose_update_is_not_finite_counts_as_zero_and_is_counted(small_task, engine):
    def spoil(features, *_):
        features[2] = 1e99  # rows that can be used, and that make local training diverge

    made = engine(small_task(change=spoil, local_steps=8))
    with np.errstate(all="ignore"):
        spoilt, without = updates(made), updates(made, cohort=COHORT[COHORT != 2])
    assert spoilt.total == pytest.approx(without.total, abs=0)
    assert (spoilt.dropped, without.dropped) == (1, 0)
    assert spoilt.clipped == without.clipped + 1


BAD = {"half-squared-error": (np.nan, np.inf, -np.inf, 1e300, -1e101), "cross-entropy": (99, -1, 3, 2**62)}


@pytest.mark.slow_beyond(2)
@pytest.mark.every(1)
@pytest.mark.parametrize("part", ["features", "targets"])
@pytest.mark.parametrize("loss", BAD)
@pytest.mark.parametrize("engine", [CompiledEngine, ReferenceEngine])
def test_a_row_that_cannot_be_used_is_as_good_as_absent_and_is_counted(small_task, engine, part, loss):
    kind = {"loss": loss, "widths": (3, 4, 3 if loss == "cross-entropy" else 1)}

    def remove(_features, _targets, present):
        present[2, 0] = False

    removed = engine(small_task(change=remove, **kind))
    expected = [sums(removed).total for sums in (updates, noisy_runs)]
    for bad in BAD[loss if part == "targets" else "half-squared-error"]:

        def spoil(features, targets, present, bad=bad):
            present[2, 0], (features[2, 0] if part == "features" else targets[2])[0] = True, bad

        spoilt = engine(small_task(change=spoil, **kind))
        assert [made.unusable(COHORT) for made in (spoilt, removed)] == [1, 0]
        for sums, total in zip((updates, noisy_runs), expected, strict=True):
            assert np.array_equal(sums(spoilt).total, total)
            assert np.isfinite(total).all()


def test_evaluation_is_mean_loss_and_score(small_task, engine):
    task = small_task()
    model, test, vector = task.model, (task.test_features, task.test_targets), start(task)
    outputs = model.apply(model.unflatten(vector), test[0])
    expected = float(model.losses(outputs, test[1]).mean()), float(model.compute_score(outputs, test[1]))
    assert engine(task).evaluate(vector) == pytest.approx(expected)
