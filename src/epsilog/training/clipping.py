"""Clipping: no privacy unit moves a sum by more than the clip norm, whatever it sends.

Norms, factors and sums are float64, whatever the precision of training. The functions take an array module ``xp``
(numpy or jax.numpy), so that all engines share one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

HEADROOM = 1e-9
"""Relative distance of a clipped norm from its bound, so that rounding cannot lift a norm above the bound.

A norm of n squares summed in any order is off by at most about n/2 units of round-off (Higham 2002, Sec. 3.1): the
headroom covers 8 million entries.
"""
LARGEST_MODEL = 8_000_000
SMALLEST_CLIP, LARGEST_CLIP = 1e-90, 1e90
REACH = 1e100
"""Larger numbers count as not finite, and numbers below its inverse as zero.

Squares vanish below 1e-162 and overflow above 1e154. A gradient with the factors 1e154 and 1e-162 has the norm 1e-8,
which a product of squares would compute as 0, so that the clip would not shorten it.
"""


def get_largest_trainable(dtype: Any) -> float:
    """Return the largest number that training accepts in a precision."""
    return min(REACH, float(np.finfo(dtype).max))


def compute_clip_factors(norms: Any, clip_norm: Any, *, xp: ModuleType) -> Any:
    """Return the factors that clip vectors of the given norms to C, and replace vectors without a finite norm by zero.

    A zero vector stays zero; an infinite or NaN norm gets factor 0 (its vector must be replaced by zeros as well, since
    0 times NaN is NaN).

    Args:
        norms: L2 norms, float64; any shape.
        clip_norm: the bound C, in the vectors' own unit; ``inf`` clips nothing.
        xp: numpy or jax.numpy.

    >>> import numpy as np
    >>> compute_clip_factors(np.array([0.0, 0.5, 4.0, np.nan]), 1.0, xp=np).round(6).tolist()
    [1.0, 1.0, 0.25, 0.0]
    """
    safe = clip_norm * (1.0 - HEADROOM)
    shrunk = xp.minimum(1.0, safe / xp.where(norms > 0, norms, 1.0))
    return xp.where(xp.isfinite(norms), xp.where(norms > 0, shrunk, 1.0), 0.0)


def prepare_clip_factors(parts: Sequence[Any], *, xp: ModuleType) -> tuple[list[Any], Any]:
    """Return parts of gradients in float64, each (n, k), and a mask of the rows with a finite norm; shape (n,).

    Entries below 1 / ``REACH`` become 0. So does a row with NaN or an entry above ``REACH``, which has no finite norm.

    >>> import numpy as np
    >>> parts, reached = prepare_clip_factors([np.array([[1e-200, 2.0], [1e200, 2.0]])], xp=np)
    >>> parts[0].tolist(), reached.tolist()
    ([[0.0, 2.0], [0.0, 0.0]], [True, False])
    """
    wide = [part.astype(xp.float64) for part in parts]
    reached = (xp.abs(wide[0]) <= REACH).all(axis=1)
    for part in wide[1:]:
        reached = reached & (xp.abs(part) <= REACH).all(axis=1)
    return [xp.where(reached[:, None] & (xp.abs(part) >= 1.0 / REACH), part, 0.0) for part in wide], reached
