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

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epsilog.accounting.montecarlo.draws.mixtures import METHOD
from epsilog.accounting.montecarlo.evidence.candidates import SweepPlan
from epsilog.accounting.montecarlo.evidence.documents import ASSUMPTIONS, Evidence
from epsilog.accounting.montecarlo.evidence.drawn import Result, drawing
from epsilog.accounting.montecarlo.evidence.planning import plan_sweep
from epsilog.accounting.montecarlo.evidence.run import Progress, Source, source
from epsilog.mechanisms import Release


@dataclass(frozen=True, slots=True)
class SweepResult(Result[SweepPlan]):
    """A finished sweep.

    Attributes:
        plan: what was settled beforehand.
        source: where the seed came from.
        evidence: what was drawn, in order, up to the first failure.
        chosen: position of the released candidate, by the evidence; ``None``: the fallback (or nothing).

    Raises:
        ValueError: evidence of another plan, or that stops without a failure, or goes on after one.
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
        """The released mechanism."""
        return None if self.chosen is None else self.plan.checks[self.chosen][0].trial.release

    @property
    def delta(self) -> float:
        """Delta of the claim."""
        return self.plan.claim

    def to_json(self) -> dict[str, Any]:
        """A document from which a third party can recompute the choice and the claim, shard by shard."""
        return self._evidence_json() | {
            "chosen": self.chosen,
            "noise": self.noise,
            "claim": {"epsilon": self.plan.epsilon, "delta": self.delta, "relation": "add-or-remove-one"},
            "bound": f"estimate-verify-release of a known list, {METHOD}; docs/montecarlo/bounds.md, theorem 3",
            "assumptions": [*ASSUMPTIONS, "one run, whose result was used whatever it was", self.source.assumption],
        }


def _last_before_the_first_failure(plan: SweepPlan, evidence: tuple[Evidence, ...]) -> int | None:
    chosen: int | None = None
    rest = list(evidence)
    for position, pair in enumerate(plan.checks):
        parts, rest = rest[:2], rest[2:]
        if [part.trial for part in parts] != [test.trial for test in pair]:
            raise ValueError(f"evidence: candidate {position} was never tested as planned, but none before it failed")
        if any(part.total > test.hits for part, test in zip(parts, pair, strict=True)):
            break
        if not all(part.whole for part in parts):
            raise ValueError(f"evidence: candidate {position} passed before all its draws were made")
        chosen = position
    if rest:
        raise ValueError("evidence: there is more of it than there were candidates to test")
    return chosen


def run_sweep(
    plan: SweepPlan,
    *,
    seed: int | None = None,
    nonce: str | None = None,
    workers: int | None = 1,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Verifies the candidates in order, with fresh draws each, until one fails; chooses the last that passed.

    Args:
        plan: what was settled beforehand, from anything but private data and the draws of this very run.
        seed: makes a run that can be repeated, and marks the result a simulation; by default fresh entropy.
        nonce: public, and not known to anybody when the plan's ``commitment`` was published.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file that remembers the entropy and the finished shards, so that a killed run goes on where it was.
        progress: called after each shard.
    """
    return _verified(plan, source(seed, journal, nonce=nonce), workers, journal, progress)


def _verified(
    plan: SweepPlan, origin: Source, workers: int | None, journal: Path | None, progress: Progress | None
) -> SweepResult:
    draw = drawing(plan, origin, workers=workers, journal=journal, progress=progress)
    evidence: list[Evidence] = []
    for pair in plan.checks:
        limits = [test.hits for test in pair]
        found = draw([test.trial for test in pair], limits)
        evidence += found
        if any(part.total > limit for part, limit in zip(found, limits, strict=True)):
            break
    return SweepResult(plan, origin, tuple(evidence))


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
        seed: makes a run that can be repeated, and marks the result a simulation; by default fresh entropy.
        workers: processes; ``None`` uses joblib's configured backend.
        journal: file that remembers the entropy and the finished shards, so that a killed run goes on where it was.
        progress: called after each shard.

    Returns:
        The chosen noise, the claim and the evidence.

    >>> from epsilog.mechanisms import BallsInBins, Gaussian
    >>> found = sweep(BallsInBins(Gaussian(1.0), bins=16), epsilon=1.0, delta=1e-3, slack=0.3, seed=5)
    >>> 0.9 < found.noise < 1.15, found.delta <= 1e-3
    (True, True)
    """
    origin = source(seed, journal)
    plan = plan_sweep(
        release,
        epsilon=epsilon,
        target_delta=delta,
        seed=int(origin.value),
        noises=noises,
        slack=slack,
        fallback_delta=fallback_delta,
    )
    return _verified(plan, origin, workers, journal, progress)
