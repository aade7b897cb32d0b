"""Journals: a run goes on where it stopped, with its own plan and entropy."""

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys

import pytest

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import run, shards, sweeps, tilt
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.mechanisms import BallsInBins, BinnedParticipation, Gaussian, MatrixMechanism, ToeplitzStrategy
from epsilog.terms import RecordsError

BINS = BallsInBins(Gaussian(1.0), bins=16)
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.Trial(release, payoff, how, tilt.log_bound(pair_of(release), how, payoff), samples)


# ---- journal ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_journal_resumes_and_refuses_another_run(tmp_path):
    one, path = trial(samples=4 * shards.SHARD), tmp_path / "journal.jsonl"
    book = run.Journal.begin(path, "this run", run.Source("chosen", "6"))
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
    for other in ("that run", run.Source("chosen", "6")), ("this run", run.Source("chosen", "7")):
        with pytest.raises(RecordsError, match="another run"):
            run.Journal.begin(path, *other)
    with pytest.raises(ValueError, match="seed must be the journal's"):
        run.run_trials([one], seed=book.seed + 1, journal=book)
    path.write_text("nonsense\n")
    with pytest.raises(RecordsError, match="unreadable"):
        run.run_trials([one], seed=book.seed, journal=book)


@pytest.mark.slow
def test_a_killed_process_continues(tmp_path):
    path = tmp_path / "journal.jsonl"
    script = f"""
from pathlib import Path
from epsilog.accounting import montecarlo
from epsilog.mechanisms import BallsInBins, Gaussian
print("started", flush=True)
release, journal = BallsInBins(Gaussian(1.0), bins=16), Path({str(path)!r})
found = montecarlo.certify(release, epsilon=1.0, samples=600_000, seed=8, journal=journal)
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
    expected = montecarlo.certify(BINS, epsilon=1.0, samples=600_000, seed=8)
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
            montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path)
    born = json.loads(path.read_text())
    assert list(tmp_path.iterdir()) == [path]
    first = montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path)
    assert not first.simulation
    assert (
        (first.source.provenance, first.source.value)
        == ("entropy", born["value"])
        == (born["provenance"], born["value"])
    )
    assert born["run"] == first.plan.commitment
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + "[0,")
    assert montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path) == first
    with monkeypatch.context() as patch:
        patch.setattr(run, "count_hits", die)  # nothing is drawn once all is there: asking again changes nothing
        assert montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=path) == first
    other = montecarlo.certify(BINS, epsilon=1.0, samples=40_000, journal=tmp_path / "other.jsonl")
    assert other.seed != first.seed


def test_the_draws_of_a_journal_answer_one_question_only(tmp_path):
    path = tmp_path / "journal.jsonl"
    found = montecarlo.certify(BINS, epsilon=1.0, samples=20_000, journal=path)
    other = BallsInBins(Gaussian(1.1), 16)
    for ask in ({"epsilon": 0.9}, {"samples": 30_000}, {"release": other}, {"failure": 1e-5}):
        with pytest.raises(RecordsError, match="another run"):
            montecarlo.certify(**({"release": BINS, "epsilon": 1.0, "samples": 20_000} | ask), journal=path)
    for seed in (int(found.source.value), 1):  # a chosen seed is a simulation, and this file is none
        with pytest.raises(RecordsError, match="not begun with this seed"):
            montecarlo.certify(BINS, epsilon=1.0, samples=20_000, journal=path, seed=seed)


@pytest.mark.slow
def test_a_sweep_goes_on_with_its_own_plan_and_entropy(tmp_path):
    path = tmp_path / "journal.jsonl"
    first = sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, journal=path)
    assert not first.simulation
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))
    assert sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, journal=path) == first
    again = sweeps.sweep(BINS, epsilon=1.0, delta=1e-2, slack=0.5, seed=int(first.source.value))
    assert again.simulation
    assert again.plan == first.plan
    assert again.evidence != first.evidence  # what says that it is no simulation cannot be made with a chosen seed


@pytest.mark.parametrize(
    "line",
    [
        '[0.5, "remove", 0, 1]',
        '[true, "remove", 0, 1]',
        '[0, "left", 0, 1]',
        '[0, "remove", -1, 1]',
        "[" * 9999,
        '[0, "remove", 0, -1]',
        '[0, "remove", 0, 1e9]',
        '[0, "remove", 0]',
        '[0, "remove", 0, true]',
    ],
)
def test_a_journal_with_impossible_counts_is_refused(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    book = run.Journal.begin(path, "this run", run.Source("chosen", "6"))
    with contextlib.suppress(ValueError, RecursionError):  # as if it had been written with its tag
        given = json.loads(line)
        line = json.dumps([*given, run._tag(book.source, book.run, tuple(given[:3]), given[-1])])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(RecordsError, match="unreadable"):
        book.read()


def test_a_shard_has_one_count(tmp_path):
    book = run.Journal.begin(tmp_path / "journal.jsonl", "this run", run.Source("chosen", "6"))
    for hits in (1, 1, 2):
        book.write((0, "remove", 0), hits)
    with pytest.raises(RecordsError, match="shard 0 has two counts"):
        book.read()


def edited(lines):
    lines[1][3] -= 1


def exchanged(lines):
    lines[1][2], lines[2][2] = lines[2][2], lines[1][2]


def counts_exchanged(lines):
    lines[1][3:], lines[2][3:] = lines[2][3:], lines[1][3:]


def in_another_direction(lines):
    lines[1][1] = "add"


def of_another_candidate(lines):
    lines[1][0] = 1


def with_another_seed(lines):
    lines[0]["value"] = "7"


def without_a_tag(lines):
    del lines[1][4]


def of_version_0(lines):
    lines[0]["v"] = 0


@pytest.mark.parametrize(
    "change",
    [
        edited,
        exchanged,
        counts_exchanged,
        in_another_direction,
        of_another_candidate,
        with_another_seed,
        without_a_tag,
        of_version_0,
    ],
)
def test_a_line_that_is_not_this_runs_and_this_shards_is_refused(tmp_path, change):
    path = tmp_path / "journal.jsonl"
    book = run.Journal.begin(path, "this run", run.Source("chosen", "6"))
    for shard in range(3):
        book.write((0, "remove", shard), 100 + shard)
    assert book.read() == {(0, "remove", shard): 100 + shard for shard in range(3)}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(RecordsError, match="journal"):
        book.read()


def test_lines_of_another_run_are_refused(tmp_path):
    """Of another plan, and of the same plan with another seed; the file of the run is named, and what is wrong."""
    paths = [tmp_path / f"{n}.jsonl" for n in range(3)]
    starts = (("this run", run.Source("chosen", "6")), ("that run", run.Source("chosen", "6")), ("this run", run.Source("chosen", "7")))
    books = [run.Journal.begin(path, *start) for path, start in zip(paths, starts, strict=True)]
    for book in books:
        book.write((0, "remove", 0), 9)
    own = paths[0].read_text().splitlines()
    for other in paths[1:]:
        paths[0].write_text("\n".join([own[0], other.read_text().splitlines()[1], ""]))
        with pytest.raises(
            RecordsError, match=r"count of shard 0 \(remove\) was edited, or is of another run or shard"
        ):
            books[0].read()


def test_an_edited_journal_gives_no_certificate(tmp_path):
    path = tmp_path / "journal.jsonl"
    ask = {"epsilon": 1.0, "samples": 1_000, "journal": path}
    found = montecarlo.certify(BINS, **ask)
    assert montecarlo.certify(BINS, **ask) == found
    head, *lines = path.read_text().splitlines()
    first = json.loads(lines[0])
    first[3] = 0
    path.write_text("\n".join([head, json.dumps(first), *lines[1:], ""]))
    with pytest.raises(RecordsError, match="was edited, or is of another run or shard"):
        montecarlo.certify(BINS, **ask)


def test_two_processes_cannot_both_begin_a_journal(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    run.Journal.begin(path, "this run", run.Source("chosen", "6"))
    before = path.read_text()
    monkeypatch.setattr(type(path), "exists", lambda _: False)  # as the other process saw it a moment ago
    with pytest.raises(RecordsError, match="another process"):
        run.Journal.begin(path, "this run", run.Source("chosen", "7"))
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_journal_is_bound_to_the_whole_plan(tmp_path):
    """What decides the claim without deciding the draws: goals, fallback, passing counts, the code's versions."""
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-2, seed=1, noises=(1.1,), slack=0.9)
    path = tmp_path / "journal.jsonl"
    sweeps.run_sweep(plan, journal=path)
    (remove, add), replace = plan.checks[0], dataclasses.replace
    others = [
        replace(plan, target_delta=2e-2),
        replace(plan, fallback_delta=1e-4),
        replace(plan, checks=((replace(remove, hits=remove.hits - 1), add),)),
        replace(plan, origin=replace(plan.origin, pilot=2)),
    ]
    for other in others:
        with pytest.raises(RecordsError, match="another run"):
            sweeps.run_sweep(other, journal=path)
    with pytest.raises(RecordsError, match="another run"):
        montecarlo.certify(BINS, epsilon=1.0, samples=1000, journal=path)
    with pytest.raises(RecordsError, match="not begun with"):
        sweeps.run_sweep(plan, journal=path, nonce="a nonce of its own")
    with pytest.raises(ValueError, match="versions installed here"):
        sweeps.run_sweep(replace(plan, origin=replace(plan.origin, scipy="0.1")), journal=path)
