"""Engines compute a round: one contract (``base.Engine``), and the same sums from the same draws in all of them.

``compiled`` is fast and the default; ``torch_engine`` is the default for models of PyTorch; ``reference`` is slow and
obviously right; ``remote`` asks clients over a network. Another is handed to ``run_rounds``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from epsilog.terms import CheckError, check
from epsilog.training.engines.base import (
    ClientStreams,
    ClippedSum,
    Engine,
    RoundInputs,
    RowEngine,
    add_client_noise,
    combine_sums,
    compute_gradients_or_nan,
    sum_clipped,
    sum_clipped_examples,
)
from epsilog.training.engines.compilations import enable_compilation_cache
from epsilog.training.engines.wrappers import CanaryClients, DropoutEngine, SplitEngine, add_canary_clients
from epsilog.training.task import Task

__all__ = [
    "CanaryClients",
    "ClientStreams",
    "ClippedSum",
    "DropoutEngine",
    "Engine",
    "RoundInputs",
    "RowEngine",
    "SplitEngine",
    "add_client_noise",
    "add_dropout",
    "combine_sums",
    "compute_gradients_or_nan",
    "enable_compilation_cache",
    "make_engine",
    "sum_clipped",
    "sum_clipped_examples",
]


def make_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """Make the engine for a task: the one that is asked for, or its framework's own; with the task's canaries."""
    if task.canaries is None:
        return _make_plain_engine(engine, task)
    return add_canary_clients(_make_plain_engine(engine, replace(task, canaries=None)), task)


def add_dropout(dropout: float, engine: Callable[[Task], Engine] | None = None) -> Callable[[Task], Engine]:
    """Make an engine in which some clients miss a round: too late, broken off, or switched off.

    Args:
        dropout: the probability that a client of a cohort does not reply, in [0, 1).
        engine: makes the engine for those who do; None for the task's own.
    """
    dropout = check.in_half_open_interval(0, 1)(dropout=dropout)
    return lambda task: DropoutEngine(make_engine(engine, task), dropout)


def _make_plain_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """Make the same without canaries; a framework is imported where it is needed."""
    if engine is not None:
        return engine(task)
    if task.clients.names:
        raise CheckError("engine", "one that reaches the clients, whose rows lie with themselves", "None")
    if task.model.framework == "torch":
        from epsilog.training.engines.torch_engine import TorchEngine

        return TorchEngine(task)
    from epsilog.training.engines.compiled import CompiledEngine

    return CompiledEngine(task)
