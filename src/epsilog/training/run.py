"""Runs a scheme's rounds under a started charge; a kill at any point loses nothing and releases nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme
from epsilog.terms import CheckError, ConflictError, RecordsError, RoundRecord
from epsilog.training.checkpoints import RunFolder, read_records
from epsilog.training.engines import Engine, made
from epsilog.training.noise import Randomness
from epsilog.training.paid import PaidRun
from epsilog.training.rehearsal import rehearse
from epsilog.training.rounds import begin, bound_to, next_round, require_fit, require_withdrawable
from epsilog.training.task import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A finished run.

    Attributes:
        model: the last released model; shape (d,).
        records: the public record of every round.
        resumed_after: rounds that were already released when the call began.
    """

    model: NDArray[np.float64]
    records: tuple[RoundRecord, ...]
    resumed_after: int


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What a dry run shows.

    Attributes:
        model: after the last round; shape (d,).
        records: of every round; they end early where training diverged.
    """

    model: NDArray[np.float64]
    records: tuple[RoundRecord, ...]


def run_rounds(
    paid: PaidRun,
    task: Task,
    *,
    folder: Path,
    on_round: Callable[[RoundRecord], object] | None = None,
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Callable[[], Collection[int]] | None = None,
) -> Trained:
    """Trains, or goes on training where a killed run stopped; calling it on a finished run only reads.

    A charge that is only reserved is started here, once everything that can fail has been rehearsed: what is refused
    costs nothing. A round that was started and not released is computed again under the same charge with fresh draws:
    nothing of it left the process. A released model without a finite loss on the public test set ends the run early:
    the last record says so, and the whole plan stays charged.

    Args:
        paid: the scheme, the charge that pays for it, and where its draws come from.
        task: the data, model and local training.
        folder: the run's own folder; made if need be.
        on_round: called with the public record of every round that this call released, once it is booked and on disk.
            An exception there is logged, and training goes on; ``KeyboardInterrupt`` ends the call between two rounds.
        withdrawn: asked before every round which clients, by their places, take part no more; see ``next_round``. None
            where nobody can withdraw, as where clients add the noise.
        engine: makes what computes the rounds (``train.engines``); None for the compiled one, on JAX.

    Raises:
        ValueError: a scheme that does not fit the task or lets nobody withdraw, or settings that diverge without data.
        ProgrammeError: the engine or the disk fails before anything is spent.
        RecordsError: files that the charge contradicts.
        ConflictError: another process is training in the folder, or the charge is cancelled.
    """
    scheme, charge = require_fit(paid.scheme, task), paid.charge
    paid.require_unit(task)
    if withdrawn is not None:
        require_withdrawable(scheme)
    files = RunFolder(folder, bound_to(scheme, task))
    if charge.state not in ("reserved", "started", "committed"):
        raise ConflictError(f"the charge must be reserved, started or committed, and it is {charge.state}")
    if charge.state == "reserved":
        rehearse(scheme, task, folder, engine=engine)
    with files.locked():
        released = dict(charge.rounds_released)
        if len(released) > scheme.rounds:
            raise RecordsError(f"the ledger has released {len(released)} rounds of a schedule of {scheme.rounds}")
        state = files.resume(released) or begin(task)
        records = read_records(files.rounds, RoundRecord) if released else []
        if charge.state == "reserved":
            charge.start()
        if _ended(scheme, records):
            return Trained(state.model, tuple(records), len(released))
        computing = made(engine, task)
        while not _ended(scheme, records):
            one, gone = state.round + 1, () if withdrawn is None else withdrawn()
            charge.round_started(one)
            outcome = next_round(scheme, computing, state, paid.randomness, withdrawn=gone)
            files.prepare(outcome)
            charge.round_released(one, output_hash=outcome.record.output_hash)
            files.settle(outcome)
            state = outcome.state
            records.append(outcome.record)
            if on_round is not None:
                _show(outcome.record, on_round)
        return Trained(state.model, tuple(records), len(released))


def _show(record: RoundRecord, on_round: Callable[[RoundRecord], object]) -> None:
    try:
        on_round(record)
    except Exception:  # a dashboard that is down takes no run along
        log.exception("on_round failed after round %d; training goes on", record.round)


def _ended(scheme: Scheme, records: Sequence[RoundRecord]) -> bool:
    return len(records) >= scheme.rounds or bool(records and records[-1].diverged)


def dry_run(
    scheme: Scheme,
    task: Task,
    *,
    randomness: Randomness,
    private: bool = True,
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Collection[int] = (),
) -> Curve:
    """Trains without records and without a charge, for sweeps and baselines under simulation.

    Args:
        scheme: how people would be protected.
        task: as in ``run_rounds``.
        randomness: must be simulated: nothing here is accounted for.
        private: False leaves out clip and noise.
        engine: as in ``run_rounds``.
        withdrawn: clients that take part in no round.

    Raises:
        ValueError: randomness that is not simulated, or a scheme that does not fit the task.
    """
    if not randomness.is_simulated:
        raise CheckError("randomness", "simulated in a dry run", "the operating system's")
    scheme = require_fit(scheme, task)
    computing, state, records = made(engine, task), begin(task), list[RoundRecord]()
    while not _ended(scheme, records):
        outcome = next_round(scheme, computing, state, randomness, private=private, withdrawn=withdrawn)
        state = outcome.state
        records.append(outcome.record)
    return Curve(state.model, tuple(records))
