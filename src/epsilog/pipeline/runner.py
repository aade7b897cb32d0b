"""The whole story: plan -> reserve -> start -> train -> commit -> verify -> prove. Killed anywhere, it resumes here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from epsilog import durable_io
from epsilog.ledger import Charge, open_ledger, parse_address
from epsilog.pipeline.canaries import describe_audit, insert_run_canaries, require_planned_canaries
from epsilog.pipeline.config import PlanConfig
from epsilog.pipeline.counts import Counting, give_back, released_vector
from epsilog.pipeline.preparation import (
    PreparedRun,
    make_plan,
    prepare_config,
    prepare_task,
    read_stored_plan,
    require_same_inputs,
    write_json,
)
from epsilog.pipeline.provenance import note_engine
from epsilog.pipeline.simulation import Studied, measure_utility, plan_comparison_runs
from epsilog.pipeline.steps import (
    commit_charge,
    is_charge_closed,
    make_charge_key,
    require_budget,
    reserve_plan,
    run_smoke_tests,
    train_under_charge,
)
from epsilog.pipeline.tuning import TrialRunner
from epsilog.plan import RegisteredPlan
from epsilog.reports import build_report, check_schema, render_html
from epsilog.schemes import Scheme
from epsilog.terms import CheckError, ConfigError, EpsilogError, RoundRecord, RunArtifact
from epsilog.terms.charts import draw_band_plot
from epsilog.terms.notebook import render_html_table
from epsilog.training import Task, delete_run_state, lock_exclusively
from epsilog.training.engines import Engine, add_dropout
from epsilog.training.models import ReleasedModel
from epsilog.verification import Reconciliation, SimulatedUtility, read_evidence, reconcile

EngineOf = Callable[[Scheme, str, Task], Callable[[Task], Engine]]
"""(scheme, the charge's key, the task) -> what ``run_rounds`` takes as its engine."""
OnRound = Callable[[RoundRecord], object]
"""Takes the public record of a round that was released."""


class RunObserver(Protocol):
    """Who watches a run."""

    def stage(self, says: str) -> None:
        """A new stage begins."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """A round was released."""


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """A finished run.

    Attributes:
        plan: as registered.
        reconciliation: the verdict on its records, with figures that are the curator's: what is shown is the report's.
        report: as JSON values.
        model: as released last; None where its file was taken away.
        folder: where all of it lies.
    """

    plan: RegisteredPlan
    reconciliation: Reconciliation = field(repr=False)
    report: dict[str, Any]
    model: ReleasedModel | None
    folder: Path

    def _repr_html_(self) -> str:
        claim = render_html_table(self.plan.name, [("claim", self.report["claim"]["statement"])])
        return claim + self.plan._repr_html_() + self._curve() + self._verdicts()

    def _verdicts(self) -> str:
        """What the report says of each check: notebooks travel, and figures of who took part are not for them."""
        told = self.report["verification"]
        rows = [(one["check"], one["verdict"], one["says"]) for one in told["findings"]]
        return render_html_table(
            f"Records against plan and ledger: {told['verdict']}", rows, ["check", "verdict", "what was found"]
        )

    def _curve(self) -> str:
        """How the loss grew from round to round, under the budget."""
        points = self.report.get("accounting", {}).get("curve", [])
        return draw_band_plot(
            [("certified", [(one["round"], float(one["lower"]), float(one["upper"])) for one in points])],
            title="What the rounds have cost so far",
            x_label="round",
            y_label="epsilon",
            mark=("budget", float(self.plan.budget["epsilon"])),
        )


class NullObserver:
    """Nobody watches."""

    def stage(self, says: str) -> None:
        """As ``RunObserver`` says."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """As ``RunObserver`` says."""


def run(
    programme: Path | str | PlanConfig,
    task: Task | None = None,
    *,
    runs: Path | str = "runs",
    ledger: Path | str | None = None,
    observer: RunObserver | None = None,
    on_round: OnRound | None = None,
) -> RunResult:
    """Takes one programme from plan to proof, or goes on where a killed run stopped.

    Args:
        programme: the programme file; or what it would promise, for a task that was made in Python.
        task: what is trained on what, where the programme does not say.
        runs: where run folders live.
        ledger: what is charged, as ``open_ledger`` takes it; made if there is none. None for ``ledger.db`` in ``runs``.
        observer: told of stages and rounds.
        on_round: called with the public record of each round of the model, as in ``run_rounds``.

    Raises:
        ConfigError: the file, or the data against it, is wrong, or a rehearsal fails (engine, settings, disk);
            nothing was written.
        CalibrationError: the plan cannot meet its budget; nothing was written.
        BudgetExceededError: the ledger refuses the plan; nothing of it was written.
        LedgerIntegrityError: the ledger was edited.
        ConflictError: another process is running this programme, or the ledger's budget is of another kind.
    """
    start = _plan_run(programme, task, Path(runs), ledger, observer=observer or NullObserver(), on_round=on_round)
    if is_charge_closed(start.plan, start.ledger):
        with lock_exclusively(start.folder / "lock", start.folder.name):
            return _verify_and_report(start)
    _require_same(start)
    studied = plan_comparison_runs(start.programme, start.plan, start.task)
    with _reserve_charge(start) as charge:
        if charge.state != "committed":  # another process may have been faster
            _train(start, charge)
            commit_charge(charge, start.folder, _utility(start, studied), _draw_counts(start))
        return _verify_and_report(start)


def train_only(
    programme: Path | str | PlanConfig,
    task: Task | None = None,
    *,
    runs: Path | str = "runs",
    ledger: Path | str | None = None,
    observer: RunObserver | None = None,
    on_round: OnRound | None = None,
    engine: EngineOf | None = None,
) -> tuple[ReleasedModel, Path]:
    """Takes one programme from plan to model, booked as ever; ``run`` goes on from there to the proof.

    The charge stays started: nothing is compared, checked or reported yet.

    Args:
        programme: as in ``run``.
        task: as in ``run``.
        runs: as in ``run``.
        ledger: as in ``run``.
        observer: as in ``run``.
        on_round: as in ``run``.
        engine: makes what computes the rounds; None for the model's own.

    Returns:
        The model, and the run's folder.

    Raises:
        EpsilogError: as in ``run``.
    """
    start = _plan_run(programme, task, Path(runs), ledger, observer=observer or NullObserver(), on_round=on_round)
    if engine is not None and start.task.canaries is not None:
        bound = "absent where clients compute elsewhere"
        raise ConfigError(start.plan.name, [CheckError("audit", bound, f"{start.task.canaries.count} canaries")])
    if not is_charge_closed(start.plan, start.ledger):
        _require_same(start)
        with _reserve_charge(start) as charge:
            if charge.state != "committed":
                _train(start, charge, engine)
                durable_io.level_times(start.folder, to=start.folder / RunArtifact.PLAN)
    return ReleasedModel.read(start.folder / RunArtifact.MODEL, start.task.model), start.folder


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """A programme that is planned: everything that a run goes on from."""

    prepared: PreparedRun
    plan: RegisteredPlan
    folder: Path
    ledger: str | Path
    observer: RunObserver
    on_round: OnRound | None

    @property
    def programme(self) -> PlanConfig:
        return self.prepared.programme

    @property
    def task(self) -> Task:
        return self.prepared.task

    @property
    def counting(self) -> Counting:
        return Counting(self.plan, self.task, self.folder, self.programme.run.seed, make_charge_key(self.plan))

    def show(self, record: RoundRecord) -> None:
        """Hands on a round that was released."""
        self.observer.round(record, self.plan)
        if self.on_round is not None:
            self.on_round(record)

    def over(self, engine: Callable[[Task], Engine] | None) -> Callable[[Task], Engine] | None:
        """The engine, None for the task's own; with clients who do not reply, where the programme simulates them."""
        dropout = self.programme.run.dropout
        return engine if dropout is None else add_dropout(dropout, engine)


def _plan_run(
    programme: Path | str | PlanConfig,
    task: Task | None,
    runs: Path,
    ledger: Path | str | None,
    *,
    observer: RunObserver,
    on_round: OnRound | None,
) -> _Start:
    observer.stage("reading the data")
    prepared = _prepare(programme, task)
    for note in prepared.notes:
        observer.stage(note)
    folder = runs / f"{prepared.programme.programme.name}-{prepared.settings[:8]}"
    prepared = insert_run_canaries(prepared, folder)
    observer.stage("planning")
    audit = describe_audit(prepared.programme, prepared.task)
    plan = read_stored_plan(folder / RunArtifact.PLAN) or make_plan(prepared, audit=audit)
    return _Start(prepared, plan, folder, runs / "ledger.db" if ledger is None else _where(ledger), observer, on_round)


def _where(ledger: str | Path) -> str | Path:
    return parse_address(ledger) if isinstance(ledger, str) else ledger


def _require_same(start: _Start) -> None:
    """Refuses a stored plan of other data, another model or other canaries."""
    require_same_inputs(start.plan, start.task, start.folder)
    require_planned_canaries(start.plan, start.task, start.folder)


@contextlib.contextmanager
def _reserve_charge(start: _Start) -> Iterator[Charge]:
    """The plan's charge, reserved once everything that can fail has been tried, in a folder that is ours alone."""
    start.observer.stage("rehearsing")
    run_smoke_tests(start.plan, start.task, start.folder)
    with open_ledger(start.ledger) as books:
        books.verify()  # nothing is booked on top of a ledger that does not hold
        require_budget(books, start.plan)
        beside = start.counting.reserve(books)
        try:
            charge = reserve_plan(books, start.plan, start.folder, start.task.canaries)
        except EpsilogError as refusal:
            give_back(beside, f"another charge of the run was refused: {refusal}"[:1000])
            raise
        with lock_exclusively(start.folder / "lock", start.folder.name):
            if charge.state == "reserved":
                start.counting.require_enough(books, [charge, *beside])
            yield charge


def _draw_counts(start: _Start) -> tuple[dict[str, Any], ...]:
    """The noisy counts beside the model, each drawn once under its own charge."""
    if start.counting.stated is None:
        return ()
    start.observer.stage("counting, charged")
    with open_ledger(start.ledger) as books:
        return start.counting.told(books, released_vector(start.folder, start.task))


def _train(start: _Start, charge: Charge, engine: EngineOf | None = None) -> None:
    seeded = start.programme.run.seed is not None
    note_engine(start.folder, start.task.model.framework, elsewhere=engine is not None, seeded=seeded)
    if start.plan.trials is not None:
        if engine is not None:
            bound = "absent where clients compute elsewhere: they would see every trial"
            raise ConfigError(start.plan.name, [CheckError("tuning", bound, "given")])
        folder, seed, stage = start.folder, start.programme.run.seed, start.observer.stage
        TrialRunner(start.plan, start.task, folder, seed, start.over(None), start.prepared.withdrawn, stage).run(charge)
        return
    start.observer.stage("training")
    train_under_charge(
        start.plan,
        start.task,
        seed=start.programme.run.seed,
        charge=charge,
        folder=start.folder,
        on_round=start.show,
        engine=start.over(None if engine is None else engine(start.plan.scheme, charge.key, start.task)),
        withdrawn=start.prepared.withdrawn,
    )


def _utility(start: _Start, studied: Studied) -> SimulatedUtility | None:
    """What a simulation compares itself with, on who has not withdrawn by now; None of training for people."""
    seed, withdrawn = start.programme.run.seed, start.prepared.withdrawn
    if seed is None:
        return None
    return measure_utility(
        studied,
        start.plan,
        start.task,
        seed,
        start.observer.stage,
        engine=start.over(None),
        withdrawn=() if withdrawn is None else withdrawn(),
    )


def _prepare(programme: Path | str | PlanConfig, task: Task | None) -> PreparedRun:
    if not isinstance(programme, PlanConfig):
        if task is not None:
            raise ConfigError(
                str(programme), [CheckError("task", "absent for a file, which brings its data", task.name)]
            )
        return prepare_config(Path(programme))
    if task is None:
        raise ConfigError("programme", [CheckError("task", "given for a programme without data", "nothing")])
    return prepare_task(programme, task)


def _verify_and_report(start: _Start) -> RunResult:
    """Verifies a finished run and writes its report."""
    if start.programme.run.checkpoints == "remove":
        delete_run_state(start.folder)
    start.observer.stage("verifying")
    folder, stored = start.folder, start.folder / RunArtifact.MODEL
    evidence = read_evidence(folder, start.ledger)
    outcome = reconcile(evidence)
    report = build_report(evidence, outcome)
    check_schema(report)
    write_json(folder / RunArtifact.REPORT, report)
    durable_io.write_atomically(folder / RunArtifact.PAGE, render_html(report).encode())
    model = ReleasedModel.read(stored, start.task.model) if stored.exists() else None
    durable_io.level_times(folder, to=folder / RunArtifact.PLAN)  # how long training took depends on the data
    return RunResult(start.plan, outcome, report, model, folder)
