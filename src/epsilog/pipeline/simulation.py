"""The comparisons that only a simulation may show: training without DP, other budgets, and a negative control."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from epsilog.pipeline.config import PlanConfig
from epsilog.pipeline.preparation import compute_plan_interval
from epsilog.plan import RegisteredPlan
from epsilog.schemes import Scheme
from epsilog.terms import CalibrationError, ConfigError, Finding
from epsilog.verification import CONTROL_NOISE_RATIO, Claim, Evidence, SimulatedUtility, check_noise

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine

    MakeEngine = Callable[[Task], Engine]

StudySchemes = Sequence[tuple[float, Scheme]]


def plan_comparison_runs(config: PlanConfig, plan: RegisteredPlan, task: Task) -> StudySchemes:
    """Return the scheme at each epsilon of the study, before anything is charged.

    Raises:
        ConfigError: no noise meets an epsilon, or the trainer refuses the scheme.
    """
    from epsilog.training import require_matching_scheme

    found = []
    for epsilon in config.run.comparison_budgets:
        try:
            other = compute_plan_interval(config, plan.guarantee.population, {}, epsilon=Decimal(str(epsilon)))
            found.append((epsilon, require_matching_scheme(other.scheme, task)))
        except (CalibrationError, ValueError) as error:
            raise ConfigError(
                plan.name, [f"run.comparison_budgets: {epsilon:g} cannot be trained at: {error}"]
            ) from error
    return found


def measure_utility(
    schemes: StudySchemes,
    plan: RegisteredPlan,
    task: Task,
    seed: int,
    report_stage: Callable[[str], None],
    *,
    engine: MakeEngine | None = None,
    withdrawn: Collection[int] = (),
) -> SimulatedUtility:
    """Measure utility without DP and at other budgets, before the commit, which contains its hash.

    Clients that have withdrawn take no part.
    """
    from epsilog.training import Randomness, train_without_charge

    randomness = Randomness.from_seed(seed)
    report_stage("training without DP, for comparison")
    bare = train_without_charge(
        plan.scheme, task, randomness=randomness, private=False, engine=engine, withdrawn=withdrawn
    )
    points = []
    for epsilon, scheme in schemes:
        report_stage(f"training at epsilon {epsilon:g}")
        trained = train_without_charge(scheme, task, randomness=randomness, engine=engine, withdrawn=withdrawn)
        last = trained.records[-1]
        points.append((epsilon, scheme.noise_multiplier, last.test_loss, last.test_score))
    without = tuple((record.test_loss, record.test_score) for record in bare.records)
    report_stage(f"a control run with {1 - CONTROL_NOISE_RATIO:.0%} too little noise, which the checks must reject")
    control = run_negative_control(plan, task, seed=seed + 1, engine=engine, withdrawn=withdrawn)
    return SimulatedUtility(str(task.describe()["score"]), without, tuple(points), control.to_json())


def run_negative_control(
    plan: RegisteredPlan, task: Task, *, seed: int, engine: MakeEngine | None = None, withdrawn: Collection[int] = ()
) -> Finding:
    """Train as planned with too little noise, and return the finding of the noise check."""
    from epsilog.training import Randomness, train_without_charge

    weakened = Randomness.with_weaker_noise(seed, noise_factor=CONTROL_NOISE_RATIO)
    lying = train_without_charge(plan.scheme, task, randomness=weakened, engine=engine, withdrawn=withdrawn)
    return check_noise(Evidence(Claim.from_plan(plan), tuple(lying.records)))
