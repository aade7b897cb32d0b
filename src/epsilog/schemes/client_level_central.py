"""Central noise at the client level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Release, Repeated
from epsilog.schemes.base import register_scheme
from epsilog.schemes.sampled import SampledScheme
from epsilog.terms import check, parameters


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelCentral(SampledScheme):
    """The server clips each client's update, sums, and adds noise to the sum.

    Source: McMahan et al. 2018 (arXiv:1710.06963), with a public divisor: the expected number of clients in a round. An
    absent or silent client is a zero update.
    """

    noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]

    kind: ClassVar[str] = "client-level-central"
    summary: ClassVar[str] = "The server clips each client's update, sums, and adds noise to the sum."

    def at_cohort_sizes(self, sizes: Sequence[int]) -> Release | None:
        """Return Poisson-sampled rounds, each at its own fraction of the clients; empty rounds release nothing."""
        if self.sampling != "poisson":
            return None
        times = Counter(min(size, self.clients) for size in check.sequence_of(check.integer(0))(sizes=sizes))
        noise = Gaussian(self.noise_multiplier)
        rounds = [Repeated(PoissonSampled(noise, size / self.clients), n) for size, n in sorted(times.items()) if size]
        return Composed(rounds) if rounds else None
