"""How a round's clients are picked: what training draws, and what a verifier tests the curator's lists against."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CappedCohorts", "Cohorts", "PoissonCohorts"]


@dataclass(frozen=True, slots=True)
class PoissonCohorts:
    """Every client joins every round by its own coin.

    Attributes:
        clients: clients in all.
        probability: of heads.
    """

    clients: int
    probability: float


@dataclass(frozen=True, slots=True)
class CappedCohorts:
    """Cohorts of one size, drawn at random from the clients that are below their cap; smaller when few are left.

    Attributes:
        clients: clients in all.
        cohort_size: clients in a round.
        max_participations: rounds after which a client is left out.
    """

    clients: int
    cohort_size: int
    max_participations: int


Cohorts = PoissonCohorts | CappedCohorts
