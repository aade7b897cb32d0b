"""Killed anywhere and started again, a run ends with the same bytes; files that contradict the ledger stop it."""

import dataclasses
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.extent import amount

from epsilog.schemes import (
    ClientLevelAdaptiveClip,
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelCorrelatedNoise,
    ExampleLevelClientSide,
)
from epsilog.terms import ConflictError, CustodyRecord, RecordError, RoundRecord
from epsilog.training import (
    AuthorizedRun,
    Randomness,
    ServerOptimizer,
    checkpoints,
    run,
    run_rounds,
    train_without_charge,
)

sys.path.insert(0, str(Path(__file__).parent))
import kill_me

CENTRAL = ClientLevelCentral(12, 0.5, 3, 0.2, 1.0)
CLIENT_SIDE = ExampleLevelClientSide(12, 5, 3, 2, 0.5, 1, 0.2, 1.0)
REMEMBERING = [
    ClientLevelAdaptiveClip(12, 0.5, 3, 0.2, 0.5, 0.3, 1.0, 1.0),
    ClientLevelCorrelatedNoise(12, 3, 3, 3, 0.2, 1.0),
    ClientLevelBufferedNoise(12, 3, 3, (0.9, 0.3), (0.3, 0.2), 0.2, 1.0),
]
SCHEMES = [CENTRAL, CLIENT_SIDE, *REMEMBERING]


def train(task, charge, folder, *, seed=4, **settings):
    return run_rounds(AuthorizedRun(charge.scheme, charge, Randomness.from_seed(seed)), task, folder=folder, **settings)


def files(folder):
    return {path.name: path.read_bytes() for path in (folder / "rounds.jsonl", folder / "custody.jsonl")}


@pytest.fixture(params=SCHEMES, ids=lambda scheme: scheme.kind, name="scheme")
def _scheme(request):
    return request.param


@pytest.fixture(name="task")
def _task(scheme, small_task):
    server = ServerOptimizer("adam", 0.05, "cosine")  # its state is part of what a killed run resumes with
    return small_task(unit_is_client=scheme.unit_is_client, server=server, schedule="step")


@pytest.fixture(name="charge")
def _charge(scheme, task, charge_for):
    return charge_for(scheme, task.unit)


class KilledError(BaseException):
    """Stands for a kill in the fast tests: nothing in the code under test catches it."""


def kill_at(monkeypatch, countdown, charge):
    """Arms a kill at the n-th of all moments where something durable is about to happen or has just happened."""
    left = [countdown]

    def around(target, name):
        original = getattr(target, name)

        def wrapped(*arguments, **keywords):
            for action in (None, lambda: original(*arguments, **keywords)):
                result = action() if action else None
                left[0] -= 1
                if left[0] == 0:
                    raise KilledError
            return result

        monkeypatch.setattr(target, name, wrapped)

    around(os, "fsync")
    for name in ("replace", "unlink"):
        around(Path, name)
    for name in ("round_started", "round_released"):
        around(charge, name)


@pytest.mark.slow
@pytest.mark.every(5)
def test_a_run_killed_at_any_durable_moment_ends_with_the_same_bytes(charge_for, task, scheme, tmp_path, monkeypatch):
    whole = train(task, charge_for(scheme, task.unit), tmp_path / "whole")
    moments = 0
    for countdown in range(1, 500):
        charge, folder = charge_for(scheme, task.unit), tmp_path / f"killed-{countdown}"
        with monkeypatch.context() as patch:
            kill_at(patch, countdown, charge)
            try:
                train(task, charge, folder)
            except KilledError:
                moments += 1
            else:
                break
        resumed = train(task, charge, folder)
        assert np.array_equal(resumed.model, whole.model)
        assert files(folder) == files(tmp_path / "whole")
        assert len(charge.started) <= scheme.rounds + 1
        assert [path.name for path in (folder / "checkpoints").glob("round*")] == ["round-0003.npz"]
        shutil.rmtree(folder)
    assert moments > 40


