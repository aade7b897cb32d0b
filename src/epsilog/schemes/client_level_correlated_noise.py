"""Central noise at the client level that is correlated over a band of rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from epsilog.mechanisms import BallsInBins, Gaussian, Release, Repeated
from epsilog.schemes.base import Party, register_scheme
from epsilog.schemes.cohorts import BallsInBinsSampler, Cohorts, RoundRobinSampler
from epsilog.schemes.round_robin import WITH_KNOWN_TURNS, RoundRobinScheme
from epsilog.schemes.sampled import RELATIONS, SAMPLINGS, list_parties
from epsilog.terms import CheckError, NeighboringRelation, check, parameters
from epsilog.terms.fields import Field

BINS = "balls-in-bins"
WAYS = {name: SAMPLINGS[name] for name in ("cyclic", BINS)}


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelCorrelatedNoise(RoundRobinScheme):
    """Clients take part in turn, and later rounds cancel part of the noise of each round.

    The strategy matrix C (see ``round_robin``) is the banded square root of the matrix of prefix sums (Kalinin &
    Lampert 2024, arXiv:2405.13763): its diagonals are 1, 1/2, 3/8, ..., cut off after ``bands``.

    A client takes part at most ceil(T / cycle_length) times. With no more bands than a cycle has rounds, the columns of
    its rounds share no row: together they have the norm of one column times the root of their number.

    With balls in bins, each client draws its round in a cycle of b rounds, of which the p bands are a divisor. A client
    draws its round modulo p once for the run, and one of the b / p rounds with that residue for each cycle. Columns
    of all rounds with one residue share no row. Given the residue, a cycle is one release of balls in b / p bins, and
    cycles compose (docs: training).
    """

    clients: Annotated[int, parameters.CLIENTS]
    cycle_length: Annotated[int, parameters.TURNS]
    rounds: Annotated[int, parameters.ROUNDS]
    bands: Annotated[
        int, Field("rounds over which noise is correlated; 1 is independent noise", ge=1, le_field="cycle_length")
    ]
    clip_norm: Annotated[float, parameters.UPDATE_CLIP]
    noise_multiplier: Annotated[float, parameters.CORRELATED_NOISE]
    sampling: Annotated[str, Field("how the clients of a round are sampled", choices=WAYS, default="cyclic")] = field(
        default="cyclic", kw_only=True
    )

    kind: ClassVar[str] = "client-level-correlated-noise"
    summary: ClassVar[str] = "The server sums clipped updates and adds noise that later rounds partly cancel."

    def __post_init__(self) -> None:
        RoundRobinScheme.__post_init__(self)
        if self.sampling == BINS and self.cycle_length % self.bands:
            raise CheckError("bands", f"a divisor of cycle_length = {self.cycle_length} for {BINS}", f"{self.bands}")

    @property
    def cohorts(self) -> Cohorts:
        """Return the sampler that ``sampling`` names."""
        if self.sampling == BINS:
            return BallsInBinsSampler(self.clients, self.cycle_length, self.bands)
        return RoundRobinSampler(self.clients, self.cycle_length)

    @property
    def relations(self) -> tuple[NeighboringRelation, ...]:
        """Return the neighboring relations that the sampling supports."""
        return RELATIONS[self.sampling]

    @property
    def parties(self) -> tuple[Party, ...]:
        """With round-robin turns, participation is public; random participation must stay hidden."""
        return list_parties("global model", hidden=True) if self.sampling == BINS else WITH_KNOWN_TURNS

    @property
    def coefficients(self) -> tuple[float, ...]:
        """Return the first column of C: (2k choose k) / 4^k for k = 0, 1, ..."""
        found = [1.0]
        for k in range(1, self.bands):
            found.append(found[-1] * (2 * k - 1) / (2 * k))
        return tuple(found)

    @property
    def accounted_multiplier(self) -> float:
        """Noise divided by the norm of one column, rounded down."""
        return self._rounded * self.noise_multiplier / math.hypot(*self.coefficients)

    @property
    def _rounded(self) -> float:
        """A factor that rounds down after the rounding errors of coefficients: two for each one before."""
        return 1.0 - (self.bands + 8) * 2.0**-51

    @property
    def bins(self) -> int:
        """Return the number of rounds of a cycle that hide a client's round, given its residue; 1 with turns."""
        return self.cycle_length // self.bands if self.sampling == BINS else 1

    def step(self, share: float = 1.0) -> Release:
        """Return the release of one turn, or of one cycle of dependent rounds."""
        share = check.at_least(0, check.DOWN)(share=share)
        if self.sampling == BINS:
            return BallsInBins(Gaussian(share * self.accounted_multiplier), self.bins)
        return RoundRobinScheme.step(self, share)

    def with_attempts(self, further: int) -> Release:
        """Return the release with further rounds; with bins, each costs at most a plain Gaussian (see ``sampled``)."""
        if self.sampling != BINS:
            return RoundRobinScheme.with_attempts(self, further)
        return self._with_repeated(Gaussian(self.accounted_multiplier), further)

    @property
    def closed_form(self) -> tuple[float, int]:
        """Return the number of noisy sums that bound one client: one per bin and cycle, or one per turn."""
        return 1 / self.bins, self.noisy_sums(self.rounds) * self.bins

    def full_participation_release(self) -> Release:
        """Return the release if a client is in every round and moves rows of C G by the sum of coefficients."""
        multiplier = self._rounded * self.noise_multiplier / math.fsum(self.coefficients)
        return Repeated(Gaussian(multiplier), self.rounds)
