"""What was settled, what was drawn, and what came out: as JSON that a third party can draw again, shard by shard.

A plan is everything that decides a claim before the first verification draw. Its fingerprint is what a journal is
bound to, what is published before a public nonce is known, and a part of the seed: other plans have other draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import scipy

from epsilog.accounting.montecarlo.draws import tilt as tilts
from epsilog.accounting.montecarlo.draws.payoff import BesideProfile, HockeyStick, Payoff
from epsilog.accounting.montecarlo.draws.shards import SHARD, STREAM, Trial
from epsilog.accounting.montecarlo.evidence.run import LARGEST_SEED, Source
from epsilog.terms import CheckError, check, codec

ASSUMPTIONS = (
    "participation is drawn independently per unit, stays hidden, and no batch is truncated",
    "C is lower triangular and entrywise at least 0; every contribution is clipped to the clip norm",
    "floating-point rounding and the quality of the pseudo-random generator are outside the certificate",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which code made a plan, and from which pilot.

    Attributes:
        pilot: seed of the pilot draws that settled the plan.
        epsilog: version of this library.
        numpy: version of the library whose distributions are drawn from.
        scipy: version of the library whose special functions are used.
    """

    pilot: int = 0
    epsilog: str = metadata.version("epsilog")
    numpy: str = np.__version__
    scipy: str = scipy.__version__

    def __post_init__(self) -> None:
        words = check.text()
        check.fields(self, pilot=check.integer(0, LARGEST_SEED), epsilog=words, numpy=words, scipy=words)

    @property
    def is_here(self) -> bool:
        """Whether the libraries of this process are those of the plan: only they are sure to draw the same."""
        return Origin(self.pilot) == self

    def require_here(self) -> None:
        """Refuses to draw for a plan of other libraries."""
        if not self.is_here:
            raise CheckError("plan", f"of the versions installed here, {Origin(self.pilot)}", f"{self}")


def origin_json(origin: Origin) -> dict[str, Any]:
    """The part of a plan that says which code made it."""
    return {
        "pilot": str(origin.pilot),
        "stream": STREAM,
        "shard": SHARD,
        "code": {"epsilog": origin.epsilog, "numpy": origin.numpy, "scipy": origin.scipy},
    }


def origin_from_json(data: dict[str, Any]) -> Origin:
    """Reads what ``origin_json`` made.

    Raises:
        ValueError: a plan of another stream format.
    """
    if data["stream"] != STREAM or data["shard"] != SHARD:
        raise CheckError("stream", f"{STREAM!r} in shards of {SHARD}", f"{data['stream']!r}, {data['shard']!r}")
    code = data["code"]
    return Origin(int(data["pilot"]), code["epsilog"], code["numpy"], code["scipy"])


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
            raise CheckError("hits", f"1 to {self.trial.shards} entries", f"{len(self.hits)}", verb="have")
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
    raise CheckError("payoff", "hockey-stick or beside-profile", repr(data["kind"]))


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial as plain JSON values."""
    return {
        "candidate": trial.candidate,
        "release": codec.encode(trial.release),
        "payoff": payoff_json(trial.payoff),
        "direction": trial.tilt.direction.value,
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


def source_from_json(data: dict[str, Any]) -> Source:
    """Reads the source of a document."""
    return Source(data["provenance"], data["value"])
