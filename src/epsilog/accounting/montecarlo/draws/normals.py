"""Standard normals by the array: by NumPy, or, once many were asked for, by the same algorithm compiled.

The compiled loop (extra ``fast``) calls the ziggurat of the generator that it is given, one number after the other:
the same numbers and the same state afterwards, two to three times as fast. Loading it takes a second or so, which short
runs do not get back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PATIENCE = 200_000_000  # normals drawn by NumPy before the loop is loaded: two to three seconds


def normals(rng: np.random.Generator, count: int, width: int) -> Array:
    """Draws independent standard normals, row by row; shape (count, width)."""
    result = np.empty((count, width))
    _turn(rng, result)
    return result


class _Turn:
    """Fills arrays, and changes over to the compiled loop when patience has run out."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, rng: np.random.Generator, result: Array) -> None:
        self.drawn += result.size
        fill = compiled() if self.drawn > PATIENCE else None
        if fill is None:
            rng.standard_normal(out=result)
        else:
            fill(rng, result.reshape(-1))


_turn = _Turn()


@lru_cache(maxsize=1)
def compiled() -> Callable[[np.random.Generator, Array], None] | None:
    """The loop that fills a flat array, or ``None`` without numba."""
    if find_spec("numba") is None:
        return None
    import numba

    def fill(rng: np.random.Generator, result: Array) -> None:
        for i in range(result.size):
            result[i] = rng.standard_normal()

    loop: Callable[[np.random.Generator, Array], None] = numba.njit(nogil=True)(fill)
    loop(np.random.Generator(np.random.Philox(0)), np.empty(1))
    return loop
