"""What was drawn, with what, and what came out: as JSON that a third party can draw again, shard by shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick, Payoff
from epsilog.accounting.montecarlo.run import Source
from epsilog.accounting.montecarlo.shards import SHARD, STREAM, Trial
from epsilog.terms import check, codec

ASSUMPTIONS = (
    "participation is drawn independently per unit, stays hidden, and no batch is truncated",
    "C is lower triangular and entrywise at least 0; every contribution is clipped to the clip norm",
    "floating-point rounding and the quality of the pseudo-random generator are outside the certificate",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one direction of one candidate was tested with, and what came out.

    Attributes:
        trial: the experiment.
        hits: the hits of each shard, up to where this trial or the one of the other direction failed.
    """

    trial: Trial
    hits: tuple[int, ...]

    def __post_init__(self) -> None:
        check.fields(self, hits=check.each(check.integer(0, SHARD)))
        if not 1 <= len(self.hits) <= self.trial.shards:
            raise ValueError(f"hits must have 1 to {self.trial.shards} entries, got {len(self.hits)}")
        for shard, found in enumerate(self.hits):
            check.integer(0, min(SHARD, self.trial.samples - shard * SHARD))(hits=found)

    @property
    def whole(self) -> bool:
        """Whether all draws were made."""
        return len(self.hits) == self.trial.shards

    @property
    def total(self) -> int:
        """All hits."""
        return sum(self.hits)


def payoff_json(payoff: Payoff) -> dict[str, Any]:
    """A payoff as plain JSON values."""
    if isinstance(payoff, HockeyStick):
        return {"kind": "hockey-stick", "epsilon": payoff.epsilon}
    return {
        "kind": "beside-profile",
        "epsilon": payoff.epsilon,
        "epsilons": list(payoff.epsilons),
        "deltas": list(payoff.deltas),
    }


def payoff_from_json(data: dict[str, Any]) -> Payoff:
    """Reads what ``payoff_json`` made."""
    if data["kind"] == "hockey-stick":
        return HockeyStick(float(data["epsilon"]))
    if data["kind"] == "beside-profile":
        return BesideProfile(
            float(data["epsilon"]), tuple(map(float, data["epsilons"])), tuple(map(float, data["deltas"]))
        )
    raise ValueError(f"payoff must be hockey-stick or beside-profile, got {data['kind']!r}")


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial as plain JSON values."""
    return {
        "candidate": trial.candidate,
        "release": codec.encode(trial.release),
        "payoff": payoff_json(trial.payoff),
        "direction": trial.tilt.direction,
        "tilt": float(trial.tilt.strength),
        "log_bound": trial.log_bound,
        "samples": trial.samples,
    }


def trial_from_json(data: dict[str, Any]) -> Trial:
    """Reads what ``trial_json`` made."""
    return Trial(
        release=codec.decode(data["release"]),
        payoff=payoff_from_json(data["payoff"]),
        tilt=tilts.Tilt(data["direction"], float(data["tilt"])),
        log_bound=float(data["log_bound"]),
        samples=data["samples"],
        candidate=data["candidate"],
    )


def evidence_json(source: Source, evidence: tuple[Evidence, ...]) -> dict[str, Any]:
    """The part of a document that says what was drawn, and with what."""
    from importlib import metadata

    return {
        "seed": str(source.seed),
        "simulation": source.simulation,
        "stream": STREAM,
        "shard": SHARD,
        "code": {"epsilog": metadata.version("epsilog"), "numpy": np.__version__},
        "evidence": [trial_json(part.trial) | {"hits": list(part.hits)} for part in evidence],
    }


def evidence_from_json(data: dict[str, Any]) -> tuple[Source, tuple[Evidence, ...]]:
    """Reads what ``evidence_json`` made.

    Raises:
        ValueError: a document of another stream format, or whose counts do not fit its samples.
    """
    if data["stream"] != STREAM or data["shard"] != SHARD:
        raise ValueError(f"stream must be {STREAM!r}, got {data['stream']!r}")
    evidence = tuple(Evidence(trial_from_json(entry), tuple(entry["hits"])) for entry in data["evidence"])
    return Source(int(data["seed"]), data["simulation"]), evidence


def run_fingerprint(trials: Sequence[Trial]) -> str:
    """A hash of everything but the source that determines the counts of a run."""
    return codec.fingerprint({"stream": STREAM, "trials": [trial_json(t) for t in trials]})