@pytest.mark.slow_beyond(6)
@pytest.mark.parametrize("name", ["rounds.jsonl", "custody.jsonl"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_torn_or_missing_last_line_is_repaired(charge, task, tmp_path, name, share):
    train(task, charge, tmp_path)
    before, path = files(tmp_path), tmp_path / name
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + last[: int(share * len(last))])
    train(task, charge, tmp_path)
    assert files(tmp_path) == before


def test_a_checkpoint_whose_new_name_a_power_cut_took_is_found_under_the_old_one(charge_for, small_task, tmp_path):
    task = small_task()
    charge = charge_for(CENTRAL, task.unit)
    whole, final = train(task, charge, tmp_path), tmp_path / "checkpoints" / "round-0003.npz"
    before = files(tmp_path)
    final.replace(final.with_name("round-0003.npz.tmp"))
    assert np.array_equal(train(task, charge, tmp_path).model, whole.model)
    assert files(tmp_path) == before
    assert final.exists()


def test_a_finished_run_is_only_read(charge_for, task, scheme, tmp_path):
    charge = charge_for(scheme, task.unit)
    first = train(task, charge, tmp_path)
    again = train(task, charge, tmp_path, seed=99)
    assert np.array_equal(first.model, again.model)
    assert first.records == again.records
    assert (first.resumed_after, again.resumed_after) == (0, 3)
    assert charge.started == [1, 2, 3]


def test_records_and_ledger_tell_the_same_story(charge_for, task, scheme, tmp_path):
    charge, seen = charge_for(scheme, task.unit), []
    result = train(task, charge, tmp_path, on_round=seen.append)
    public = checkpoints.read_records(tmp_path / "rounds.jsonl", RoundRecord)
    private = checkpoints.read_records(tmp_path / "custody.jsonl", CustodyRecord)
    assert tuple(public) == tuple(seen) == result.records
    assert {record.round: record.output_hash for record in public} == charge.rounds_released
    assert [record.round for record in private] == [1, 2, 3]
    assert all(held.largest_norm <= told.clip_norm for held, told in zip(private, public, strict=True))
    assert (tmp_path / "custody.jsonl").stat().st_mode & 0o077 == 0
    assert (tmp_path / "checkpoints").stat().st_mode & 0o077 == 0


def test_a_round_is_shown_once_it_is_booked_and_on_disk(charge_for, small_task, tmp_path):
    charge, shown = charge_for(CENTRAL, "client"), []

    def show(record):
        assert type(record) is RoundRecord
        assert charge.rounds_released[record.round] == record.output_hash
        assert checkpoints.read_records(tmp_path / "rounds.jsonl", RoundRecord)[-1] == record
        shown.append(record.round)

    train(small_task(), charge, tmp_path, on_round=show)
    assert shown == [1, 2, 3]


def test_a_callback_that_fails_takes_no_round_along(charge_for, small_task, tmp_path, caplog):
    charge, silent = (charge_for(CENTRAL, "client") for _ in range(2))

    def fail(record):
        raise ConnectionError(f"no dashboard in round {record.round}")

    shown = train(small_task(), charge, tmp_path / "shown", on_round=fail)
    alone = train(small_task(), silent, tmp_path / "alone")
    assert shown.records == alone.records
    assert np.array_equal(shown.model, alone.model)
    assert files(tmp_path / "shown") == files(tmp_path / "alone")
    assert charge.rounds_released == silent.rounds_released
    assert [one.getMessage() for one in caplog.records] == [
        f"on_round failed after round {number}; training continues" for number in (1, 2, 3)
    ]
    assert "no dashboard in round 2" in caplog.text


def test_a_run_that_its_callback_interrupts_goes_on(charge_for, small_task, tmp_path):
    charge, later = charge_for(CENTRAL, "client"), []

    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small_task(), charge, tmp_path, on_round=interrupt)
    assert list(charge.rounds_released) == [1]
    assert train(small_task(), charge, tmp_path, on_round=later.append).resumed_after == 1
    assert [record.round for record in later] == [2, 3]
    assert charge.started == [1, 2, 3]


