"""Client-level noise split among clients; only their sum is visible."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.mechanisms import PoissonSampled, Release, Repeated, ZeroConcentratedDP
from epsilog.schemes.base import Party, ProtectionLevel, Scheme, register_scheme
from epsilog.schemes.cohorts import CappedSampler
from epsilog.terms import CheckError, NeighboringRelation, check, parameters
from epsilog.terms.fields import Field

NO_GUARANTEE = 1e300  # rho
FINEST = 2.0**40  # steps of the grid that a share may spread over: a draw's last bits come from 53 random ones
LARGEST_MODEL = 8_000_000  # parameters, as training takes them
ROUNDED = 1.0 - 2.0**-45  # a handful of products and roots, rounded down


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelDistributed(Scheme):
    """Each client adds a share of the noise on a grid, and secure aggregation shows the server the sum alone.

    The distributed discrete Gaussian of Kairouz, Liu & Steinke 2021 (arXiv:2102.06387). A client clips its update,
    rounds it towards zero on a grid, which makes no norm larger, adds discrete Gaussian noise to every coordinate and
    sends the result modulo 2^modulus_bits. ``survivors`` shares make the planned noise: with
    fewer replies the round is aborted before the server sees anything.

    A sum of h discrete Gaussians of variance s^2 is nearly a discrete Gaussian. Adding one more to k of them changes a
    log probability by at most log((1 + e) / (1 - e)), e = 2 sum_j exp(-2 pi^2 j^2 s^2 k / (k + 1)) (Poisson summation).
    With L the sum of that over k and coordinates, a round is (1/z + 2 L)^2 / 2 zero-concentrated DP (Canonne, Kamath &
    Steinke 2020, Theorem 14, and Bun & Steinke 2016, Proposition 27). The replies are public, so a neighbor is the same
    run with nothing in place of one client's update (zero-out).
    """

    clients: Annotated[int, parameters.CLIENTS]
    cohort_size: Annotated[int, parameters.CAPPED_COHORT]
    survivors: Annotated[
        int,
        Field("minimum number of replies per round without colluders; fewer abort it", ge=1, le_field="cohort_size"),
    ]
    rounds: Annotated[int, parameters.ROUNDS]
    max_participations: Annotated[int, parameters.MAX_PARTICIPATIONS]
    clip_norm: Annotated[float, parameters.CLIENT_CLIP]
    grid: Annotated[float, Field("grid width to which updates are rounded, divided by the clip norm", gt=0, le=1)]
    modulus_bits: Annotated[int, Field("bits per summed number; sums wrap around", ge=2, le=62)]
    noise_multiplier: Annotated[
        float,
        Field(
            "noise standard deviation of a sum with the minimum number of replies, divided by the clip norm", "σ", ge=0
        ),
    ]

    kind: ClassVar[str] = "client-level-distributed"
    summary: ClassVar[str] = "Each client adds a share of the noise, and secure aggregation shows the sum alone."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    replies_are_public: ClassVar[bool] = True
    relations = (NeighboringRelation.ZERO_OUT,)
    parties: ClassVar[tuple[Party, ...]] = (
        Party("Server", "each round's noisy sum, through secure aggregation, and who took part", ProtectionLevel.CLAIM),
        Party("Other clients", "global models, and their own shares of the noise", ProtectionLevel.CLAIM),
        Party("Public", "the released models and rounds.jsonl", ProtectionLevel.CLAIM),
        Party(
            "Attacker who breaks secure aggregation",
            "each client's update with its share alone",
            ProtectionLevel.NOTHING,
        ),
    )

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        spare = (self.clients - self.cohort_size) * self.max_participations
        if (self.rounds - 1) * self.cohort_size > spare:
            most = 1 + spare // self.cohort_size
            raise CheckError("rounds", f"at most {most}, so that every cohort is whole", f"{self.rounds}")

    @property
    def cohorts(self) -> CappedSampler:
        """Cohorts of a fixed size, with a cap on participations."""
        return CappedSampler(self.clients, self.cohort_size, self.max_participations)

    @property
    def share_stddev(self) -> float:
        """Return the parameter of each client's discrete Gaussian, in steps of the grid."""
        return self.noise_multiplier / (self.grid * math.sqrt(self.survivors))

    @property
    def accounted_multiplier(self) -> float:
        """Return the multiplier reduced for a sum of discrete Gaussians, rounded down; 0 on too coarse a grid."""
        return self._compute_accounted_multiplier(1.0)

    def _compute_accounted_multiplier(self, share: float) -> float:
        stddev = share * self.share_stddev
        if not 1 <= stddev <= FINEST:  # too coarse for the bound below on e, or too fine for the draws
            return 0.0
        unlike = 2.1 * math.exp(-(math.pi**2) * min(stddev, 8.0) ** 2)  # e for k = 1, the largest of all
        log_ratio = 2.1 * unlike * self.survivors * LARGEST_MODEL  # of logarithms, over coordinates and clients
        multiplier = share * self.noise_multiplier
        return ROUNDED * multiplier / (1 + 2 * multiplier * log_ratio)

    def aborts_round(self, replies: int) -> bool:
        """Return whether fewer clients replied than must share the noise."""
        return check.integer(0)(replies=replies) < self.survivors

    def step(self, share: float = 1.0) -> PoissonSampled:
        """Return the release of one sum; the server sees the sample, so it amplifies nothing."""
        multiplier = self._compute_accounted_multiplier(check.at_least(0, check.DOWN)(share=share))
        rho = 0.5 / multiplier**2 if multiplier > 1e-150 else NO_GUARANTEE
        return PoissonSampled(ZeroConcentratedDP(rho), 1.0)

    def noisy_sums(self, rounds: int) -> int:
        """Return the number of rounds in which one client may take part."""
        return min(check.integer(0)(rounds=rounds), self.max_participations)

    def unamplified_release(self) -> Release:
        """Return the release itself, since nothing is amplified."""
        return self.release()

    def full_participation_release(self) -> Release:
        """Return the release without the cap, which only the participant lists can prove."""
        return Repeated(self.step(), self.rounds)
