"""Estimate, verify, release: one call from a mechanism and a goal to a noise level, a claim and its evidence.

A pilot with separate draws fixes everything: the list of candidates (from the most noise to the least), their tilts,
bounds M, draws N and passing counts k. Then the candidates are verified in order with fresh draws each, and the last
one before the first failure is chosen. The claim includes the verification's randomness (``bounds``), so it needs no
confidence level. It is a plain (epsilon, delta) statement about "verify, then run the chosen candidate".

This module, not the caller, ensures the assumptions of ``bounds``. They are iid draws, fresh streams per candidate and
direction, a pass in both directions, the order and the stop at the first failure, and one run per entropy. A seed
chosen by the caller marks the result as a simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.special import ndtri

from epsilog.accounting.montecarlo import bounds, tilt as tilts
from epsilog.accounting.montecarlo.bounds import binomial_cdf, binomial_error
from epsilog.accounting.montecarlo.documents import (
    ASSUMPTIONS,
    VERSION,
    Plan,
    SimulationResult,
    TrialEvidence,
    open_simulation,
    origin_from_json,
    origin_json,
    trial_from_json,
    trial_json,
)
from epsilog.accounting.montecarlo.mixtures import METHOD
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import build_simulated_pair
from epsilog.accounting.montecarlo.run import LARGEST_SEED, Progress, RandomnessSource, SoftwareVersions, resolve_source
from epsilog.accounting.montecarlo.shards import BernoulliTrial, estimate_pilot_delta
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.mechanisms import Release
from epsilog.numerics.rounding import round_up
from epsilog.terms import CalibrationError, CheckError, check

_CLOSE = 1e-3  # relative steps of the share of the target that are of no use


@dataclass(frozen=True, slots=True)
class CandidateTest:
    """One candidate's test in one direction: it passes with at most ``hits`` hits.

    Attributes:
        trial: the experiment.
        hits: the most hits that pass.
    """

    trial: BernoulliTrial
    hits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "hits", check.integer(0, self.trial.samples)(hits=self.hits))


@dataclass(frozen=True, slots=True)
class NoiseSearchPlan(Plan):
    """Everything that is settled before the first verification draw.

    Attributes:
        epsilon: of the claim, in nats.
        target_delta: the claim is at most this.
        noises: noise of each candidate, falling.
        checks: per candidate, one test per direction, of one release that differs in its noise only.
        fallback_delta: delta of what is released if the first candidate fails; 0: nothing is released.
        origin: the code and the pilot that made it.
    """

    epsilon: Annotated[float, check.at_least(0)]
    target_delta: Annotated[float, check.in_open_interval(0, 1)]
    noises: Annotated[tuple[float, ...], check.sequence_of(check.positive())]
    checks: tuple[tuple[CandidateTest, CandidateTest], ...]
    fallback_delta: Annotated[float, check.in_closed_interval(0, 1)] = 0.0

    def __post_init__(self) -> None:
        check.check_fields(self)
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
                if trial.release != wanted.with_noise(noise):
                    raise CheckError("checks", "of one release, at the noises", repr(trial.release))

    @property
    def claim(self) -> float:
        """Delta of verifying and releasing, an upper bound: the worse of the two directions.

        Every candidate has separate draws, so the bound of the list holds, and that of any list with such tests.
        """
        sides = ([pair[side] for pair in self.checks] for side in range(2))
        return max(_bound_release(side, self.fallback_delta) for side in sides)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "v": VERSION,
            "kind": "montecarlo-noise-search",
            "epsilon": self.epsilon,
            "target_delta": self.target_delta,
            "fallback_delta": self.fallback_delta,
            "noises": list(self.noises),
            "checks": [[trial_json(test.trial) | {"passes": test.hits} for test in pair] for pair in self.checks],
        } | origin_json(self.origin)


def _bound_release(checks: Sequence[CandidateTest], fallback_delta: float) -> float:
    tests = [(one.trial.samples, one.hits, one.trial.bound) for one in checks]
    found = bounds.bound_listed_delta(tests, fallback_delta=fallback_delta)
    if any(
        found <= bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound)
        for samples, hits, bound in tests
        if fallback_delta <= bound
    ):
        return found  # the envelope's area is at least that under each of them
    return min(found, envelope_delta(checks, fallback_delta=fallback_delta))


def envelope_delta(checks: Sequence[CandidateTest], *, fallback_delta: float = 0.0) -> float:
    """Bound the released delta when candidates are tested differently: d_f + Int_{d_f}^1 max_i F_i(y) dy.

    It holds in whatever order they stand, and for a fixed list even if draws are shared. F_i falls, so that sums over
    cells of its value at the lower end are upper bounds.
    """
    tests = sorted({(c.trial.samples, c.hits, c.trial.bound) for c in checks})
    if len(tests) == 1 and fallback_delta <= tests[0][2]:
        samples, hits, bound = tests[0]
        return bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound)
    edges = [fallback_delta, 1.0, *(math.nextafter(bound, math.inf) for _, _, bound in tests)]
    ends = [
        (bound * bounds.find_transition(hits, samples, -9), bound * bounds.find_transition(hits, samples, 12))
        for samples, hits, bound in tests
    ]
    edges += list(np.linspace(min(low for low, _ in ends), max(high for _, high in ends), 4000))
    grid = np.unique(np.clip(edges, fallback_delta, 1.0))
    worst = np.zeros(len(grid) - 1)
    for samples, hits, bound in tests:
        low = grid[:-1] / bound
        passes = binomial_cdf(np.minimum(low, 1.0), samples, hits) * (1 + binomial_error(hits))
        worst = np.maximum(worst, np.where(low <= 1, passes, 0.0))
    area = float((np.minimum(worst, 1.0) * np.diff(grid)).sum())
    return min(1.0, round_up(fallback_delta + area, len(grid) + 4))


def noise_search_plan_from_json(data: dict[str, Any]) -> NoiseSearchPlan:
    """Return the value of a document from ``NoiseSearchPlan.to_json``."""
    return NoiseSearchPlan(
        epsilon=float(data["epsilon"]),
        target_delta=float(data["target_delta"]),
        noises=tuple(map(float, data["noises"])),
        checks=tuple(
            (
                CandidateTest(trial_from_json(remove), remove["passes"]),
                CandidateTest(trial_from_json(add), add["passes"]),
            )
            for remove, add in data["checks"]
        ),
        fallback_delta=float(data["fallback_delta"]),
        origin=origin_from_json(data),
    )


def plan_noise_search(
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
) -> NoiseSearchPlan:
    """Plan a noise search from pilot draws, which the verification does not use.

    Args:
        release: what is to be run; its own noise only says where the search starts.
        epsilon: of the claim, in nats.
        target_delta: of the claim.
        seed: of the pilot's streams; part of the plan.
        noises: the candidates, falling; by default a grid of relative ``step`` around the pilot's guess.
        slack: a candidate with delta this much below the target ...
        power: ... passes with about this chance; settles the number of draws.
        step: relative distance of two candidates.
        fallback_delta: delta of what is released if all fail; 0: nothing is.

    Raises:
        CalibrationError: no noise meets the goal, or the fallback uses up the target.
    """
    target_delta = check.in_open_interval(0, 1)(target_delta=target_delta)
    slack = check.in_open_interval(0, 1)(slack=slack)
    step = check.in_open_interval(0, 1)(step=step)
    power = check.in_open_interval(0.5, 1)(power=power)
    fallback_delta = check.in_half_open_interval(0, target_delta)(fallback_delta=fallback_delta)
    epsilon = check.at_least(0)(epsilon=epsilon)
    payoff = HockeyStick(epsilon)
    if noises is None:
        guess = estimate_noise(release, epsilon=epsilon, delta=target_delta * (1 - slack / 2), seed=seed)
        noises = [guess * (1 + step) ** j for j in range(6, -4, -1)]
    falling = check.sequence_of(check.positive())(noises=noises)
    z, margin = float(ndtri(power)), target_delta - fallback_delta
    trials = []
    for position, noise in enumerate(falling):
        candidate = release.with_noise(noise)
        pair = build_simulated_pair(candidate)
        for direction in DIRECTIONS:
            tilt = tilts.choose_tilt(pair, payoff, direction)
            log_m = tilts.bound_log_value(pair, tilt, payoff)
            samples = max(1024, math.ceil(z**2 * math.exp(log_m) * target_delta / (slack * margin) ** 2))
            trials.append(BernoulliTrial(candidate, payoff, tilt, log_m, samples, position))

    def choose_plan(trials: Sequence[BernoulliTrial]) -> tuple[NoiseSearchPlan, float]:
        def build_plan(share: float) -> NoiseSearchPlan:
            checks = [CandidateTest(t, _passing(t, target_delta, share, fallback_delta)) for t in trials]
            pairs = tuple((checks[i], checks[i + 1]) for i in range(0, len(checks), 2))
            return NoiseSearchPlan(epsilon, target_delta, falling, pairs, fallback_delta, origin=SoftwareVersions(seed))

        return _most_that_may_pass(build_plan, target_delta)

    plan, share = choose_plan(trials)
    kept = 1 - (share - 1) * target_delta / (slack * margin)  # of what the thresholds' own deviation may be
    if kept < 1:  # more may pass than the deltas say, so that fewer draws are as likely to pass a candidate
        fewer = [replace(t, samples=max(1024, math.ceil(t.samples * max(kept, 0.3) ** 2))) for t in trials]
        plan, _ = choose_plan(fewer)
    return plan


def _most_that_may_pass(
    build_plan: Callable[[float], NoiseSearchPlan], target_delta: float
) -> tuple[NoiseSearchPlan, float]:
    """Return the plan with about the largest passing counts within the claim, and their share of the target.

    Raises:
        CalibrationError: no passing counts keep it.
    """
    share, high, shrink, best = 1.0, math.inf, 1e-4, None
    for _ in range(12):
        plan = build_plan(share)
        claim = plan.claim
        if claim <= target_delta:
            best = plan, share
            share *= target_delta / claim
        else:  # counts are whole: a small step may change none
            high = share
            share *= (target_delta / claim) * (1 - shrink)
            shrink *= 4
        if best is not None and not best[1] * (1 + _CLOSE) < share < high:
            break
    if best is None:
        raise CalibrationError(f"no passing counts keep the claim at {target_delta:g}", bracket=(0.0, claim))
    return best


def _passing(trial: BernoulliTrial, target_delta: float, share: float, fallback_delta: float) -> int:
    bound = trial.bound
    if bound <= target_delta:
        return trial.samples  # proven by its bound: it always passes
    return bounds.maximize_hits(
        samples=trial.samples, target_delta=target_delta * share, fallback_delta=min(fallback_delta, bound), bound=bound
    )


def estimate_noise(release: Release, *, epsilon: float, delta: float, seed: int) -> float:
    """Estimate the least noise that meets (epsilon, delta), for planning: not a bound, nothing to claim.

    Bisects the log of the noise on pilot estimates of the worse direction, over common random numbers.
    """
    payoff, seed = HockeyStick(epsilon), check.integer(0, LARGEST_SEED)(seed=seed)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)

    def too_little(noise: float) -> bool:
        candidate = release.with_noise(noise)
        return any(
            estimate_pilot_delta(candidate, payoff, direction, seed, draws=2048) > delta for direction in DIRECTIONS
        )

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


@dataclass(frozen=True, slots=True)
class NoiseSearchResult(SimulationResult[NoiseSearchPlan]):
    """A finished noise search.

    Attributes:
        plan: what was settled beforehand.
        source: where the seed came from.
        evidence: what was drawn, in order, up to the first failure.
        chosen: position of the released candidate, by the evidence; ``None``: the fallback (or nothing).

    Raises:
        ValueError: evidence of another plan, or that stops without a failure, or continues after one.
    """

    chosen: int | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen", _last_before_the_first_failure(self.plan, self.evidence))

    @property
    def noise(self) -> float | None:
        """Noise of the released candidate, in the release's own unit."""
        return None if self.chosen is None else self.plan.noises[self.chosen]

    @property
    def release(self) -> Release | None:
        """Return the released mechanism."""
        return None if self.chosen is None else self.plan.checks[self.chosen][0].trial.release

    @property
    def delta(self) -> float:
        """Delta of the claim."""
        return self.plan.claim

    def to_json(self) -> dict[str, Any]:
        """Return a document from which a third party can recompute the choice and the claim, shard by shard."""
        return self._evidence_json() | {
            "chosen": self.chosen,
            "noise": self.noise,
            "claim": {"epsilon": self.plan.epsilon, "delta": self.delta, "relation": "add-or-remove-one"},
            "bound": f"estimate-verify-release of a known list, {METHOD}; docs/montecarlo/bounds.md, theorem 3",
            "assumptions": [*ASSUMPTIONS, "one run, and its result was used in any case", self.source.assumption],
        }