@pytest.mark.slow_beyond(2)
def test_a_dry_run_is_the_same_training_without_traces(charge_for, task, scheme, tmp_path):
    result = train(task, charge_for(scheme, task.unit), tmp_path)
    curve = train_without_charge(scheme, task, randomness=Randomness.from_seed(4))
    assert np.array_equal(curve.model, result.model)
    assert curve.records == result.records
    with pytest.raises(ValueError, match="randomness must be simulated in a dry run"):
        train_without_charge(scheme, task, randomness=Randomness.from_os())


@pytest.mark.parametrize("scheme", [CENTRAL, CLIENT_SIDE], ids=lambda scheme: scheme.kind)
def test_a_real_run_draws_fresh_noise_every_time(charge_for, task, scheme, tmp_path):
    def train(folder):
        paid = AuthorizedRun(scheme, charge_for(scheme, task.unit, simulation=False), Randomness.from_os())
        return run_rounds(paid, task, folder=folder).model

    assert not np.array_equal(train(tmp_path / "one"), train(tmp_path / "two"))


@pytest.mark.parametrize("good_rounds", [0, 1])
def test_a_run_that_diverges_ends_there_and_leaves_readable_records(
    charge_for, small_task, tmp_path, monkeypatch, good_rounds
):
    """From round ``good_rounds + 1`` on the noise is past what float32 holds; all that is released stays readable."""
    noisy, task = dataclasses.replace(CENTRAL, clip_norm=1e60), small_task(dtype="float32")
    charge, begun = charge_for(CENTRAL, "client", state="started"), run.compute_next_round

    def then_wild(scheme, engine, state, randomness, **more):
        return begun(noisy if state.round >= good_rounds else scheme, engine, state, randomness, **more)

    monkeypatch.setattr(run, "compute_next_round", then_wild)
    result = train(task, charge, tmp_path)
    assert [record.diverged for record in result.records] == [False] * good_rounds + [True]
    assert sorted(charge.rounds_released) == list(range(1, good_rounds + 2))
    assert tuple(checkpoints.read_records(tmp_path / "rounds.jsonl", RoundRecord)) == result.records
    before, again = files(tmp_path), train(task, charge, tmp_path)
    assert again.records == result.records
    assert files(tmp_path) == before
    assert charge.started == list(range(1, good_rounds + 2))
    dry = train_without_charge(noisy, small_task(dtype="float32"), randomness=Randomness.from_seed(4))
    assert [record.diverged for record in dry.records] == [True]


def spoil_ledger(folder, charge):
    charge.rounds_released[3] = "0" * 64


def spoil_ledger_history(folder, charge):
    charge.rounds_released[1] = "0" * 64


def forget_last_round(folder, charge):
    del charge.rounds_released[3]


def forget_everything(folder, charge):
    charge.rounds_released.clear()


def forget_first_round(folder, charge):
    del charge.rounds_released[1]


def lose_checkpoint(folder, charge):
    (folder / "checkpoints" / "round-0003.npz").unlink()


def break_checkpoint(folder, charge):
    (folder / "checkpoints" / "round-0003.npz").write_bytes(b"PK")


def edit_checkpoint(part, value):
    def spoil(folder, charge):
        path = folder / "checkpoints" / "round-0003.npz"
        with np.load(path) as stored:
            parts = dict(stored)
        parts[part] = value(parts[part])
        np.savez(path, **parts)

    spoil.__name__ = f"edit_{part}"
    return spoil


def edit_line(folder, charge):
    path = folder / "rounds.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    document = json.loads(first)
    document["term"]["output_hash"] = "1" * 64
    path.write_text(json.dumps(document) + "\n" + "".join(rest))


def drop_first_line(folder, charge):
    path = folder / "custody.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def lose_records(folder, charge):
    (folder / "rounds.jsonl").unlink()


@pytest.mark.slow_beyond(5)
@pytest.mark.parametrize(
    "spoil",
    [
        spoil_ledger, spoil_ledger_history, forget_last_round, forget_everything, forget_first_round,
        lose_checkpoint, break_checkpoint,
        edit_checkpoint("participations", np.zeros_like), edit_checkpoint("round", lambda one: one - 1),
        edit_checkpoint("model", lambda one: one + 1e-9), edit_checkpoint("model", lambda one: one[None]),
        edit_checkpoint("participations", lambda one: one[:-1]), edit_line, drop_first_line, lose_records,
    ],
)  # fmt: skip
def test_files_that_contradict_the_ledger_stop_the_run(charge_for, small_task, tmp_path, spoil):
    charge = charge_for(CENTRAL, "client")
    train(small_task(), charge, tmp_path)
    spoil(tmp_path, charge)
    with pytest.raises(RecordError):
        train(small_task(), charge, tmp_path)


