"""What a sweep settles before its first draw: the candidates, how each is tested, and the claim that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo.draws.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.draws.payoff import HockeyStick
from epsilog.accounting.montecarlo.draws.shards import Trial
from epsilog.accounting.montecarlo.evidence.documents import (
    origin_from_json,
    origin_json,
    trial_from_json,
    trial_json,
)
from epsilog.accounting.montecarlo.evidence.drawn import Plan
from epsilog.accounting.montecarlo.promises import bounds
from epsilog.accounting.montecarlo.promises.intervals import at_most, binomial_error
from epsilog.numerics.rounding import up
from epsilog.terms import CheckError, check


@dataclass(frozen=True, slots=True)
class Check:
    """One candidate's test in one direction: it passes with at most ``hits`` hits.

    Attributes:
        trial: the experiment.
        hits: the most hits that pass.
    """

    trial: Trial
    hits: int

    def __post_init__(self) -> None:
        check.fields(self, hits=check.integer(0, self.trial.samples))


@dataclass(frozen=True, slots=True)
class SweepPlan(Plan):
    """Everything that is settled before the first verification draw.

    Attributes:
        epsilon: of the claim, in nats.
        target_delta: the claim is at most this.
        noises: noise of each candidate, falling.
        checks: per candidate, one test per direction, of one release that differs in its noise only.
        fallback_delta: delta of what is released if the first candidate fails; 0: nothing is released.
        origin: the code and the pilot that made it.
    """

    epsilon: float
    target_delta: float
    noises: tuple[float, ...]
    checks: tuple[tuple[Check, Check], ...]
    fallback_delta: float = 0.0

    def __post_init__(self) -> None:
        check.fields(
            self,
            epsilon=check.at_least(0),
            target_delta=check.between(0, 1),
            noises=check.each(check.positive()),
            fallback_delta=check.within(0, 1),
        )
        if not self.noises or len(self.noises) != len(self.checks):
            raise CheckError("checks", "noises", f"{len(self.checks)} and {len(self.noises)}", verb="match")
        if list(self.noises) != sorted(self.noises, reverse=True):
            raise ValueError(f"noises must fall, got {self.noises!r}")
        wanted = self.checks[0][0].trial.release
        for position, (noise, pair) in enumerate(zip(self.noises, self.checks, strict=True)):
            for test, direction in zip(pair, DIRECTIONS, strict=True):
                trial = test.trial
                if (trial.candidate, trial.tilt.direction) != (position, direction):
                    raise CheckError("checks", "numbered and hold both directions", repr(test))
                if trial.payoff != HockeyStick(self.epsilon):
                    raise CheckError("checks", f"at epsilon = {self.epsilon!r}", repr(trial.payoff))
                if trial.release != wanted.renoised(noise):
                    raise CheckError("checks", "of one release, at the noises", repr(trial.release))

    @property
    def claim(self) -> float:
        """Delta of verifying and releasing, an upper bound: the worse of the two directions.

        Every candidate has draws of its own, so the list's own bound holds beside that of any list with such tests.
        """
        sides = ([pair[side] for pair in self.checks] for side in range(2))
        return max(_released(side, self.fallback_delta) for side in sides)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "v": 0,
            "kind": "montecarlo-sweep",
            "epsilon": self.epsilon,
            "target_delta": self.target_delta,
            "fallback_delta": self.fallback_delta,
            "noises": list(self.noises),
            "checks": [[trial_json(test.trial) | {"passes": test.hits} for test in pair] for pair in self.checks],
        } | origin_json(self.origin)


def _released(checks: Sequence[Check], fallback_delta: float) -> float:
    tests = [(one.trial.samples, one.hits, one.trial.bound) for one in checks]
    found = bounds.listed_delta(tests, fallback_delta=fallback_delta)
    if any(
        found <= bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound)
        for samples, hits, bound in tests
        if fallback_delta <= bound
    ):
        return found  # the envelope's area is at least that under each of them
    return min(found, envelope_delta(checks, fallback_delta=fallback_delta))


def envelope_delta(checks: Sequence[Check], *, fallback_delta: float = 0.0) -> float:
    """Bounds the released delta when candidates are tested differently: d_f + Int_{d_f}^1 max_i F_i(y) dy.

    It holds in whatever order they stand, and for a fixed list even if draws are shared. F_i falls, so that sums over
    cells of its value at the lower end are upper bounds.
    """
    tests = sorted({(c.trial.samples, c.hits, c.trial.bound) for c in checks})
    if len(tests) == 1 and fallback_delta <= tests[0][2]:
        samples, hits, bound = tests[0]
        return bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound)
    edges = [fallback_delta, 1.0, *(math.nextafter(bound, math.inf) for _, _, bound in tests)]
    ends = [
        (bound * bounds.edge(hits, samples, -9), bound * bounds.edge(hits, samples, 12))
        for samples, hits, bound in tests
    ]
    edges += list(np.linspace(min(low for low, _ in ends), max(high for _, high in ends), 4000))
    grid = np.unique(np.clip(edges, fallback_delta, 1.0))
    worst = np.zeros(len(grid) - 1)
    for samples, hits, bound in tests:
        low = grid[:-1] / bound
        passes = at_most(np.minimum(low, 1.0), samples, hits) * (1 + binomial_error(hits))
        worst = np.maximum(worst, np.where(low <= 1, passes, 0.0))
    area = float((np.minimum(worst, 1.0) * np.diff(grid)).sum())
    return min(1.0, up(fallback_delta + area, len(grid) + 4))


def sweep_plan_from_json(data: dict[str, Any]) -> SweepPlan:
    """Reads what ``SweepPlan.to_json`` made."""
    return SweepPlan(
        epsilon=float(data["epsilon"]),
        target_delta=float(data["target_delta"]),
        noises=tuple(map(float, data["noises"])),
        checks=tuple(
            (Check(trial_from_json(remove), remove["passes"]), Check(trial_from_json(add), add["passes"]))
            for remove, add in data["checks"]
        ),
        fallback_delta=float(data["fallback_delta"]),
        origin=origin_from_json(data),
    )
