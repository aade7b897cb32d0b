"""Norm bounds: no unit may move a sum by more than the clip norm, whatever it sends.

Written over an array module ``xp`` (numpy or jax.numpy), so that the engine and the slow reference share the rule.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

HEADROOM = {"float64": 1e-9, "float32": 1e-3}
"""By how much a clip stays below its bound, relative, so that rounding cannot lift a norm above it.

A norm of n squares summed in any order is off by at most about n/2 units of round-off (Higham 2002, Sec. 3.1): the
headroom covers 8 million entries in float64 and 16,000 in float32.
"""


def factors(norms: Any, clip_norm: Any, *, xp: ModuleType) -> Any:
    """Returns what to multiply vectors of the given norms by: at most C afterwards, and nothing that is not finite.

    A zero vector stays zero; an infinite or NaN norm gets factor 0 (its vector must be replaced by zeros as well, since
    0 times NaN is NaN: see ``kept``).

    Args:
        norms: L2 norms; any shape.
        clip_norm: the bound C, in the vectors' own unit; ``inf`` clips nothing.
        xp: numpy or jax.numpy.

    >>> import numpy as np
    >>> factors(np.array([0.0, 0.5, 4.0, np.nan]), 1.0, xp=np).round(6).tolist()
    [1.0, 1.0, 0.25, 0.0]
    """
    safe = clip_norm * (1.0 - HEADROOM[str(norms.dtype)])
    shrunk = xp.minimum(1.0, safe / xp.where(norms > 0, norms, 1.0))
    return xp.where(xp.isfinite(norms), xp.where(norms > 0, shrunk, 1.0), 0.0)


def kept(factor: Any, vectors: Any, *, xp: ModuleType) -> Any:
    """Multiplies vectors (..., d) by factors (...), with exact zeros where the factor is 0."""
    return xp.where(factor[..., None] > 0, factor[..., None] * vectors, 0.0)
