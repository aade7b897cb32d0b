"""Central noise at the client level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.terms import check, facts
from epsilog.terms.cohorts import PoissonCohorts
from epsilog.terms.composition import Composed, Repeated
from epsilog.terms.facts import Fact
from epsilog.terms.mechanisms import Gaussian, Release
from epsilog.terms.sampling import PoissonSampled
from epsilog.terms.schemes.base import Against, Party, Scheme, scheme


@scheme
@dataclass(frozen=True, slots=True)
class ClientLevelCentral(Scheme):
    """The server clips each client's whole update, sums, and adds noise to the sum.

    Source: McMahan et al. 2018 (arXiv:1710.06963), with Poisson sampling and a public normaliser.

    Clients join each round independently (Poisson); the sum is divided by the public constant
    ``sampling_probability * clients``, so an absent or silent client is a zero update.
    """

    clients: Annotated[int, facts.CLIENTS]
    sampling_probability: Annotated[
        float, Fact("the chance that a client joins a round, by its own coin (Poisson)", "q", above=0, most=1)
    ]
    rounds: Annotated[int, facts.ROUNDS]
    clip_norm: Annotated[float, Fact("the L2 norm to which each client's update is clipped", "C", above=0)]
    noise_multiplier: Annotated[float, facts.NOISE_MULTIPLIER]

    kind: ClassVar[str] = "client-level-central"
    says: ClassVar[str] = "The server clips each client's update, sums, and adds noise to the sum."
    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    parties: ClassVar[tuple[Party, ...]] = (
        Party("Server", "every client's clipped update, and who took part", Against.NOTHING),
        Party("Other clients", "every global model they receive", Against.CLAIM_WHILE_HIDDEN),
        Party("Public", "the released models and rounds.jsonl", Against.CLAIM_WHILE_HIDDEN),
        Party("Reader of custody.jsonl", "all of that, and who took part in which round", Against.UNAMPLIFIED),
    )

    @property
    def cohorts(self) -> PoissonCohorts:
        """Poisson."""
        return PoissonCohorts(self.clients, self.sampling_probability)

    @property
    def expected_cohort(self) -> float:
        """Clients expected in a round; the divisor of the noisy sum."""
        return self.sampling_probability * self.clients

    def step(self, share: float = 1.0) -> PoissonSampled:
        """One round."""
        return PoissonSampled(Gaussian(share * self.noise_multiplier), self.sampling_probability)

    def noisy_sums(self, rounds: int) -> int:
        """One a round."""
        return check.integer(0)(rounds=rounds)

    def at_cohort_sizes(self, sizes: Sequence[int]) -> Release | None:
        """Each round priced at its own share of the clients; empty rounds release nothing about anybody."""
        times = Counter(min(size, self.clients) for size in sizes)
        noise = Gaussian(self.noise_multiplier)
        rounds = [Repeated(PoissonSampled(noise, size / self.clients), n) for size, n in sorted(times.items()) if size]
        return Composed(rounds) if rounds else None
