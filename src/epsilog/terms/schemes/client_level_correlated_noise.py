"""Central noise at the client level that is correlated over rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.terms import check, facts
from epsilog.terms.cohorts import CyclicCohorts
from epsilog.terms.composition import Repeated
from epsilog.terms.facts import Fact
from epsilog.terms.guarantee import NeighboringRelation
from epsilog.terms.mechanisms import Gaussian, Release
from epsilog.terms.sampling import PoissonSampled
from epsilog.terms.schemes.base import Against, Party, Scheme, scheme


@scheme
@dataclass(frozen=True, slots=True)
class ClientLevelCorrelatedNoise(Scheme):
    """Clients take part in turn, and part of each round's noise is taken back in the rounds after it.

    The model after t rounds carries the sum of t noises; noise that is taken back later makes that sum small. Round t
    releases row t of G + C^-1 Z: what an observer learns is C G + Z, with Z independent (Denisov et al. 2022,
    arXiv:2202.08312). C is the banded square root of the matrix of prefix sums (Kalinin & Lampert 2024,
    arXiv:2405.13763): lower triangular, constant diagonals 1, 1/2, 3/8, ..., cut off after ``bands``.

    A client takes part every ``cycle_length`` rounds, by its place, so at most ceil(T / cycle_length) times. With no
    more bands than that, the columns of its rounds share no row: together they have the norm of one column times the
    root of their number, and the whole run is one Gaussian mechanism. Nothing is sampled and nothing must stay
    hidden. One client more or less would move the turns of all that come after it, so a neighbour has nothing in one
    client's place (zero-out).
    """

    clients: Annotated[int, facts.CLIENTS]
    cycle_length: Annotated[
        int, Fact("rounds from one turn of a client to its next; its place says when", "b", least=1, at_most="clients")
    ]
    rounds: Annotated[int, facts.ROUNDS]
    bands: Annotated[
        int, Fact("rounds over which noise is correlated; 1 is independent noise", least=1, at_most="cycle_length")
    ]
    clip_norm: Annotated[float, Fact("the L2 norm to which each client's update is clipped", "C", above=0)]
    noise_multiplier: Annotated[
        float, Fact("standard deviation of the noise before it is correlated, over the clip norm", "σ", least=0)
    ]

    kind: ClassVar[str] = "client-level-correlated-noise"
    says: ClassVar[str] = "The server sums clipped updates, and adds noise that later rounds partly take back."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    relations = (NeighboringRelation.ZERO_OUT,)
    parties: ClassVar[tuple[Party, ...]] = (
        Party("Server", "every client's clipped update, and who took part", Against.NOTHING),
        Party("Other clients", "every global model they receive, and everybody's turns", Against.CLAIM),
        Party("Public", "the released models, rounds.jsonl and everybody's turns", Against.CLAIM),
    )

    @property
    def cohorts(self) -> CyclicCohorts:
        """In turn."""
        return CyclicCohorts(self.clients, self.cycle_length)

    @property
    def expected_cohort(self) -> float:
        """Clients in a round on average; the divisor of the noisy sum."""
        return self.clients / self.cycle_length

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The first column of C: (2k choose k) / 4^k."""
        found = [1.0]
        for k in range(1, self.bands):
            found.append(found[-1] * (2 * k - 1) / (2 * k))
        return tuple(found)

    @property
    def accounted_multiplier(self) -> float:
        """Over the norm of one column, rounded down."""
        return self._rounded * self.noise_multiplier / math.hypot(*self.coefficients)

    @property
    def _rounded(self) -> float:
        """Rounds down what the coefficients are behind: each is off by two roundings for each one before it."""
        return 1.0 - (self.bands + 8) * 2.0**-51

    def step(self, share: float = 1.0) -> PoissonSampled:
        """One turn; nothing is sampled."""
        return PoissonSampled(Gaussian(share * self.accounted_multiplier), 1.0)

    def noisy_sums(self, rounds: int) -> int:
        """One for each turn of a client."""
        return -(-check.integer(0)(rounds=rounds) // self.cycle_length)

    def in_every_round(self) -> Release:
        """A client that is in every round moves a row of C G by at most the sum of the coefficients."""
        multiplier = self._rounded * self.noise_multiplier / math.fsum(self.coefficients)
        return Repeated(Gaussian(multiplier), self.rounds)
