"""Central noise at the client level that is correlated over a band of rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.terms import facts
from epsilog.terms.composition import Repeated
from epsilog.terms.facts import Fact
from epsilog.terms.mechanisms import Gaussian, Release
from epsilog.terms.schemes.base import scheme
from epsilog.terms.schemes.in_turn import InTurn


@scheme
@dataclass(frozen=True, slots=True)
class ClientLevelCorrelatedNoise(InTurn):
    """Clients take part in turn, and part of each round's noise is taken back in the rounds after it.

    The strategy matrix C (see ``in_turn``) is the banded square root of the matrix of prefix sums (Kalinin & Lampert
    2024, arXiv:2405.13763): its diagonals are 1, 1/2, 3/8, ..., cut off after ``bands``.

    A client takes part at most ceil(T / cycle_length) times. With no more bands than a cycle has rounds, the columns of
    its rounds share no row: together they have the norm of one column times the root of their number.
    """

    clients: Annotated[int, facts.CLIENTS]
    cycle_length: Annotated[int, facts.TURNS]
    rounds: Annotated[int, facts.ROUNDS]
    bands: Annotated[
        int, Fact("rounds over which noise is correlated; 1 is independent noise", least=1, at_most="cycle_length")
    ]
    clip_norm: Annotated[float, facts.UPDATE_CLIP]
    noise_multiplier: Annotated[float, facts.CORRELATED_NOISE]

    kind: ClassVar[str] = "client-level-correlated-noise"
    says: ClassVar[str] = "The server sums clipped updates, and adds noise that later rounds partly take back."

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

    def in_every_round(self) -> Release:
        """A client that is in every round moves a row of C G by at most the sum of the coefficients."""
        multiplier = self._rounded * self.noise_multiplier / math.fsum(self.coefficients)
        return Repeated(Gaussian(multiplier), self.rounds)
