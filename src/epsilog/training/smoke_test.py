"""Smoke test: try on blank data, before the charge starts, all that can fail.

``run_smoke_test`` imports the engine and scores the starting model on the public test set. It compiles and runs one
round of the scheme on blank clients, with zeros in rows of the true shapes and numbers. It writes, renames, locks and
reads this round on the disk of the run. Its draws protect no data and are discarded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from epsilog.schemes import Scheme
from epsilog.terms import ConfigError, EpsilogError
from epsilog.terms.extras import install_command
from epsilog.training.checkpoints import RunFolder
from epsilog.training.engines import Engine, make_engine
from epsilog.training.federation import Federation
from epsilog.training.noise import Randomness
from epsilog.training.rounds import RoundResult, compute_next_round, make_initial_state, require_matching_scheme
from epsilog.training.task import Task

SPARE = 2.0  # required free disk space over the expected size of the run


def run_smoke_test(scheme: Scheme, task: Task, folder: Path, *, engine: Callable[[Task], Engine] | None = None) -> None:
    """Try a run without reading data of clients; leave no files.

    Args:
        scheme: the protection.
        task: the data, model and local training; only shapes and sizes of the clients are used.
        folder: the folder of the run, which need not exist.
        engine: as in ``run_rounds``.

    Raises:
        ValueError: the scheme does not fit the task, or the model diverges without any data.
        ConfigError: the extra ``train`` is missing, the engine fails, or the folder cannot be written.
    """
    outcome = _blank_round(scheme, task, engine)
    try:
        _try_disk(outcome, folder, rounds=scheme.rounds)
    except (OSError, EpsilogError) as error:
        raise ConfigError(str(folder), [f"the run cannot be stored here: {error}"]) from error


def _blank_round(scheme: Scheme, task: Task, engine: Callable[[Task], Engine] | None) -> RoundResult:
    trainable = require_matching_scheme(scheme, task)
    try:
        computing = make_engine(engine, _blank(task))
        scored = computing.evaluate(make_initial_state(task).model) if task.is_scored else ()
        outcome = compute_next_round(trainable, computing, make_initial_state(task), Randomness.from_seed(0))
    except ImportError as error:
        raise ConfigError(
            "training", [f"the engine cannot be imported ({error}): {install_command('train')}"]
        ) from error
    except (RuntimeError, MemoryError) as error:
        raise ConfigError("training", [f"the engine fails on blank data: {error}"]) from error
    if not np.isfinite(scored).all():
        raise ValueError(f"starting model must have a finite loss and score on the test set, got {scored}")
    if outcome.record.diverged:
        raise ValueError(
            "learning_rate and noise_stddev must leave the model finite, but one round on blank data made it diverge: "
            f"lower learning_rate {task.training.learning_rate:g} or noise_stddev {scheme.noise_stddev:g}"
        )
    return outcome


def _blank(task: Task) -> Task:
    """Return the task with zeros for all rows; the zeros take no memory."""
    clients = task.clients
    features, targets = (
        np.broadcast_to(each.dtype.type(0), each.shape) for each in (clients.features, clients.targets)
    )
    return dataclasses.replace(task, clients=Federation(features, targets, clients.sizes))


def _try_disk(outcome: RoundResult, folder: Path, *, rounds: int) -> None:
    """Write and read one round next to the folder of the run, and require disk space for all rounds."""
    at = folder
    while not at.exists() and at.parent != at:
        at = at.parent
    for path in (at, *(RunFolder(folder, "").files if at == folder else ())):
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(f"{path} is not writable")
    _sweep(at)
    with _stage(at) as place:
        trial = RunFolder(place / "run", "")
        with trial.hold_lock():
            trial.prepare(outcome)
            trial.finalize(outcome)
            trial.resume({1: outcome.record.output_hash})
        lines = sum(path.stat().st_size for path in (trial.rounds, trial.custody))
        needed = SPARE * (rounds * lines + 2 * trial.checkpoint(1).stat().st_size)
        free = shutil.disk_usage(place).free
    if free < needed:
        raise OSError(
            f"{needed / 1e6:.3g} MB must be free, got {free / 1e6:.3g} MB; free disk space or choose another folder"
        )


TRACE = ".smoke-test-"  # prefix of the temporary folders


def _sweep(at: Path) -> None:
    """Delete folders of killed smoke tests, here or in the parent; folders in use are locked."""
    for left in (*at.glob(f"{TRACE}*"), *at.parent.glob(f"{TRACE}*")):
        with contextlib.suppress(OSError):
            descriptor = _lock(left, wait=False)
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


@contextlib.contextmanager
def _stage(at: Path) -> Iterator[Path]:
    """Yield a new folder, locked while it is in use and deleted afterwards."""
    place, descriptor = _lock_folder(at)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def _lock_folder(at: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=TRACE, dir=at))
        with contextlib.suppress(FileNotFoundError):  # deleted before it was locked
            descriptor = _lock(place, wait=True)
            if place.exists():
                return place, descriptor
            os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int:
    """Lock an existing folder; the end of the process releases it."""
    try:
        import fcntl
    except ImportError:
        raise ConfigError("training", ["this system cannot lock folders (fcntl); train on Linux"]) from None
    how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
