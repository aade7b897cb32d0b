"""The whole pipeline: plan, reserve, train, commit, verify, report. A run that is killed at any point resumes here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from epsilog import durable_io
from epsilog.ledger import Charge, open_ledger, parse_address
from epsilog.pipeline.config import SOURCE, PlanConfig
from epsilog.pipeline.counts import RunCounts, give_back, read_released_vector
from epsilog.pipeline.preparation import (
    PreparedRun,
    describe_audit,
    insert_run_canaries,
    make_plan,
    prepare_config,
    prepare_task,
    read_stored_plan,
    require_planned_canaries,
    require_same_inputs,
    write_json,
)
from epsilog.pipeline.provenance import note_engine
from epsilog.pipeline.simulation import StudySchemes, measure_utility, plan_comparison_runs
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
from epsilog.verification import SimulatedUtility, Verification, read_evidence, verify_evidence

EngineOf = Callable[[Scheme, str, Task], Callable[[Task], Engine]]
"""(scheme, the key of the charge, the task) -> the ``engine`` of ``run_rounds``."""
OnRound = Callable[[RoundRecord], object]
"""Receives the public record of a released round."""


class RunObserver(Protocol):
    """Receives the progress of a run."""

    def stage(self, message: str) -> None:
        """Receive the start of a stage."""

    def comparison(self, done: int, total: int) -> None:
        """Receive how many comparisons of a simulation are done."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """Receive a released round."""


class NullObserver:
    """An observer that ignores everything."""

    def stage(self, message: str) -> None:
        """Ignore a stage."""

    def comparison(self, done: int, total: int) -> None:
        """Ignore a comparison."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        """Ignore a round."""


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """A finished run.

    Attributes:
        plan: as registered.
        verification: the findings on its records, with figures for the curator alone; the report has the public ones.
        report: as JSON values.
        model: the released model; None if its file was removed.
        folder: the folder of the run.
    """

    plan: RegisteredPlan
    verification: Verification = field(repr=False)
    report: dict[str, Any]
    model: ReleasedModel | None
    folder: Path

    def _repr_html_(self) -> str:
        claim = render_html_table(self.plan.name, [("claim", self.report["claim"]["statement"])])
        return claim + self.plan._repr_html_() + self._draw_curve() + self._render_findings()

    def _render_findings(self) -> str:
        """Render the public findings: notebooks are shared, and figures about participation are not public."""
        found = self.report["verification"]
        rows = [(one["check"], one["status"], one["message"]) for one in found["findings"]]
        return render_html_table(
            f"Records against plan and ledger: {found['status']}", rows, ["check", "status", "what was found"]
        )

    def _draw_curve(self) -> str:
        """Draw epsilon by round, with the budget."""
        points = self.report.get("accounting", {}).get("curve", [])
        return draw_band_plot(
            [("certified", [(one["round"], float(one["lower"]), float(one["upper"])) for one in points])],
            title="What the rounds have cost so far",
            x_label="round",
            y_label="epsilon",
            mark=("budget", float(self.plan.budget["epsilon"])),
        )


def run(
    config: Path | str | PlanConfig,
    task: Task | None = None,
    *,
    runs: Path | str = "runs",
    ledger: Path | str | None = None,
    observer: RunObserver | None = None,
    on_round: OnRound | None = None,
) -> RunResult:
    """Run a config from plan to report, or resume a killed run.

    Args:
        config: the path of a run config; or a ``PlanConfig``, for a task that was made in Python.
        task: what is trained on which data, for a ``PlanConfig``.
        runs: the folder of run folders.
        ledger: the ledger that is charged, as for ``open_ledger``; created if absent. None for ``ledger.db`` in
            ``runs``.
        observer: receives stages and rounds.
        on_round: receives the public record of each round of the model, as in ``run_rounds``.

    Raises:
        ConfigError: the file is wrong or does not match the data, or a smoke test fails (engine, settings, disk);
            nothing was written.
        CalibrationError: the plan cannot meet its budget; nothing was written.
        BudgetExceededError: the ledger refuses the plan; nothing of it was written.
        LedgerIntegrityError: the ledger was altered.
        ConflictError: another process runs this config, or the budget of the ledger is of another kind.
    """
    planned = _plan_run(config, task, Path(runs), ledger, observer=observer or NullObserver(), on_round=on_round)
    if is_charge_closed(planned.plan, planned.ledger):
        with lock_exclusively(planned.folder / "lock", planned.folder.name):
            return _verify_and_report(planned)
    _require_same_run(planned)
    schemes = plan_comparison_runs(planned.config, planned.plan, planned.task)
    with _reserve_charge(planned) as charge:
        if charge.state != "committed":  # another process may have finished meanwhile
            _train(planned, charge)
            commit_charge(charge, planned.folder, _measure_utility(planned, schemes), _draw_counts(planned))
        return _verify_and_report(planned)


def train_only(
    config: Path | str | PlanConfig,
    task: Task | None = None,
    *,
    runs: Path | str = "runs",
    ledger: Path | str | None = None,
    observer: RunObserver | None = None,
    on_round: OnRound | None = None,
    engine: EngineOf | None = None,
) -> tuple[ReleasedModel, Path]:
    """Run a config from plan to model, under the same charge; ``run`` continues from there to the report.

    The charge stays started: nothing is compared, verified or reported yet.

    Args:
        config: as in ``run``.
        task: as in ``run``.
        runs: as in ``run``.
        ledger: as in ``run``.
        observer: as in ``run``.
        on_round: as in ``run``.
        engine: makes the engine of the rounds; None for the engine of the model.

    Returns:
        The model, and the folder of the run.

    Raises:
        EpsilogError: as in ``run``.
    """
    planned = _plan_run(config, task, Path(runs), ledger, observer=observer or NullObserver(), on_round=on_round)
    if engine is not None and planned.task.canaries is not None:
        bound = "absent where clients compute elsewhere"
        raise ConfigError(planned.plan.name, [CheckError("audit", bound, f"{planned.task.canaries.count} canaries")])
    if not is_charge_closed(planned.plan, planned.ledger):
        _require_same_run(planned)
        with _reserve_charge(planned) as charge:
            if charge.state != "committed":
                _train(planned, charge, engine)
                durable_io.level_times(planned.folder, to=planned.folder / RunArtifact.PLAN)
    return ReleasedModel.read(planned.folder / RunArtifact.MODEL, planned.task.model), planned.folder


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A run with its plan: everything that the later steps need."""

    prepared: PreparedRun
    plan: RegisteredPlan
    folder: Path
    ledger: str | Path
    observer: RunObserver
    on_round: OnRound | None

    @property
    def config(self) -> PlanConfig:
        """Return the run config."""
        return self.prepared.config

    @property
    def task(self) -> Task:
        """Return what is trained on which data."""
        return self.prepared.task

    @property
    def counts(self) -> RunCounts:
        """Return the noisy counts released with the model."""
        return RunCounts(self.plan, self.task, self.folder, self.config.run.seed, make_charge_key(self.plan))

    def report_round(self, record: RoundRecord) -> None:
        """Pass a released round to the observer and the callback."""
        self.observer.round(record, self.plan)
        if self.on_round is not None:
            self.on_round(record)

    def add_dropout(self, engine: Callable[[Task], Engine] | None) -> Callable[[Task], Engine] | None:
        """Return the engine, None for the task's own, with non-responders if the config simulates them."""
        dropout = self.config.run.dropout
        return engine if dropout is None else add_dropout(dropout, engine)


