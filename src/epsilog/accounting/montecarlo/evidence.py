"""What was drawn, with what, and what came out: as JSON that a third party can draw again, shard by shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo import tilt as tilts
from epsilog.accounting.montecarlo.pairs import pair_of
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick, Payoff
from epsilog.accounting.montecarlo.shards import SHARD, STREAM, Trial, count_hits
from epsilog.terms import codec

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
        hits: the hits of each shard, up to where the trial failed.
    """

    trial: Trial
    hits: tuple[int, ...]

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


def evidence_json(seed: int, simulation: bool, evidence: tuple[Evidence, ...]) -> dict[str, Any]:
    """The part of a document that says what was drawn, and with what."""
    from importlib import metadata

    return {
        "seed": str(seed),
        "simulation": simulation,
        "stream": STREAM,
        "shard": SHARD,
        "code": {"epsilog": metadata.version("epsilog"), "numpy": np.__version__},
        "evidence": [trial_json(part.trial) | {"hits": list(part.hits)} for part in evidence],
    }


def run_fingerprint(seed: int, trials: tuple[Trial, ...]) -> str:
    """A hash of everything that determines the counts of a run."""
    return codec.fingerprint({"seed": str(seed), "stream": STREAM, "trials": [trial_json(t) for t in trials]})


def mismatches(document: dict[str, Any], *, shards: int | None = None) -> tuple[str, ...]:
    """Recomputes a document's shards and lists those whose hits differ; empty means that they all agree.

    Args:
        document: a certificate or sweep as JSON.
        shards: how many shards of each trial to draw again, spread evenly; by default all.

    Raises:
        ValueError: a document of another stream format, or whose counts do not fit its samples.
    """
    if document.get("stream") != STREAM or document.get("shard") != SHARD:
        raise ValueError(f"stream must be {STREAM!r}, got {document.get('stream')!r}")
    found = []
    for entry in document["evidence"]:
        trial, hits = trial_from_json(entry), entry["hits"]
        if not 1 <= len(hits) <= trial.shards:
            raise ValueError(f"hits must have 1 to {trial.shards} entries, got {len(hits)}")
        pair = pair_of(trial.release)
        if trial.log_bound < tilts.log_bound(pair, trial.tilt, trial.payoff) - 1e-8:
            found.append(f"candidate {trial.candidate} {trial.tilt.direction}: its bound M is not proven")
            continue
        chosen = range(len(hits)) if shards is None else sorted(set(np.linspace(0, len(hits) - 1, shards, dtype=int)))
        for shard in map(int, chosen):
            again = count_hits(trial, int(document["seed"]), shard)
            if again != hits[shard]:
                place = f"candidate {trial.candidate} {trial.tilt.direction} shard {shard}"
                found.append(f"{place}: {hits[shard]} hits recorded, {again} drawn")
    return tuple(found)
