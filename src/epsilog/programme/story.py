"""The whole story: plan -> reserve -> start -> train -> commit -> verify -> prove. Killed anywhere, it resumes here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from epsilog import disk
from epsilog.plan import RegisteredPlan
from epsilog.programme.model import Programme
from epsilog.programme.prepare import (
    Prepared,
    make_plan,
    prepare_file,
    prepare_task,
    require_same,
    stored_plan,
    write_json,
)
from epsilog.programme.simulation import simulate, study_plans
from epsilog.programme.steps import close, is_closed, reserve, train, try_all
from epsilog.prove import build_report, check_schema, render_html
from epsilog.spend import open_ledger
from epsilog.terms import CheckError, ProgrammeError, RoundRecord, RunFile
from epsilog.train import Task, exclusive
from epsilog.verify import Reconciliation, read_evidence, reconcile


class Observer(Protocol):
    """Who watches a run."""

    def stage(self, says: str) -> None:
        """A new stage begins."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """A round was released."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run: its plan, its verdict, and where the report lies."""

    plan: RegisteredPlan
    reconciliation: Reconciliation
    report: dict[str, Any]
    folder: Path


class Silent:
    """Nobody watches."""

    def stage(self, says: str) -> None:
        """As ``Observer`` says."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """As ``Observer`` says."""


def run(
    programme: Path | str | Programme,
    task: Task | None = None,
    *,
    runs: Path | str = "runs",
    ledger: Path | str | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Takes one programme from plan to proof, or goes on where a killed run stopped.

    Args:
        programme: the programme file; or what it would promise, for a task that was made in Python.
        task: what is trained on what, where the programme does not say.
        runs: where run folders live.
        ledger: the SQLite ledger that is charged; made if there is none. None for ``ledger.db`` in ``runs``.
        observer: told of stages and rounds.

    Raises:
        ProgrammeError: the file, or the data against it, is wrong, or a rehearsal fails (engine, settings, disk);
            nothing was written.
        CalibrationError: the plan cannot meet its budget; nothing was written.
        BudgetExceededError: the ledger refuses the plan; nothing of it was written.
        LedgerIntegrityError: the ledger was edited.
        ConflictError: another process is running this programme, or the ledger's budget is of another kind.
    """
    observer, runs = observer or Silent(), Path(runs)
    ledger = runs / "ledger.db" if ledger is None else Path(ledger)
    observer.stage("reading the data")
    prepared = _prepared(programme, task)
    programme, task = prepared.programme, prepared.task
    folder = runs / f"{programme.programme.name}-{prepared.settings[:8]}"
    observer.stage("planning")
    plan = stored_plan(folder / RunFile.PLAN) or make_plan(prepared)
    if is_closed(plan, ledger):
        with exclusive(folder / "lock", folder.name):
            return _proved(plan, folder=folder, ledger=ledger, observer=observer)
    require_same(plan, task, folder)
    studied = study_plans(programme, plan, task)
    observer.stage("rehearsing")
    try_all(plan, task, folder)
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with open_ledger(ledger) as books:
        books.verify()  # nothing is booked on top of a ledger that does not hold
        charge = reserve(books, plan, folder)
        with exclusive(folder / "lock", folder.name):
            if charge.state != "committed":  # another process may have been faster
                observer.stage("training")
                train(plan, task, seed=programme.run.seed, charge=charge, folder=folder, on_round=observer.round)
                utility = (
                    None
                    if programme.run.seed is None
                    else simulate(studied, plan, task, programme.run.seed, observer.stage)
                )
                close(charge, folder, utility)
            return _proved(plan, folder=folder, ledger=ledger, observer=observer)


def _prepared(programme: Path | str | Programme, task: Task | None) -> Prepared:
    if not isinstance(programme, Programme):
        if task is not None:
            raise ProgrammeError(
                str(programme), [CheckError("task", "absent for a file, which brings its data", task.name)]
            )
        return prepare_file(Path(programme))
    if task is None:
        raise ProgrammeError("programme", [CheckError("task", "given for a programme without data", "nothing")])
    return prepare_task(programme, task)


def _proved(plan: RegisteredPlan, *, folder: Path, ledger: Path, observer: Observer) -> Outcome:
    """Verifies a finished run and writes its report."""
    observer.stage("verifying")
    evidence = read_evidence(folder, ledger)
    outcome = reconcile(evidence)
    report = build_report(evidence, outcome)
    check_schema(report)
    write_json(folder / RunFile.REPORT, report)
    disk.write_atomically(folder / RunFile.PAGE, render_html(report).encode())
    return Outcome(plan, outcome, report, folder)
