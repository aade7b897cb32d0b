"""Noise at the client, for the whole client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.mechanisms import Gaussian, PoissonSampled
from epsilog.schemes.base import Party, register_scheme
from epsilog.schemes.client_side import ClientSide, onlookers
from epsilog.terms import NeighboringRelation, check
from epsilog.terms.fields import Field


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelClientSide(ClientSide):
    """Each sampled client clips its own update, adds noise to it and sends the sum: nobody is trusted with the update.

    The Gaussian mechanism, once each time a client takes part. That it takes part is not hidden, so a neighbour is the
    same run with nothing where one client's update was (zero-out); replacing its data by other data moves the update
    twice as far. The server's own choice of the cohort amplifies nothing against the server.
    """

    clip_norm: Annotated[float, Field("the L2 norm to which a client clips its update", "C", gt=0)]
    noise_multiplier: Annotated[
        float, Field("noise standard deviation on each client's update, over the clip norm", "σ", ge=0)
    ]

    kind: ClassVar[str] = "client-level-client-side"
    says: ClassVar[str] = "Each client clips its whole update, adds noise to it itself, and sends that."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    relations = (NeighboringRelation.ZERO_OUT,)
    parties: ClassVar[tuple[Party, ...]] = onlookers("update", "update")

    def step(self, share: float = 1.0) -> PoissonSampled:
        """One noisy update; nothing is sampled that the server does not see."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.noise_multiplier), 1.0)
