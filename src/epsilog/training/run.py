"""Run a scheme's rounds under a started charge; a kill at any point loses nothing and releases nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilog.ledger import ChargeProtocol
from epsilog.schemes import Scheme
from epsilog.terms import CheckError, ConflictError, NeighboringRelation, RecordError, RoundRecord
from epsilog.training.checkpoints import RunFolder, read_records
from epsilog.training.engines import Engine, make_engine
from epsilog.training.noise import Randomness
from epsilog.training.rounds import (
    compute_next_round,
    hash_run_inputs,
    make_initial_state,
    require_matching_scheme,
    require_withdrawal_support,
)
from epsilog.training.smoke_test import run_smoke_test
from epsilog.training.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class AuthorizedRun:
    """A scheme that is trained under its charge, with draws of the kind that the charge allows.

    Attributes:
        scheme: how people are protected; the charge's stored release is exactly what it releases.
        charge: reserved or later.
        randomness: the operating system's, or a seed where the charge is a simulation, and only there.
    """

    scheme: Scheme
    charge: ChargeProtocol
    randomness: Randomness

    def __post_init__(self) -> None:
        request, rounds = self.charge.request, self.scheme.rounds
        if not self.scheme.noise_multiplier > 0:
            raise CheckError("noise_multiplier", "above 0 to train", repr(self.scheme.noise_multiplier))
        if self.scheme.release() != request.release:
            raise ValueError(
                f"scheme must release what the charge paid for, {request.release!r}, got {self.scheme.release()!r}"
            )
        if request.rounds not in (None, rounds):
            raise CheckError("rounds", f"{request.rounds}, as the charge says", f"{rounds}")
        priced = [relation.value for relation in self.scheme.relations]
        if request.relation is not None and request.relation not in priced:
            raise CheckError("relation", f"{' or '.join(priced)} for {self.scheme.kind}", request.relation.value)
        if request.simulation != self.randomness.is_simulated:
            kind, other = ("a simulation", "a seed") if request.simulation else ("no simulation", "from_os()")
            raise CheckError("randomness", f"{other}, as the charge is {kind}", repr(self.randomness))
        if self.randomness.noise_factor != 1:
            raise CheckError("noise_factor", "1 under a charge", repr(self.randomness.noise_factor))

    def require_unit(self, task: Task) -> None:
        """Refuse data whose privacy unit is another than the one that was paid for, or whose sizes would show."""
        if self.charge.request.privacy_unit != task.unit:
            raise CheckError(
                "privacy_unit", f"{self.charge.request.privacy_unit!r}, as the charge says", repr(task.unit)
            )
        if task.reveals_sizes and self.charge.request.relation is not NeighboringRelation.ZERO_OUT:
            raise CheckError("example_cap", "absent, or paid for neighbors that keep all rows (zero-out)", "given")


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
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
class DryRunResult:
    """What a dry run shows.

    Attributes:
        model: after the last round; shape (d,).
        records: of every round; they end early where training diverged.
    """

    model: NDArray[np.float64]
    records: tuple[RoundRecord, ...]


def run_rounds(
    authorized: AuthorizedRun,
    task: Task,
    *,
    folder: Path,
    on_round: Callable[[RoundRecord], object] | None = None,
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Callable[[], Collection[int]] | None = None,
) -> TrainingResult:
    """Trains, or goes on training where a killed run stopped; calling it on a finished run only reads.

    A charge that is only reserved is started here, once everything that can fail has been rehearsed: what is refused
    costs nothing. A round that was started and not released is computed again under the same charge with fresh draws:
    nothing of it left the process. A released model without a finite loss on the public test set ends the run early:
    the last record says so, and the whole plan stays charged.

    Args:
        authorized: the scheme, the charge that pays for it, and where its draws come from.
        task: the data, model and local training.
        folder: the run's own folder; made if need be.
        on_round: called with the public record of every round that this call released, once it is booked and on disk.
            An exception there is logged, and training goes on; ``KeyboardInterrupt`` ends the call between two rounds.
        withdrawn: asked before every round which clients, by their places, take part no more; see
        ``compute_next_round``. None where nobody can withdraw, as where clients add the noise.
        engine: makes what computes the rounds (``train.engines``); None for the compiled one, on JAX.

    Raises:
        ValueError: a scheme that does not fit the task or lets nobody withdraw, or settings that diverge without data.
        ConfigError: the engine or the disk fails before anything is spent.
        RecordError: files that the charge contradicts.
        ConflictError: another process is training in the folder, or the charge is cancelled.
    """
    scheme, charge = require_matching_scheme(authorized.scheme, task), authorized.charge
    authorized.require_unit(task)
    if withdrawn is not None:
        require_withdrawal_support(scheme)
    files = RunFolder(folder, hash_run_inputs(scheme, task))
    if charge.state not in ("reserved", "started", "committed"):
        raise ConflictError(f"the charge must be reserved, started or committed, and it is {charge.state}")
    if charge.state == "reserved":
        run_smoke_test(scheme, task, folder, engine=engine)
    with files.hold_lock():
        released = dict(charge.rounds_released)
        if len(released) > scheme.rounds:
            raise RecordError(f"the ledger has released {len(released)} rounds of a schedule of {scheme.rounds}")
        state = files.resume(released) or make_initial_state(task)
        records = read_records(files.rounds, RoundRecord) if released else []
        if charge.state == "reserved":
            charge.start()
        if _has_ended(scheme, records):
            return TrainingResult(state.model, tuple(records), len(released))
        computing = make_engine(engine, task)
        while not _has_ended(scheme, records):
            one, gone = state.round + 1, () if withdrawn is None else withdrawn()
            charge.round_started(one)
            outcome = compute_next_round(scheme, computing, state, authorized.randomness, withdrawn=gone)
            files.prepare(outcome)
            charge.round_released(one, output_hash=outcome.record.output_hash)
            files.finalize(outcome)
            state = outcome.state
            records.append(outcome.record)
            if on_round is not None:
                _show(outcome.record, on_round)
        return TrainingResult(state.model, tuple(records), len(released))


def _show(record: RoundRecord, on_round: Callable[[RoundRecord], object]) -> None:
    try:
        on_round(record)
    except Exception:  # a dashboard that is down takes no run along
        log.exception("on_round failed after round %d; training goes on", record.round)


def _has_ended(scheme: Scheme, records: Sequence[RoundRecord]) -> bool:
    return len(records) >= scheme.rounds or bool(records and records[-1].diverged)


def train_without_charge(
    scheme: Scheme,
    task: Task,
    *,
    randomness: Randomness,
    private: bool = True,
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Collection[int] = (),
) -> DryRunResult:
    """Train without records and without a charge, for sweeps and baselines under simulation.

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
    scheme = require_matching_scheme(scheme, task)
    computing, state, records = make_engine(engine, task), make_initial_state(task), list[RoundRecord]()
    while not _has_ended(scheme, records):
        outcome = compute_next_round(scheme, computing, state, randomness, private=private, withdrawn=withdrawn)
        state = outcome.state
        records.append(outcome.record)
    return DryRunResult(state.model, tuple(records))
