"""The search before a sweep: from a goal and pilot draws to candidates, draws and passing counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from epsilog.accounting.montecarlo.draws import tilt as tilts
from epsilog.accounting.montecarlo.draws.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.draws.pairs import pair_of
from epsilog.accounting.montecarlo.draws.payoff import HockeyStick, Payoff
from epsilog.accounting.montecarlo.draws.shards import BLOCK, Trial, pilot_stream
from epsilog.accounting.montecarlo.draws.threads import one_thread
from epsilog.accounting.montecarlo.evidence.candidates import Check, SweepPlan
from epsilog.accounting.montecarlo.evidence.documents import Origin
from epsilog.accounting.montecarlo.evidence.run import LARGEST_SEED
from epsilog.accounting.montecarlo.promises import bounds
from epsilog.mechanisms import Release
from epsilog.numerics.laws.pair import Direction
from epsilog.terms import CalibrationError, check

_CLOSE = 1e-3  # relative steps of the share of the target that are of no use


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
        seed: of the pilot's streams; part of the plan.
        noises: the candidates, falling; by default a grid of relative ``step`` around the pilot's guess.
        slack: a candidate whose delta is this much below the target ...
        power: ... passes with about this chance; settles the number of draws.
        step: relative distance of two candidates.
        fallback_delta: delta of what is released if all fail; 0: nothing is.

    Raises:
        CalibrationError: no noise meets the goal, or the fallback leaves no room.
    """
    target_delta = check.between(0, 1)(target_delta=target_delta)
    slack = check.between(0, 1)(slack=slack)
    step = check.between(0, 1)(step=step)
    power = check.between(0.5, 1)(power=power)
    fallback_delta = check.half_open(0, target_delta)(fallback_delta=fallback_delta)
    epsilon = check.at_least(0)(epsilon=epsilon)
    payoff = HockeyStick(epsilon)
    if noises is None:
        guess = estimate_noise(release, epsilon=epsilon, delta=target_delta * (1 - slack / 2), seed=seed)
        noises = [guess * (1 + step) ** j for j in range(6, -4, -1)]
    falling = check.each(check.positive())(noises=noises)
    z, room = float(ndtri(power)), target_delta - fallback_delta
    trials = []
    for position, noise in enumerate(falling):
        candidate = release.renoised(noise)
        pair = pair_of(candidate)
        for direction in DIRECTIONS:
            tilt = tilts.choose_tilt(pair, payoff, direction)
            log_m = tilts.log_bound(pair, tilt, payoff)
            samples = max(1024, math.ceil(z**2 * math.exp(log_m) * target_delta / (slack * room) ** 2))
            trials.append(Trial(candidate, payoff, tilt, log_m, samples, position))

    def settled(trials: Sequence[Trial]) -> tuple[SweepPlan, float]:
        def made(share: float) -> SweepPlan:
            checks = [Check(t, _passing(t, target_delta, share, fallback_delta)) for t in trials]
            pairs = tuple((checks[i], checks[i + 1]) for i in range(0, len(checks), 2))
            return SweepPlan(epsilon, target_delta, falling, pairs, fallback_delta, origin=Origin(seed))

        return _most_that_may_pass(made, target_delta)

    plan, share = settled(trials)
    kept = 1 - (share - 1) * target_delta / (slack * room)  # of what the thresholds' own deviation may be
    if kept < 1:  # more may pass than the deltas say, so that fewer draws are as likely to pass a candidate
        fewer = [replace(t, samples=max(1024, math.ceil(t.samples * max(kept, 0.3) ** 2))) for t in trials]
        plan, _ = settled(fewer)
    return plan


def _most_that_may_pass(made: Callable[[float], SweepPlan], target_delta: float) -> tuple[SweepPlan, float]:
    """The plan with about the largest passing counts that keep the claim, and the share of the target they stand for.

    Raises:
        CalibrationError: no passing counts keep it.
    """
    share, high, shrink, best = 1.0, math.inf, 1e-4, None
    for _ in range(12):
        plan = made(share)
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


def _passing(trial: Trial, target_delta: float, share: float, fallback_delta: float) -> int:
    bound = trial.bound
    if bound <= target_delta:
        return trial.samples  # proven by its bound: it always passes
    return bounds.largest_hits(
        samples=trial.samples, target_delta=target_delta * share, fallback_delta=min(fallback_delta, bound), bound=bound
    )


def estimate_noise(release: Release, *, epsilon: float, delta: float, seed: int) -> float:
    """Estimates the least noise that meets (epsilon, delta), for planning: not a bound, nothing to claim.

    Bisects the log of the noise on pilot estimates of the worse direction, over common random numbers.
    """
    payoff, seed = HockeyStick(epsilon), check.integer(0, LARGEST_SEED)(seed=seed)
    delta = check.between(0, 1, check.DOWN)(delta=delta)

    def too_little(noise: float) -> bool:
        candidate = release.renoised(noise)
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


@one_thread()
def pilot_delta(release: Release, payoff: Payoff, direction: Direction, seed: int, *, draws: int = 4096) -> float:
    """Estimates delta from draws of their own stream, which no certificate uses."""
    pair = pair_of(release)
    tilt = tilts.choose_tilt(pair, payoff, direction)
    rng, log_m = pilot_stream(seed, direction), tilts.log_bound(pair, tilt, payoff)
    values = [np.exp(tilts.log_values(pair, tilt, payoff, rng, BLOCK, log_m=log_m)) for _ in range(-(-draws // BLOCK))]
    return float(np.concatenate(values).mean())
