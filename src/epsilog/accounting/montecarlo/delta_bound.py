"""A simulated delta with an exact confidence interval, and recomputable evidence.

The number of draws, the tilt and the bound M are settled before the draws; the interval is Clopper-Pearson on integer
hits, half of the failure probability per direction. Evidence that leaves its proven brackets is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.bounds import LEAST_FAILURE, anytime_interval, clopper_pearson_interval
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
from epsilog.accounting.montecarlo.run import Progress, RandomnessSource, SoftwareVersions, resolve_source
from epsilog.accounting.montecarlo.shards import SHARD, BernoulliTrial, estimate_pilot_delta
from epsilog.accounting.montecarlo.tilt import HockeyStick, Payoff, ProfilePayoff
from epsilog.mechanisms import Release
from epsilog.terms import CalibrationError, CheckError, Interval, NeighboringRelation, check, codec
from epsilog.terms.charts import draw_band_plot
from epsilog.terms.messages import Message

PROFILE_PAYOFF = (
    "the given profiles bound the other events from above, each in its direction, independently of this release"
)


@dataclass(frozen=True, slots=True)
class DeltaBoundPlan(Plan):
    """Everything that decides a bound on delta before its first draw.

    Attributes:
        trials: one per direction, of one release at one epsilon.
        failure: chance over the draws that the interval is wrong.
        origin: the code and the pilot that made it.
    """

    trials: tuple[BernoulliTrial, ...]
    failure: Annotated[float, check.in_closed_interval(LEAST_FAILURE, 1 - 1e-9)]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if [(trial.candidate, trial.tilt.direction) for trial in self.trials] != [(0, way) for way in DIRECTIONS]:
            raise CheckError("trials", "of both directions", repr([trial.tilt for trial in self.trials]))
        if len({(trial.release, trial.payoff.epsilon, type(trial.payoff)) for trial in self.trials}) > 1:
            raise CheckError("trials", "of one release at one epsilon", "two")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "v": VERSION,
            "kind": "montecarlo-delta-bound",
            "failure": self.failure,
            "trials": [trial_json(trial) for trial in self.trials],
        } | origin_json(self.origin)


def delta_bound_plan_from_json(data: dict[str, Any]) -> DeltaBoundPlan:
    """Return the value of a document from ``DeltaBoundPlan.to_json``."""
    trials = tuple(trial_from_json(entry) for entry in data["trials"])
    return DeltaBoundPlan(trials, float(data["failure"]), origin=origin_from_json(data))


@dataclass(frozen=True, slots=True)
class MonteCarloEvidence(SimulationResult[DeltaBoundPlan]):
    """Delta of a release at one epsilon, in an interval with a small failure probability.

    Attributes:
        plan: what was settled beforehand.
        source: where the seed came from.
        evidence: per direction.
        interval: bounds on delta, the worse direction, computed from the evidence; the estimate is the plain mean.

    Raises:
        ValueError: evidence of another plan, or not complete.
        CalibrationError: the interval misses its proven brackets.
    """

    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        if [part.trial for part in self.evidence] != list(self.plan.trials):
            raise CheckError("evidence", "of the planned trials", "others")
        for part in self.evidence:
            if not part.is_complete:
                raise CheckError("evidence", "complete", f"{part.trial.tilt.direction} that stopped early")
        object.__setattr__(self, "interval", _interval(self.evidence, self.plan.failure, self.source))

    @property
    def failure(self) -> float:
        """Chance over the draws that the interval is wrong."""
        return self.plan.failure

    def _repr_html_(self) -> str:
        worse = max(self.evidence, key=lambda part: part.total / part.trial.samples * part.trial.bound)
        way = str(worse.trial.tilt.direction)
        drawn = draw_band_plot(
            [(way, _looks(worse, self.failure))],
            title="The interval as it closed: valid at all draws at once, and not what is claimed",
            x_label=f"draws in the worse direction, {way}",
            y_label="delta",
            log_x=True,
            log_y=True,
            mark=("claimed", self.interval.upper),
        )
        return self.interval._repr_html_() + drawn

    def to_json(self) -> dict[str, Any]:
        """Return a document from which a third party can recompute every shard."""
        return self._evidence_json() | {"interval": codec.encode(self.interval)}


def plan_delta_bound(
    release: Release,
    *,
    epsilon: float,
    seed: int,
    failure: float = 1e-6,
    samples: int | None = None,
    relative_width: float = 0.1,
    payoffs: tuple[ProfilePayoff, ProfilePayoff] | None = None,
) -> DeltaBoundPlan:
    """Plan a bound on delta from pilot draws, which the verification does not use.

    ``seed`` is that of the pilot's streams, a part of the plan; all else is as in ``bound_delta``.
    """
    epsilon = check.at_least(0)(epsilon=epsilon)
    failure, relative_width = (
        check.in_open_interval(0, 1)(failure=failure),
        check.in_open_interval(0, 1)(relative_width=relative_width),
    )
    samples = check.optional(check.integer(1))(samples=samples)
    if payoffs is not None and (len(payoffs) != len(DIRECTIONS) or any(one.epsilon != epsilon for one in payoffs)):
        raise CheckError("payoffs", f"two payoffs at epsilon = {epsilon!r}", repr(payoffs), verb="hold")
    used: tuple[Payoff, Payoff] = payoffs or (HockeyStick(epsilon), HockeyStick(epsilon))
    trials = _make_trials(release, used, seed, samples=samples, relative_width=relative_width, failure=failure / 2)
    return DeltaBoundPlan(trials, failure, origin=SoftwareVersions(seed))


def run_delta_bound(
    plan: DeltaBoundPlan,
    *,
    seed: int | None = None,
    nonce: str | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> MonteCarloEvidence:
    """Draw the planned trials and return bounds on delta.

    ``nonce`` is public, and unknown when the plan's ``commitment`` was published; other arguments as in
    ``bound_delta``.
    """
    return _draw_evidence(plan, resolve_source(seed, journal, nonce=nonce), workers, journal, progress)


def _draw_evidence(
    plan: DeltaBoundPlan,
    origin: RandomnessSource,
    workers: int | None,
    journal: Path | None,
    progress: Progress | None,
) -> MonteCarloEvidence:
    draw = open_simulation(plan, origin, workers=workers, journal=journal, progress=progress)
    return MonteCarloEvidence(plan, origin, draw(plan.trials, None))


def bound_delta(
    release: Release,
    *,
    epsilon: float,
    failure: float = 1e-6,
    samples: int | None = None,
    relative_width: float = 0.1,
    payoffs: tuple[ProfilePayoff, ProfilePayoff] | None = None,
    seed: int | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> MonteCarloEvidence:
    """Simulate delta(epsilon) of a release in both directions, and return bounds on it.

    Args:
        release: a matrix mechanism with its participation, balls-in-bins, or Poisson-sampled Gaussian rounds.
        epsilon: in nats, at least 0.
        failure: chance over the draws that the interval is wrong; shared by the directions.
        samples: draws per direction; by default enough for ``relative_width``, judged by a pilot with separate draws.
        relative_width: target relative distance from the estimate to the upper bound; only sets ``samples``.
        payoffs: certified profiles of other events composed with this release, remove and add, at this epsilon.
        seed: makes a run that can be repeated, and marks the result a simulation; by default fresh entropy.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file for the entropy and the finished shards, so that a killed run can resume.
        progress: called after each shard.

    Raises:
        UnsupportedMechanismError: no proven pair for the release.
        CalibrationError: the interval misses its proven brackets.

    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> found = bound_delta(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, samples=20_000, seed=7)
    >>> 6.876e-4 in found.interval, found.simulation
    (True, True)
    """
    origin = resolve_source(seed, journal)
    plan = plan_delta_bound(
        release,
        epsilon=epsilon,
        seed=int(origin.value),
        failure=failure,
        samples=samples,
        relative_width=relative_width,
        payoffs=payoffs,
    )
    return _draw_evidence(plan, origin, workers, journal, progress)


def _make_trials(
    release: Release,
    payoffs: tuple[Payoff, Payoff],
    seed: int,
    *,
    samples: int | None,
    relative_width: float,
    failure: float,
) -> tuple[BernoulliTrial, BernoulliTrial]:
    """Return one trial per direction, with draws that reach ``relative_width`` of the worse direction's delta."""
    pair = build_simulated_pair(release)
    tilt = [tilts.choose_tilt(pair, p, d) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
    log_m = [tilts.bound_log_value(pair, t, p) for t, p in zip(tilt, payoffs, strict=True)]
    sizes = [0, 0] if samples is None else [samples, samples]
    if samples is None:
        guess = [estimate_pilot_delta(release, p, d, seed) for p, d in zip(payoffs, DIRECTIONS, strict=True)]
        worse = max(*guess, 1e-6 * max(math.exp(m) for m in log_m))
        sizes = [
            _draws(g, math.exp(m), worse * (1 + relative_width), failure) for g, m in zip(guess, log_m, strict=True)
        ]
    first, second = (BernoulliTrial(release, *rest) for rest in zip(payoffs, tilt, log_m, sizes, strict=True))
    return first, second


def _draws(delta: float, bound: float, upper: float, failure: float) -> int:
    """Return the number of draws after which an interval around delta should end below ``upper``, for planning only.

    Bernstein's shape: delta + sqrt(2 delta w) + w <= upper at w = bound ln(2 / failure) / N.
    """
    root = 2 * (upper - delta) / (math.sqrt(2 * delta) + math.sqrt(2 * delta + 4 * (upper - delta)))
    return math.ceil(bound * math.log(2 / failure) / root**2) + 1024


def _interval(evidence: tuple[TrialEvidence, ...], failure: float, origin: RandomnessSource) -> Interval:
    lower = upper = estimate = 0.0
    epsilon, composed = evidence[0].trial.payoff.epsilon, False
    for part in evidence:
        trial = part.trial
        bound = trial.bound
        low, high = clopper_pearson_interval(hits=part.total, samples=trial.samples, failure=failure / 2)
        low, high = low * bound * (1 - 1e-12), high * bound * (1 + 1e-12)
        least, most = build_simulated_pair(trial.release).brackets(epsilon, trial.tilt.direction)
        if isinstance(trial.payoff, ProfilePayoff):  # other events only add; their profile is an upper bound on theirs
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
        method=Message.read(
            f"{METHOD}, importance-sampled, Clopper-Pearson" + (", composed with other events" if composed else "")
        ),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        assumptions=tuple(
            Message.read(text)
            for text in (
                *ASSUMPTIONS,
                *((PROFILE_PAYOFF,) if composed else ()),
                f"true except with probability {failure:g} over the draws",
                origin.assumption,
            )
        ),
        quantity="delta",
        given=(("epsilon", epsilon), ("failure", failure)),
    )


def _looks(part: TrialEvidence, failure: float, *, factor: float = 1.08) -> list[tuple[float, float, float]]:
    """Return numbers of draws a factor apart and the interval after each; half of the failure for each direction."""
    looks: list[tuple[float, float, float]] = []
    draws = hits = 0
    for found in part.hits:
        draws, hits = min(draws + SHARD, part.trial.samples), hits + found
        if not looks or draws >= factor * looks[-1][0] or draws == part.trial.samples:
            looks.append((draws, *compute_running_interval(part.trial, draws, hits, failure / 2)))
    return looks


def compute_running_interval(trial: BernoulliTrial, draws: int, hits: int, failure: float) -> tuple[float, float]:
    """Return the interval for a trial's delta after some of its draws, valid for any number of looks; for displays."""
    low, high = anytime_interval(hits=hits, samples=draws, failure=failure)
    return low * trial.bound, min(1.0, high * trial.bound)
