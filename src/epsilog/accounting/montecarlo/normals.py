"""Standard normals by the array, and one thread of linear algebra while draws are made.

With the extra ``fast``, and after many draws, a compiled loop calls the ziggurat of the given generator, one number
after the other. It gives the same numbers and the same state, two to three times as fast. Loading it takes about a
second, which is too long for short runs.

A block's products are small. Threads that share one cost more in waiting than they save, and they spin while they wait,
which slows every other process of the machine; shards on ``workers`` use its cores well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PATIENCE = 200_000_000  # normals drawn by NumPy before the loop is loaded: two to three seconds
_asked = {"normals": 0}
_lock = threading.Lock()
_inside: list[Any] = []  # an entry for each call on its way; the first one holds what was before


def draw_normals(rng: np.random.Generator, count: int, width: int) -> Array:
    """Draw independent standard normals, row by row; shape (count, width)."""
    result = np.empty((count, width))
    _asked["normals"] += result.size
    fill = compile_fill_loop() if _asked["normals"] > PATIENCE else None
    if fill is None:
        rng.standard_normal(out=result)
    else:
        fill(rng, result.reshape(-1))
    return result


@cache
def compile_fill_loop() -> Callable[[np.random.Generator, Array], None] | None:
    """Return the loop that fills a flat array, or ``None`` without numba."""
    if find_spec("numba") is None:
        return None
    import numba

    def fill(rng: np.random.Generator, result: Array) -> None:
        for i in range(result.size):
            result[i] = rng.standard_normal()

    loop: Callable[[np.random.Generator, Array], None] = numba.njit(nogil=True)(fill)
    loop(np.random.Generator(np.random.Philox(0)), np.empty(1))
    return loop


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread inside the context; the last exit restores the threads."""
    from threadpoolctl import OpenBLASController

    with _lock:
        _inside.append(None if _inside else _libraries().limit(limits=1, user_api="blas"))
        OpenBLASController.clear_controlling_thread()  # or only this thread could undo it, and it may leave first
    try:
        yield
    finally:
        with _lock:
            if len(_inside) == 1:
                _inside[0].restore_original_limits()
                OpenBLASController.clear_controlling_thread()
                _inside.clear()
            else:
                _inside.pop()
