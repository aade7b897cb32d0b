"""The canaries of a run: the secret that determines them, and their scores.

Canaries are synthetic units, and scores are functions of released models, so publishing both costs no privacy. The plan
states the secret's hash before the first round, so that coins cannot depend on scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from epsilog.terms import Canaries, check

VERSION, KIND = 0, "canaries"


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """The secret and the scores of all canaries.

    Attributes:
        secret: as in ``terms.Canaries``; published after the last round.
        scores: one for each canary, included or not; higher for those that seem included.
    """

    secret: str
    scores: Annotated[tuple[float, ...], check.sequence_of(check.finite())]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _ = self.canaries

    @property
    def canaries(self) -> Canaries:
        """Return the canaries that the secret determines."""
        return Canaries(len(self.scores), self.secret)

    def to_json(self) -> dict[str, Any]:
        """Return the document that is stored and hashed."""
        return {"v": VERSION, "kind": KIND, "secret": self.secret, "scores": list(self.scores)}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read the output of ``to_json``."""
        if not isinstance(document, dict) or (document.get("v"), document.get("kind")) != (VERSION, KIND):
            raise ValueError(f"it must be the version {VERSION} scores of canaries")
        return cls(document["secret"], tuple(document["scores"]))
