"""Base of schemes with round-robin turns and noise that is correlated over rounds."""

from __future__ import annotations

from typing import ClassVar

from epsilog.mechanisms import Gaussian, PoissonSampled, Release
from epsilog.schemes.base import Party, ProtectionLevel, Scheme
from epsilog.schemes.cohorts import Cohorts, RoundRobinSampler
from epsilog.terms import NeighboringRelation, check

WITH_KNOWN_TURNS = (
    Party("Server", "every client's clipped update, and who took part", ProtectionLevel.NOTHING),
    Party("Other clients", "every global model they receive, and the turns of all clients", ProtectionLevel.CLAIM),
    Party("Public", "the released models, rounds.jsonl and the turns of all clients", ProtectionLevel.CLAIM),
)


class RoundRobinScheme(Scheme):
    """The server sums clipped updates and adds noise that later rounds partly cancel. Abstract.

    The noise of the model after t rounds is the sum of t noises; partial cancellation makes this sum small. Round t
    releases row t of G + C^-1 Z: what an observer learns is C G + Z, with Z independent (Denisov et al. 2022,
    arXiv:2202.08312). C is lower triangular with constant diagonals, 1 on the first and none below 0.

    A client takes part every ``cycle_length`` rounds, by its position. Nothing is sampled and nothing must stay hidden,
    and the whole run is one Gaussian mechanism. Adding or removing a client would move the turns of all later clients,
    so neighbors differ in one client's data being present or empty (zero-out).
    """

    __slots__ = ()

    cycle_length: int

    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    uploads_are_visible: ClassVar[bool] = True

    @property
    def relations(self) -> tuple[NeighboringRelation, ...]:
        """Zero-out alone, since turns follow positions."""
        return (NeighboringRelation.ZERO_OUT,)

    @property
    def parties(self) -> tuple[Party, ...]:
        """Return the parties; the server sees everything, and turns are public."""
        return WITH_KNOWN_TURNS

    @property
    def cohorts(self) -> Cohorts:
        """Round-robin turns."""
        return RoundRobinSampler(self.clients, self.cycle_length)

    @property
    def expected_cohort(self) -> float:
        """Clients in a round on average; the divisor of the noisy sum."""
        return self.clients / self.cycle_length

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Return the first column of C, from the diagonal down; further entries are 0."""
        raise TypeError(f"{type(self).__name__} must define coefficients")

    def step(self, share: float = 1.0) -> Release:
        """Return the release of one turn; nothing is sampled."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.accounted_multiplier), 1.0)

    def noisy_sums(self, rounds: int) -> int:
        """Return the number of turns of a client."""
        return -(-check.integer(0)(rounds=rounds) // self.cycle_length)
