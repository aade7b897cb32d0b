"""How a federated run protects people: one frozen description that drives plan, sampler, noise and verifier alike.

Four places for noise exist (MATHS 6); two are built so far. A certificate never says just "local": it names the scheme,
and every scheme says who sees what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from epsilog.terms import check
from epsilog.terms.composition import Repeated
from epsilog.terms.mechanisms import Gaussian, Release
from epsilog.terms.sampling import PoissonSampled


class Scheme:
    """How noise, clipping and sampling are arranged over a federated run. Abstract; every subclass is final.

    Every scheme has the fields and methods below.
    """

    __slots__ = ()

    kind: ClassVar[str]
    clients: int
    rounds: int
    clip_norm: float
    noise_multiplier: float

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise on each noisy sum, in the sum's own unit."""
        return self.noise_multiplier * self.clip_norm

    def step(self) -> PoissonSampled:
        """One noisy sum, as accounted."""
        raise TypeError(f"{type(self).__name__} does not say what one step is")

    def noisy_sums(self, rounds: int) -> int:
        """How many noisy sums one unit may be part of in the first ``rounds`` rounds, at most."""
        raise TypeError(f"{type(self).__name__} does not count its noisy sums, asked for {rounds} rounds")

    def after(self, rounds: int) -> Release:
        """What the first ``rounds`` rounds release about one unit, at most."""
        return Repeated(self.step(), self.noisy_sums(rounds))

    def release(self) -> Release:
        """The whole schedule as one release, as charged."""
        return self.after(self.rounds)

    def unamplified(self) -> Release:
        """The same schedule for an adversary who knows who took part in which sum."""
        return Repeated(Gaussian(self.noise_multiplier), self.noisy_sums(self.rounds))


@dataclass(frozen=True, slots=True)
class ClientLevelCentral(Scheme):
    """The server clips each client's whole update, sums, and adds noise to the sum.

    Source: McMahan et al. 2018 (arXiv:1710.06963), with Poisson sampling and a public normaliser.

    Clients join each round independently (Poisson); the sum is divided by the public constant
    ``sampling_probability * clients``, so an absent or silent client is a zero update.

    Attributes:
        clients: clients in all; declared, public.
        sampling_probability: the chance that a client joins a round.
        rounds: rounds in the schedule.
        clip_norm: the L2 norm to which each client's update is clipped.
        noise_multiplier: noise standard deviation on the *sum*, over ``clip_norm``.
    """

    clients: int
    sampling_probability: float
    rounds: int
    clip_norm: float
    noise_multiplier: float

    kind: ClassVar[str] = "client-level-central"

    def __post_init__(self) -> None:
        check.fields(
            self,
            clients=check.integer(1),
            rounds=check.integer(1),
            sampling_probability=check.within(0, 1),
            clip_norm=check.positive(),
            noise_multiplier=check.at_least(0),
        )

    @property
    def expected_cohort(self) -> float:
        """Clients expected in a round; the divisor of the noisy sum."""
        return self.sampling_probability * self.clients

    def step(self) -> PoissonSampled:
        """One round."""
        return PoissonSampled(Gaussian(self.noise_multiplier), self.sampling_probability)

    def noisy_sums(self, rounds: int) -> int:
        """One a round."""
        return check.integer(0)(rounds=rounds)


@dataclass(frozen=True, slots=True)
class ExampleLevelClientSide(Scheme):
    """Each sampled client runs DP-SGD on its own data and uploads a noisy model difference.

    Algorithm 2 of Naseri, Hayes & De Cristofaro (NDSS 2022, arXiv:2009.03561) as we read it (docs/reading-algorithm-2):
    clients start from the global model; each step is (sum of clipped gradients + noise) / (p n_k). The server's own
    choice of the cohort amplifies nothing against the server, so only the client's batch sampling counts.

    Attributes:
        clients: clients in all.
        cohort_size: clients that the server picks at random each round.
        rounds: rounds in the schedule.
        max_participations: the most rounds any client takes part in; over it a client is absent.
        batch_probability: the chance that an example joins a batch (p).
        epochs: local epochs (E) each time a client takes part.
        clip_norm: the L2 norm to which each example's gradient is clipped.
        noise_multiplier: noise standard deviation on each step's *sum* of gradients, over ``clip_norm``.
    """

    clients: int
    cohort_size: int
    rounds: int
    max_participations: int
    batch_probability: float
    epochs: int
    clip_norm: float
    noise_multiplier: float

    kind: ClassVar[str] = "example-level-client-side"

    def __post_init__(self) -> None:
        check.fields(
            self,
            clients=check.integer(1),
            rounds=check.integer(1),
            epochs=check.integer(1),
            cohort_size=check.integer(1, self.clients),
            max_participations=check.integer(1, self.rounds),
            batch_probability=check.share(),
            clip_norm=check.positive(),
            noise_multiplier=check.at_least(0),
        )

    @property
    def local_steps(self) -> int:
        """Noisy steps each time a client takes part: round(E / p)."""
        return max(1, round(self.epochs / self.batch_probability))

    def step(self) -> PoissonSampled:
        """One batch of a client; the cohort draw is the server's and amplifies nothing against it, so it is absent."""
        return PoissonSampled(Gaussian(self.noise_multiplier), self.batch_probability)

    def noisy_sums(self, rounds: int) -> int:
        """``local_steps`` for each round that one client may take part in."""
        return min(check.integer(0)(rounds=rounds), self.max_participations) * self.local_steps
