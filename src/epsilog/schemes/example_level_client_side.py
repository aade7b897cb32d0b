"""Noise at the client, for one example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.mechanisms import Gaussian, PoissonSampled
from epsilog.schemes.base import Party, register_scheme
from epsilog.schemes.client_side import ClientSide, onlookers
from epsilog.terms import check
from epsilog.terms.fields import Field


@register_scheme
@dataclass(frozen=True, slots=True)
class ExampleLevelClientSide(ClientSide):
    """Each sampled client runs DP-SGD on its own data and uploads a noisy model difference.

    Algorithm 2 of Naseri, Hayes & De Cristofaro (NDSS 2022, arXiv:2009.03561) as we read it (docs/reading-algorithm-2):
    clients start from the global model; each step is (sum of clipped gradients + noise) / (p n_k). The server's own
    choice of the cohort amplifies nothing against the server, so only the client's batch sampling counts.
    """

    batch_probability: Annotated[float, Field("the chance that an example joins a batch", "p", gt=0, le=1)]
    epochs: Annotated[int, Field("local epochs each time a client takes part", "E", ge=1)]
    clip_norm: Annotated[float, Field("the L2 norm to which each example's gradient is clipped", "C", gt=0)]
    noise_multiplier: Annotated[
        float, Field("noise standard deviation on each step's sum of gradients, over the clip norm", "σ", ge=0)
    ]

    kind: ClassVar[str] = "example-level-client-side"
    says: ClassVar[str] = "Each client runs DP-SGD on its own examples and sends a noisy model."
    unit_is_client: ClassVar[bool] = False
    local_settings: ClassVar[tuple[str, ...]] = ("nominal_examples",)
    parties: ClassVar[tuple[Party, ...]] = onlookers("local model", "batches")

    @property
    def local_steps(self) -> int:
        """Noisy steps each time a client takes part: round(E / p)."""
        return max(1, round(self.epochs / self.batch_probability))

    def step(self, share: float = 1.0) -> PoissonSampled:
        """One batch of a client; the cohort draw is the server's and amplifies nothing against it, so it is absent."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.noise_multiplier), self.batch_probability)

    def noisy_sums(self, rounds: int) -> int:
        """``local_steps`` for each round that one client may take part in."""
        return ClientSide.noisy_sums(self, rounds) * self.local_steps
