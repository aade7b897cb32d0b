"""Linear algebra has one thread while draws are made, and as many as before afterwards."""

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from epsilog.accounting.montecarlo import run, shards, sweeps, tilt
from epsilog.accounting.montecarlo.normals import one_thread
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.mechanisms import BallsInBins, Gaussian

BINS = BallsInBins(Gaussian(1.0), bins=4)


def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas() != {2}:
            pytest.skip("this library of linear algebra has one thread")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
def test_draws_pilots_and_tilts_have_one_thread(monkeypatch):
    seen, plain = [], tilt.log_values

    def look(*args, **kwargs):
        seen.append(blas())
        return plain(*args, **kwargs)

    monkeypatch.setattr(tilt, "log_values", look)
    one = shards.Trial(BINS, HockeyStick(1.0), tilt.Tilt("remove"), 0.0, 1000)
    run.run_trials([one], seed=1)
    assert seen == [{1}]
    sweeps.pilot_delta(BINS, HockeyStick(1.0), "add", 1, draws=1000)
    assert seen == [{1}, {1}]
    monkeypatch.setattr(tilt, "log_bound", lambda *_: seen.append(blas()) or 0.0)
    tilt.choose_tilt(pair_of(BINS), HockeyStick(1.0), "add")
    assert seen[-1] == {1}
    assert blas() == {2}


@pytest.mark.parametrize("first_out", ["first", "second"])
def test_two_certificates_at_once_leave_the_threads_as_they_were(first_out):
    """The limit belongs to the process: whoever came second must not keep the first one's limit for good."""
    before, inside = blas(), {name: threading.Event() for name in ("first", "second")}
    leave = {name: threading.Event() for name in inside}
    seen = []

    def draw(name):
        with one_thread():
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


@pytest.mark.usefixtures("two_threads")
def test_an_error_gives_the_threads_back(monkeypatch):
    def die(*_, **__):
        raise ArithmeticError

    monkeypatch.setattr(tilt, "hits", die)
    with pytest.raises(ArithmeticError):
        shards.count_hits(shards.Trial(BINS, HockeyStick(1.0), tilt.Tilt("remove"), 0.0, 1000), 1, 0)
    assert blas() == {2}
