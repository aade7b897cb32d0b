"""Central noise with a clip norm that follows the clients: one Gaussian draw for the sum and for the count."""

from __future__ import annotations

import numpy as np

from epsilog.schemes import ClientLevelAdaptiveClip
from epsilog.terms import check
from epsilog.training import clipping
from epsilog.training.engines import Engine
from epsilog.training.schemes.base import PADDING, RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task


def require_clip_range(scheme: ClientLevelAdaptiveClip, task: Task) -> None:  # noqa: ARG001
    """Refuses a clip norm, or a noise, that may move to where a clip cannot be relied on."""
    low, high = clipping.SMALLEST_CLIP * scheme.reach, clipping.LARGEST_CLIP / scheme.reach
    check.in_closed_interval(low, high)(clip_norm=scheme.clip_norm)
    if scheme.noise_multiplier:
        check.in_closed_interval(low, high)(noise_stddev=scheme.noise_stddev)


@register_trainer(ClientLevelAdaptiveClip, require_fit=require_clip_range)
def compute_update(scheme: ClientLevelAdaptiveClip, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Noisy sum and noisy count over the public expected cohort. The next clip norm is what is remembered."""
    clip_norm = float(now.memory[0]) if now.memory.size else scheme.clip_norm
    clipped = engine.sum_of_updates(now.computed, clip_norm=clip_norm if now.private else np.inf)
    size, drawn = clipped.total.size, float(now.private) * now.streams("noise").normals((now.model.size + 1 + PADDING,))
    noise = scheme.noise_multiplier * clip_norm * np.delete(drawn, size)
    above_half = clipped.count / 2 - clipped.clipped
    unclipped = 0.5 + (above_half + scheme.quantile_noise * float(drawn[size])) / scheme.expected_cohort
    step = (clipped.total + noise[:size]) / scheme.expected_cohort
    following = np.array([scheme.next_clip_norm(clip_norm, unclipped)])
    return RoundUpdate(step, clipped, noise[size:], following, clip_norm, unclipped)