FEW = ExampleLevelClientSide(12, 12, 6, 2, 0.5, 2, 0.2, 1.0)
MANY = ExampleLevelClientSide(12, 12, 6, 4, 0.5, 1, 0.2, 1.0)
"""Both cost eight noisy batches: two participations of four, or four of two."""


def stopped_after_two(task, charge, folder):
    """A run under ``FEW`` that stops when every client has taken part twice, the most that was paid for."""

    def stop(record):
        if record.round == 2:
            raise KilledError

    with pytest.raises(KilledError):
        train(task, charge, folder, on_round=stop)
    assert sorted(charge.rounds_released) == [1, 2]


def reorder(features, targets, present):
    for part in (features, targets, present):
        part[:] = part[::-1].copy()


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_scheme_other_data_or_training(charge_for, small_task, tmp_path):
    """How often client 3 took part says nothing of whoever stands in its place in other data.

    Two schemes of one price, one after the other, would give a client six participations' worth for the price.
    """
    charge = charge_for(FEW, "example")
    stopped_after_two(small_task(unit_is_client=False), charge, tmp_path)
    others = [{"change": reorder}, {"expected_examples": 11}, {"dtype": "float32"}, {"widths": (3, 1)}]
    assert FEW.release() == MANY.release()
    for scheme, other in [(MANY, {}), *((FEW, one) for one in [*others, {"server": ServerOptimizer("momentum")}])]:
        charge.scheme = scheme
        with pytest.raises(RecordError, match="began with another scheme, model, training or data"):
            train(small_task(unit_is_client=False, **other), charge, tmp_path)
    train(small_task(unit_is_client=False), charge, tmp_path)
    assert len(charge.rounds_released) == FEW.rounds


def test_more_rounds_than_the_schedule_are_refused(charge_for, small_task, tmp_path):
    charge = charge_for(CENTRAL, "client")
    train(small_task(), charge, tmp_path)
    with pytest.raises(RecordError, match="released 3 rounds, but the schedule has 2"):
        train(small_task(), charge.repriced(dataclasses.replace(CENTRAL, rounds=2)), tmp_path)


def test_two_processes_cannot_train_in_one_folder(charge_for, small_task, tmp_path):
    with (
        checkpoints.RunFolder(tmp_path, "").hold_lock(),
        pytest.raises(ConflictError, match="another process is training in"),
    ):
        train(small_task(), charge_for(CENTRAL, "client"), tmp_path)


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["central", "client-side"])
def test_killed_by_signal_at_random_moments_it_ends_with_the_same_bytes(kind, tmp_path):
    def start(folder):
        folder.mkdir(exist_ok=True)
        return kill_me.begin(kind, folder)

    def ended(child):
        child.join(120)
        return child.exitcode

    def rounds_done(folder):
        ledger = folder / "ledger.jsonl"
        return ledger.read_text().count("hash") if ledger.exists() else 0

    assert ended(start(tmp_path / "whole")) == 0
    moments, kills = np.random.default_rng(8), 0
    for _ in range(amount(2, 6)):
        child, goal = start(tmp_path / "killed"), rounds_done(tmp_path / "killed") + int(moments.integers(1, 5))
        while child.is_alive() and rounds_done(tmp_path / "killed") < goal:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.01)
        child.kill()
        kills += ended(child) == -signal.SIGKILL
    assert kills >= amount(1, 3)
    assert ended(start(tmp_path / "killed")) == 0
    assert files(tmp_path / "killed" / "run") == files(tmp_path / "whole" / "run")
    ends = [np.load(tmp_path / one / "run" / "checkpoints" / "round-0030.npz")["model"] for one in ("whole", "killed")]
    assert np.array_equal(*ends)
