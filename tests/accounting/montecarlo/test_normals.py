"""Normals are NumPy's, compiled or not; linear algebra has one thread while draws are made, and all of them after."""

import threading

import numpy as np
import pytest
from tests.accounting.montecarlo.simulated import BANDED, BINS, trial
from threadpoolctl import threadpool_info, threadpool_limits

from epsilog.accounting.montecarlo import normals, run, shards, tilt
from epsilog.accounting.montecarlo.normals import limit_to_one_thread
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.tilt import HockeyStick


@pytest.mark.extended
def test_compiled_normals_are_numpys(monkeypatch):
    """The same numbers and the same state afterwards; hence the same hits."""
    import numba  # noqa: F401 (extra "fast", which the dev environment has)

    one = trial(BANDED, "remove", 0.0, samples=shards.SHARD)
    before = run.run_trials([one], seed=2)
    assert before[0][0] > 100
    first, second = (np.random.Generator(np.random.Philox(3)) for _ in range(2))
    plain = normals.draw_normals(first, 500, 300)  # long enough for the ziggurat's tail
    monkeypatch.setattr(normals, "PATIENCE", -1)
    calls, fill = [], normals.compile_fill_loop()
    monkeypatch.setattr(normals, "compile_fill_loop", lambda: lambda rng, out: (calls.append(out.size), fill(rng, out)))
    np.testing.assert_array_equal(normals.draw_normals(second, 500, 300), plain)
    assert np.abs(plain).max() > 3.6542
    assert first.random() == second.random()
    assert calls == [150_000]
    assert run.run_trials([one], seed=2) == before
    assert len(calls) > 1


def test_without_numba_or_patience_numpy_draws_on(monkeypatch):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(normals, "_asked", {"normals": 0})
    monkeypatch.setattr(normals, "PATIENCE", 12)
    seen = []
    monkeypatch.setattr(normals, "find_spec", seen.append)
    normals.compile_fill_loop.cache_clear()
    try:
        assert normals.draw_normals(rng, 3, 4).shape == (3, 4)
        assert seen == []
        assert np.isfinite(normals.draw_normals(rng, 1, 1)).all()
        assert seen == ["numba"]
    finally:
        normals.compile_fill_loop.cache_clear()


def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas() != {2}:
            pytest.skip("this library of linear algebra has one thread")
        yield


@pytest.mark.usefixtures("two_threads")
def test_draws_pilots_and_tilts_have_one_thread_and_an_error_gives_them_back(monkeypatch):
    seen = []

    def look(*_, **__):
        seen.append(blas())
        raise ArithmeticError

    monkeypatch.setattr(tilt, "draw_log_values", look)
    calls = [
        lambda: shards.count_hits(shards.BernoulliTrial(BINS, HockeyStick(1.0), tilt.Tilt("remove"), 0.0, 1000), 1, 0),
        lambda: shards.estimate_pilot_delta(BINS, HockeyStick(1.0), "add", 1, draws=1000),
        lambda: tilt.choose_tilt(build_simulated_pair(BINS), HockeyStick(1.0), "add"),
        lambda: shards.draw_losses(BINS, samples=1, seed=1),
    ]
    for number, call in enumerate(calls, 1):
        if number == 3:
            monkeypatch.setattr(tilt, "bound_log_value", look)
            monkeypatch.setattr(type(build_simulated_pair(BINS)), "draw", look)
        with pytest.raises(ArithmeticError):
            call()
        assert seen == [{1}] * number
        assert blas() == {2}


@pytest.mark.parametrize("first_out", ["first", "second"])
def test_two_bounds_at_once_leave_the_threads_as_they_were(first_out):
    """The limit belongs to the process: whoever came second must not keep the first one's limit for good."""
    before, inside = blas(), {name: threading.Event() for name in ("first", "second")}
    leave = {name: threading.Event() for name in inside}
    seen = []

    def draw(name):
        with limit_to_one_thread():
            seen.append(blas())
            inside[name].set()
            leave[name].wait(10)

    workers = {name: threading.Thread(target=draw, args=(name,)) for name in inside}
    for name, worker in workers.items():
        worker.start()
        assert inside[name].wait(10)
    for name in sorted(workers, key=lambda name: name != first_out):
        leave[name].set()
        workers[name].join()
    assert seen == [{1}, {1}]
    assert blas() == before
