"""A simulated delta with an exact confidence interval, and evidence that anybody can recompute.

The number of draws, the tilt and the bound M are settled before the draws; the interval is Clopper-Pearson on integer
hits, half of the failure probability per direction. A certificate that leaves its proven brackets is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.evidence import ASSUMPTIONS, Evidence, evidence_json, run_fingerprint
from epsilog.accounting.montecarlo.intervals import anytime, clopper_pearson
from epsilog.accounting.montecarlo.mixtures import METHOD
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick, Payoff
from epsilog.accounting.montecarlo.planning import pilot_delta
from epsilog.accounting.montecarlo.run import Journal, Progress, Source, run_trials, source
from epsilog.accounting.montecarlo.shards import Trial
from epsilog.terms import CalibrationError, Interval, NeighboringRelation, Release, check, codec

BESIDE = (
    "the profiles beside it bound the other events from above, each in its direction, independently of this release"
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Delta of a release at one epsilon, in an interval that holds but for a small failure probability.

    Attributes:
        source: the seed, and whether the caller chose it; such a certificate repeats a run, it does not make a claim.
        failure: chance over the draws that the interval is wrong.
        evidence: per direction.
        interval: bounds on delta, the worse direction, computed from the evidence; the estimate is the plain mean.

    Raises:
        ValueError: evidence that is not of one release and epsilon in both directions, or not complete.
        CalibrationError: the interval misses its proven brackets.
    """

    source: Source
    failure: float
    evidence: tuple[Evidence, ...]
    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        check.fields(self, failure=check.between(0, 1))
        trials = [part.trial for part in self.evidence]
        if [(trial.candidate, trial.tilt.direction) for trial in trials] != [(0, way) for way in DIRECTIONS]:
            raise ValueError(f"evidence must be of both directions, got {[trial.tilt for trial in trials]!r}")
        if len({(trial.release, trial.payoff.epsilon, type(trial.payoff)) for trial in trials}) > 1:
            raise ValueError("evidence must be of one release at one epsilon, got two")
        for part in self.evidence:
            if not part.whole:
                raise ValueError(f"evidence must be complete, got {part.trial.tilt.direction} that stopped early")
        object.__setattr__(self, "interval", _interval(self.evidence, self.failure))

    @property
    def seed(self) -> int:
        """Of the streams, up to 128 bits."""
        return self.source.seed

    @property
    def simulation(self) -> bool:
        """Whether the caller chose the seed."""
        return self.source.simulation

    def to_json(self) -> dict[str, Any]:
        """A document from which a third party can recompute every shard."""
        return {
            "v": 0,
            "kind": "montecarlo-certificate",
            "interval": codec.encode(self.interval),
            "failure": self.failure,
        } | evidence_json(self.source, self.evidence)


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
        journal: file that remembers the entropy and the finished shards, so that a killed run goes on where it was.
        progress: called after each shard.

    Raises:
        UnsupportedMechanismError: no proven pair for the release.
        CalibrationError: the interval misses its proven brackets.

    >>> from epsilog.terms import BallsInBins, Gaussian
    >>> found = certify(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, samples=20_000, seed=7)
    >>> 6.876e-4 in found.interval, found.simulation
    (True, True)
    """
    epsilon = check.at_least(0)(epsilon=epsilon)
    failure = check.between(0, 1)(failure=failure)
    if beside is not None and any(payoff.epsilon != epsilon for payoff in beside):
        raise ValueError(f"beside must hold two payoffs at epsilon = {epsilon!r}, got {beside!r}")
    origin = source(seed, journal)
    payoffs: tuple[Payoff, Payoff] = beside or (HockeyStick(epsilon), HockeyStick(epsilon))
    trials = _sized(release, payoffs, origin.seed, samples=samples, gap=gap, failure=failure / 2)
    book = Journal.begin(journal, run_fingerprint(trials), origin) if journal else None
    counts = run_trials(trials, seed=origin.seed, workers=workers, journal=book, progress=progress)
    return Certificate(
        origin, failure, tuple(Evidence(trial, hits) for trial, hits in zip(trials, counts, strict=True))
    )


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
    gap = check.between(0, 1)(gap=gap)
    pair = pair_of(release)
    tilt = [tilts.choose_tilt(pair, p, d) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
    log_m = [tilts.log_bound(pair, t, p) for t, p in zip(tilt, payoffs, strict=True)]
    sizes = [0, 0] if samples is None else [samples, samples]
    if samples is None:
        guess = [pilot_delta(release, p, d, seed) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
        worse = max(*guess, 1e-6 * max(math.exp(m) for m in log_m))
        sizes = [_draws(g, math.exp(m), worse * (1 + gap), failure) for g, m in zip(guess, log_m, strict=True)]
    first, second = (Trial(release, *rest) for rest in zip(payoffs, tilt, log_m, sizes, strict=True))
    return first, second


def _draws(delta: float, bound: float, upper: float, failure: float) -> int:
    """Draws N after which an interval around delta should end below ``upper``: for planning only.

    Bernstein's shape: delta + sqrt(2 delta w) + w <= upper at w = bound ln(2 / failure) / N.
    """
    root = 2 * (upper - delta) / (math.sqrt(2 * delta) + math.sqrt(2 * delta + 4 * (upper - delta)))
    return math.ceil(bound * math.log(2 / failure) / root**2) + 1024


def _interval(evidence: tuple[Evidence, ...], failure: float) -> Interval:
    lower = upper = estimate = 0.0
    epsilon, composed = evidence[0].trial.payoff.epsilon, False
    for part in evidence:
        trial = part.trial
        bound = math.exp(trial.log_bound)
        low, high = clopper_pearson(hits=part.total, samples=trial.samples, failure=failure / 2)
        low, high = low * bound * (1 - 1e-12), high * bound * (1 + 1e-12)
        least, most = pair_of(trial.release).brackets(epsilon, trial.tilt.direction)
        if isinstance(trial.payoff, BesideProfile):  # other events only add; their profile is an upper bound on theirs
            composed, low, most = True, 0.0, 1.0
        most = min(most, bound, 1.0)
        if low > most * (1 + 1e-9) or high < least * (1 - 1e-9):
            raise CalibrationError(
                f"simulated delta {low:.4g} .. {high:.4g} misses its brackets", bracket=(least, most)
            )
        lower, upper = max(lower, low, least), max(upper, min(high, most))
        estimate = max(estimate, part.total / trial.samples * bound)
    return Interval(
        lower=min(lower, upper),
        upper=upper,
        estimate=min(max(estimate, lower), upper),
        method=f"{METHOD}, importance-sampled, Clopper-Pearson" + (", beside other events" if composed else ""),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        assumptions=(
            *ASSUMPTIONS,
            *((BESIDE,) if composed else ()),
            f"true but for a chance of {failure:g} over the draws",
        ),
        quantity="delta",
        given=(("epsilon", epsilon), ("failure", failure)),
    )


def narrowing(trial: Trial, draws: int, hits: int, failure: float) -> tuple[float, float]:
    """The interval for a trial's delta after some of its draws, valid however often one looks; for displays."""
    low, high = anytime(hits=hits, samples=draws, failure=failure)
    bound = math.exp(trial.log_bound)
    return low * bound, min(1.0, high * bound)
