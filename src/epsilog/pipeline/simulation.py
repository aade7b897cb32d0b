"""What only a simulation may show: training without DP, other budgets, and a control that the verifier must reject."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from epsilog.pipeline.model import Programme
from epsilog.plan import RegisteredPlan, register
from epsilog.schemes import Scheme
from epsilog.terms import CalibrationError, Finding, ProgrammeError
from epsilog.verification import WEAKENED, Utility, check_noise, in_first_unit

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine

    Made = Callable[[Task], Engine]

Told = Callable[[str], None]
Studied = Sequence[tuple[float, Scheme]]


def study_plans(programme: Programme, plan: RegisteredPlan, task: Task) -> Studied:
    """The scheme at each budget of the study, worked out before money moves.

    Raises:
        ProgrammeError: a budget that no noise meets, or that training cannot take.
    """
    return [(epsilon, _studied(programme, plan, task, epsilon)) for epsilon in programme.run.study]


def _studied(programme: Programme, plan: RegisteredPlan, task: Task, epsilon: float) -> Scheme:
    from epsilog.training import require_fit

    try:
        return require_fit(_at(programme, plan, epsilon).scheme, task)
    except (CalibrationError, ValueError) as error:
        raise ProgrammeError(plan.name, [f"run.study: {epsilon:g} cannot be trained at: {error}"]) from error


def simulate(
    studied: Studied,
    plan: RegisteredPlan,
    task: Task,
    seed: int,
    tell: Told,
    *,
    engine: Made | None = None,
    withdrawn: Collection[int] = (),
) -> Utility:
    """Measures utility without DP and at other budgets, before the run is closed: its hash goes into the commit.

    Nothing of it is computed on clients that have withdrawn by then.
    """
    from epsilog.training import Randomness, dry_run

    seeded = Randomness.simulated(seed)
    tell("training without DP, for comparison")
    bare = dry_run(plan.scheme, task, randomness=seeded, private=False, engine=engine, withdrawn=withdrawn)
    points = []
    for epsilon, scheme in studied:
        tell(f"training at epsilon {epsilon:g}")
        last = dry_run(scheme, task, randomness=seeded, engine=engine, withdrawn=withdrawn).records[-1]
        points.append((epsilon, scheme.noise_multiplier, last.test_loss, last.test_score))
    without = tuple((record.test_loss, record.test_score) for record in bare.records)
    tell(f"a control run with {1 - WEAKENED:.0%} too little noise, which the checks must reject")
    control = run_control(plan, task, seed=seed + 1, engine=engine, withdrawn=withdrawn)
    return Utility(str(task.describe()["score"]), without, tuple(points), control.to_json())


def _at(programme: Programme, plan: RegisteredPlan, epsilon: float) -> RegisteredPlan:
    """The same programme, calibrated to another budget."""
    from decimal import Decimal

    return register(
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


def run_control(
    plan: RegisteredPlan, task: Task, *, seed: int, engine: Made | None = None, withdrawn: Collection[int] = ()
) -> Finding:
    """Trains as planned, but with a noise source that lies about its size; returns what the noise check says."""
    from epsilog.training import Randomness, dry_run

    weakened = Randomness.weakened(seed, noise_factor=WEAKENED)
    lying = dry_run(plan.scheme, task, randomness=weakened, engine=engine, withdrawn=withdrawn)
    return check_noise(in_first_unit(lying.records, plan.scheme), noise_stddev=plan.scheme.noise_stddev)
