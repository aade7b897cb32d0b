"""Noise at the client: what is the same of it whatever a client adds it to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from epsilog.mechanisms import Release
from epsilog.schemes.base import Party, ProtectionLevel, Scheme
from epsilog.schemes.cohorts import CappedSampler
from epsilog.terms import check, parameters
from epsilog.terms.fields import Field


def onlookers(sent: str, own: str) -> tuple[Party, ...]:
    """Who sees what, where a client sends a noisy ``sent``, and has raw data and its ``own``."""
    return (
        Party("Server", f"every noisy {sent}, and who took part", ProtectionLevel.CLAIM),
        Party("Other clients", f"global models: averages of noisy {sent}s", ProtectionLevel.CLAIM),
        Party("Public", "the released models and rounds.jsonl", ProtectionLevel.CLAIM),
        Party("The client itself", f"its own raw data and {own}", ProtectionLevel.NOTHING),
    )


@dataclass(frozen=True, slots=True)
class ClientSide(Scheme):
    """Each client of a cohort adds the noise itself. Abstract."""

    clients: Annotated[int, parameters.CLIENTS]
    cohort_size: Annotated[
        int, Field("clients that the server picks at random each round", "m", ge=1, le_field="clients")
    ]
    rounds: Annotated[int, parameters.ROUNDS]
    max_participations: Annotated[
        int, Field("the most rounds any client takes part in; over it a client is absent", ge=1, le_field="rounds")
    ]

    replies_are_public: ClassVar[bool] = True

    @property
    def cohorts(self) -> CappedSampler:
        """Of one size, as long as enough clients are below their cap."""
        return CappedSampler(self.clients, self.cohort_size, self.max_participations)

    def noisy_sums(self, rounds: int) -> int:
        """One for each round that one client may take part in."""
        return min(check.integer(0)(rounds=rounds), self.max_participations)

    def in_every_round(self) -> Release:
        """Without the cap, which only the lists show to have been kept."""
        return replace(self, max_participations=self.rounds).unamplified()
