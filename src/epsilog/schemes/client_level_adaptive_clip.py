"""Central noise at the client level with an adaptive clip norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from epsilog.schemes.base import register_scheme
from epsilog.schemes.sampled import SampledScheme
from epsilog.terms import RoundRecord, check, parameters
from epsilog.terms.fields import Field

ROUNDED = 1.0 - 2.0**-50  # rounds down a quotient of a root of a sum of two quotients


@register_scheme
@dataclass(frozen=True, slots=True)
class ClientLevelAdaptiveClip(SampledScheme):
    """The server clips and sums updates, counts those within the clip norm, and adds noise to both.

    Source: Andrew, Thakkar, McMahan & Ramaswamy 2021 (arXiv:1905.03871), Algorithm 1 and Theorem 1. Sum and count are
    one Gaussian vector. One client moves the sum by at most C and the count by at most 1. A client without data counts
    as within C, and its neighbor may be above C; the paper's 1/2 assumes that an absent client is not counted. With
    noise z C on the sum and s on the count, the noise multiplier of both is (z^-2 + s^-2)^(-1/2). The next clip norm is
    C exp(-eta (b - gamma)) for the noisy fraction b within C: post-processing. It stays within a factor of 1e6 of the
    first.
    """

    clip_norm: Annotated[float, Field("L2 clip norm of the updates in the first round", "C", gt=0)]
    target_quantile: Annotated[float, Field("target fraction of updates that need no clipping", "γ", gt=0, lt=1)]
    clip_learning_rate: Annotated[float, Field("learning rate of the logarithm of the clip norm", "η", gt=0)]
    quantile_noise: Annotated[
        float, Field("noise standard deviation on the count of updates that need no clipping", "s", gt=0)
    ]
    noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]

    kind: ClassVar[str] = "client-level-adaptive-clip"
    summary: ClassVar[str] = (
        "The server clips each client's update to a norm that it learns from noisy counts, and adds noise."
    )
    adaptive_clip: ClassVar[bool] = True
    reach: ClassVar[float] = 1e6  # largest factor between a clip norm and the first one
    published: ClassVar[str] = "global model and clip norm"

    @property
    def count_noise(self) -> tuple[float, float]:
        """Return the noise on the count, and the public expected cohort."""
        return self.quantile_noise, self.expected_cohort

    @property
    def accounted_multiplier(self) -> float:
        """Return the multiplier of sum and count together, rounded down."""
        if not self.noise_multiplier:
            return 0.0
        return ROUNDED / math.hypot(1 / self.noise_multiplier, 1 / self.quantile_noise)

    def next_clip_norm(self, clip_norm: float, unclipped: float) -> float:
        """Return the clip norm after a round with ``clip_norm`` that released the noisy fraction ``unclipped``."""
        clip_norm = check.positive()(clip_norm=clip_norm)
        unclipped = check.finite()(unclipped=unclipped)
        exponent = -self.clip_learning_rate * (unclipped - self.target_quantile)
        moved = clip_norm * math.exp(max(-700.0, min(exponent, 700.0)))
        return max(self.clip_norm / self.reach, min(moved, self.clip_norm * self.reach))

    def clip_norms(self, records: Sequence[RoundRecord]) -> tuple[float, ...]:
        """Return the clip norm that follows from each round before; nan if that round released no fraction."""
        followed = (
            math.nan if one.unclipped is None else self.next_clip_norm(one.clip_norm, one.unclipped) for one in records
        )
        return (self.clip_norm, *followed)[: len(records)]
