"""A simulated delta with an exact confidence interval, and evidence that anybody can recompute.

The number of draws, the tilt and the bound M are settled before the draws; the interval is Clopper-Pearson on integer
hits, half of the failure probability per direction. A certificate that leaves its proven brackets is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.evidence import ASSUMPTIONS, Evidence, evidence_json, run_fingerprint
from epsilog.accounting.montecarlo.intervals import anytime, clopper_pearson
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import METHOD, pair_of
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick, Payoff
from epsilog.accounting.montecarlo.run import Journal, Progress, entropy, run_trials
from epsilog.accounting.montecarlo.shards import Trial
from epsilog.terms import CalibrationError, Interval, NeighboringRelation, Release, check, codec


@dataclass(frozen=True, slots=True)
class Certificate:
    """Delta of a release at one epsilon, in an interval that holds but for a small failure probability.

    Attributes:
        interval: bounds on delta, the worse direction; the estimate is the plain mean.
        failure: chance over the draws that the interval is wrong.
        seed: of the streams, 128 bits.
        simulation: whether the caller chose the seed; such a certificate repeats a run, it does not make a claim.
        evidence: per direction.
    """

    interval: Interval
    failure: float
    seed: int
    simulation: bool
    evidence: tuple[Evidence, ...]

    def to_json(self) -> dict[str, Any]:
        """A document from which a third party can recompute every shard."""
        return {
            "v": 0,
            "kind": "montecarlo-certificate",
            "interval": codec.encode(self.interval),
            "failure": self.failure,
        } | evidence_json(self.seed, self.simulation, self.evidence)


def certify(
    release: Release,
    *,
    epsilon: float,
    failure: float = 1e-6,
    samples: int | None = None,
    gap: float = 0.1,
    beside: tuple[BesideProfile, BesideProfile] | None = None,
    seed: int | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Simulates delta(epsilon) of a release, in both directions, and bounds it.

    Args:
        release: a matrix mechanism with its participation, balls-in-bins, or Poisson-sampled Gaussian rounds.
        epsilon: in nats, at least 0.
        failure: chance over the draws that the interval is wrong; shared by the directions.
        samples: draws per direction; by default enough for ``gap``, judged by a pilot whose draws are not used again.
        gap: relative distance wanted between the upper bound and the estimate; only steers the default ``samples``.
        beside: certified profiles of other events composed with this release, remove and add, at this epsilon.
        seed: repeats an earlier run, and marks the result a simulation; by default fresh entropy.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file that remembers finished shards (needs ``seed`` to be resumed).
        progress: called after each shard.

    Raises:
        UnsupportedMechanismError: no proven pair for the release.
        CalibrationError: the interval misses its proven brackets.

    >>> from epsilog.terms import BallsInBins, Gaussian
    >>> found = certify(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, samples=20_000, seed=7)
    >>> 6.876e-4 in found.interval, found.simulation
    (True, True)
    """
    check.at_least(0, epsilon=epsilon)
    check.between(0, 1, failure=failure)
    if beside is not None and any(payoff.epsilon != epsilon for payoff in beside):
        raise ValueError(f"beside must hold two payoffs at epsilon = {epsilon!r}, got {beside!r}")
    used = entropy() if seed is None else seed
    payoffs: tuple[Payoff, Payoff] = beside or (HockeyStick(epsilon), HockeyStick(epsilon))
    trials = _sized(release, payoffs, used, samples=samples, gap=gap, failure=failure / 2)
    book = Journal(journal, run_fingerprint(used, trials)) if journal else None
    counts = run_trials(trials, seed=used, workers=workers, journal=book, progress=progress)
    evidence = tuple(Evidence(trial, hits) for trial, hits in zip(trials, counts, strict=True))
    interval = _interval(evidence, epsilon, failure)
    return Certificate(interval, failure, used, seed is not None, evidence)


def pilot_delta(release: Release, payoff: Payoff, direction: str, seed: int, *, draws: int = 4096) -> float:
    """Estimates delta from draws of their own stream, which no certificate uses."""
    pair = pair_of(release)
    tilt = tilts.choose_tilt(pair, payoff, direction)
    key = (len(DIRECTIONS) + DIRECTIONS.index(direction),)
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))
    values = [np.exp(tilts.log_values(pair, tilt, payoff, rng, 1024)) for _ in range(-(-draws // 1024))]
    return float(np.concatenate(values).mean())


def _sized(
    release: Release,
    payoffs: tuple[Payoff, Payoff],
    seed: int,
    *,
    samples: int | None,
    gap: float,
    failure: float,
) -> tuple[Trial, Trial]:
    """One trial per direction, each with enough draws to know delta to within ``gap`` of the worse direction's."""
    check.between(0, 1, gap=gap)
    pair = pair_of(release)
    tilt = [tilts.choose_tilt(pair, p, d) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
    log_m = [tilts.log_bound(pair, t, p) for t, p in zip(tilt, payoffs, strict=True)]
    sizes = [samples or 0] * 2
    if samples is None:
        guess = [pilot_delta(release, p, d, seed) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
        worse = max(*guess, 1e-6 * max(math.exp(m) for m in log_m))
        # the upper end stands at most sqrt(2 ln(1 / failure)) standard deviations above the mean
        sizes = [
            math.ceil(2 * math.log(2 / failure) * math.exp(m) * max(g, worse / 20) / (gap * worse) ** 2) + 1024
            for g, m in zip(guess, log_m, strict=True)
        ]
    first, second = (Trial(release, *rest) for rest in zip(payoffs, tilt, log_m, sizes, strict=True))
    return first, second


def _interval(evidence: tuple[Evidence, ...], epsilon: float, failure: float) -> Interval:
    lower = upper = estimate = 0.0
    composed = False
    for part in evidence:
        trial = part.trial
        bound = math.exp(trial.log_bound)
        low, high = clopper_pearson(hits=part.total, samples=trial.samples, failure=failure / 2)
        low, high = low * bound * (1 - 1e-12), high * bound * (1 + 1e-12)
        if isinstance(trial.payoff, HockeyStick):
            least, most = pair_of(trial.release).brackets(epsilon, trial.tilt.direction)
            most = min(most, bound, 1.0)
            if low > most * (1 + 1e-9) or high < least * (1 - 1e-9):
                raise CalibrationError(
                    f"simulated delta {low:.4g} .. {high:.4g} misses its brackets", bracket=(least, most)
                )
            low, high = max(low, least), min(high, most)
        else:
            composed, high = True, min(high, 1.0)
        lower, upper = max(lower, low), max(upper, high)
        estimate = max(estimate, part.total / trial.samples * bound)
    return Interval(
        lower=lower,
        upper=upper,
        estimate=min(max(estimate, lower), upper),
        method=f"{METHOD}, importance-sampled, Clopper-Pearson" + (", beside other events" if composed else ""),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        assumptions=(*ASSUMPTIONS, f"true but for a chance of {failure:g} over the draws"),
        quantity="delta",
        given=(("epsilon", epsilon), ("failure", failure)),
    )


def narrowing(trial: Trial, draws: int, hits: int, failure: float) -> tuple[float, float]:
    """The interval for a trial's delta after some of its draws, valid however often one looks; for displays."""
    low, high = anytime(hits=hits, samples=draws, failure=failure)
    bound = math.exp(trial.log_bound)
    return low * bound, min(1.0, high * bound)
