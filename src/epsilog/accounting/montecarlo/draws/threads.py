"""One thread of linear algebra while draws are made.

A block's products are small. Threads that share one cost more in waiting than they save, and they spin while they wait,
which slows every other process of the machine; shards on ``workers`` use its cores well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside: list[Any] = []  # an entry for each call on its way; the first one holds what was before


@cache
def _libraries() -> Any:
    import numpy as np  # noqa: F401 (loads the library that is to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits linear algebra to one thread while anybody is inside; the last one out gives the threads back."""
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
