"""What every scheme says of itself: what it costs, whom it protects against whom, and what can be checked of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, TypeVar

from epsilog.mechanisms import Gaussian, Release, Repeated
from epsilog.schemes.cohorts import Cohorts
from epsilog.terms import CheckError, NeighboringRelation, RoundRecord, check, codec, fields


class ProtectionLevel(Enum):
    """Which number holds against a party."""

    NOTHING = "no guarantee"
    CLAIM = "the claim"
    CLAIM_WHILE_HIDDEN = "the claim, while who took part stays hidden"
    UNAMPLIFIED = "the claim without amplification by sampling"


@dataclass(frozen=True, slots=True)
class Party:
    """A party that sees part of a run.

    Attributes:
        name: who it is.
        sees: what it sees, as a phrase.
        holds: which number holds against it.
    """

    name: str
    sees: str
    holds: ProtectionLevel


@dataclass(frozen=True, slots=True)
class RawUpdate:
    """A client's whole update, which the server clips.

    Attributes:
        clip_norm: C, the bound on its L2 norm.
    """

    clip_norm: float


@dataclass(frozen=True, slots=True)
class NoisyUpdate:
    """A client's whole update, clipped and made noisy by the client.

    Attributes:
        clip_norm: C, the bound on its L2 norm before the noise.
        noise_stddev: of the client's own noise.
    """

    clip_norm: float
    noise_stddev: float


@dataclass(frozen=True, slots=True)
class LocalDPSGD:
    """A client's model difference after DP-SGD on its own examples.

    Attributes:
        steps: noisy steps.
        batch_probability: p, with which each example joins each step on its own.
        clip_norm: C, the bound on each example's gradient.
        noise_stddev: of the noise on each step's sum of clipped gradients.
    """

    steps: int
    batch_probability: float
    clip_norm: float
    noise_stddev: float


Upload = RawUpdate | NoisyUpdate | LocalDPSGD
"""What leaves a client in a round."""


def remove_protection(upload: Upload) -> Upload:
    """Return the same upload without clip and noise, for a baseline without privacy.

    >>> remove_protection(NoisyUpdate(1.0, 2.0))
    NoisyUpdate(clip_norm=inf, noise_stddev=0.0)
    """
    if isinstance(upload, RawUpdate):
        return RawUpdate(math.inf)
    return replace(upload, clip_norm=math.inf, noise_stddev=0.0)


class Scheme:
    """How noise, clipping and sampling are arranged over a federated run. Abstract; every subclass is final.

    Every scheme has the fields and methods below, and says in words what the class variables ask for.

    Attributes:
        kind: its name in files and commands.
        summary: where the noise is, in one sentence.
        unit_is_client: whether it protects a whole client, or one example of a client.
        local_settings: the training settings that clients go by under it; the others do not apply.
        adaptive_clip: whether the clip norm follows from noisy answers of the same clients.
        replies_are_public: whether the public records state how many replied, because each reply adds separate noise.
        uploads_are_visible: whether the server may see single uploads, or its guarantee ends there.
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
        """Standard deviation of the noise on the first noisy sum, in the sum's own unit."""
        return self.noise_multiplier * self.clip_norm

    @property
    def upload(self) -> Upload:
        """What leaves each client of a cohort."""
        return RawUpdate(self.clip_norm)

    @property
    def count_noise(self) -> tuple[float, float] | None:
        """Standard deviation of the noise on a released count, and what it is divided by; None where none is."""
        return None

    @property
    def accounted_multiplier(self) -> float:
        """Noise over what one unit moves by taking part in a noisy sum: in all that it moves, not in the sum alone."""
        return self.noise_multiplier

    def clip_norms(self, records: Sequence[RoundRecord]) -> tuple[float, ...]:
        """What each recorded round had to clip to, by the plan and by what the rounds before it released."""
        return (self.clip_norm,) * len(records)

    @property
    def cohorts(self) -> Cohorts:
        """How a round's clients are picked."""
        raise TypeError(f"{type(self).__name__} does not say how a round's clients are picked")

    def step(self, share: float = 1.0) -> Release:
        """One noisy sum, as accounted, if its noise had ``share`` of the planned standard deviation."""
        raise TypeError(f"{type(self).__name__} does not say what one step is, asked at {share}")

    def noisy_sums(self, rounds: int) -> int:
        """How many noisy sums one unit may be part of in the first ``rounds`` rounds, at most."""
        raise TypeError(f"{type(self).__name__} does not count its noisy sums, asked for {rounds} rounds")

    def after(self, rounds: int) -> Release:
        """What the first ``rounds`` rounds release about one unit, at most."""
        return Repeated(self.step(), self.noisy_sums(rounds))

    def release(self) -> Release:
        """The whole schedule as one release, as charged."""
        return self.after(self.rounds)

    def with_attempts(self, further: int) -> Release:
        """The whole schedule, if as many ``further`` rounds had been released besides."""
        further = check.integer(0)(further=further)
        return Repeated(self.step(), self.noisy_sums(self.rounds) + further * self.noisy_sums(1))

    @property
    def closed_form(self) -> tuple[float, int]:
        """What the popular closed form takes for its sampling rate and number of rounds."""
        step = self.step()
        return getattr(step, "sampling_probability", 1.0), self.noisy_sums(self.rounds)

    def unamplified_release(self) -> Release:
        """The same schedule for an adversary who knows who took part in which sum."""
        return Repeated(Gaussian(self.accounted_multiplier), self.noisy_sums(self.rounds))

    def in_every_round(self) -> Release:
        """Return the same schedule if every unit may have joined every round: no sample and no cap is trusted."""
        return self.unamplified_release()

    def gives_up(self, replies: int) -> bool:  # noqa: ARG002 - most schemes never do
        """Whether a round with so few replies is given up before anything is seen."""
        return False

    def at_cohort_sizes(self, sizes: Sequence[int]) -> Release | None:  # noqa: ARG002 - most schemes have no answer
        """Return a what-if release for rounds with these cohort sizes; None if sizes do not affect the cost."""
        return None


SCHEMES: dict[str, type[Scheme]] = {}
"""Every scheme by its kind."""

S = TypeVar("S", bound=type[Scheme])


def register_scheme(kind: S) -> S:
    """Decorates a scheme: from then on, programme files and stored terms know it by its kind."""
    check.text()(summary=kind.summary)
    if kind.kind in SCHEMES:
        raise CheckError("kind", "one that is not taken", repr(kind.kind))
    SCHEMES[kind.kind] = fields.document_fields(codec.register_term(kind.kind)(kind))
    return kind
