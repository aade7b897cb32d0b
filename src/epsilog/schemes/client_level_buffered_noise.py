"""Central noise at the client level that is correlated over all rounds, with a few vectors of state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.mechanisms import BufferedToeplitzStrategy, Gaussian, PoissonSampled, Release, Repeated
from epsilog.schemes.base import register_scheme
from epsilog.schemes.round_robin import RoundRobinScheme
from epsilog.terms import parameters
from epsilog.terms.fields import Field

MOST_ROUNDS = 1_000_000  # accounting computes the whole column


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelBufferedNoise(RoundRobinScheme):
    """Clients take part in turn, and a few buffers, each a decaying sum of earlier noise, cancel part of the noise.

    The strategy matrix C (see ``round_robin``) is a buffered linear Toeplitz matrix (Dvijotham et al. 2024,
    arXiv:2404.16706): its diagonals are 1, then sum_i w_i d_i^(t-1), for decays d and weights w. It has no finite
    band, and the state is one vector for each decay, for any number of rounds.

    The columns of a client's rounds overlap. No entry is negative, so the sensitivity of C G is largest if all
    contributions of a client point one way, it misses no turn, and its turn comes first (docs: training). The norm is
    that of the column added to itself every ``cycle_length`` rounds, rounded up (McMahan et al. 2024,
    arXiv:2408.08868).
    """

    clients: Annotated[int, parameters.CLIENTS]
    cycle_length: Annotated[int, parameters.TURNS]
    rounds: Annotated[int, Field("training rounds", "T", ge=1, le=MOST_ROUNDS)]
    decays: Annotated[
        tuple[float, ...],
        Field("decay factor of each buffer per round", "θ", gt=0, lt=1),
    ]
    weights: Annotated[tuple[float, ...], Field("weight of each buffer in the noise that a round cancels", "ω", gt=0)]
    clip_norm: Annotated[float, parameters.UPDATE_CLIP]
    noise_multiplier: Annotated[float, parameters.CORRELATED_NOISE]

    kind: ClassVar[str] = "client-level-buffered-noise"
    summary: ClassVar[str] = "The server sums clipped updates and adds noise that later rounds gradually cancel."

    def __post_init__(self) -> None:
        RoundRobinScheme.__post_init__(self)
        BufferedToeplitzStrategy(self.decays, self.weights)

    @property
    def strategy(self) -> BufferedToeplitzStrategy:
        """Return the matrix C by its parameters."""
        return BufferedToeplitzStrategy(self.decays, self.weights)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Return the first column of C, for all rounds."""
        return self.strategy.column(self.rounds)

    @property
    def accounted_multiplier(self) -> float:
        """Noise divided by the root mean square sensitivity of the turns, rounded down."""
        return self._per_turn(self.rounds)

    def _per_turn(self, rounds: int) -> float:
        turns = max(1, self.noisy_sums(rounds))
        norm, _ = self.strategy.turns(max(1, rounds), self.cycle_length)
        return (1.0 - 2.0**-50) * self.noise_multiplier * math.sqrt(turns) / norm

    def after(self, rounds: int) -> Release:
        """Return the release for truncated or missed turns, which use other parts of the column."""
        return Repeated(PoissonSampled(Gaussian(self._per_turn(rounds)), 1.0), self.noisy_sums(rounds))

    def with_attempts(self, further: int) -> Release:
        """Return the release of a recomputed round: its row of C G again, under fresh noise."""
        _, row = self.strategy.turns(self.rounds, self.cycle_length)
        return self._with_repeated(Gaussian((1.0 - 2.0**-50) * self.noise_multiplier / row), further)

    def full_participation_release(self) -> Release:
        """Return the release if a client is in every round: it moves a row of C G by at most the sum of the column."""
        _, row = self.strategy.turns(self.rounds, 1)
        return Repeated(Gaussian((1.0 - 2.0**-50) * self.noise_multiplier / row), self.rounds)
