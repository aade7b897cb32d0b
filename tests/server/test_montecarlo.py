"""Monte Carlo runs: described, drawn, watched, paused, resumed, cancelled, and found again by a later server."""

import itertools
import json
import math
import os
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from starlette.exceptions import HTTPException

from epsilog.accounting.montecarlo import bound_delta, compute_balls_in_bins_delta, strategies
from epsilog.accounting.montecarlo.shards import BernoulliTrial
from epsilog.accounting.montecarlo.tilt import HockeyStick, Tilt
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    Gaussian,
    MatrixMechanism,
    MinSepParticipation,
    ToeplitzStrategy,
)
from epsilog.server import create_app, montecarlo
from epsilog.server.montecarlo import _SOFTWARE, MAX_SEQUENTIAL_ROUNDS, MonteCarloRequest, MonteCarloService
from epsilog.terms import CheckError


def test_what_has_no_meaning_in_the_library_has_one_here_for_ever():
    """Pages, embeds and saved addresses leave it out."""
    blank = MonteCarloRequest()
    assert blank.release() == BallsInBins(Gaussian(1.0), bins=16, epochs=1)
    assert (blank.epsilon, blank.samples, blank.failure, blank.bands, blank.probability) == (1.0, 10**6, 1e-6, 8, 0.5)


@pytest.mark.slow
def test_a_run_is_of_the_run_that_was_described():
    described = {"bands": 3, "bins": 4, "epochs": 5, "probability": 0.25, "noise_multiplier": 2.0}
    participations = {
        "balls-in-bins": BallsInBinsParticipation(4),
        "b-min-sep": MinSepParticipation(4, 0.25),
        "cyclic-poisson": CyclicPoissonParticipation(4, 0.25),
    }
    noises = {
        "independent": ToeplitzStrategy((1.0,)),
        "square-root": strategies.build_square_root_column(3),
        "optimal": strategies.optimize_banded_column(3, 20),
    }
    for (participation, taking_part), (strategy, noise) in itertools.product(participations.items(), noises.items()):
        ask = MonteCarloRequest(participation=participation, strategy=strategy, **described)
        if (participation, strategy) != ("balls-in-bins", "independent"):
            assert ask.release() == MatrixMechanism(noise, taking_part, 20, 2.0)
            assert ask.exact() is None
            continue
        assert ask.release() == BallsInBins(Gaussian(2.0), bins=4, epochs=5)
        both = [
            compute_balls_in_bins_delta(bins=4, noise_stddev=2.0, epsilon=1.0, direction=direction, epochs=5).value
            for direction in ("add", "remove")
        ]
        assert ask.exact() == max(both) > min(both)


