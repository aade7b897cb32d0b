"""Poisson sampling under replace-one: opposite contributions, and the unit's absence.

docs/accounting/replace-one.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from epsilog.numerics.distributions import replace_one as laws
from epsilog.numerics.distributions.base import BasePair, DiscretePair
from epsilog.numerics.distributions.replace_one import (
    LARGEST_MU,
    LARGEST_SHIFT,
    RAREST,
    ReplaceOneGaussianPair,
    ReplaceOneLaplacePair,
)
from epsilog.numerics.pairs import MOST_ATOMS, NEAREST, NO_LARGEST, pure, use_exact_pair
from epsilog.numerics.rounding import MU, round_down, round_outward, round_up

_ROUNDED = 1e-12  # a part that is left out of a mass below: far above its roundings


def replaced_gaussian(mu: float, q: float) -> tuple[BasePair, BasePair]:
    """Gaussian noise and one contribution ``mu`` away."""
    if mu == 0:
        return use_exact_pair(pure(0.0, 0.0))
    if math.isinf(mu):
        return use_exact_pair(_build_revealed_sample(q))
    if mu > LARGEST_MU:  # above, reveal the sample (joint convexity); below, use a shorter contribution
        return _build_revealed_sample(q), ReplaceOneGaussianPair(LARGEST_MU, q)
    return ReplaceOneGaussianPair(round_up(mu, MU), q), ReplaceOneGaussianPair(round_down(mu, MU), q)


def replaced_laplace(scales: Mapping[float, int], q: float) -> tuple[BasePair, BasePair]:
    """Laplace noises on one sample: above as if their shifts added up in one coordinate, below the largest alone."""
    if 0.0 in scales:
        return use_exact_pair(_build_revealed_sample(q))
    most = round_outward(sum((count / Fraction(noise) for noise, count in scales.items()), Fraction(0)), up=True)
    least = round_outward(1 / Fraction(min(scales)), up=False)
    above: BasePair = (
        _build_revealed_sample(q) if most > LARGEST_SHIFT else ReplaceOneLaplacePair(max(most, NEAREST), max(q, RAREST))
    )
    if above.max_loss()[1] < NEAREST:  # too small to be squared
        above = pure(NEAREST, 0.0)
    if least > LARGEST_SHIFT:
        return above, _build_separated_outputs(q)
    below = ReplaceOneLaplacePair(max(least, NEAREST), max(q, RAREST))
    seen = q >= RAREST and least >= NEAREST and below.top >= NEAREST
    return above, below if seen else pure(0.0, 0.0)


def _build_revealed_sample(q: float) -> DiscretePair:
    """Return the pair that reveals the sample."""
    return DiscretePair(np.zeros(1), np.array([1 - q]), q)


def _build_separated_outputs(q: float) -> DiscretePair:
    """What any noise attains that a contribution moves beyond reach: its two ends and the rest (docs, replace-one)."""
    far = ReplaceOneLaplacePair(LARGEST_SHIFT, max(q, RAREST)).max_loss()[0]
    if q < RAREST or far < NEAREST:
        return pure(0.0, 0.0)
    common = q / 2 * (1 - _ROUNDED) / (1 + math.exp(-far))
    rare = common * math.exp(-far)
    return DiscretePair(np.array([-far, 0.0, far]), np.array([rare, 1 - common - rare, common]), step=far)


def replaced_discrete_laplace(scale: float, shift: int, q: float) -> tuple[BasePair, BasePair] | None:
    """Discrete Laplace noise; None where it has too many atoms."""
    return _on_integers(laws.build_replace_one_discrete_laplace_pair, scale, shift, q, most=LARGEST_SHIFT * scale)


def replaced_discrete_gaussian(stddev: float, shift: int, q: float) -> tuple[BasePair, BasePair] | None:
    """Discrete Gaussian noise; None where it has too many atoms."""
    if 2 * (40 * stddev + shift) > MOST_ATOMS:
        return None
    return _on_integers(laws.build_replace_one_discrete_gaussian_pair, stddev, shift, q, most=40 * stddev)


def _on_integers(
    build: Callable[[float, int, float], DiscretePair], noise: float, shift: int, q: float, *, most: float
) -> tuple[BasePair, BasePair] | None:
    """Return pairs of discrete noise; beyond ``most``, reveal the sample above and use a shorter shift below."""
    if most < 1:
        return _build_revealed_sample(q), _build_separated_outputs(q)
    if min(shift, most) > MOST_ATOMS:
        return None
    found = build(noise, min(shift, math.floor(most)), max(q, RAREST))
    faint = (np.abs(found.u) < NEAREST) & (found.u != 0)
    above = replace(found, u=np.where(faint, np.copysign(NEAREST, found.u), found.u))
    stated = NO_LARGEST if found.infinity_mass > 0 else None
    below = replace(found, u=np.where(faint, 0.0, found.u), infinity_mass=0.0, stated=stated)
    return _build_revealed_sample(q) if shift > most else above, below if q >= RAREST else pure(0.0, 0.0)
