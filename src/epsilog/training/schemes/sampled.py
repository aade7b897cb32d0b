"""Independent central noise in each round: the noisy sum of clipped updates over the public expected cohort."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelAdaptiveClip, ClientLevelCentral, RawUpdate
from epsilog.terms import check
from epsilog.training import clipping
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task


@register_trainer(ClientLevelCentral)
def compute_central_update(scheme: ClientLevelCentral, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Return the noisy sum of clipped updates, divided by the public expected cohort."""
    clipped = now.sum_uploads(engine, scheme.upload)
    noisy = now.streams("noise").normals((clipped.total.size + PADDING,))
    noisy *= scheme.noise_stddev if now.private else 0.0
    noisy[:-PADDING] += clipped.total
    return RoundUpdate(noisy[:-PADDING] / scheme.expected_cohort, clipped, noisy[-PADDING:])


def require_clip_range(scheme: ClientLevelAdaptiveClip, task: Task) -> None:  # noqa: ARG001
    """Refuse a clip norm or noise that could leave the range of reliable arithmetic."""
    low, high = clipping.SMALLEST_CLIP * scheme.reach, clipping.LARGEST_CLIP / scheme.reach
    check.in_closed_interval(low, high)(clip_norm=scheme.clip_norm)
    if scheme.noise_multiplier:
        check.in_closed_interval(low, high)(noise_stddev=scheme.noise_stddev)


@register_trainer(ClientLevelAdaptiveClip, require_fit=require_clip_range)
def compute_adaptive_update(scheme: ClientLevelAdaptiveClip, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Return a noisy sum and a noisy count, both divided by the public expected cohort; one draw has the noise of both.

    The state is the next clip norm.
    """
    clip_norm = float(now.memory[0]) if now.memory.size else scheme.clip_norm
    clipped = now.sum_uploads(engine, RawUpdate(clip_norm))
    size, drawn = clipped.total.size, float(now.private) * now.streams("noise").normals((now.model.size + 1 + PADDING,))
    noise = scheme.noise_multiplier * clip_norm * np.delete(drawn, size)
    above_half = clipped.count / 2 - clipped.clipped
    unclipped = 0.5 + (above_half + scheme.quantile_noise * float(drawn[size])) / scheme.expected_cohort
    step = (clipped.total + noise[:size]) / scheme.expected_cohort
    following = np.array([scheme.next_clip_norm(clip_norm, unclipped)])
    return RoundUpdate(step, clipped, noise[size:], following, clip_norm, unclipped)
