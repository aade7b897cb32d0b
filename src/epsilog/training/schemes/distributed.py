"""Noise in shares, on a grid, modulo a power of two: a simulation of the sum that secure aggregation shows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import ClientLevelDistributed
from epsilog.terms import CheckError, check
from epsilog.training.engines import Engine, combine_sums
from epsilog.training.noise import RandomStream
from epsilog.training.schemes.base import RoundContext, RoundUpdate, register_trainer
from epsilog.training.task import Task

SPREAD = 12.0  # standard deviations of noise that must fit before sums wrap around


def require_modulus_capacity(scheme: ClientLevelDistributed, task: Task) -> None:
    """Refuse a modulus that is too small for the sum, noise beyond 64-bit integers, and canaries."""
    if task.canaries is not None:
        bound = "absent if clients share the noise, since the operator of a canary knows its share"
        raise CheckError("canaries", bound, f"{task.canaries.count}")
    check.in_closed_interval(0, 2.0**40)(share_stddev=scheme.share_stddev)
    noise = scheme.share_stddev * math.sqrt(scheme.cohort_size)
    needed = math.ceil(math.log2(scheme.cohort_size / scheme.grid + SPREAD * noise + 1)) + 1
    check.integer(min(needed, 63))(modulus_bits=scheme.modulus_bits)


@register_trainer(ClientLevelDistributed, require_fit=require_modulus_capacity)
def compute_distributed_update(scheme: ClientLevelDistributed, engine: Engine, now: RoundContext, /) -> RoundUpdate:
    """Return the average update from a sum of integers. The padding of a client is one coordinate of its share.

    The shares of ``survivors`` clients make the planned noise. More replies carry more; with fewer, the round aborts.
    """
    seen, padding = [], list[float]()
    total, width = np.zeros(now.model.size, dtype=np.int64), scheme.grid * scheme.clip_norm
    bare = np.zeros(now.model.size)
    for place, client in enumerate(now.cohort.tolist()):
        clipped = now.sum_uploads(engine, scheme.upload, cohort=now.cohort[place : place + 1])
        seen.append(clipped)
        if not now.private:
            bare += clipped.total
        if not now.private or clipped.silent:
            continue
        share = draw_discrete_gaussians(now.streams("noise", client=client), scheme.share_stddev, now.model.size + 1)
        total = _wrap_modulo(total + np.trunc(clipped.total / width).astype(np.int64) + share[:-1], scheme.modulus_bits)
        padding.append(float(share[-1]) * width * math.sqrt(scheme.survivors))
    clipped = combine_sums(seen, size=now.model.size)
    if now.private and scheme.aborts_round(len(padding)):
        return RoundUpdate(np.zeros_like(now.model), clipped, np.zeros(0), aborted=True)
    step = (width * total + bare) / max(now.cohort.size, 1)
    return RoundUpdate(step, clipped, np.array(padding))


def draw_discrete_gaussians(stream: RandomStream, stddev: float, count: int) -> NDArray[np.int64]:
    """Draw integers k with probability proportional to exp(-k^2 / (2 stddev^2)); shape (count,).

    The method is rejection from the discrete Laplace distribution (Canonne, Kamath & Steinke 2020, arXiv:2004.00010,
    Algorithm 3) in doubles. ``mechanisms`` has an exact sampler, one number at a time, for real releases.
    """
    if stddev == 0:
        return np.zeros(count, dtype=np.int64)
    scale, drawn = math.floor(stddev) + 1, [np.zeros(0, dtype=np.int64)]
    while (missing := count - sum(map(len, drawn))) > 0:
        tries = 2 * missing + 16
        two = stream.generator.geometric(-math.expm1(-1 / scale), (2, tries))
        candidates = two[0] - two[1]
        exponent = (np.abs(candidates) - stddev**2 / scale) ** 2 / (2 * stddev**2)
        drawn.append(candidates[stream.generator.standard_exponential(tries) > exponent][:missing])
    return np.asarray(np.rint(stream.noise_factor * np.concatenate(drawn)), dtype=np.int64)


def _wrap_modulo(numbers: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return numbers modulo 2^bits, as signed integers."""
    half = 1 << (bits - 1)
    return np.asarray((numbers + half) % (1 << bits) - half)
