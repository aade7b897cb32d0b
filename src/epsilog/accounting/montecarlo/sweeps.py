"""Estimate, verify, release: one call from a mechanism and a goal to a noise level, a claim and its evidence.

A pilot on draws of its own settles everything: the list of candidates (from the most noise to the least), their tilts,
bounds M, draws N and passing counts k. Then the candidates are verified in order with fresh draws each, and the last
one before the first failure is chosen. The claim counts the verification's own randomness in (``bounds``), so it needs
no confidence level: it is a plain (epsilon, delta) statement about "verify, then run what was chosen".

What ``bounds`` assumes is settled here and not by the caller: iid draws, fresh streams per candidate and direction, a
pass in both directions, the order and the stop at the first failure, one run per entropy. A seed that the caller chose
marks the result a simulation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from epsilog.accounting.montecarlo import bounds
from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.certificates import pilot_delta
from epsilog.accounting.montecarlo.evidence import ASSUMPTIONS, Evidence, evidence_json, run_fingerprint, trial_json
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import METHOD, pair_of
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.accounting.montecarlo.run import Journal, Progress, entropy, run_trials
from epsilog.accounting.montecarlo.shards import Trial
from epsilog.terms import (
    BallsInBins,
    CalibrationError,
    Gaussian,
    MatrixMechanism,
    PoissonSampled,
    Release,
    Repeated,
    UnsupportedMechanismError,
    check,
)


@dataclass(frozen=True, slots=True)
class Check:
    """One candidate's test in one direction: it passes with at most ``hits`` hits.

    Attributes:
        trial: the experiment.
        hits: the most hits that pass.
    """

    trial: Trial
    hits: int


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Everything that is settled before the first verification draw.

    Attributes:
        epsilon: of the claim, in nats.
        target_delta: the claim is at most this.
        noises: noise of each candidate, falling.
        checks: per candidate, one test per direction.
        fallback_delta: delta of what is released if the first candidate fails; 0: nothing is released.
    """

    epsilon: float
    target_delta: float
    noises: tuple[float, ...]
    checks: tuple[tuple[Check, Check], ...]
    fallback_delta: float = 0.0

    def __post_init__(self) -> None:
        check.at_least(0, epsilon=self.epsilon)
        check.between(0, 1, target_delta=self.target_delta)
        check.within(0, 1, fallback_delta=self.fallback_delta)
        if not self.noises or len(self.noises) != len(self.checks):
            raise ValueError(f"checks must match noises, got {len(self.checks)} and {len(self.noises)}")
        if list(self.noises) != sorted(self.noises, reverse=True):
            raise ValueError(f"noises must fall, got {self.noises!r}")
        for position, pair in enumerate(self.checks):
            for test, direction in zip(pair, DIRECTIONS, strict=True):
                if (test.trial.candidate, test.trial.tilt.direction) != (position, direction):
                    raise ValueError(f"checks must be numbered and hold both directions, got {test!r}")

    @property
    def claim(self) -> float:
        """Delta of verifying and releasing, an upper bound: the worse of the two directions."""
        sides = ([pair[side] for pair in self.checks] for side in range(2))
        return max(envelope_delta(side, fallback_delta=self.fallback_delta) for side in sides)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A finished sweep.

    Attributes:
        plan: what was settled beforehand.
        chosen: position of the released candidate; ``None``: the fallback (or nothing).
        seed: of the streams, 128 bits.
        simulation: whether the caller chose the seed; such a run repeats another, it makes no claim of its own.
        evidence: what was drawn, in order, up to the first failure.
    """

    plan: SweepPlan
    chosen: int | None
    seed: int
    simulation: bool
    evidence: tuple[Evidence, ...]

    @property
    def noise(self) -> float | None:
        """Noise of the released candidate, in the release's own unit."""
        return None if self.chosen is None else self.plan.noises[self.chosen]

    @property
    def release(self) -> Release | None:
        """The released mechanism."""
        return None if self.chosen is None else self.plan.checks[self.chosen][0].trial.release

    @property
    def delta(self) -> float:
        """Delta of the claim."""
        return self.plan.claim

    def to_json(self) -> dict[str, Any]:
        """A document from which a third party can recompute the choice and the claim, shard by shard."""
        return (
            plan_json(self.plan)
            | {
                "chosen": self.chosen,
                "noise": self.noise,
                "claim": {"epsilon": self.plan.epsilon, "delta": self.delta, "relation": "add-or-remove-one"},
                "bound": f"integrated estimate-verify-release, {METHOD}; docs/montecarlo/bounds.md",
                "assumptions": [*ASSUMPTIONS, "one run, whose result was used whatever it was"],
            }
            | evidence_json(self.seed, self.simulation, self.evidence)
        )


