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
    ClippedSum,
    Engine,
    LocalDPSGD,
    RoundInputs,
    combine_sums,
    compute_gradients_or_nan,
    sum_clipped_examples,
    sum_noisy_updates,
)
from epsilog.training.engines.canaries import CanaryEngine, add_canary_clients
from epsilog.training.engines.compilations import enable_compilation_cache
from epsilog.training.task import Task

__all__ = [
    "CanaryEngine",
    "ClientStreams",
    "ClippedSum",
    "Engine",
    "LocalDPSGD",
    "RoundInputs",
    "combine_sums",
    "compute_gradients_or_nan",
    "enable_compilation_cache",
    "make_engine",
    "sum_clipped_examples",
    "sum_noisy_updates",
]


def make_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """The engine for a task: the one that is asked for, or its framework's own; with the task's canaries beside it."""
    if task.canaries is None:
        return _make_plain_engine(engine, task)
    return add_canary_clients(_make_plain_engine(engine, replace(task, canaries=None)), task)


def _make_plain_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
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
