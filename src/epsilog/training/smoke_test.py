"""A smoke test: everything that can fail is tried on blank data before the charge starts.

``run_smoke_test`` imports the engine and scores the starting model on the public test set. It compiles and runs one
round of the scheme on blank clients: the true shapes and sizes, all zeros. It writes, renames, locks and reads back
that round on the disk that the run will use. Its draws protect no data and are discarded.
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

SPARE = 2.0  # how much more disk must be free than the run is expected to fill


def run_smoke_test(scheme: Scheme, task: Task, folder: Path, *, engine: Callable[[Task], Engine] | None = None) -> None:
    """Trie a run without touching anybody's data or leaving a trace.

    Args:
        scheme: how people will be protected.
        task: the data, model and local training; of the clients only shapes and sizes are used.
        folder: the run's own folder, which need not exist.
        engine: as in ``run_rounds``.

    Raises:
        ValueError: a scheme that does not fit the task, or settings that make the model diverge without any data.
        ConfigError: the extra ``train`` is missing, the engine fails, or the folder cannot be written.
    """
    outcome = _blank_round(scheme, task, engine)
    try:
        _try_disk(outcome, folder, rounds=scheme.rounds)
    except (OSError, EpsilogError) as error:
        raise ConfigError(str(folder), [f"a run cannot be kept here: {error}"]) from error


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
        raise ValueError(f"the starting model must have a finite loss and score on the test set, got {scored}")
    if outcome.record.diverged:
        raise ValueError(
            "learning_rate and noise must leave the model finite, and one round of noise alone makes it diverge: "
            f"learning_rate {task.training.learning_rate:g}, noise_stddev {scheme.noise_stddev:g}"
        )
    return outcome


def _blank(task: Task) -> Task:
    """The same shapes and sizes, and zeros for everybody's rows; takes no memory of its own."""
    clients = task.clients
    features, targets = (
        np.broadcast_to(each.dtype.type(0), each.shape) for each in (clients.features, clients.targets)
    )
    return dataclasses.replace(task, clients=Federation(features, targets, clients.sizes))


def _try_disk(outcome: RoundResult, folder: Path, *, rounds: int) -> None:
    """Go through a whole round on disk, beside where the run will lie, and asks for room for all of them."""
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
        raise OSError(f"{needed / 1e6:.3g} MB must be free, and {free / 1e6:.3g} MB are")


TRACE = ".rehearsal-"  # how the folders of rehearsals are called


def _sweep(at: Path) -> None:
    """Take away what killed rehearsals left, here or above (before the run had a folder); living ones are locked."""
    for left in (*at.glob(f"{TRACE}*"), *at.parent.glob(f"{TRACE}*")):
        with contextlib.suppress(OSError):
            descriptor = _lock(left, wait=False)
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


@contextlib.contextmanager
def _stage(at: Path) -> Iterator[Path]:
    """A folder of its own, locked as long as it is in use and gone afterwards."""
    place, descriptor = _lock_folder(at)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def _lock_folder(at: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=TRACE, dir=at))
        with contextlib.suppress(FileNotFoundError):  # swept away before it was locked
            descriptor = _lock(place, wait=True)
            if place.exists():
                return place, descriptor
            os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int:
    """Lock a folder that is there; whoever dies lets go of it."""
    try:
        import fcntl
    except ImportError:
        raise ConfigError("training", ["this system has no locks of folders (fcntl); train on Linux"]) from None
    how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