def envelope_delta(checks: Sequence[Check], *, fallback_delta: float = 0.0) -> float:
    """Bounds the released delta when candidates are tested differently: d_f + Int_{d_f}^1 max_i F_i(y) dy.

    F_i falls, so that sums over cells of its value at the lower end are upper bounds.
    """
    tests = sorted({(c.trial.samples, c.hits, math.exp(c.trial.log_bound)) for c in checks})
    if len(tests) == 1 and fallback_delta <= tests[0][2]:
        samples, hits, bound = tests[0]
        return bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound)
    edges = [fallback_delta, 1.0, *(math.nextafter(bound, math.inf) for _, _, bound in tests)]
    ends = [(bound * _edge(hits, samples, -9), bound * _edge(hits, samples, 12)) for samples, hits, bound in tests]
    edges += list(np.linspace(min(low for low, _ in ends), max(high for _, high in ends), 4000))
    grid = np.unique(np.clip(edges, fallback_delta, 1.0))
    worst = np.zeros(len(grid) - 1)
    for samples, hits, bound in tests:
        low = grid[:-1] / bound
        passes = bounds.passes(np.minimum(low, 1.0), samples, hits) * (1 + 1e-10)
        worst = np.maximum(worst, np.where(low <= 1, passes, 0.0))
    area = float((np.minimum(worst, 1.0) * np.diff(grid)).sum())
    return min(1.0, (fallback_delta + area) * (1 + 1e-12))


def _edge(hits: int, samples: int, deviations: float) -> float:
    """Where the passing chance is next to 1 (deviations below 0) or next to 0 (above)."""
    return min(1.0, max(0.0, (hits + 1 + deviations * math.sqrt(hits + 1) + max(deviations, 0) * 3) / (samples + 1)))


@singledispatch
def renoised(release: Release, noise: float) -> Release:  # noqa: ARG001 (its cases use it)
    """The same release with another amount of noise."""
    raise UnsupportedMechanismError(release, method=METHOD, reason="there is no noise to choose")


@renoised.register
def _(release: MatrixMechanism, noise: float) -> Release:
    return dataclasses.replace(release, noise_stddev=noise)


@renoised.register
def _(release: Gaussian, noise: float) -> Release:
    return dataclasses.replace(release, noise_multiplier=noise)


@renoised.register(BallsInBins)
@renoised.register(PoissonSampled)
@renoised.register(Repeated)
def _(release: BallsInBins | PoissonSampled | Repeated, noise: float) -> Release:
    return dataclasses.replace(release, release=renoised(release.release, noise))


def plan_sweep(
    release: Release,
    *,
    epsilon: float,
    target_delta: float,
    seed: int,
    noises: Sequence[float] | None = None,
    slack: float = 0.1,
    power: float = 0.99,
    step: float = 0.01,
    fallback_delta: float = 0.0,
) -> SweepPlan:
    """Settles a sweep from pilot draws, which the verification does not use.

    Args:
        release: what is to be run; its own noise only says where the search starts.
        epsilon: of the claim, in nats.
        target_delta: of the claim.
        seed: of the pilot's streams.
        noises: the candidates, falling; by default a grid of relative ``step`` around the pilot's guess.
        slack: a candidate whose delta is this much below the target ...
        power: ... passes with about this chance; settles the number of draws.
        step: relative distance of two candidates.
        fallback_delta: delta of what is released if all fail; 0: nothing is.

    Raises:
        CalibrationError: no noise meets the goal, or the fallback leaves no room.
    """
    check.between(0, 1, target_delta=target_delta, slack=slack, step=step)
    check.between(0.5, 1, power=power)
    check.half_open(0, target_delta, fallback_delta=fallback_delta)
    payoff = HockeyStick(epsilon)
    if noises is None:
        guess = estimate_noise(release, epsilon=epsilon, delta=target_delta * (1 - slack / 2), seed=seed)
        noises = [guess * (1 + step) ** j for j in range(6, -4, -1)]
    falling = tuple(float(noise) for noise in noises)
    z = float(ndtri(power))
    trials = []
    for position, noise in enumerate(falling):
        candidate = renoised(release, noise)
        pair = pair_of(candidate)
        for direction in DIRECTIONS:
            tilt = tilts.choose_tilt(pair, payoff, direction)
            log_m = tilts.log_bound(pair, tilt, payoff)
            room = target_delta - fallback_delta
            samples = max(1024, math.ceil(z**2 * math.exp(log_m) * target_delta / (slack * room) ** 2))
            trials.append(Trial(candidate, payoff, tilt, log_m, samples, position))
    share = 1.0
    for _ in range(60):
        checks = [Check(t, _passing(t, target_delta * share, fallback_delta)) for t in trials]
        pairs = tuple((checks[i], checks[i + 1]) for i in range(0, len(checks), 2))
        plan = SweepPlan(epsilon, target_delta, falling, pairs, fallback_delta)
        claim = plan.claim
        if claim <= target_delta:
            return plan
        share *= (target_delta / claim) * (1 - 1e-5)
    raise CalibrationError(f"no passing counts keep the claim at {target_delta:g}", bracket=(0.0, claim))


