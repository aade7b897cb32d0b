"""JAX Privacy: what a loop of its own will do, read off its batch selection before it runs (jax-privacy >= 2.0).

    found = preflight(setup_of(selection, examples=60_000, noise_multiplier=1.1, params=dp_params), delta=1e-6)

``selection`` is the strategy whose batches the loop goes through; noise is added once to each batch's sum, and a
microbatch size splits a batch for memory alone.
"""

from __future__ import annotations

from typing import Any

from epsilog.plan import TrainingSetup
from epsilog.terms import CheckError


def setup_of(selection: Any, *, examples: int, noise_multiplier: float, params: Any = None) -> TrainingSetup:
    """Reads a loop off a ``BatchSelectionStrategy``.

    Args:
        selection: Poisson sampling in one group, or batches of a fixed size.
        examples: in the training set.
        noise_multiplier: standard deviation of the noise on a sum, over the clip norm.
        params: the ``DpParams`` that the training's accountant is told; blank where it is told what is done.

    Raises:
        CheckError: a strategy that is no such, or ``params`` of a schedule that changes.
    """
    match type(selection).__name__:
        case "CyclicPoissonSampling" if selection.cycle_length == 1:
            sampler, size = "poisson", selection.sampling_prob * examples
            largest = selection.truncated_batch_size
        case "FixedBatchSampling":
            sampler, size = "with-replacement" if selection.replace else "fixed-size", float(selection.batch_size)
            largest = None
        case name:
            told = "CyclicPoissonSampling in one group, or FixedBatchSampling (others: epsilog account)"
            raise CheckError("selection", told, name)
    return TrainingSetup(
        examples=examples,
        batch_size=size,
        updates=selection.iterations,
        noise_multiplier=noise_multiplier,
        sampler=sampler,
        largest_batch=largest,
        believed_rate=None if params is None else _rate(params),
    )


def _rate(params: Any) -> float:
    if not isinstance(params.batch_sizes, int):
        raise CheckError("params", "one batch size for all updates", "a schedule of several", verb="hold")
    return min(float(params.batch_size) / float(params.num_samples), 1.0)
