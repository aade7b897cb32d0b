"""What a run's canaries left behind: the secret that everything about them follows from, and how each was scored.

All of it is about made-up units, and scores are functions of released models: publishing it costs nobody anything. The
plan named the secret's hash before the first round, so no coin could be chosen after a score was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from epsilog.terms import Canaries, check

VERSION, KIND = 0, "canaries"


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """The coins, by the secret, and the scores of all canaries.

    Attributes:
        secret: as in ``terms.Canaries``; published once the last round is released.
        scores: one for each canary, in or out; higher for those that seem in.
    """

    secret: str
    scores: Annotated[tuple[float, ...], check.sequence_of(check.finite())]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _ = self.canaries

    @property
    def canaries(self) -> Canaries:
        """Which they are."""
        return Canaries(len(self.scores), self.secret)

    def to_json(self) -> dict[str, Any]:
        """The document that is stored and hashed."""
        return {"v": VERSION, "kind": KIND, "secret": self.secret, "scores": list(self.scores)}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Reads what ``to_json`` wrote."""
        if not isinstance(document, dict) or (document.get("v"), document.get("kind")) != (VERSION, KIND):
            raise ValueError(f"it must be the version {VERSION} scores of canaries")
        return cls(document["secret"], tuple(document["scores"]))
