"""Losses and scores: functions of a model's outputs and the targets, one number an example or one for a test set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Loss = Callable[[Any, Any], Any]
"""(outputs (n, ...), targets (n,)) -> each example's loss; shape (n,)."""
Score = Callable[[Any, Any], Any]
"""(outputs (m, ...), targets (m,)) -> one number for a whole test set."""


def half_squared_error(outputs: Any, targets: Any) -> Any:
    """Half the square of what is missed, for one real output an example."""
    return 0.5 * (outputs.reshape(targets.shape) - targets) ** 2


def cross_entropy(outputs: Any, targets: Any) -> Any:
    """Minus the log of the odds given to the right class, for an output a class."""
    import jax
    import jax.numpy as jnp

    shifted = outputs - jax.lax.stop_gradient(outputs.max(axis=1, keepdims=True))
    right = targets[:, None] == jnp.arange(outputs.shape[1])
    return jnp.log(jnp.exp(shifted).sum(axis=1)) - jnp.where(right, shifted, 0).sum(axis=1)


def r_squared(outputs: Any, targets: Any) -> Any:
    """The share of the targets' variance that is explained; 1 is perfect."""
    missed = outputs.reshape(targets.shape) - targets
    return 1.0 - (missed**2).sum() / ((targets - targets.mean()) ** 2).sum()


def accuracy(outputs: Any, targets: Any) -> Any:
    """The share of examples whose largest output is that of their class."""
    return (outputs.argmax(axis=1) == targets).mean()


LOSSES: dict[str, Loss] = {"half-squared-error": half_squared_error, "cross-entropy": cross_entropy}
