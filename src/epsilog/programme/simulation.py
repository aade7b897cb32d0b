"""What only a simulation may show: training without DP, other budgets, and a control that the verifier must reject."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.plan import RegisteredPlan, register
from epsilog.programme.model import Programme
from epsilog.programme.prepare import write_json
from epsilog.prove import Utility
from epsilog.verify import Finding, Verdict, check_noise, power

if TYPE_CHECKING:
    from epsilog.train import Task

WEAKENED = 0.7  # the control's share of the planned noise
Told = Callable[[str], None]


def simulate(programme: Programme, plan: RegisteredPlan, task: Task, folder: Path, tell: Told) -> Utility:
    """Measures utility without DP and at other budgets, once; a second call reads what the first one wrote."""
    stored, score_name = folder / "simulation.json", str(task.facts["score"])
    if stored.exists():
        return _restored(json.loads(stored.read_bytes()), score_name)
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
    utility = Utility(score_name, without, tuple(points), control.to_json())
    write_json(stored, dataclasses.asdict(utility))
    return utility


def _restored(data: dict[str, object], score_name: str) -> Utility:
    without = tuple(tuple(pair) for pair in data["without_dp"])  # type: ignore[attr-defined]
    study = tuple(tuple(point) for point in data["study"])  # type: ignore[attr-defined]
    return Utility(score_name, without, study, data["control"])  # type: ignore[arg-type]


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


def control_finding(utility: Utility) -> Finding:
    """A verifier that accepts the control proves nothing: then the run's own verification fails too."""
    values = int(utility.control["numbers"]["values"])
    if utility.control["verdict"] == Verdict.FAILED:
        return Finding("control", Verdict.PASSED, "The control run was rejected, so the noise check can fail.")
    if power(values, share=WEAKENED) < 0.99:
        says = f"{values} padding values are too few to notice noise {1 - WEAKENED:.0%} too low; the run is too short."
        return Finding("control", Verdict.WARNED, says)
    return Finding("control", Verdict.FAILED, "The control run was not rejected: the noise check does not work.")
