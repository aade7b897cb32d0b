"""Engines compute a round: one contract (``base.Engine``), and equal sums from equal draws.

``compiled`` is the fast default, ``torch_engine`` the default for PyTorch models, ``reference`` slow and simple, and
``remote`` asks clients over a network. ``run_rounds`` takes any other engine as an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from epsilog.terms import CheckError, check
from epsilog.training.engines.base import (
    ClippedSum as ClippedSum,
    Engine,
    RoundInputs as RoundInputs,
    RowEngine,
    combine_sums as combine_sums,
    compute_gradients_or_nan as compute_gradients_or_nan,
    sum_clipped_examples as sum_clipped_examples,
)
from epsilog.training.engines.compilations import enable_compilation_cache
from epsilog.training.engines.wrappers import (
    CanaryClients as CanaryClients,
    DropoutEngine,
    SplitEngine,
    add_canary_clients,
)
from epsilog.training.task import Task

__all__ = [
    "Engine",
    "RowEngine",
    "SplitEngine",
    "add_dropout",
    "enable_compilation_cache",
    "make_engine",
]


def make_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """Return the engine for a task, with its canaries; None selects the engine of the model's framework."""
    if task.canaries is None:
        return _make_plain_engine(engine, task)
    return add_canary_clients(_make_plain_engine(engine, replace(task, canaries=None)), task)


def add_dropout(dropout: float, engine: Callable[[Task], Engine] | None = None) -> Callable[[Task], Engine]:
    """Return a factory of engines in which clients drop out of rounds at random.

    Args:
        dropout: the probability that a client of a cohort does not reply, in [0, 1).
        engine: makes the engine for the others; None for the default engine of a task.
    """
    dropout = check.in_half_open_interval(0, 1)(dropout=dropout)
    return lambda task: DropoutEngine(make_engine(engine, task), dropout)


def _make_plain_engine(engine: Callable[[Task], Engine] | None, task: Task) -> Engine:
    """Return the engine of a task without canaries; import its framework only now."""
    if engine is not None:
        return engine(task)
    if task.clients.names:
        raise CheckError("engine", "one that reaches the clients, which hold their own rows", "None")
    if task.model.framework == "torch":
        from epsilog.training.engines.torch_engine import TorchEngine

        return TorchEngine(task)
    from epsilog.training.engines.compiled import CompiledEngine

    return CompiledEngine(task)
