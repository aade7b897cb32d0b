"""What was settled, what was drawn, and what came out: as JSON that a third party can draw again, shard by shard.

A plan is everything that decides a claim before the first verification draw. Its fingerprint is what a journal is
bound to, what is published before a public nonce is known, and a part of the seed: other plans have other draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.run import Journal, Progress, RandomnessSource, SoftwareVersions, run_trials
from epsilog.accounting.montecarlo.shards import SHARD, STREAM, BernoulliTrial
from epsilog.accounting.montecarlo.tilt import HockeyStick, Payoff, ProfilePayoff
from epsilog.terms import CheckError, check, codec

VERSION = 1  # of plans and of evidence
ASSUMPTIONS = (
    "participation is drawn independently per unit, stays hidden, and no batch is truncated",
    "C is lower triangular and entrywise at least 0; every contribution is clipped to the clip norm",
    "floating-point rounding and the quality of the pseudo-random generator are outside the evidence",
)


def origin_json(origin: SoftwareVersions) -> dict[str, Any]:
    """Return the part of a plan that states the versions of its code."""
    return {
        "pilot": str(origin.pilot),
        "stream": STREAM,
        "shard": SHARD,
        "code": {"epsilog": origin.epsilog, "numpy": origin.numpy, "scipy": origin.scipy},
    }


def origin_from_json(data: dict[str, Any]) -> SoftwareVersions:
    """Return the value of a document from ``origin_json``.

    Raises:
        ValueError: a plan of another stream format.
    """
    if data["stream"] != STREAM or data["shard"] != SHARD:
        raise CheckError("stream", f"{STREAM!r} in shards of {SHARD}", f"{data['stream']!r}, {data['shard']!r}")
    code = data["code"]
    return SoftwareVersions(int(data["pilot"]), code["epsilog"], code["numpy"], code["scipy"])


@dataclass(frozen=True, slots=True)
class TrialEvidence:
    """What one direction of one candidate was tested with, and what came out.

    Attributes:
        trial: the experiment.
        hits: the hits of each shard, up to where this trial or the one of the other direction failed.
    """

    trial: BernoulliTrial
    hits: Annotated[tuple[int, ...], check.sequence_of(check.integer(0, SHARD))]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not 1 <= len(self.hits) <= self.trial.shards:
            raise CheckError("hits", f"1 to {self.trial.shards} entries", f"{len(self.hits)}", verb="have")
        for shard, found in enumerate(self.hits):
            check.integer(0, min(SHARD, self.trial.samples - shard * SHARD))(hits=found)

    @property
    def is_complete(self) -> bool:
        """Return whether all draws were made."""
        return len(self.hits) == self.trial.shards

    @property
    def total(self) -> int:
        """Return all hits."""
        return sum(self.hits)


def payoff_json(payoff: Payoff) -> dict[str, Any]:
    """Return a payoff as plain JSON values."""
    if isinstance(payoff, HockeyStick):
        return {"kind": "hockey-stick", "epsilon": payoff.epsilon}
    return {
        "kind": "beside-profile",
        "epsilon": payoff.epsilon,
        "epsilons": list(payoff.epsilons),
        "deltas": list(payoff.deltas),
    }


def payoff_from_json(data: dict[str, Any]) -> Payoff:
    """Return the value of a document from ``payoff_json``."""
    if data["kind"] == "hockey-stick":
        return HockeyStick(float(data["epsilon"]))
    if data["kind"] == "beside-profile":
        return ProfilePayoff(
            float(data["epsilon"]), tuple(map(float, data["epsilons"])), tuple(map(float, data["deltas"]))
        )
    raise CheckError("payoff", "hockey-stick or beside-profile", repr(data["kind"]))


def trial_json(trial: BernoulliTrial) -> dict[str, Any]:
    """Return a trial as plain JSON values."""
    return {
        "candidate": trial.candidate,
        "release": codec.encode(trial.release),
        "payoff": payoff_json(trial.payoff),
        "direction": trial.tilt.direction.value,
        "tilt": float(trial.tilt.strength),
        "log_bound": trial.log_bound,
        "samples": trial.samples,
    }


def trial_from_json(data: dict[str, Any]) -> BernoulliTrial:
    """Return the value of a document from ``trial_json``."""
    return BernoulliTrial(
        release=codec.decode(data["release"]),
        payoff=payoff_from_json(data["payoff"]),
        tilt=tilts.Tilt(data["direction"], float(data["tilt"])),
        log_bound=float(data["log_bound"]),
        samples=data["samples"],
        candidate=data["candidate"],
    )


def source_from_json(data: dict[str, Any]) -> RandomnessSource:
    """Read the source of a document."""
    return RandomnessSource(data["provenance"], data["value"])


Draw = Callable[
    [Sequence[BernoulliTrial], Sequence[int] | None], tuple[TrialEvidence, ...]
]  # with each trial's most hits


@dataclass(frozen=True, slots=True)
class Plan(ABC):
    """Everything that is settled before the first draw."""

    origin: SoftwareVersions = field(default_factory=SoftwareVersions, kw_only=True)

    @property
    def commitment(self) -> str:
        """Fingerprint of all of it, 64 hex digits: what is published before the nonce is known."""
        return codec.hash_canonical(self.to_json())

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class SimulationResult(ABC, Generic[P]):
    """What came out of a plan."""

    plan: P
    source: RandomnessSource
    evidence: tuple[TrialEvidence, ...]

    @property
    def seed(self) -> int:
        """Of the streams, up to 128 bits."""
        return self.source.seed(self.plan.commitment)

    @property
    def simulation(self) -> bool:
        """Return whether the caller chose the seed."""
        return self.source.simulation

    def _evidence_json(self) -> dict[str, Any]:
        """Return the part of the document with the plan, the source of the seed, and the draws."""
        plan = self.plan.to_json()
        return {
            "v": VERSION,
            "kind": plan["kind"],
            "plan": plan,
            "commitment": self.plan.commitment,
            "source": {"provenance": self.source.provenance, "value": self.source.value},
            "seed": str(self.seed),
            "simulation": self.simulation,
            "hits": [list(part.hits) for part in self.evidence],
        }

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a document from which a third party can recompute every shard."""


def open_simulation(
    plan: Plan, source: RandomnessSource, *, workers: int | None, journal: Path | None, progress: Progress | None
) -> Draw:
    """Open the journal of a plan, and return a simulation that draws its trials once."""
    plan.origin.require_here()
    log = Journal.begin(journal, plan.commitment, source) if journal else None
    seed = source.seed(plan.commitment)

    def draw(trials: Sequence[BernoulliTrial], limits: Sequence[int] | None) -> tuple[TrialEvidence, ...]:
        counts = run_trials(trials, seed=seed, limits=limits, workers=workers, journal=log, progress=progress)
        return tuple(TrialEvidence(trial, hits) for trial, hits in zip(trials, counts, strict=True))

    return draw
