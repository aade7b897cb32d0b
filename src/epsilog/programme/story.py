"""The whole story: plan -> reserve -> start -> train -> commit -> verify -> prove. Killed anywhere, it resumes here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from epsilog.plan import RegisteredPlan
from epsilog.programme.model import load
from epsilog.programme.prepare import (
    load_programme_task,
    make_plan,
    require_same,
    settings_hash,
    stored_plan,
    write_atomically,
    write_json,
)
from epsilog.programme.simulation import simulate, study_plans
from epsilog.programme.steps import close, is_closed, reserve, train, try_all
from epsilog.prove import build_report, check_schema, render_html
from epsilog.spend import open_ledger
from epsilog.terms import RoundRecord, RunFile
from epsilog.train import exclusive
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


def run(path: Path, *, runs: Path, ledger: Path, observer: Observer) -> Outcome:
    """Takes one programme from plan to proof, or goes on where a killed run stopped.

    Args:
        path: the programme file.
        runs: where run folders live.
        ledger: the SQLite ledger that is charged; made if there is none.
        observer: told of stages and rounds.

    Raises:
        ProgrammeError: the file, or the data against it, is wrong, or a rehearsal fails (engine, settings, disk);
            nothing was written.
        CalibrationError: the plan cannot meet its budget; nothing was written.
        BudgetExceededError: the ledger refuses the plan; nothing of it was written.
        LedgerIntegrityError: the ledger was edited.
        ConflictError: another process is running this programme, or the ledger's budget is of another kind.
    """
    programme = load(path)
    observer.stage("reading the data")
    task = load_programme_task(programme, str(path))
    folder = runs / f"{programme.programme.name}-{settings_hash(programme)[:8]}"
    observer.stage("planning")
    plan = stored_plan(folder / RunFile.PLAN) or make_plan(programme, task, path.parent)
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


def _proved(plan: RegisteredPlan, *, folder: Path, ledger: Path, observer: Observer) -> Outcome:
    """Verifies a finished run and writes its report."""
    observer.stage("verifying")
    evidence = read_evidence(folder, ledger)
    outcome = reconcile(evidence)
    report = build_report(evidence, outcome)
    check_schema(report)
    write_json(folder / RunFile.REPORT, report)
    write_atomically(folder / RunFile.PAGE, render_html(report).encode())
    return Outcome(plan, outcome, report, folder)