def _passing(trial: Trial, target_delta: float, fallback_delta: float) -> int:
    bound = math.exp(trial.log_bound)
    if bound <= target_delta:
        return trial.samples  # proven by its bound: it always passes
    return bounds.largest_hits(
        samples=trial.samples, target_delta=target_delta, fallback_delta=min(fallback_delta, bound), bound=bound
    )


def estimate_noise(release: Release, *, epsilon: float, delta: float, seed: int) -> float:
    """Estimates the least noise that meets (epsilon, delta), for planning: not a bound, nothing to claim.

    Bisects the log of the noise on pilot estimates of the worse direction, over common random numbers.
    """
    payoff = HockeyStick(epsilon)

    def too_little(noise: float) -> bool:
        candidate = renoised(release, noise)
        return any(pilot_delta(candidate, payoff, direction, seed, draws=2048) > delta for direction in DIRECTIONS)

    low = high = 1.0
    while too_little(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise CalibrationError(f"no noise up to {high:g} meets delta {delta:g}", bracket=(low, high))
    while low == high or not too_little(low):
        low, high = low / 2, min(high, low)
        if low < 1e-3:
            raise CalibrationError(f"even noise {low:g} meets delta {delta:g}", bracket=(low, high))
    while high > low * 1.005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if too_little(middle) else (low, middle)
    return high


def run_sweep(
    plan: SweepPlan,
    *,
    seed: int,
    simulation: bool,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Verifies the candidates in order, with fresh draws each, until one fails; chooses the last that passed."""
    everything = tuple(test.trial for pair in plan.checks for test in pair)
    book = Journal(journal, run_fingerprint(seed, everything)) if journal else None
    evidence: list[Evidence] = []
    chosen: int | None = None
    for position, pair in enumerate(plan.checks):
        trials = tuple(test.trial for test in pair)
        limits = [test.hits for test in pair]
        counts = run_trials(trials, seed=seed, limits=limits, workers=workers, journal=book, progress=progress)
        found = [Evidence(trial, hits) for trial, hits in zip(trials, counts, strict=True)]
        evidence += found
        if any(part.total > test.hits for part, test in zip(found, pair, strict=True)):
            break
        chosen = position
    return SweepResult(plan, chosen, seed, simulation, tuple(evidence))


def sweep(
    release: Release,
    *,
    epsilon: float,
    delta: float,
    noises: Sequence[float] | None = None,
    slack: float = 0.1,
    fallback_delta: float = 0.0,
    seed: int | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Chooses the noise of a release so that verifying and running it is (epsilon, delta)-DP.

    Args:
        release: what is to be run; its own noise is replaced.
        epsilon: goal, in nats.
        delta: goal, in (0, 1); the claim is at most this.
        noises: the candidates, falling; by default a grid around a pilot's guess.
        slack: how far below the goal a candidate's delta may have to be; smaller costs more draws.
        fallback_delta: delta of what is released if all candidates fail; 0: nothing is released.
        seed: repeats an earlier run, and marks the result a simulation; by default fresh entropy.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file that remembers finished shards (needs ``seed`` to be resumed).
        progress: called after each shard.

    Returns:
        The chosen noise, the claim and the evidence.

    >>> from epsilog.terms import BallsInBins, Gaussian
    >>> found = sweep(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, delta=1e-3, slack=0.3, seed=5)
    >>> 0.9 < found.noise < 1.15, found.delta <= 1e-3
    (True, True)
    """
    used = entropy() if seed is None else seed
    plan = plan_sweep(
        release,
        epsilon=epsilon,
        target_delta=delta,
        seed=used,
        noises=noises,
        slack=slack,
        fallback_delta=fallback_delta,
    )
    return run_sweep(plan, seed=used, simulation=seed is not None, workers=workers, journal=journal, progress=progress)


# ---- evidence --------------------------------------------------------------------------------------------------------


def plan_json(plan: SweepPlan) -> dict[str, Any]:
    """A plan as plain JSON values."""
    return {
        "v": 0,
        "kind": "montecarlo-sweep",
        "epsilon": plan.epsilon,
        "target_delta": plan.target_delta,
        "fallback_delta": plan.fallback_delta,
        "noises": list(plan.noises),
        "checks": [[trial_json(test.trial) | {"passes": test.hits} for test in pair] for pair in plan.checks],
    }
