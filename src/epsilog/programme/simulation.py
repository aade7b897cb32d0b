"""What only a simulation may show: training without DP, other budgets, and a control that the verifier must reject."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epsilog.plan import RegisteredPlan, register
from epsilog.programme.model import Programme
from epsilog.verify import Finding, Utility, check_noise
from epsilog.verify.owner import WEAKENED

if TYPE_CHECKING:
    from epsilog.train import Task

Told = Callable[[str], None]


def simulate(programme: Programme, plan: RegisteredPlan, task: Task, tell: Told) -> Utility:
    """Measures utility without DP and at other budgets, before the run is closed: its hash goes into the commit."""
    from epsilog.train import Randomness, dry_run

    seeded = Randomness.simulated(int(programme.run.seed or 0))
    tell("training without DP, for comparison")
    bare = dry_run(plan.scheme, task, randomness=seeded, private=False)
    points = []
    for epsilon in programme.run.study:
        tell(f"training at epsilon {epsilon:g}")
        other = _at(programme, plan, epsilon)
        curve = dry_run(other.scheme, task, randomness=seeded)
        last = curve.records[-1]
        points.append((epsilon, other.scheme.noise_multiplier, last.test_loss, last.test_score))
    without = tuple((record.test_loss, record.test_score) for record in bare.records)
    tell(f"a control run with {1 - WEAKENED:.0%} too little noise, which the checks must reject")
    control = run_control(plan, task, seed=int(programme.run.seed or 0) + 1)
    return Utility(str(task.facts["score"]), without, tuple(points), control.to_json())


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


def run_control(plan: RegisteredPlan, task: Task, *, seed: int) -> Finding:
    """Trains as planned, but with a noise source that lies about its size; returns what the noise check says."""
    from epsilog.train import Randomness, dry_run

    lying = dry_run(plan.scheme, task, randomness=Randomness.weakened(seed, noise_factor=WEAKENED))
    return check_noise(lying.records, noise_stddev=plan.scheme.noise_stddev)
