"""Journals: a run goes on where it stopped, with its own plan and entropy. Clusters draw what one process draws."""

import dataclasses
import json
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest
from tests.accounting.montecarlo.simulated import BINS, trial
from typer.testing import CliRunner

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import noise_search, run, shards
from epsilog.accounting.montecarlo.run import SoftwareVersions
from epsilog.cli.app import load
from epsilog.mechanisms import BallsInBins, Gaussian
from epsilog.terms import EpsilogError, RecordError, codec
from epsilog.terms.extras import install_command

app = load()

SIX = run.RandomnessSource("chosen", "6")
QUESTION = {"epsilon": 1.0, "samples": 40_000}


@pytest.fixture
def book(tmp_path):
    return run.Journal.begin(tmp_path / "journal.jsonl", "this run", SIX)


@pytest.mark.slow
def test_a_journal_resumes_and_refuses_another_run(book):
    one, path = trial(samples=4 * shards.SHARD), book.path
    whole = run.run_trials([one], seed=book.seed)
    assert run.run_trials([one], seed=book.seed, journal=book) == whole
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + '[0, "remo')  # killed in the middle of a line
    drawn = []
    resumed = run.run_trials(
        [one], seed=book.seed, journal=book, progress=lambda _, draws, hits: drawn.append((draws, hits))
    )
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 5  # the head, and two of the four shards were drawn again
    assert drawn[-1] == (one.samples, sum(whole[0]))
    for other in ("that run", SIX), ("this run", run.RandomnessSource("chosen", "7")):
        with pytest.raises(RecordError, match="another run"):
            run.Journal.begin(path, *other)
    with pytest.raises(ValueError, match="seed must be the journal's"):
        run.run_trials([one], seed=book.seed + 1, journal=book)
    path.write_text("nonsense\n")
    with pytest.raises(RecordError, match="unreadable"):
        run.run_trials([one], seed=book.seed, journal=book)


@pytest.mark.extended
def test_a_killed_process_continues(tmp_path):
    path = tmp_path / "journal.jsonl"
    script = f"""
from pathlib import Path
from epsilog.accounting import montecarlo
from epsilog.mechanisms import BallsInBins, Gaussian
print("started", flush=True)
release, journal = BallsInBins(Gaussian(1.0), bins=16), Path({str(path)!r})
found = montecarlo.bound_delta(release, epsilon=1.0, samples=600_000, seed=8, journal=journal)
print([part.hits for part in found.evidence])
"""
    first = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while not path.exists() or path.read_text().count("\n") < 4:
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    kept = path.read_text().count("\n")
    second = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 4 <= kept < path.read_text().count("\n")
    expected = montecarlo.bound_delta(BINS, epsilon=1.0, samples=600_000, seed=8)
    assert str([part.hits for part in expected.evidence]) in second.stdout


@pytest.mark.slow
def test_a_journal_keeps_the_entropy_of_its_birth(tmp_path, monkeypatch):
    """Killed before, during or after its draws, a run has one outcome: its seed is on disk before the first draw."""
    path = tmp_path / "journal.jsonl"

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "count_hits", die)
        with pytest.raises(KeyboardInterrupt):
            montecarlo.bound_delta(BINS, **QUESTION, journal=path)
    born = json.loads(path.read_text())
    assert list(tmp_path.iterdir()) == [path]
    first = montecarlo.bound_delta(BINS, **QUESTION, journal=path)
    assert not first.simulation
    assert (
        first.source
        == run.RandomnessSource("entropy", born["value"])
        == run.RandomnessSource(born["provenance"], born["value"])
    )
    assert born["run"] == first.plan.commitment
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + "[0,")
    assert montecarlo.bound_delta(BINS, **QUESTION, journal=path) == first
    with monkeypatch.context() as patch:
        patch.setattr(run, "count_hits", die)  # nothing is drawn once all is there: asking again changes nothing
        assert montecarlo.bound_delta(BINS, **QUESTION, journal=path) == first
    other = montecarlo.bound_delta(BINS, **QUESTION, journal=tmp_path / "other.jsonl")
    assert other.seed != first.seed


def test_a_journal_with_impossible_counts_is_refused(book):
    head = book.path.read_text()
    keys = [(0.5, "remove", 0), (True, "remove", 0), (0, "left", 0), (0, "remove", -1), (0, "remove", 0)]
    asked = [*((key, 1) for key in keys[:-1]), *((keys[-1], hits) for hits in (-1, 1e9, True, None))]
    tagged = [json.dumps([*key, hits, run._tag(book.source, book.run, key, hits)]) for key, hits in asked]
    for line in (*tagged, "[" * 9999, '[0, "remove", 0]'):
        book.path.write_text(head + line + "\n")
        with pytest.raises(RecordError, match="unreadable"):
            book.read()


@pytest.mark.parametrize(
    ("row", "place", "value"),
    [
        (1, 3, 99),  # an edited count
        (1, 2, 1),  # another shard
        (1, 1, "add"),
        (1, 0, 1),  # another candidate
        (0, "value", "7"),  # another seed
        (0, "run", "that run"),
        (0, "v", 0),
        (1, slice(4, 5), []),  # no tag
    ],
)
def test_a_line_that_is_not_this_runs_and_this_shards_is_refused(book, row, place, value):
    for shard in range(2):
        book.write((0, "remove", shard), 100 + shard)
    assert book.read() == {(0, "remove", shard): 100 + shard for shard in range(2)}
    lines = [json.loads(line) for line in book.path.read_text().splitlines()]
    lines[row][place] = value
    book.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RecordError, match="journal"):
        book.read()