def _last_before_the_first_failure(plan: NoiseSearchPlan, evidence: tuple[TrialEvidence, ...]) -> int | None:
    chosen: int | None = None
    rest = list(evidence)
    for position, pair in enumerate(plan.checks):
        parts, rest = rest[:2], rest[2:]
        if [part.trial for part in parts] != [test.trial for test in pair]:
            raise ValueError(f"evidence: candidate {position} was never tested as planned, but none before it failed")
        if any(part.total > test.hits for part, test in zip(parts, pair, strict=True)):
            break
        if not all(part.is_complete for part in parts):
            raise ValueError(f"evidence: candidate {position} passed before all its draws were made")
        chosen = position
    if rest:
        raise ValueError("evidence: there is more of it than there were candidates to test")
    return chosen


def run_noise_search(
    plan: NoiseSearchPlan,
    *,
    seed: int | None = None,
    nonce: str | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> NoiseSearchResult:
    """Verify the candidates in order, with new draws each, until one fails, and choose the last that passed.

    ``plan`` was fixed without private data and without the draws of this run. ``nonce`` is public, and unknown when the
    plan's ``commitment`` was published; other arguments as in ``search_noise``.
    """
    return _verify_candidates(plan, resolve_source(seed, journal, nonce=nonce), workers, journal, progress)


def _verify_candidates(
    plan: NoiseSearchPlan,
    origin: RandomnessSource,
    workers: int | None,
    journal: Path | None,
    progress: Progress | None,
) -> NoiseSearchResult:
    draw = open_simulation(plan, origin, workers=workers, journal=journal, progress=progress)
    evidence: list[TrialEvidence] = []
    for pair in plan.checks:
        limits = [test.hits for test in pair]
        found = draw([test.trial for test in pair], limits)
        evidence += found
        if any(part.total > limit for part, limit in zip(found, limits, strict=True)):
            break
    return NoiseSearchResult(plan, origin, tuple(evidence))


def search_noise(
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
) -> NoiseSearchResult:
    """Choose the noise of a release so that verifying and running it is (epsilon, delta)-DP.

    Args:
        release: what is to be run; its own noise is replaced.
        epsilon: goal, in nats.
        delta: goal, in (0, 1); the claim is at most this.
        noises: the candidates, falling; by default a grid around a pilot's guess.
        slack: how far below the goal a candidate's delta may have to be; smaller costs more draws.
        fallback_delta: delta of what is released if all candidates fail; 0: nothing is released.
        seed: makes a run that can be repeated, and marks the result a simulation; by default fresh entropy.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file for the entropy and the finished shards, so that a killed run can resume.
        progress: called after each shard.

    Returns:
        The chosen noise, the claim and the evidence.

    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> found = search_noise(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, delta=1e-3, slack=0.3, seed=5)
    >>> 0.9 < found.noise < 1.15, found.delta <= 1e-3
    (True, True)
    """
    origin = resolve_source(seed, journal)
    plan = plan_noise_search(
        release,
        epsilon=epsilon,
        target_delta=delta,
        seed=int(origin.value),
        noises=noises,
        slack=slack,
        fallback_delta=fallback_delta,
    )
    return _verify_candidates(plan, origin, workers, journal, progress)
