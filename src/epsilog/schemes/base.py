"""The interface of a scheme: its cost, its guarantee against each party, and what a verifier can check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, TypeVar

from epsilog.mechanisms import Composed, Gaussian, Release, Repeated
from epsilog.schemes.cohorts import Cohorts
from epsilog.terms import CheckError, NeighboringRelation, RoundRecord, check, codec, fields


class ProtectionLevel(Enum):
    """The guarantee against a party."""

    NOTHING = "no guarantee"
    CLAIM = "the claim"
    CLAIM_WHILE_HIDDEN = "the claim, while who took part stays hidden"
    UNAMPLIFIED = "the claim without amplification by sampling"


@dataclass(frozen=True, slots=True)
class Party:
    """A party that sees part of a run.

    Attributes:
        name: the name of the party.
        sees: what it sees, as a phrase.
        holds: the guarantee against it.
    """

    name: str
    sees: str
    holds: ProtectionLevel


@dataclass(frozen=True, slots=True)
class RawUpdate:
    """The raw update of a client, which the server clips.

    Attributes:
        clip_norm: C, the bound on its L2 norm.
    """

    clip_norm: float


@dataclass(frozen=True, slots=True)
class NoisyUpdate:
    """The update of a client with clipping and noise by the client.

    Attributes:
        clip_norm: C, the bound on its L2 norm before the noise.
        noise_stddev: standard deviation of the noise.
    """

    clip_norm: float
    noise_stddev: float


@dataclass(frozen=True, slots=True)
class LocalDPSGD:
    """The model difference of a client after DP-SGD on its own examples.

    Attributes:
        steps: number of noisy steps.
        batch_probability: p, with which each example joins each step independently.
        clip_norm: C, the bound on the L2 norm of each example's gradient.
        noise_stddev: standard deviation of the noise on the sum of clipped gradients of a step.
    """

    steps: int
    batch_probability: float
    clip_norm: float
    noise_stddev: float


Upload = RawUpdate | NoisyUpdate | LocalDPSGD
"""What a client uploads in a round."""


def remove_protection(upload: Upload) -> Upload:
    """Return the upload without clipping and noise, for a baseline without privacy.

    >>> remove_protection(NoisyUpdate(1.0, 2.0))
    NoisyUpdate(clip_norm=inf, noise_stddev=0.0)
    """
    if isinstance(upload, RawUpdate):
        return RawUpdate(math.inf)
    return replace(upload, clip_norm=math.inf, noise_stddev=0.0)


class Scheme:
    """The noise, clipping and sampling of a federated run. Abstract; every subclass is final.

    Attributes:
        kind: its name in files and commands.
        summary: where the noise is added, in one sentence.
        unit_is_client: whether it protects a whole client; else it protects one example of a client.
        local_settings: the settings of local training that apply under it.
        adaptive_clip: whether the clip norm is computed from noisy counts of the same clients.
        replies_are_public: whether the public records show the number of replies, because each reply adds noise.
        uploads_are_visible: whether the guarantee holds if the server sees single uploads.
    """

    __slots__ = ()

    kind: ClassVar[str]
    summary: ClassVar[str]
    unit_is_client: ClassVar[bool]
    local_settings: ClassVar[tuple[str, ...]]
    adaptive_clip: ClassVar[bool] = False
    replies_are_public: ClassVar[bool] = False
    uploads_are_visible: ClassVar[bool] = False

    clients: int
    rounds: int
    clip_norm: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def parties(self) -> tuple[Party, ...]:
        """Return each party and what it sees; empty for a scheme without such a list."""
        return ()

    @property
    def relations(self) -> tuple[NeighboringRelation, ...]:
        """Return the neighboring relations that the scheme's accounting supports."""
        return NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.ZERO_OUT

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise on the first noisy sum, in the unit of the sum."""
        return self.noise_multiplier * self.clip_norm

    @property
    def upload(self) -> Upload:
        """Return the upload of each client of a cohort."""
        return RawUpdate(self.clip_norm)

    @property
    def count_noise(self) -> tuple[float, float] | None:
        """Standard deviation of the noise on a released count, and the divisor of the count; None without a count."""
        return None

    @property
    def accounted_multiplier(self) -> float:
        """Noise divided by the sensitivity of all that one noisy sum releases, not of the sum alone."""
        return self.noise_multiplier

    def clip_norms(self, records: Sequence[RoundRecord]) -> tuple[float, ...]:
        """Return the required clip norm of each recorded round, from the plan and from releases of earlier rounds."""
        return (self.clip_norm,) * len(records)

    @property
    def cohorts(self) -> Cohorts:
        """Return the sampler of the cohorts."""
        raise TypeError(f"{type(self).__name__} must define cohorts")

    def step(self, share: float = 1.0) -> Release:
        """Return the release of one noisy sum if its noise had ``share`` of the planned standard deviation."""
        raise TypeError(f"{type(self).__name__} must define step, called with share {share}")

    def noisy_sums(self, rounds: int) -> int:
        """Return the largest number of noisy sums that depend on one unit in the first ``rounds`` rounds."""
        raise TypeError(f"{type(self).__name__} must define noisy_sums, called with {rounds} rounds")

    def after(self, rounds: int) -> Release:
        """Return the release of the first ``rounds`` rounds about one unit."""
        return Repeated(self.step(), self.noisy_sums(rounds))

    def release(self) -> Release:
        """Return the whole schedule as one release, as charged."""
        return self.after(self.rounds)

    def with_attempts(self, further: int) -> Release:
        """Return the release of the whole schedule and of ``further`` more rounds."""
        further = check.integer(0)(further=further)
        return Repeated(self.step(), self.noisy_sums(self.rounds) + further * self.noisy_sums(1))

    def _with_repeated(self, attempt: Release, further: int) -> Release:
        """Return the release of the whole schedule and of ``further`` attempts, each of which costs at most one."""
        further = check.integer(0)(further=further)
        return Composed([self.release(), Repeated(attempt, further)]) if further else self.release()

    @property
    def closed_form(self) -> tuple[float, int]:
        """Sampling rate and number of rounds for the common closed form."""
        step = self.step()
        return getattr(step, "sampling_probability", 1.0), self.noisy_sums(self.rounds)

    def unamplified_release(self) -> Release:
        """Return the release to an adversary who knows the participants of each sum."""
        return Repeated(Gaussian(self.accounted_multiplier), self.noisy_sums(self.rounds))

    def full_participation_release(self) -> Release:
        """Return the release if every unit may have joined every round: neither sampling nor cap is trusted."""
        return self.unamplified_release()

    def aborts_round(self, replies: int) -> bool:  # noqa: ARG002 - most schemes never do
        """Return whether a round with this number of replies is aborted before the server sees anything."""
        return False

    def at_cohort_sizes(self, sizes: Sequence[int]) -> Release | None:  # noqa: ARG002 - most schemes have no answer
        """Return a hypothetical release for rounds with these cohort sizes; None if sizes do not affect the cost."""
        return None


SCHEMES: dict[str, type[Scheme]] = {}
"""All schemes by kind."""

S = TypeVar("S", bound=type[Scheme])


def register_scheme(kind: S) -> S:
    """Register a scheme, so that run configs and stored terms know it by its kind."""
    check.text()(summary=kind.summary)
    if kind.kind in SCHEMES:
        raise CheckError("kind", "one that no other scheme has", repr(kind.kind))
    SCHEMES[kind.kind] = fields.document_fields(codec.register_term(kind.kind)(kind))
    return kind
