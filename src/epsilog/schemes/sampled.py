"""Base of schemes with central noise on sums over cohorts, for all samplers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from epsilog.mechanisms import BallsInBins, FixedSizeSampled, Gaussian, PoissonSampled, Release, Repeated
from epsilog.schemes.base import Party, ProtectionLevel, Scheme
from epsilog.schemes.cohorts import BallsInBinsSampler, Cohorts, FixedSizeSampler, PoissonSampler, RoundRobinSampler
from epsilog.terms import CheckError, NeighboringRelation, check, parameters
from epsilog.terms.fields import Field

NEEDS = {
    "poisson": "sampling_probability",
    "fixed-size": "cohort_size",
    "balls-in-bins": "cycle_length",
    "cyclic": "cycle_length",
}
"""Samplings of cohorts, each with its one parameter."""

SAMPLINGS = {
    "poisson": "each client joins each round independently, with one probability",
    "fixed-size": "every round draws a fixed number of clients without replacement",
    "balls-in-bins": "each client takes part in one round of every cycle, drawn independently for each cycle",
    "cyclic": "each client takes part in one round of every cycle, by its position",
}
RELATIONS = {
    "poisson": (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.ZERO_OUT),
    "fixed-size": (NeighboringRelation.REPLACE_ONE,),
    "balls-in-bins": (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.ZERO_OUT),
    "cyclic": (NeighboringRelation.ZERO_OUT,),
}


def list_parties(published: str, *, hidden: bool) -> tuple[Party, ...]:
    """Return what each party sees under central noise; ``hidden`` if the guarantee needs hidden participation."""
    outside = ProtectionLevel.CLAIM_WHILE_HIDDEN if hidden else ProtectionLevel.CLAIM
    seen = (
        Party("Server", "every client's clipped update, and who took part", ProtectionLevel.NOTHING),
        Party("Other clients", f"every {published} they receive", outside),
        Party("Public", "the released models and rounds.jsonl", outside),
    )
    reader = Party(
        "Reader of custody.jsonl", "all of that, and who took part in which round", ProtectionLevel.UNAMPLIFIED
    )
    return (*seen, reader) if hidden else seen


@dataclass(frozen=True, slots=True)
class SampledScheme(Scheme):
    """The server sums clipped updates of a cohort and adds Gaussian noise. Abstract.

    The sampler determines the cost. With z the accounted multiplier, N clients, T rounds:

    - Poisson with probability q: T Poisson-sampled Gaussians (add or remove one, zero out).
    - Fixed size m without replacement: T Gaussians sampled at m of N (replace one). Adding a client would change the
      others' probabilities, and a zeroed-out client leaves its place empty: neither relation is supported.
    - Balls in bins, b rounds to a cycle: a cycle is one release, in which each client is in one hidden round (docs:
      accounting/balls-in-bins); cycles draw anew and compose. One that is cut short releases less.
    - Cyclic, b rounds to a cycle: ceil(T / b) Gaussians, nothing hidden (zero out: one more client moves the turns).

    The divisor of the sum is public, so a missing reply has the same effect as a zero update.
    """

    clients: Annotated[int, parameters.CLIENTS]
    sampling_probability: Annotated[
        float | None,
        Field(
            "probability that a client joins a round (Poisson)",
            "q",
            gt=0,
            le=1,
            default=None,
            none_means="another sampling",
        ),
    ]
    rounds: Annotated[int, parameters.ROUNDS]
    clip_norm: Annotated[float, parameters.UPDATE_CLIP]
    sampling: Annotated[
        str, Field("how the clients of a round are sampled", choices=SAMPLINGS, default="poisson")
    ] = field(default="poisson", kw_only=True)  # fmt: skip
    cohort_size: Annotated[
        int | None,
        Field(
            "clients in each round, if their number is fixed",
            "m",
            ge=1,
            le_field="clients",
            default=None,
            none_means="another sampling",
        ),
    ] = field(default=None, kw_only=True)
    cycle_length: Annotated[
        int | None,
        Field(
            "rounds of a cycle, in which each client takes part once",
            "b",
            ge=1,
            le_field="clients",
            default=None,
            none_means="another sampling",
        ),
    ] = field(default=None, kw_only=True)

    unit_is_client: ClassVar[bool] = True
    local_settings: ClassVar[tuple[str, ...]] = ("local_steps",)
    uploads_are_visible: ClassVar[bool] = True
    published: ClassVar[str] = "global model"  # what clients receive

    def __post_init__(self) -> None:
        Scheme.__post_init__(self)
        for name in dict.fromkeys(NEEDS.values()):
            stated = getattr(self, name)
            if (stated is not None) != (NEEDS[self.sampling] == name):
                bound = f"{'absent' if stated is not None else 'given'} for sampling = {self.sampling!r}"
                raise CheckError(name, bound, "nothing" if stated is None else repr(stated))

    @property
    def cohorts(self) -> Cohorts:
        """Return the sampler that ``sampling`` names."""
        if self.sampling == "fixed-size":
            return FixedSizeSampler(self.clients, self.cohort_size or 0)
        if self.sampling == "poisson":
            return PoissonSampler(self.clients, self.sampling_probability or 0.0)
        kind = BallsInBinsSampler if self.sampling == "balls-in-bins" else RoundRobinSampler
        return kind(self.clients, self.cycle_length or 0)

    @property
    def relations(self) -> tuple[NeighboringRelation, ...]:
        """Return the neighboring relations that the sampling supports."""
        return RELATIONS[self.sampling]

    @property
    def parties(self) -> tuple[Party, ...]:
        """Return what each party sees; participation must stay hidden if it is random."""
        return list_parties(self.published, hidden=self.sampling != "cyclic")

    @property
    def expected_cohort(self) -> float:
        """Return the expected number of clients in a round, which is public; the divisor of noisy sums."""
        return self.share * self.clients

    @property
    def share(self) -> float:
        """Return the expected fraction of clients in a round."""
        match self.cohorts:
            case PoissonSampler(probability=share):
                return share
            case FixedSizeSampler(cohort_size=size):
                return size / self.clients
        return 1 / (self.cycle_length or 1)

    def step(self, share: float = 1.0) -> Release:
        """Return the release of one round, or of one cycle of dependent rounds."""
        noise = Gaussian(check.at_least(0, check.DOWN)(share=share) * self.accounted_multiplier)
        match self.cohorts:
            case PoissonSampler(probability=probability):
                return PoissonSampled(noise, probability)
            case FixedSizeSampler(cohort_size=size):
                return FixedSizeSampled(noise, size, self.clients)
            case BallsInBinsSampler(cycle_length=length):
                return BallsInBins(noise, length)
        return PoissonSampled(noise, 1.0)

    def noisy_sums(self, rounds: int) -> int:
        """Return the number of rounds or of cycles."""
        return -(-check.integer(0)(rounds=rounds) // (self.cycle_length or 1))

    def full_participation_release(self) -> Release:
        """Return one Gaussian per round."""
        return Repeated(Gaussian(self.accounted_multiplier), self.rounds)

    def with_attempts(self, further: int) -> Release:
        """Return the release with further rounds; each draws a new sample, except that bins are drawn once per cycle.

        For b independent ratios of mean 1, multiplying one by another such ratio makes the sum no larger, in the convex
        order, than multiplying the whole sum. So one more attempt with the same bins costs at most a plain Gaussian.
        """
        if self.sampling != "balls-in-bins":
            return Scheme.with_attempts(self, further)
        return self._with_repeated(Gaussian(self.accounted_multiplier), further)

    @property
    def closed_form(self) -> tuple[float, int]:
        """Sampling rate and number of rounds, or 1 and the number of turns of a client."""
        return (1.0, self.noisy_sums(self.rounds)) if self.sampling == "cyclic" else (self.share, self.rounds)
