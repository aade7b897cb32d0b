"""Who computes a round: one protocol, and engines that give the same sums from the same draws.

``compiled`` is fast and the default, ``reference`` slow and obviously right. Another is handed to ``run_rounds``.
"""

from __future__ import annotations

from collections.abc import Callable

from epsilog.terms import CheckError
from epsilog.train.engines.base import ClientStreams, Clipped, Engine, NoisyRuns, Round
from epsilog.train.engines.compilations import keep_compilations
from epsilog.train.task import Task

__all__ = ["ClientStreams", "Clipped", "Engine", "NoisyRuns", "Round", "keep_compilations", "made"]


def made(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """The engine for a task: the one that is asked for, or the compiled one, for which JAX is imported here."""
    if engine is not None:
        return engine(task)
    if task.clients.names:
        raise CheckError("engine", "one that reaches the clients, whose rows lie with themselves", "None")
    from epsilog.train.engines.compiled import CompiledEngine

    return CompiledEngine(task)
