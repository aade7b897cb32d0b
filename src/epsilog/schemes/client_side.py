"""Noise at the client: on its whole update, or in every step of DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from epsilog.mechanisms import Gaussian, PoissonSampled, Release
from epsilog.schemes.base import LocalDPSGD, NoisyUpdate, Party, ProtectionLevel, Scheme, register_scheme
from epsilog.schemes.cohorts import CappedSampler
from epsilog.terms import NeighboringRelation, check, parameters
from epsilog.terms.fields import Field


def onlookers(sent: str, own: str) -> tuple[Party, ...]:
    """Return what each party sees if a client sends a noisy ``sent`` and holds raw data and its ``own``."""
    return (
        Party("Server", f"every noisy {sent}, and who took part", ProtectionLevel.CLAIM),
        Party("Other clients", f"global models: averages of noisy {sent}s", ProtectionLevel.CLAIM),
        Party("Public", "the released models and rounds.jsonl", ProtectionLevel.CLAIM),
        Party("The client itself", f"its own raw data and {own}", ProtectionLevel.NOTHING),
    )


@dataclass(frozen=True, slots=True)
class ClientSide(Scheme):
    """Each client of a cohort adds its own noise. Abstract."""

    clients: Annotated[int, parameters.CLIENTS]
    cohort_size: Annotated[int, parameters.CAPPED_COHORT]
    rounds: Annotated[int, parameters.ROUNDS]
    max_participations: Annotated[int, parameters.MAX_PARTICIPATIONS]

    replies_are_public: ClassVar[bool] = True
    uploads_are_visible: ClassVar[bool] = True

    @property
    def cohorts(self) -> CappedSampler:
        """Cohorts of a fixed size, if enough clients are below their cap."""
        return CappedSampler(self.clients, self.cohort_size, self.max_participations)

    def noisy_sums(self, rounds: int) -> int:
        """Return the number of rounds in which one client may take part."""
        return min(check.integer(0)(rounds=rounds), self.max_participations)

    def full_participation_release(self) -> Release:
        """Return the release without the cap, which only the participant lists can prove."""
        return replace(self, max_participations=self.rounds).unamplified_release()


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelClientSide(ClientSide):
    """Each sampled client clips its update, adds noise and sends the sum: no party is trusted with the raw update.

    This is one Gaussian mechanism each time a client takes part. Participation is not hidden, so neighbors differ in
    one client's data being present or empty (zero-out); other data could move the update twice as far. The server
    chooses the cohort, which amplifies nothing against it.
    """

    clip_norm: Annotated[float, parameters.CLIENT_CLIP]
    noise_multiplier: Annotated[
        float, Field("noise standard deviation of each client's update, divided by the clip norm", "σ", ge=0)
    ]

    kind: ClassVar[str] = "client-level-client-side"
    summary: ClassVar[str] = "Each client clips its whole update, adds noise to it, and sends the result."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    relations = (NeighboringRelation.ZERO_OUT,)
    parties: ClassVar[tuple[Party, ...]] = onlookers("update", "update")

    @property
    def upload(self) -> NoisyUpdate:
        """Return the update of a client with its own noise."""
        return NoisyUpdate(self.clip_norm, self.noise_stddev)

    def step(self, share: float = 1.0) -> PoissonSampled:
        """Return the release of one noisy update; the server sees the sample, so it amplifies nothing."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.noise_multiplier), 1.0)


@register_scheme
@dataclass(frozen=True, slots=True)
class ExampleLevelClientSide(ClientSide):
    """Each sampled client runs DP-SGD on its own data and uploads a noisy model difference.

    Our reading (docs/accounting/algorithm-2.md) of Algorithm 2 of Naseri, Hayes & De Cristofaro (NDSS 2022,
    arXiv:2009.03561): clients start from the global model; each step is (sum of clipped gradients + noise) / (p n_k).
    The server chooses the cohort, which amplifies nothing against it, so only the sampling of batches by the client
    counts.
    """

    batch_probability: Annotated[float, Field("probability that an example joins a batch", "p", gt=0, le=1)]
    epochs: Annotated[int, Field("local epochs per participation", "E", ge=1)]
    clip_norm: Annotated[float, Field("L2 clip norm of each example's gradient", "C", gt=0)]
    noise_multiplier: Annotated[
        float, Field("noise standard deviation of each step's gradient sum, divided by the clip norm", "σ", ge=0)
    ]

    kind: ClassVar[str] = "example-level-client-side"
    summary: ClassVar[str] = "Each client runs DP-SGD on its own examples and sends a noisy model."
    unit_is_client: ClassVar[bool] = False
    local_settings: ClassVar[tuple[str, ...]] = ("expected_examples",)
    parties: ClassVar[tuple[Party, ...]] = onlookers("local model", "batches")

    @property
    def local_steps(self) -> int:
        """Return the number of noisy steps each time a client takes part: round(E / p)."""
        return max(1, round(self.epochs / self.batch_probability))

    @property
    def upload(self) -> LocalDPSGD:
        """Return the result of local DP-SGD, with noise in each step."""
        return LocalDPSGD(self.local_steps, self.batch_probability, self.clip_norm, self.noise_stddev)

    def step(self, share: float = 1.0) -> PoissonSampled:
        """Return the release of one batch; the server chooses the cohort, which amplifies nothing against it."""
        share = check.at_least(0, check.DOWN)(share=share)
        return PoissonSampled(Gaussian(share * self.noise_multiplier), self.batch_probability)

    def noisy_sums(self, rounds: int) -> int:
        """Return ``local_steps`` times the number of rounds in which one client may take part."""
        return ClientSide.noisy_sums(self, rounds) * self.local_steps
