"""The comparisons that only a simulation may show: training without DP, other budgets, and a negative control."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from epsilog.pipeline.config import PlanConfig
from epsilog.pipeline.preparation import compute_plan_interval
from epsilog.plan import RegisteredPlan
from epsilog.schemes import Scheme
from epsilog.terms import CalibrationError, ConfigError, Finding, RoundRecord
from epsilog.verification import CONTROL_NOISE_RATIO, Claim, Evidence, SimulatedUtility, check_noise

if TYPE_CHECKING:
    from epsilog.training import Task
    from epsilog.training.engines import Engine

    MakeEngine = Callable[[Task], Engine]


class ComparisonObserver(Protocol):
    """Receives the progress of the comparisons."""

    def stage(self, message: str) -> None:
        """Receive the start of a training."""

    def comparison(self, done: int, total: int) -> None:
        """Receive how many comparisons are done."""


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
    observer: ComparisonObserver,
    *,
    further_seeds: int = 0,
    engine: MakeEngine | None = None,
    withdrawn: Collection[int] = (),
) -> SimulatedUtility:
    """Measure utility without DP, at other budgets and at further seeds, before the commit, which contains its hash.

    Clients that have withdrawn take no part.
    """
    from epsilog.training import Randomness, train_without_charge

    done, total = count(1), 1 + len(schemes) + 2 * further_seeds + 1

    def train(what: str, scheme: Scheme, at: int, *, private: bool = True) -> Sequence[RoundRecord]:
        observer.stage(what)
        randomness = Randomness.from_seed(at)
        found = train_without_charge(
            scheme, task, randomness=randomness, private=private, engine=engine, withdrawn=withdrawn
        )
        observer.comparison(next(done), total)
        return found.records

    def score(*given: Any, **options: Any) -> float | None:
        return train(*given, **options)[-1].test_score

    bare = train("training without DP, for comparison", plan.scheme, seed, private=False)
    points = []
    for epsilon, scheme in schemes:
        last = train(f"training at epsilon {epsilon:g}", scheme, seed)[-1]
        points.append((epsilon, scheme.noise_multiplier, last.test_loss, last.test_score))
    pairs = [
        (
            score(f"training with seed {at}", plan.scheme, at),
            score(f"training with seed {at}, without DP", plan.scheme, at, private=False),
        )
        for at in range(seed + 1, seed + 1 + further_seeds)
    ]
    without = tuple((record.test_loss, record.test_score) for record in bare)
    observer.stage(f"a control run with {1 - CONTROL_NOISE_RATIO:.0%} too little noise, which the checks must reject")
    control = run_negative_control(plan, task, seed=seed + 1, engine=engine, withdrawn=withdrawn)
    observer.comparison(total, total)
    name = str(task.describe()["score"])
    return SimulatedUtility(name, without, tuple(points), control.to_json(), tuple(pairs))


def run_negative_control(
    plan: RegisteredPlan, task: Task, *, seed: int, engine: MakeEngine | None = None, withdrawn: Collection[int] = ()
) -> Finding:
    """Train as planned with too little noise, and return the finding of the noise check."""
    from epsilog.training import Randomness, train_without_charge

    weakened = Randomness.with_weaker_noise(seed, noise_factor=CONTROL_NOISE_RATIO)
    lying = train_without_charge(plan.scheme, task, randomness=weakened, engine=engine, withdrawn=withdrawn)
    return check_noise(Evidence(Claim.from_plan(plan), tuple(lying.records)))
