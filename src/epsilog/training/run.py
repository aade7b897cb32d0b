"""Run the rounds of a scheme under a started charge; a kill at any point loses nothing and releases nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilog.ledger import Charge
from epsilog.schemes import Scheme
from epsilog.terms import CheckError, ConflictError, NeighboringRelation, RecordError, RoundRecord
from epsilog.training.checkpoints import RunFolder, read_records
from epsilog.training.engines import Engine, make_engine
from epsilog.training.noise import Randomness
from epsilog.training.rounds import (
    compute_next_round,
    hash_run_inputs,
    list_withdrawn,
    make_initial_state,
    require_matching_scheme,
    require_withdrawal_support,
)
from epsilog.training.smoke_test import run_smoke_test
from epsilog.training.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class AuthorizedRun:
    """A scheme with its charge and its randomness.

    Attributes:
        scheme: the protection; its release equals the release of the charge.
        charge: a charge that is reserved or further.
        randomness: the operating system's; a seed if and only if the charge is a simulation.
    """

    scheme: Scheme
    charge: Charge
    randomness: Randomness

    def __post_init__(self) -> None:
        request, rounds = self.charge.request, self.scheme.rounds
        if not self.scheme.noise_multiplier > 0:
            raise CheckError("noise_multiplier", "above 0 to train", repr(self.scheme.noise_multiplier))
        if self.scheme.release() != request.release:
            released = repr(self.scheme.release())
            raise CheckError("scheme", f"the release of its charge, {request.release!r}", released, verb="have")
        if request.rounds not in (None, rounds):
            raise CheckError("rounds", f"{request.rounds}, as in the charge", f"{rounds}")
        supported = [relation.value for relation in self.scheme.relations]
        if request.relation is not None and request.relation not in supported:
            raise CheckError("relation", f"{' or '.join(supported)} for {self.scheme.kind}", request.relation.value)
        if request.simulation != self.randomness.is_simulated:
            kind, other = ("a simulation", "a seed") if request.simulation else ("no simulation", "from_os()")
            raise CheckError("randomness", f"{other}, as the charge is {kind}", repr(self.randomness))
        if self.randomness.noise_factor != 1:
            raise CheckError("noise_factor", "1 under a charge", repr(self.randomness.noise_factor))

    def require_unit(self, task: Task) -> None:
        """Refuse another privacy unit than that of the charge, or sizes that the charge does not disclose."""
        if self.charge.request.privacy_unit != task.unit:
            raise CheckError("privacy_unit", f"{self.charge.request.privacy_unit!r}, as in the charge", repr(task.unit))
        if task.reveals_sizes and self.charge.request.relation is not NeighboringRelation.ZERO_OUT:
            raise CheckError(
                "example_cap",
                "absent unless the charge has the relation zero-out, under which neighbors keep all rows",
                "given",
            )


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
    """A finished run, or a simulated one.

    Attributes:
        model: the last released model; shape (d,).
        records: the public record of each round; they end early if training diverged.
        resumed_after: number of rounds that were released before the call.
    """

    model: NDArray[np.float64]
    records: tuple[RoundRecord, ...]
    resumed_after: int = 0


def run_rounds(
    authorized: AuthorizedRun,
    task: Task,
    *,
    folder: Path,
    on_round: Callable[[RoundRecord], object] | None = None,
    engine: Callable[[Task], Engine] | None = None,
    withdrawn: Callable[[], Collection[int]] | None = None,
) -> TrainingResult:
    """Run the remaining rounds of a run and return its result; a finished run is only read.

    A reserved charge is started after the smoke test (``run_smoke_test``), so an error before the first round costs
    nothing. A round that was started but not released is computed again under the same charge with new draws, since
    nothing of it left the process. A released model without a finite loss on the public test set ends the run early:
    the last record states this, and the charge keeps its full cost.

    Args:
        authorized: the scheme, its charge and its randomness.
        task: the data, model and local training.
        folder: the folder of this run; created if it is missing.
        on_round: receives the public record of each round of this call once the ledger and the disk have it. Its
            exceptions are logged, and training continues; ``KeyboardInterrupt`` ends the call between two rounds.
        withdrawn: returns, before each round, the positions of the clients that no longer take part; see
            ``compute_next_round``. None if no client can withdraw, as under schemes in which clients add the noise.
        engine: makes the engine for a task (``training.engines``); None for the default engine of the model.

    Raises:
        ValueError: the scheme does not fit the task or allows no withdrawal, or the model diverges without data.
        ConfigError: the engine or the disk fails; nothing is spent yet.
        RecordError: the files contradict the charge.
        ConflictError: another process is training in the folder, or the charge is cancelled.
    """
    scheme, charge = require_matching_scheme(authorized.scheme, task), authorized.charge
    authorized.require_unit(task)
    if withdrawn is not None:
        require_withdrawal_support(scheme)
    files = RunFolder(folder, hash_run_inputs(scheme, task))
    if charge.state not in ("reserved", "started", "committed"):
        raise ConflictError(f"charge must be reserved, started or committed, got one that is {charge.state}")
    if charge.state == "reserved":
        run_smoke_test(scheme, task, folder, engine=engine)
    with files.hold_lock():
        released = dict(charge.rounds_released)
        if len(released) > scheme.rounds:
            raise RecordError(f"the ledger has released {len(released)} rounds, but the schedule has {scheme.rounds}")
        state = files.resume(released) or make_initial_state(task)
        records = read_records(files.rounds, RoundRecord) if released else []
        if charge.state == "reserved":
            charge.start()
        if _has_ended(scheme, records):
            return TrainingResult(state.model, tuple(records), len(released))
        computing = make_engine(engine, task)
        while not _has_ended(scheme, records):
            one, gone = state.round + 1, () if withdrawn is None else list_withdrawn(scheme, withdrawn())
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
    except Exception:  # a failing dashboard must not end the run
        log.exception("on_round failed after round %d; training continues", record.round)


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
) -> TrainingResult:
    """Return the result of a simulated training without files and without a charge, for sweeps and baselines.

    Args:
        scheme: the protection.
        task: as in ``run_rounds``.
        randomness: a simulation's, since nothing here is accounted for.
        private: False omits clipping and noise.
        engine: as in ``run_rounds``.
        withdrawn: positions of clients that take part in no round.

    Raises:
        ValueError: the randomness is not simulated, or the scheme does not fit the task.
    """
    if not randomness.is_simulated:
        raise CheckError("randomness", "simulated in a dry run", "the operating system's")
    scheme = require_matching_scheme(scheme, task)
    computing, state, records = make_engine(engine, task), make_initial_state(task), list[RoundRecord]()
    while not _has_ended(scheme, records):
        outcome = compute_next_round(scheme, computing, state, randomness, private=private, withdrawn=withdrawn)
        state = outcome.state
        records.append(outcome.record)
    return TrainingResult(state.model, tuple(records))
