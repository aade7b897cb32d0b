"""JAX Privacy: what a loop of its own will do, read off its batch selection before it runs (jax-privacy >= 2.0).

    found = preflight(setup_of(selection, examples=60_000, noise_multiplier=1.1, params=dp_params), delta=1e-6)

``selection`` is the strategy whose batches the loop goes through; noise is added once to each batch's sum, and a
microbatch size splits a batch for memory alone. What the training's accountant is told is read off the ``DpParams`` of
2.0, or off a dp-accounting event, as later versions make them (``jax_privacy.accounting.dpsgd_event``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from epsilog.mechanisms.composition import flatten
from epsilog.plan import TrainingLoop
from epsilog.terms import CheckError, check


def read_training_loop(
    selection: Any,
    *,
    examples: int,
    noise_multiplier: float | Iterable[tuple[int, float]],
    params: Any = None,
) -> TrainingLoop:
    """Reads a loop off a ``BatchSelectionStrategy``.

    Args:
        selection: Poisson sampling in one group, or batches of a fixed size.
        examples: in the training set.
        noise_multiplier: standard deviation of the noise on a sum, over the clip norm; or pairs of an update and the
            multiplier from it on, the first from update 0, as ``DpParams`` has them.
        params: the ``DpParams`` or the ``DpEvent`` that the training's accountant is told; blank where it is told what
            is done.

    Raises:
        CheckError: a strategy that is no such, or ``params`` of anything but one Poisson sample of the same rate in
            each update, each unit with one example.
    """
    match type(selection).__name__:
        case "CyclicPoissonSampling" if selection.cycle_length == 1:
            sampler, size = "poisson", check.in_closed_interval(0, 1)(sampling_prob=selection.sampling_prob) * examples
            largest = selection.truncated_batch_size
        case "FixedBatchSampling":
            sampler = "with-replacement" if selection.replace else "fixed-size"
            size = float(check.integer(1)(batch_size=selection.batch_size))
            largest = None
        case name:
            told = "CyclicPoissonSampling in one group, or FixedBatchSampling (others: epsilog account)"
            raise CheckError("selection", told, name)
    noise, changes = _schedule(noise_multiplier, selection.iterations)
    rate, believed, counted = (
        (None, None, None) if params is None else _read_accountant_inputs(params, (noise, changes), selection)
    )
    return TrainingLoop(
        examples=examples,
        batch_size=size,
        updates=selection.iterations,
        noise_multiplier=noise,
        noise_changes=tuple(changes) or None,
        changed_noise=tuple(changes.values()) or None,
        sampler=sampler,
        largest_batch=largest,
        believed_rate=rate,
        believed_noise=believed,
        believed_updates=counted,
    )


_Schedule = tuple[float, dict[int, float]]
"""The first noise multiplier, and by updates done the one from then on, where it changes."""


def _schedule(noise_multiplier: Any, updates: int) -> _Schedule:
    """One multiplier, or pairs of an update and the multiplier from it on."""
    if not isinstance(noise_multiplier, list | tuple):
        return check.at_least(0)(noise_multiplier=noise_multiplier), {}
    pairs = check.sequence_of(check.pair_of(check.integer(0), check.at_least(0)))(noise_multiplier=noise_multiplier)
    values = dict(sorted(pairs))
    if 0 not in values or len(values) != len(pairs):
        bound = "pairs of different updates, the first of them update 0"
        raise CheckError("noise_multiplier", bound, f"{noise_multiplier!r:.80}")
    return values.pop(0), {update: noise for update, noise in values.items() if update < updates}


def _read_accountant_inputs(params: Any, done: _Schedule, selection: Any) -> tuple[float, float | None, int | None]:
    """The rate, the noise multiplier and the steps that an accountant is told; None for those of the loop."""
    if not hasattr(params, "batch_sizes"):
        return _read_event_inputs(params)
    plain = isinstance(params.batch_sizes, int) and params.batch_size_scale_schedule in (None, {})
    if not plain:
        raise CheckError("params", "one batch size for all updates", "a schedule of several", verb="hold")
    for name, allowed in (
        ("examples_per_user", (None, 1)),
        ("cycle_length", (None, 1)),
        ("is_finite_guarantee", (True,)),
    ):
        if getattr(params, name) not in allowed:
            raise CheckError("params", f"{name} {allowed[-1]}", f"{getattr(params, name)}", verb="have")
    method = params.sampling_method.name
    if method != "POISSON":
        raise CheckError("params", "the sampling method POISSON", method, verb="have")
    if params.truncated_batch_size not in (None, getattr(selection, "truncated_batch_size", None)):
        bound = "the truncated batch size of the selection, or none"
        raise CheckError("params", bound, f"{params.truncated_batch_size}", verb="have")
    rate = min(check.integer(1)(batch_size=params.batch_size) / check.integer(1)(num_samples=params.num_samples), 1.0)
    told = _schedule(params.noise_multipliers, selection.iterations)
    if told == done:
        return rate, None, None
    if told[1]:
        raise CheckError("params", "the noise multipliers of the loop, or one", "a schedule of others", verb="have")
    return rate, told[0], None


def _read_event_inputs(event: Any) -> tuple[float, float | None, int | None]:
    from epsilog.adapters.dp_accounting import from_event

    match [(part.sampled_gaussian, count) for part, count in flatten(from_event(event)).items()]:
        case [((noise, rate), count)]:
            return rate, noise, count
    raise CheckError("params", "DpParams, or an event of one Poisson-sampled Gaussian in each update", f"{event!r:.80}")
