"""Noise that is added: Laplace, staircase, and on the integers, moved by the whole sensitivity.

docs/accounting/certified-bounds.md, 1.1, 1.2, 1.7 and 1.14.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from epsilog.numerics.distributions.base import Array, BasePair, DiscretePair, LaplacePair, WideDiscrete
from epsilog.numerics.gaussian import FARTHEST
from epsilog.numerics.pairs import (
    LONGEST,
    MOST_ATOMS,
    NEAREST,
    NO_LARGEST,
    bound_rounded,
    build_non_private_pair,
    clamp_to_doubles,
    pure,
    use_exact_pair,
)
from epsilog.numerics.rounding import gamma

_NARROW, _WIDEST = 1e3, 1e90  # standard deviations, in counts, and in shifts, of noise that is nearly continuous
_WEIGHT_ERROR = gamma(3000.0)  # of e^-x for x up to 800 that took two roundings, over a sum of such


def build_laplace_pair(epsilon: float) -> tuple[BasePair, BasePair]:
    """One Laplace with the whole L1 shift dominates the coordinates together (docs, 1.3)."""
    return clamp_to_doubles(lambda at: LaplacePair(at, 0.25 * math.exp(-at / 2), 0.5), epsilon, bound_rounded(epsilon))


def build_staircase_pairs(epsilon: float, share: float, steps: int) -> tuple[BasePair, BasePair]:
    """Return pairs of staircase noise moved by whole steps (docs: accounting/certified-bounds, 1.14)."""
    largest = steps * epsilon
    stated = (largest, largest)
    if largest < NEAREST:
        return replace(pure(NEAREST, 0.0), stated=stated), replace(pure(0.0, 0.0), stated=stated)
    if largest > LONGEST:  # below: beyond either center, and between
        rare = math.exp(-LONGEST) / 2
        ends = DiscretePair(np.array([-LONGEST, 0.0, LONGEST]), np.array([rare, 0.5 - rare, 0.5]), step=LONGEST)
        return build_non_private_pair(stated), replace(ends, stated=stated)
    return use_exact_pair(replace(build_staircase_pair(epsilon, share, steps), stated=stated))


def build_discrete_laplace_pair(scale: float, shift: int) -> tuple[BasePair, BasePair]:
    """Return losses (abs(k) - abs(k - shift)) / scale, one step of 2 / scale apart; beyond the shift they are constant.

    Too many steps to be counted are a statement above and, with the rest of two exponential draws, Laplace noise below.
    """
    epsilon = shift / scale
    if shift > MOST_ATOMS:
        return clamp_to_doubles(lambda at: pure(at, 0.0), epsilon, bound_rounded(epsilon))[0], build_laplace_pair(
            epsilon
        )[1]

    def build(at: float) -> DiscretePair:
        if at < epsilon:  # out of reach: the part between the two centers is one outcome
            top = 1 / (1 + math.exp(-1 / scale))
            low = top * math.exp(-at)
            return DiscretePair(np.array([-at, 0.0, at]), np.array([low, max(1 - top - low, 0.0), top]), step=at)
        scaled = shift / at
        k = np.arange(shift + 1)
        center = math.tanh(0.5 / scaled)  # mass at the center: (1 - r) / (1 + r), r = e^(-1/scale)
        p = center * np.exp(-(shift - k) / scaled)
        p[-1] = 1 / (1 + math.exp(-1 / scaled))  # the center and all beyond it
        p[0] = p[-1] * math.exp(-shift / scaled)
        return DiscretePair((2 * k - shift) / scaled, p, step=2 / scaled, relative_error=gamma(64 + 4 * at))

    return clamp_to_doubles(build, epsilon, bound_rounded(epsilon))


def build_discrete_gaussian_pair(stddev: float, shift: int) -> tuple[BasePair, BasePair] | None:
    """Losses are linear in the outcome; the tails beyond 40 standard deviations (below e^-800) count as lost.

    None where steps are so small that their squares leave the numbers.
    """
    if 2 * (40 * stddev + shift) > MOST_ATOMS and stddev > _NARROW:
        return _wide(stddev, shift)
    far = math.ceil(40 * stddev) + shift
    if shift > 40 * stddev:  # the least loss of an outcome from the further center on, shift^2 / (2 stddev^2), is 800
        with np.errstate(over="ignore"):
            away = np.minimum(np.arange(min(far, math.ceil(40 * stddev) + 2)) / stddev, 100.0)
        weight = np.exp(-0.5 * away**2)
        top = float(weight.sum() / (2 * weight.sum() - 1))
        rare = top * math.exp(-LONGEST)
        atoms = DiscretePair(
            np.array([-LONGEST, 0.0, LONGEST]),
            np.array([rare, 1 - top, top]),
            relative_error=_WEIGHT_ERROR,
            stated=NO_LARGEST,
        )
        return build_non_private_pair(), atoms
    k = np.arange(-far, far + shift + 1)
    logs = -((k - shift) ** 2) / (2 * stddev**2)
    p = np.exp(logs)
    p = p / p.sum()
    u = shift * (2 * k - shift) / (2 * stddev**2)
    keep = (np.abs(u) < LONGEST) & (p > 0)
    tail_mass = float(p[~keep].sum()) * (1 + _WEIGHT_ERROR) + 1e-290
    atoms = DiscretePair(u[keep], p[keep], tail_mass, step=shift / stddev**2, relative_error=_WEIGHT_ERROR)
    return atoms, replace(atoms, infinity_mass=0.0, stated=NO_LARGEST)


def _wide(stddev: float, shift: int) -> tuple[BasePair, BasePair] | None:
    """Noise of too many atoms is as good as continuous (docs, 1.13)."""
    if shift / stddev < 1 / _WIDEST:
        return None
    if shift / stddev > FARTHEST:
        return build_non_private_pair(), WideDiscrete(stddev, math.floor(FARTHEST * stddev))
    return use_exact_pair(WideDiscrete(stddev, shift))


__all__ = ["build_staircase_pairs"]


def build_staircase_pair(epsilon: float, share: float, steps: int) -> DiscretePair:
    """Return the pair of staircase noise with and without this shift in steps: a few atoms, one step apart.

    No shorter shift loses more anywhere (docs/accounting/certified-bounds.md, 1.14). Each of the k steps between the
    two centers has three parts. The outer ones are as wide as the narrower part of a step; there the nearer center's
    stair is one higher.

    Args:
        epsilon: of one step, with ``steps`` times it within reach of an exponential.
        share: the first step's share, in [0, 1].
        steps: k, how many steps it is moved.

    >>> build_staircase_pair(1.0, 0.5, 1).p.round(4)  # binary randomized response
    array([0.2689, 0.    , 0.7311])
    """
    fall, k = math.exp(-epsilon), steps
    top = -math.expm1(-epsilon) / (2 * (share + fall * (1 - share)))  # of a whole step at the height of the first
    narrow, inner = min(share, 1 - share), abs(2 * share - 1)
    u: Array = np.asarray(epsilon * np.arange(-k, k + 1), dtype=np.float64)
    p = np.zeros(2 * k + 1)
    p[-1], p[0] = 0.5, math.exp(-k * epsilon) / 2
    for i in range(k):  # between i and i + 1 steps from where Q sits
        near, far = top * math.exp(-(k - 1 - i) * epsilon), top * math.exp(-(k - i) * epsilon)
        p[2 * i] += narrow * far
        p[2 * i + 1] += inner * (near if share >= 0.5 else far)
        p[2 * i + 2] += narrow * near
    return DiscretePair(u, p, step=epsilon, relative_error=gamma(64.0 + 16 * k * (1 + epsilon)))
