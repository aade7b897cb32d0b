"""A cluster draws what one process draws, or it is refused; what speaks to it is named where it is missing."""

import json
import sys
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import run
from epsilog.accounting.montecarlo.run import Origin
from epsilog.cli.entry import app
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.terms import EpsilogError, codec
from epsilog.terms.extras import install_command

BINS = BallsInBins(Gaussian(1.0), bins=16)


def command(tmp_path, *words):
    (tmp_path / "run.json").write_text(json.dumps(codec.to_json(BINS)))
    given = ("certify", tmp_path / "run.json", "-e", 1, "--samples", 40_000, "--seed", 3, "--json", *words)
    return CliRunner().invoke(app, ["account", "montecarlo", *map(str, given)])


@pytest.mark.slow
def test_a_running_cluster_draws_the_same_evidence(tmp_path):
    import distributed

    alone = json.loads(command(tmp_path).stdout)
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        spread = command(tmp_path, "--backend", "dask", "--scheduler", cluster.scheduler_address)
    assert json.loads(spread.stdout) == alone
    assert len(alone["hits"][0]) == 3


class Cluster:
    """Stands in for `distributed`: keeps how it was started, and what its workers say of themselves."""

    def __init__(self, origins=(), *, fails=None):
        self.origins, self.fails, self.started = origins, fails, []

    def LocalCluster(self, **given):  # noqa: N802 - theirs
        self.started.append(given)
        return self

    def Client(self, at):  # noqa: N802 - theirs
        if self.fails:
            raise self.fails
        self.started.append(at)
        return self

    def run(self, asked):
        assert asked() == Origin()
        return {f"tcp://{i}": origin for i, origin in enumerate(self.origins)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.started.append("ended")


def stand_in(monkeypatch, cluster):
    monkeypatch.setitem(sys.modules, "distributed", cluster)
    monkeypatch.setattr("joblib.parallel_config", lambda **_: nullcontext())


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (Cluster(), "scheduler must be of a cluster with workers"),
        (Cluster([Origin(), Origin(numpy="1.26.0")]), r"scheduler must be of workers with Origin.* at tcp://1"),
        (
            Cluster(fails=OSError("refused")),
            r"scheduler must be HOST:PORT of a running cluster, got 'here:1' \(refused",
        ),
        (Cluster(fails=ValueError("no port")), "scheduler must be HOST:PORT of a running cluster"),
    ],
    ids=["no workers", "another numpy", "not there", "no address"],
)
def test_a_cluster_that_may_draw_something_else_is_refused(monkeypatch, cluster, says):
    stand_in(monkeypatch, cluster)
    with pytest.raises(ValueError, match=says), run.on_dask("here:1"):
        pytest.fail("drew")


def test_a_cluster_is_started_with_so_many_workers_and_ended(monkeypatch):
    cluster = Cluster([Origin()])
    stand_in(monkeypatch, cluster)
    with montecarlo.on_dask(workers=3):
        assert cluster.started[0]["n_workers"] == 3
        assert "ended" not in cluster.started
    assert cluster.started[-2:] == ["ended", "ended"]  # the client and the cluster
    with pytest.raises(ValueError, match="workers must be at least 1"), montecarlo.on_dask(workers=0):
        pytest.fail("started")


def test_without_dask_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = command(tmp_path, "--backend", "dask")
    assert isinstance(done.exception, EpsilogError)
    assert install_command("dask") in str(done.exception)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--backend", "ray"), "backend must be one of processes, dask, got 'ray'"),
        (("--scheduler", "here:1"), "scheduler must be left out, but with --backend dask, got 'here:1'"),
    ],
)
def test_where_draws_are_made_is_known(tmp_path, words, says):
    assert str(command(tmp_path, *words).exception) == says