def test_a_run_whose_losses_are_drawn_one_after_the_other_is_short():
    family = {"participation": "cyclic-poisson", "bins": MAX_SEQUENTIAL_ROUNDS // 4}
    assert MonteCarloRequest(**family, epochs=4).release().rounds == MAX_SEQUENTIAL_ROUNDS
    with pytest.raises(CheckError, match="epochs must be at most 4 here, got 5"):
        MonteCarloRequest(**family, epochs=5).release()
    assert MonteCarloRequest(bins=1024, epochs=100).release()  # in closed form
    short = MonteCarloRequest(participation="b-min-sep", strategy="square-root", bands=8, bins=1, epochs=5)
    assert short.release().strategy == strategies.build_square_root_column(5)


@pytest.mark.slow
def test_runs_are_taken_up_as_they_were_left_and_told_newest_first(tmp_path):
    ask = MonteCarloRequest(samples=2000, bins=4)
    made = {"software": _SOFTWARE, "ask": ask.model_dump()}
    evidence = bound_delta(ask.release(), epsilon=ask.epsilon, failure=ask.failure, samples=ask.samples).to_json()
    names = ["a" * 16, "0123456789abcdef", "b" * 16]
    for age, name in enumerate(names):
        (tmp_path / f"{name}.ask.json").write_text(json.dumps(made))
        os.utime(tmp_path / f"{name}.ask.json", (10 + age, 10 + age))
    (tmp_path / f"{names[1]}.evidence.json").write_text(json.dumps(evidence))
    for name, other in (
        ("c" * 16, made | {"software": "epsilog 0.0.0"}),
        ("d" * 16, {"ask": made["ask"]}),
        ("e" * 16, made | {"ask": {"bins": 0}}),
        ("9" * 16, made),
        ("not a name", made),
    ):
        (tmp_path / f"{name}.ask.json").write_text(json.dumps(other))
    (tmp_path / f"{'9' * 16}.evidence.json").write_text('{"interval": {"lower": 0.25}}')  # of no run
    (tmp_path / f"{'f' * 16}.ask.json").write_text("{")
    found = MonteCarloService(tmp_path)
    request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(montecarlo=found)))
    told = montecarlo.list_montecarlo_route(request)["runs"]
    assert [one["id"] for one in told] == names[::-1]
    for one in told:
        assert (one["ask"], one["of"], one["exact"]) == (made["ask"], 2000, ask.exact())
    assert [one["state"] for one in told] == ["paused", "done", "paused"]
    assert told[1]["interval"] == evidence["interval"]
    assert {way: look["draws"] for way, look in told[1]["directions"].items()} == {"remove": 2000, "add": 2000}
    assert "interval" not in told[0]
    assert told[0]["directions"] == {}
    assert montecarlo.get_montecarlo_route(names[0], request) == {
        name: told[2][name] for name in told[2] if name != "id"
    }
    with pytest.raises(HTTPException, match="is not complete"):
        found.evidence(found.registry.job(names[0]))
    assert found.evidence(found.registry.job(names[1])) == evidence
    assert montecarlo.control_montecarlo_route(names[0], "cancel", request)["state"] == "cancelled"
    assert not (tmp_path / f"{names[0]}.ask.json").exists()
    assert montecarlo.control_montecarlo_route(names[2], "pause", request)["state"] == "paused"
    assert (tmp_path / f"{names[2]}.ask.json").exists()


def events(site, name):
    stream = site.get(f"montecarlo/{name}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in stream.body.decode().splitlines() if line.startswith("data: ")]


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 1)), min_size=1, max_size=30), st.floats(-3, 0.5))
def test_a_look_estimates_within_its_bounds_and_looks_that_are_kept_lie_apart(steps, log_bound):
    samples = sum(draws for draws, _ in steps)
    trial = BernoulliTrial(BallsInBins(Gaussian(1.0), 4), HockeyStick(1.0), Tilt("remove"), log_bound, samples)
    look, draws, hits = None, 0, 0
    for more, share in steps:
        draws, hits = draws + more, hits + round(more * share)
        look = montecarlo._look(look, trial, draws, hits, 1e-3)
        assert min(look["lower"], 1.0) <= min(look["estimate"], 1.0) <= look["upper"]  # hits that no delta makes
        assert look["estimate"] == pytest.approx(hits / draws * math.exp(log_bound))
    trail = [one["draws"] for one in look["trail"]]
    assert (trail[0], trail[-1]) == (steps[0][0], samples)
    assert all(now >= 1.08 * before for before, now in itertools.pairwise(trail[:-1]))


@pytest.mark.slow
def test_a_run_narrows_to_the_exact_value(site):
    started = site.post("montecarlo", {"samples": 300_000, "epsilon": 1.0})
    assert started.status == 201
    seen = events(site, started.json()["id"])
    assert seen[-1]["state"] == "done"
    assert seen[-1]["interval"]["lower"] <= started.json()["exact"] <= seen[-1]["interval"]["upper"]
    document = site.get(f"montecarlo/{started.json()['id']}/evidence.json")
    assert "attachment; filename=" in document.headers["content-disposition"]
    assert seen[-1]["born"] == {"provenance": "entropy", "plan": document.json()["commitment"]}
    assert started.json()["born"] is None
    looks = seen[-1]["directions"]["remove"]["trail"]
    assert [looks[0]["draws"], looks[-1]["draws"]] == [16_384, 300_000]
    assert all(now["draws"] >= 1.08 * before["draws"] for before, now in itertools.pairwise(looks[:-1]))
    assert looks[-1]["upper"] - looks[-1]["lower"] < 0.4 * (looks[0]["upper"] - looks[0]["lower"])
    for look in looks:  # each looser than an interval for that number of draws alone
        assert look["lower"] <= started.json()["exact"] <= look["upper"]
        assert look["lower"] < look["estimate"] < look["upper"]
    assert looks[-1]["lower"] < seen[-1]["interval"]["lower"] < seen[-1]["interval"]["upper"] < looks[-1]["upper"]
    assert document.json()["simulation"] is False  # fresh entropy: evidence, not a repeat
    from epsilog.accounting.montecarlo import recompute_document

    assert recompute_document(document.json(), shards=2) == ()