@pytest.mark.parametrize("start", [("that run", SIX), ("this run", run.RandomnessSource("chosen", "7"))])
def test_lines_of_another_run_are_refused(tmp_path, book, start):
    """Of another plan, and of the same plan with another seed; the file of the run is named, and what is wrong."""
    other = run.Journal.begin(tmp_path / "other.jsonl", *start)
    other.write((0, "remove", 0), 9)
    line = other.path.read_text().splitlines()[1]
    book.path.write_text(book.path.read_text() + line + "\n")
    with pytest.raises(RecordError, match=r"count of shard 0 \(remove\) was edited, or is of another run or shard"):
        book.read()


def test_a_shard_has_one_count(book):
    for hits in (1, 1, 2):
        book.write((0, "remove", 0), hits)
    with pytest.raises(RecordError, match="shard 0 has two counts"):
        book.read()


def test_two_processes_cannot_both_begin_a_journal(tmp_path, book, monkeypatch):
    path, before = book.path, book.path.read_text()
    monkeypatch.setattr(type(path), "exists", lambda _: False)  # as the other process saw it a moment ago
    with pytest.raises(RecordError, match="another process"):
        run.Journal.begin(path, "this run", run.RandomnessSource("chosen", "7"))
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_journal_is_bound_to_the_whole_plan(tmp_path):
    """What decides the claim without deciding the draws: goals, fallback, passing counts, the code's versions."""
    plan = noise_search.plan_noise_search(BINS, epsilon=1.0, target_delta=1e-2, seed=1, noises=(1.1,), slack=0.9)
    path = tmp_path / "journal.jsonl"
    noise_search.run_noise_search(plan, journal=path)
    (remove, add), replace = plan.checks[0], dataclasses.replace
    others = [
        replace(plan, target_delta=2e-2),
        replace(plan, fallback_delta=1e-4),
        replace(plan, checks=((replace(remove, hits=remove.hits - 1), add),)),
        replace(plan, origin=replace(plan.origin, pilot=2)),
    ]
    for other in others:
        with pytest.raises(RecordError, match="another run"):
            noise_search.run_noise_search(other, journal=path)
    for ask in ({"samples": 1000}, {"failure": 1e-5}, {"release": BallsInBins(Gaussian(1.1), 16)}):
        with pytest.raises(RecordError, match="another run"):
            montecarlo.bound_delta(**({"release": BINS} | QUESTION | ask), journal=path)
    for other in ({"nonce": "a nonce of its own"}, {"seed": 1}):  # a chosen seed is a simulation, and this file is none
        with pytest.raises(RecordError, match="not begun with this seed"):
            noise_search.run_noise_search(plan, journal=path, **other)
    with pytest.raises(ValueError, match="versions installed here"):
        noise_search.run_noise_search(replace(plan, origin=replace(plan.origin, scipy="0.1")), journal=path)


# ---- clusters -------------------------------------------------------------------------------------------------------


def command(tmp_path, *words):
    (tmp_path / "run.json").write_text(json.dumps(codec.to_json(BINS)))
    given = ("bound-delta", tmp_path / "run.json", "-e", 1, "--samples", 40_000, "--seed", 3, "--json", *words)
    return CliRunner().invoke(app, ["account", "montecarlo", *map(str, given)])


@pytest.mark.extended
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
        assert asked() == SoftwareVersions()
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
        (
            Cluster([SoftwareVersions(), SoftwareVersions(numpy="1.26.0")]),
            r"scheduler must be of workers with SoftwareVersions.* at tcp://1",
        ),
        (Cluster(fails=OSError("refused")), r"must be HOST:PORT of a running cluster, got 'here:1' \(refused"),
        (Cluster(fails=ValueError("no port")), "scheduler must be HOST:PORT of a running cluster"),
    ],
    ids=["no workers", "another numpy", "not there", "no address"],
)
def test_a_cluster_that_may_draw_something_else_is_refused(monkeypatch, cluster, says):
    stand_in(monkeypatch, cluster)
    with pytest.raises(ValueError, match=says), run.use_dask_cluster("here:1"):
        pytest.fail("drew")


def test_a_cluster_is_started_with_so_many_workers_and_ended(monkeypatch):
    cluster = Cluster([SoftwareVersions()])
    stand_in(monkeypatch, cluster)
    with montecarlo.use_dask_cluster(workers=3):
        assert cluster.started[0]["n_workers"] == 3
        assert "ended" not in cluster.started
    assert cluster.started[-2:] == ["ended", "ended"]  # the client and the cluster
    with pytest.raises(ValueError, match="workers must be at least 1"), montecarlo.use_dask_cluster(workers=0):
        pytest.fail("started")


def test_without_dask_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = command(tmp_path, "--backend", "dask")
    assert isinstance(done.exception, EpsilogError)
    assert install_command("dask") in str(done.exception)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--backend", "ray"), "--backend must be one of processes, dask, got 'ray'"),
        (("--scheduler", "here:1"), "--scheduler must be absent without --backend dask, got 'here:1'"),
    ],
)
def test_where_draws_are_made_is_known(tmp_path, words, says):
    assert str(command(tmp_path, *words).exception) == says