def _plan_run(
    config: Path | str | PlanConfig,
    task: Task | None,
    runs: Path,
    ledger: Path | str | None,
    *,
    observer: RunObserver,
    on_round: OnRound | None,
) -> PlannedRun:
    """Read the config and the data, insert the canaries, and make the plan or read the stored one."""
    observer.stage("reading the data")
    prepared = _prepare(config, task)
    for note in prepared.notes:
        observer.stage(note)
    folder = runs / f"{prepared.config.identity.name}-{prepared.settings[:8]}"
    prepared = insert_run_canaries(prepared, folder)
    observer.stage("planning")
    audit = describe_audit(prepared.config, prepared.task)
    plan = read_stored_plan(folder / RunArtifact.PLAN) or make_plan(prepared, audit=audit)
    if ledger is None:
        ledger = runs / "ledger.db"
    address = parse_address(ledger) if isinstance(ledger, str) else ledger
    return PlannedRun(prepared, plan, folder, address, observer, on_round)


def _prepare(config: Path | str | PlanConfig, task: Task | None) -> PreparedRun:
    if not isinstance(config, PlanConfig):
        if task is not None:
            raise ConfigError(str(config), [CheckError("task", "absent for a file, which brings its data", task.name)])
        return prepare_config(Path(config))
    if task is None:
        raise ConfigError(SOURCE, [CheckError("task", "given for a run config without [data]", "nothing")])
    return prepare_task(config, task)