@pytest.mark.slow
def test_a_run_can_be_paused_resumed_and_cancelled(site):
    name = site.post("montecarlo", {"samples": 50_000_000}).json()["id"]
    assert site.get(f"montecarlo/{name}/evidence.json").status == 409
    assert site.post(f"montecarlo/{name}/pause").json()["state"] == "paused"
    time.sleep(0.5)
    still = site.get(f"montecarlo/{name}").json()["directions"]
    time.sleep(0.5)
    assert site.get(f"montecarlo/{name}").json()["directions"] == still
    assert site.post(f"montecarlo/{name}/resume").json()["state"] == "running"
    other = site.post("montecarlo", {"samples": 50_000_000}).json()["id"]
    assert site.post("montecarlo", {"samples": 1000}).status == 429
    for each in (name, other):
        site.post(f"montecarlo/{each}/cancel")
        assert events(site, each)[-1]["state"] == "cancelled"
    assert site.post(f"montecarlo/{name}/explode").status == 422
    assert site.get("montecarlo/none").status == 404


def test_what_cannot_be_drawn_says_why(site):
    started = site.post(
        "montecarlo", {"participation": "b-min-sep", "strategy": "square-root", "bands": 8, "bins": 4, "epochs": 4}
    )
    last = events(site, started.json()["id"])[-1]
    assert last["state"] == "failed"
    assert "8 bands, separation 4" in last["message"]
    assert len(last["message"]) < 250
    too_long = site.post("montecarlo", {"participation": "cyclic-poisson", "bins": 1024, "epochs": 100})
    assert (too_long.status, too_long.json()["errors"][0]["field"]) == (422, "epochs")


@pytest.mark.slow
@pytest.mark.extended
def test_a_run_outlives_its_server(serve_app, tmp_path):
    """Paused on one server, resumed on the next with the same entropy, and found finished on a third."""
    from epsilog.accounting.montecarlo import recompute_document

    folder = tmp_path / "montecarlo"
    with serve_app(create_app(montecarlo_in=folder)) as first:
        ask = {"samples": 500_000, "bins": 64}
        name = first.post("montecarlo", ask).json()["id"]
        cancelled = first.post("montecarlo", ask).json()["id"]
        first.post(f"montecarlo/{cancelled}/cancel")
        end = time.monotonic() + 30
        while not first.get(f"montecarlo/{name}").json()["directions"] and time.monotonic() < end:
            time.sleep(0.02)
        assert first.post(f"montecarlo/{name}/pause").json()["state"] == "paused"
    time.sleep(0.5)
    journal = (folder / f"{name}.journal.json").read_text()
    with serve_app(create_app(montecarlo_in=folder)) as second:
        found = second.get("montecarlo").json()["runs"]
        assert [(job["id"], job["state"], job["ask"]["bins"]) for job in found] == [(name, "paused", 64)]
        assert second.post(f"montecarlo/{name}/resume").json()["state"] == "running"
        told = events(second, name)[-1]
        assert told["state"] == "done"
    assert (folder / f"{name}.journal.json").read_text().startswith(journal)
    with serve_app(create_app(montecarlo_in=folder)) as third:
        again = third.get(f"montecarlo/{name}").json()
        assert again["state"] == "done"
        assert (again["directions"], again["born"]) == (told["directions"], told["born"])  # from the evidence alone
        document = third.get(f"montecarlo/{name}/evidence.json").json()
    assert document["simulation"] is False
    assert recompute_document(document, shards=2) == ()
