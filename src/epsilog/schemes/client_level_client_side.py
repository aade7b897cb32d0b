"""Noise at the client, for the whole client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from epsilog.mechanisms import Gaussian, PoissonSampled, Release
from epsilog.schemes.base import Against, Party, Scheme, scheme
from epsilog.schemes.cohorts import CappedCohorts
from epsilog.terms import NeighboringRelation, check, parameters
from epsilog.terms.fields import Field


@scheme
@dataclass(frozen=True, slots=True)
class ClientLevelClientSide(Scheme):
    """Each sampled client clips its own update, adds noise to it and sends the sum: nobody is trusted with the update.

    The Gaussian mechanism, once each time a client takes part. That it takes part is not hidden, so a neighbour is the
    same run with nothing where one client's update was (zero-out); replacing its data by other data moves the update
    twice as far. The server's own choice of the cohort amplifies nothing against the server.
    """

    clients: Annotated[int, parameters.CLIENTS]
    cohort_size: Annotated[
        int, Field("clients that the server picks at random each round", "m", ge=1, le_field="clients")
    ]
    rounds: Annotated[int, parameters.ROUNDS]
    max_participations: Annotated[
        int, Field("the most rounds any client takes part in; over it a client is absent", ge=1, le_field="rounds")
    ]
    clip_norm: Annotated[float, Field("the L2 norm to which a client clips its update", "C", gt=0)]
    noise_multiplier: Annotated[
        float, Field("noise standard deviation on each client's update, over the clip norm", "σ", ge=0)
    ]

    kind: ClassVar[str] = "client-level-client-side"
    says: ClassVar[str] = "Each client clips its whole update, adds noise to it itself, and sends that."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    replies_are_public: ClassVar[bool] = True
    relations = (NeighboringRelation.ZERO_OUT,)
    parties: ClassVar[tuple[Party, ...]] = (
        Party("Server", "every noisy update, and who took part", Against.CLAIM),
        Party("Other clients", "global models: averages of noisy updates", Against.CLAIM),
        Party("Public", "the released models and rounds.jsonl", Against.CLAIM),
        Party("The client itself", "its own raw data and update", Against.NOTHING),
    )

    @property
    def cohorts(self) -> CappedCohorts:
        """Of one size, as long as enough clients are below their cap."""
        return CappedCohorts(self.clients, self.cohort_size, self.max_participations)

    def step(self, share: float = 1.0) -> PoissonSampled:
        """One noisy update; nothing is sampled that the server does not see."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.noise_multiplier), 1.0)

    def noisy_sums(self, rounds: int) -> int:
        """One for each round that one client may take part in."""
        return min(check.integer(0)(rounds=rounds), self.max_participations)

    def in_every_round(self) -> Release:
        """Without the cap, which only the lists show to have been kept."""
        return replace(self, max_participations=self.rounds).unamplified()
