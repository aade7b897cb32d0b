"""What only a simulation may show: training without DP, other budgets, and a control that the verifier must reject."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from epsilog.pipeline.config import PlanConfig
from epsilog.plan import RegisteredPlan, build_registered_plan
from epsilog.schemes import Scheme
from epsilog.terms import CalibrationError, ConfigError, Finding
from epsilog.verification import CONTROL_NOISE_RATIO, SimulatedUtility, check_noise, rescale_to_first_round

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine

    Made = Callable[[Task], Engine]

Told = Callable[[str], None]
Studied = Sequence[tuple[float, Scheme]]


def plan_comparison_runs(programme: PlanConfig, plan: RegisteredPlan, task: Task) -> Studied:
    """The scheme at each budget of the study, worked out before money moves.

    Raises:
        ConfigError: a budget that no noise meets, or that training cannot take.
    """
    return [(epsilon, _build_studied_scheme(programme, plan, task, epsilon)) for epsilon in programme.run.study]


def _build_studied_scheme(programme: PlanConfig, plan: RegisteredPlan, task: Task, epsilon: float) -> Scheme:
    from epsilog.training import require_matching_scheme

    try:
        return require_matching_scheme(_at(programme, plan, epsilon).scheme, task)
    except (CalibrationError, ValueError) as error:
        raise ConfigError(plan.name, [f"run.study: {epsilon:g} cannot be trained at: {error}"]) from error


def measure_utility(
    studied: Studied,
    plan: RegisteredPlan,
    task: Task,
    seed: int,
    tell: Told,
    *,
    engine: Made | None = None,
    withdrawn: Collection[int] = (),
) -> SimulatedUtility:
    """Measures utility without DP and at other budgets, before the run is closed: its hash goes into the commit.

    Nothing of it is computed on clients that have withdrawn by then.
    """
    from epsilog.training import Randomness, train_without_charge

    seeded = Randomness.simulated(seed)
    tell("training without DP, for comparison")
    bare = train_without_charge(plan.scheme, task, randomness=seeded, private=False, engine=engine, withdrawn=withdrawn)
    points = []
    for epsilon, scheme in studied:
        tell(f"training at epsilon {epsilon:g}")
        last = train_without_charge(scheme, task, randomness=seeded, engine=engine, withdrawn=withdrawn).records[-1]
        points.append((epsilon, scheme.noise_multiplier, last.test_loss, last.test_score))
    without = tuple((record.test_loss, record.test_score) for record in bare.records)
    tell(f"a control run with {1 - CONTROL_NOISE_RATIO:.0%} too little noise, which the checks must reject")
    control = run_negative_control(plan, task, seed=seed + 1, engine=engine, withdrawn=withdrawn)
    return SimulatedUtility(str(task.describe()["score"]), without, tuple(points), control.to_json())


def _at(programme: PlanConfig, plan: RegisteredPlan, epsilon: float) -> RegisteredPlan:
    """The same programme, calibrated to another budget."""
    from decimal import Decimal

    return build_registered_plan(
        lambda z: programme.scheme.term(plan.guarantee.population, z),
        name=plan.name,
        noise_multiplier=None,
        budget_epsilon=Decimal(str(epsilon)),
        delta=programme.delta,
        relation=plan.guarantee.relation,
        privacy_unit=plan.guarantee.privacy_unit,
        population=plan.guarantee.population,
        budget=plan.budget,
        simulation=True,
        details={},
    )


def run_negative_control(
    plan: RegisteredPlan, task: Task, *, seed: int, engine: Made | None = None, withdrawn: Collection[int] = ()
) -> Finding:
    """Trains as planned, but with a noise source that lies about its size; returns what the noise check says."""
    from epsilog.training import Randomness, train_without_charge

    weakened = Randomness.with_weaker_noise(seed, noise_factor=CONTROL_NOISE_RATIO)
    lying = train_without_charge(plan.scheme, task, randomness=weakened, engine=engine, withdrawn=withdrawn)
    return check_noise(rescale_to_first_round(lying.records, plan.scheme), noise_stddev=plan.scheme.noise_stddev)