def _require_same_run(planned: PlannedRun) -> None:
    """Refuse a stored plan of other data, another model or other canaries."""
    require_same_inputs(planned.plan, planned.task, planned.folder)
    require_planned_canaries(planned.plan, planned.task, planned.folder)


@contextlib.contextmanager
def _reserve_charge(planned: PlannedRun) -> Iterator[Charge]:
    """Reserve the charges after the smoke tests, and lock the folder while the charge is used."""
    planned.observer.stage("smoke test")
    run_smoke_tests(planned.plan, planned.task, planned.folder)
    with open_ledger(planned.ledger) as ledger:
        ledger.verify()  # an invalid ledger is not charged
        require_budget(ledger, planned.plan)
        counts = planned.counts.reserve(ledger)
        try:
            charge = reserve_plan(ledger, planned.plan, planned.folder, planned.task.canaries)
        except EpsilogError as refusal:
            give_back(counts, f"another charge of the run was refused: {refusal}"[:1000])
            raise
        with lock_exclusively(planned.folder / "lock", planned.folder.name):
            if charge.state == "reserved":
                planned.counts.require_enough(ledger, [charge, *counts])
            yield charge


def _train(planned: PlannedRun, charge: Charge, engine: EngineOf | None = None) -> None:
    """Train the model, or the trials of [tuning], under the charge."""
    plan, task, folder, seed = planned.plan, planned.task, planned.folder, planned.config.run.seed
    note_engine(folder, task.model.framework, elsewhere=engine is not None, seeded=seed is not None)
    withdrawn = planned.prepared.withdrawn
    if plan.trials is not None:
        if engine is not None:
            bound = "absent where clients compute elsewhere: they would see every trial"
            raise ConfigError(plan.name, [CheckError("tuning", bound, "given")])
        own = planned.add_dropout(None)
        TrialRunner(plan, task, folder, seed, own, withdrawn, planned.observer.stage).run(charge)
        return
    planned.observer.stage("training")
    train_under_charge(
        plan,
        task,
        seed=seed,
        charge=charge,
        folder=folder,
        on_round=planned.report_round,
        engine=planned.add_dropout(None if engine is None else engine(plan.scheme, charge.key, task)),
        withdrawn=withdrawn,
    )


def _measure_utility(planned: PlannedRun, schemes: StudySchemes) -> SimulatedUtility | None:
    """Measure the comparisons of a simulation, without withdrawn clients; return None for real data."""
    seed, withdrawn = planned.config.run.seed, planned.prepared.withdrawn
    if seed is None:
        return None
    return measure_utility(
        schemes,
        planned.plan,
        planned.task,
        seed,
        planned.observer,
        further_seeds=(planned.config.run.comparison_seeds or 1) - 1,
        engine=planned.add_dropout(None),
        withdrawn=() if withdrawn is None else withdrawn(),
    )


def _draw_counts(planned: PlannedRun) -> tuple[dict[str, Any], ...]:
    """Return the noisy counts released with the model, each drawn once under its own charge."""
    if planned.counts.section is None:
        return ()
    planned.observer.stage("counting, charged")
    with open_ledger(planned.ledger) as ledger:
        return planned.counts.draw(ledger, read_released_vector(planned.folder, planned.task))


def _verify_and_report(planned: PlannedRun) -> RunResult:
    """Verify a finished run and write its report."""
    if planned.config.run.checkpoints == "remove":
        delete_run_state(planned.folder)
    planned.observer.stage("verifying")
    folder, stored = planned.folder, planned.folder / RunArtifact.MODEL
    outcome = verify_evidence(read_evidence(folder, planned.ledger))
    report = build_report(outcome)
    check_schema(report)
    write_json(folder / RunArtifact.REPORT, report)
    durable_io.write_atomically(folder / RunArtifact.PAGE, render_html(report).encode())
    model = ReleasedModel.read(stored, planned.task.model) if stored.exists() else None
    durable_io.level_times(folder, to=folder / RunArtifact.PLAN)  # training time depends on the data
    return RunResult(planned.plan, outcome, report, model, folder)
