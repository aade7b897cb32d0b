"""Who computes a round: one protocol, and engines that give the same sums from the same draws.

``compiled`` is fast and the default; ``torch_engine`` is the default for models of PyTorch; ``reference`` is slow and
obviously right. Another is handed to ``run_rounds``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from epsilog.terms import CheckError
from epsilog.training.engines.base import (
    ClientStreams,
    Clipped,
    Engine,
    NoisyRuns,
    Round,
    clipped_examples,
    gradients_despite_failures,
    noisy_updates,
    together,
)
from epsilog.training.engines.canaries import CanaryEngine, with_canaries
from epsilog.training.engines.compilations import keep_compilations
from epsilog.training.task import Task

__all__ = [
    "CanaryEngine",
    "ClientStreams",
    "Clipped",
    "Engine",
    "NoisyRuns",
    "Round",
    "clipped_examples",
    "gradients_despite_failures",
    "keep_compilations",
    "made",
    "noisy_updates",
    "together",
]


def made(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """The engine for a task: the one that is asked for, or its framework's own; with the task's canaries beside it."""
    if task.canaries is None:
        return _made(engine, task)
    return with_canaries(_made(engine, replace(task, canaries=None)), task)


def _made(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """The same without canaries; a framework is imported where it is needed."""
    if engine is not None:
        return engine(task)
    if task.clients.names:
        raise CheckError("engine", "one that reaches the clients, whose rows lie with themselves", "None")
    if task.model.framework == "torch":
        from epsilog.training.engines.torch_engine import TorchEngine

        return TorchEngine(task)
    from epsilog.training.engines.compiled import CompiledEngine

    return CompiledEngine(task)
