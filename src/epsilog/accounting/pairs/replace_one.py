"""Poisson sampling under replace-one: contributions that pull opposite ways, and the unit's absence beside both.

docs/accounting/replace-one.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from epsilog.accounting.flatten import Bag, flatten, total_mu
from epsilog.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, PoissonSampled
from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import Atoms, BaseLaw
from epsilog.numerics.laws.replaced import (
    LARGEST_MU,
    LARGEST_SHIFT,
    RAREST,
    ReplacedLaplace,
    ReplacedSample,
    replaced_discrete_gaussian,
    replaced_discrete_laplace,
)
from epsilog.numerics.reach import METHOD, MOST_ATOMS, NEAREST, NO_LARGEST, pure, same
from epsilog.numerics.rounding import MU, down, up
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

_ROUNDED = 1e-12  # a part that is left out of a mass below: far above its roundings


def replaced(part: PoissonSampled) -> tuple[BaseLaw, BaseLaw]:
    """Poisson sampling under replace-one needs the unit's absence beside both contributions: docs, replace-one."""
    parts, q = flatten(part.release), part.sampling_probability
    revealed = Atoms(np.zeros(1), np.array([1 - q]), q)
    match tuple(parts.items()):
        case ((DiscreteLaplace(noise_scale=noise, sensitivity=shift), 1),):
            return _replaced_on_integers(replaced_discrete_laplace, noise, shift, q, most=LARGEST_SHIFT * noise)
        case ((DiscreteGaussian(noise_stddev=noise, sensitivity=shift), 1),):
            if 2 * (40 * noise + shift) > MOST_ATOMS:
                raise UnsupportedMechanismError(part, method=METHOD, reason="too many atoms")
            return _replaced_on_integers(replaced_discrete_gaussian, noise, shift, q, most=40 * noise)
    if all(isinstance(one, Laplace) for one in parts):
        return _replaced_laplace(parts, q, revealed)
    if not all(isinstance(one, Gaussian) for one in parts):
        reason = (
            f"under {NeighboringRelation.REPLACE_ONE} Poisson sampling has a proven pair over Gaussian noise, over "
            "Laplace noise and over one discrete noise"
        )
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    mu = total_mu(parts, NeighboringRelation.ADD_OR_REMOVE_ONE) or 0.0
    if mu == 0:
        return same(pure(0.0, 0.0))
    if math.isinf(mu):
        return same(revealed)
    if mu > LARGEST_MU:  # above as if who is in the sample were told (joint convexity), below a shorter contribution
        return revealed, ReplacedSample(LARGEST_MU, q)
    return ReplacedSample(up(mu, MU), q), ReplacedSample(down(mu, MU), q)


def _replaced_laplace(parts: Bag, q: float, revealed: Atoms) -> tuple[BaseLaw, BaseLaw]:
    """Laplace noises on one sample: above as if their shifts added up in one coordinate, below the largest alone."""
    scales = {one.noise_multiplier: count for one, count in parts.items() if isinstance(one, Laplace)}
    if not scales:
        return same(pure(0.0, 0.0))
    if 0.0 in scales:
        return same(revealed)
    most = rounded(sum((count / Fraction(noise) for noise, count in scales.items()), Fraction(0)), up=True)
    least = rounded(1 / Fraction(min(scales)), up=False)
    above: BaseLaw = revealed if most > LARGEST_SHIFT else ReplacedLaplace(max(most, NEAREST), max(q, RAREST))
    if above.largest()[1] < NEAREST:  # too small to be squared
        above = pure(NEAREST, 0.0)
    if least > LARGEST_SHIFT:
        return above, _ends_apart(q)
    below = ReplacedLaplace(max(least, NEAREST), max(q, RAREST))
    seen = q >= RAREST and least >= NEAREST and below.top >= NEAREST
    return above, below if seen else pure(0.0, 0.0)


def _ends_apart(q: float) -> Atoms:
    """What any noise attains that a contribution moves beyond reach: its two ends and the rest (docs, replace-one)."""
    far = ReplacedLaplace(LARGEST_SHIFT, max(q, RAREST)).largest()[0]
    if q < RAREST or far < NEAREST:
        return pure(0.0, 0.0)
    often = q / 2 * (1 - _ROUNDED) / (1 + math.exp(-far))
    rare = often * math.exp(-far)
    return Atoms(np.array([-far, 0.0, far]), np.array([rare, 1 - often - rare, often]), step=far)


def _replaced_on_integers(
    law: Callable[[float, int, float], Atoms], noise: float, shift: int, q: float, *, most: float
) -> tuple[BaseLaw, BaseLaw]:
    """Discrete noise; beyond ``most`` it is told above who was in the sample, and below a shorter shift is attained."""
    revealed = Atoms(np.zeros(1), np.array([1 - q]), q)
    if most < 1:
        return revealed, _ends_apart(q)
    if min(shift, most) > MOST_ATOMS:
        raise UnsupportedMechanismError(DiscreteLaplace(noise, shift), method=METHOD, reason="too many atoms")
    found = law(noise, min(shift, math.floor(most)), max(q, RAREST))
    faint = (np.abs(found.u) < NEAREST) & (found.u != 0)
    above = replace(found, u=np.where(faint, np.copysign(NEAREST, found.u), found.u))
    stated = NO_LARGEST if found.only_p > 0 else None
    below = replace(found, u=np.where(faint, 0.0, found.u), only_p=0.0, stated=stated)
    return revealed if shift > most else above, below if q >= RAREST else pure(0.0, 0.0)
