"""What certificates and sweeps have in common: a plan that settles everything, and a result drawn for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from epsilog.accounting.montecarlo.draws.shards import Trial
from epsilog.accounting.montecarlo.evidence.documents import Evidence, Origin
from epsilog.accounting.montecarlo.evidence.run import Journal, Progress, Source, run_trials
from epsilog.terms import codec

Draw = Callable[[Sequence[Trial], Sequence[int] | None], tuple[Evidence, ...]]  # with each trial's most hits


@dataclass(frozen=True, slots=True)
class Plan(ABC):
    """Everything that is settled before the first draw."""

    origin: Origin = field(default_factory=Origin, kw_only=True)

    @property
    def commitment(self) -> str:
        """Fingerprint of all of it, 64 hex digits: what is published before the nonce is known."""
        return codec.fingerprint(self.to_json())

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Result(ABC, Generic[P]):
    """What came out of a plan."""

    plan: P
    source: Source
    evidence: tuple[Evidence, ...]

    @property
    def seed(self) -> int:
        """Of the streams, up to 128 bits."""
        return self.source.seed(self.plan.commitment)

    @property
    def simulation(self) -> bool:
        """Whether the caller chose the seed."""
        return self.source.simulation

    def _evidence_json(self) -> dict[str, Any]:
        """The part of the document that says what was settled, where the seed came from, and what was drawn."""
        plan = self.plan.to_json()
        return {
            "v": 0,
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
        """A document from which a third party can recompute every shard."""


def drawing(
    plan: Plan, source: Source, *, workers: int | None, journal: Path | None, progress: Progress | None
) -> Draw:
    """Begins a run of a plan: its journal is there, and what is returned draws the plan's trials, once."""
    plan.origin.require_here()
    book = Journal.begin(journal, plan.commitment, source) if journal else None
    seed = source.seed(plan.commitment)

    def draw(trials: Sequence[Trial], limits: Sequence[int] | None) -> tuple[Evidence, ...]:
        counts = run_trials(trials, seed=seed, limits=limits, workers=workers, journal=book, progress=progress)
        return tuple(Evidence(trial, hits) for trial, hits in zip(trials, counts, strict=True))

    return draw
