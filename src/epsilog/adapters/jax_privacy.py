"""Provide a certified accountant and Monte Carlo statistics for JAX Privacy.

Since June 2026, JAX Privacy describes training by an event of dp-accounting. Its ``accountant_fn`` maps a neighboring
relation to an accountant, as ``CertifiedAccountant`` does:

    from epsilog.adapters.jax_privacy import CertifiedAccountant, bound_epsilon
    config = BandMFConfig(...).calibrate(epsilon=1.0, delta=1e-6, accountant_fn=CertifiedAccountant)
    bound_epsilon(config.make(), delta=1e-6)

Version 2.0.0 takes a configuration instead:

    from epsilog.adapters.jax_privacy import CertifiedAccountantConfig
    accountant = jax_privacy.accounting.DpsgdTrainingAccountant(CertifiedAccountantConfig())

The functions below replace those of ``jax_privacy.experimental.monte_carlo`` (2.0.0 and later). Their values are exact
and never on the unsafe side, no search runs forever, and NaN samples or negative weights are errors.
``epsilog.accounting.montecarlo`` has tighter bounds for the same samples. None of them imports JAX.

``read_training_loop`` reads a training loop from its batch selection before it runs, for ``epsilog.plan.preflight``:

    loop = read_training_loop(selection, examples=60_000, noise_multiplier=1.1, params=dp_params)
    found = preflight(loop, delta=1e-6)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import ProfilePayoff
from epsilog.mechanisms.composition import flatten
from epsilog.plan import TrainingLoop
from epsilog.terms import CheckError, Interval, UnsupportedMechanismError, arrays, check

if TYPE_CHECKING:
    from dp_accounting import NeighboringRelation as TheirRelation


def bound_epsilon(
    plan: Any, *, delta: float, relation: TheirRelation | None = None, relative_width: float = 0.002
) -> Interval:
    """Bound epsilon of a plan or an event from both sides.

    Args:
        plan: a ``DPExecutionPlan``, or an event of dp-accounting, such as from ``jax_privacy.accounting.dpsgd_event``.
        delta: failure probability, in [0, 1].
        relation: a relation of dp-accounting; None for that of the plan, or for add-or-remove-one with an event.
        relative_width: target relative width of the interval.

    Raises:
        UnsupportedMechanismError: the event, or one inside it, has no certified bound.
    """
    from epsilog.adapters.dp_accounting import CertifiedAccountant

    event = getattr(plan, "dp_event", plan)
    theirs = getattr(plan, "neighboring_relation", None) if relation is None else relation
    accountant = CertifiedAccountant(theirs, relative_width=relative_width)
    details = accountant._maybe_compose(event, 1, do_compose=False)
    if details is not None:
        raise UnsupportedMechanismError(
            details.invalid_event, method="the certified accountant", reason=details.error_message
        )
    found: Interval = accountant.compose(event).interval(delta)
    return found


def get_overall_delta(num_samples: int, base_delta: float) -> float:
    """Bound the delta of estimate-verify-release; see ``montecarlo.overall_delta``.

    >>> get_overall_delta(10_745_967, 5e-6) <= 1e-5
    True
    """
    return montecarlo.overall_delta(samples=num_samples, base_delta=base_delta)


def get_base_delta(num_samples: int, target_delta: float) -> float:
    """Return the largest threshold that meets a target; see ``montecarlo.base_delta``.

    >>> round(get_base_delta(1000, 0.1), 4)
    0.067
    """
    return montecarlo.base_delta(samples=num_samples, target_delta=target_delta)


def minimum_samples_to_calibrate(base_delta: float, target_delta: float) -> int:
    """Return the least number of samples; see ``montecarlo.minimum_samples``.

    >>> minimum_samples_to_calibrate(5e-6, 1e-5)
    10745967
    """
    return montecarlo.minimum_samples(base_delta=base_delta, target_delta=target_delta)


def delta_from_epsilon_and_samples(
    epsilon: float, samples: ArrayLike, counts: ArrayLike | None = None, other_event: ProfilePayoff | None = None
) -> float:
    """Estimate delta from privacy losses; see ``montecarlo.delta_from_samples``.

    Args:
        epsilon: in nats, at least 0.
        samples: privacy losses, shape (n,).
        counts: number of occurrences of each, shape (n,).
        other_event: certified profile of the mechanism composed with it, a ``ProfilePayoff`` at this epsilon.

    >>> delta_from_epsilon_and_samples(0.0, [float("inf"), -3.0])
    0.5
    """
    plain = montecarlo.delta_from_samples(epsilon=epsilon, losses=samples, weights=counts)  # checks the samples, too
    if other_event is None:
        return plain
    other_event = check.instance_of(ProfilePayoff)(other_event=other_event)
    if other_event.epsilon != epsilon:
        raise CheckError("other_event", f"a profile at epsilon = {epsilon!r}", repr(other_event.epsilon))
    loss = arrays.doubles("samples", samples)
    weight = np.ones(loss.shape) if counts is None else arrays.doubles("counts", counts)
    weight = weight / weight.max()
    return float(min(1.0, (weight * np.exp(other_event.log_value(loss))).sum() / weight.sum()))


def perform_calibration_from_samples(
    epsilon: float,
    delta: float,
    *,
    positive_samples: Sequence[ArrayLike],
    positive_counts: Sequence[ArrayLike] | None = None,
    negative_samples: Sequence[ArrayLike] | None = None,
    negative_counts: Sequence[ArrayLike] | None = None,
    other_event: ProfilePayoff | None = None,
) -> tuple[bool, int | float]:
    """Verify candidates in order and return the last one before the first failure.

    Args:
        epsilon: epsilon of the target, in nats.
        delta: delta of the target, in (0, 1].
        positive_samples: losses of each candidate, from the most to the least private, in the remove direction.
        positive_counts: numbers of occurrences of these losses, as integers.
        negative_samples: losses in the add direction; a candidate must pass in both directions.
        negative_counts: their numbers of occurrences.
        other_event: the mechanism composed with each candidate; see ``delta_from_epsilon_and_samples``.

    Returns:
        ``(True, index)``, or ``(False, base_delta)`` if the first candidate fails: then release a mechanism that is
        certainly (epsilon, base_delta)-DP. In both cases the whole procedure is (epsilon, delta)-DP.

    >>> perform_calibration_from_samples(1.0, 0.1, positive_samples=[[0.0] * 1000, [9.0] * 1000])
    (True, 0)
    """
    sides = [(positive_samples, positive_counts)]
    if negative_samples is not None:
        sides.append((negative_samples, negative_counts))
    elif negative_counts is not None:
        raise ValueError("negative_counts must come with negative_samples")
    rows: list[list[tuple[ArrayLike, ArrayLike | None]]] = []
    for samples, counts in sides:
        if len(samples) == 0 or len(samples) != len(positive_samples):
            raise CheckError(
                "samples", f"{len(positive_samples)} candidates, at least 1", f"{len(samples)}", verb="list"
            )
        if counts is not None and len(counts) != len(samples):
            raise CheckError("counts", f"{len(samples)} candidates", f"{len(counts)}", verb="list")
        rows.append([(losses, None if counts is None else counts[i]) for i, losses in enumerate(samples)])
    estimates = [
        [delta_from_epsilon_and_samples(epsilon, losses, weight, other_event) for losses, weight in row] for row in rows
    ]
    fewest = min(_size(losses, weight) for row in rows for losses, weight in row)
    threshold = get_base_delta(fewest, delta)
    passed = [max(candidate) <= threshold for candidate in zip(*estimates, strict=True)]
    if not passed[0]:
        return False, threshold
    return True, (passed.index(False) if False in passed else len(passed)) - 1


@cache
def _config() -> type[Any]:
    """Return a ``DpAccountantConfig`` that creates certified accountants, for JAX Privacy 2.0.0."""
    try:
        from jax_privacy.accounting import DpAccountantConfig
    except ImportError as error:
        raise ImportError(
            "this version of JAX Privacy has no DpAccountantConfig, unlike 2.0.0; pass CertifiedAccountant as its "
            "accountant_fn, or call bound_epsilon(plan, delta=...)"
        ) from error

    from epsilog.adapters.dp_accounting import CertifiedAccountant

    class CertifiedAccountantConfig(DpAccountantConfig):  # type: ignore[misc]  # untyped base
        """A configuration of certified accountants for JAX Privacy, including its calibrations."""

        def create_accountant(self) -> Any:
            """Return a new accountant under add-or-remove-one."""
            return CertifiedAccountant()

    return CertifiedAccountantConfig


def __getattr__(name: str) -> Any:
    """Create the classes on first use, so that this module imports neither JAX nor dp-accounting."""
    if name == "CertifiedAccountantConfig":
        return _config()
    if name == "CertifiedAccountant":
        from epsilog.adapters import dp_accounting

        return dp_accounting.CertifiedAccountant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _size(losses: ArrayLike, counts: ArrayLike | None) -> int:
    """Return the number of draws of a list."""
    if counts is None:
        return int(np.asarray(losses).size)
    values = arrays.doubles("counts", counts)
    if not (values == np.floor(values)).all():
        raise CheckError("counts", "whole numbers", repr(counts))
    return int(values.sum())


def read_training_loop(
    selection: Any, *, examples: int, noise_multiplier: float | Iterable[tuple[int, float]], params: Any = None
) -> TrainingLoop:
    """Read a training loop off a ``BatchSelectionStrategy``.

    Noise is added once to the sum of each batch. A microbatch size splits a batch to save memory alone.

    Args:
        selection: Poisson sampling in one group, or batches of a fixed size.
        examples: number of examples in the training set.
        noise_multiplier: standard deviation of the noise on a sum, divided by the clip norm; or pairs of an update and
            the multiplier from that update on, the first from update 0, as in ``DpParams``.
        params: the ``DpParams`` of JAX Privacy 2.0, or the ``DpEvent`` of later versions, that the accountant of the
            training receives; None if the accountant receives what the loop does.

    Raises:
        CheckError: the strategy is not supported, or ``params`` is not one Poisson sample with the same sampling
            probability in each update and one example per privacy unit.
    """
    examples, updates = check.integer(1)(examples=examples), check.integer(1)(iterations=selection.iterations)
    match type(selection).__name__:
        case "CyclicPoissonSampling" if check.integer(1)(cycle_length=selection.cycle_length) == 1:
            sampler, size = "poisson", check.in_closed_interval(0, 1)(sampling_prob=selection.sampling_prob) * examples
            largest = _read_optional_count("truncated_batch_size", selection)
        case "FixedBatchSampling":
            sampler = "with-replacement" if check.boolean()(replace=selection.replace) else "fixed-size"
            size = float(check.integer(1)(batch_size=selection.batch_size))
            largest = None
        case name:
            bound = "CyclicPoissonSampling in one group, or FixedBatchSampling (others: epsilog account)"
            raise CheckError("selection", bound, name)
    noise, changes = _read_noise_schedule(noise_multiplier, updates)
    rate, noise_counted, updates_counted = (
        (None, None, None) if params is None else _read_accountant_inputs(params, (noise, changes), updates, largest)
    )
    return TrainingLoop(
        examples=examples,
        batch_size=size,
        updates=updates,
        noise_multiplier=noise,
        noise_changes=tuple(changes) or None,
        changed_noise=tuple(changes.values()) or None,
        sampler=sampler,
        max_batch_size=largest,
        accountant_sampling_probability=rate,
        accountant_noise_multiplier=noise_counted,
        accountant_updates=updates_counted,
    )


_Schedule = tuple[float, dict[int, float]]
"""The first noise multiplier, and each later one by the number of updates before it."""


def _read_optional_count(name: str, source: Any) -> int | None:
    return check.optional(check.integer(1)).apply(name, getattr(source, name, None))


def _read_noise_schedule(noise_multiplier: Any, updates: int) -> _Schedule:
    """Return the schedule of one multiplier, or of pairs of an update and the multiplier from that update on."""
    if not check.is_series(noise_multiplier):
        return check.at_least(0)(noise_multiplier=noise_multiplier), {}
    pairs = check.sequence_of(check.pair_of(check.integer(0), check.at_least(0)))(noise_multiplier=noise_multiplier)
    values = dict(sorted(pairs))
    if 0 not in values or len(values) != len(pairs):
        bound = "pairs of different updates, the first of them update 0"
        raise CheckError("noise_multiplier", bound, f"{noise_multiplier!r:.80}")
    return values.pop(0), {update: noise for update, noise in values.items() if update < updates}


def _read_accountant_inputs(
    params: Any, schedule: _Schedule, updates: int, largest: int | None
) -> tuple[float, float | None, int | None]:
    """Return the sampling probability, noise multiplier and steps of an accountant; None where the loop's own apply."""
    if not hasattr(params, "batch_sizes"):
        return _read_event_inputs(params)
    scale = params.batch_size_scale_schedule
    if check.is_series(params.batch_sizes) or not (scale is None or (isinstance(scale, dict) and not scale)):
        raise CheckError("params", "one batch size for all updates", "a schedule of several", verb="hold")
    for name in ("examples_per_user", "cycle_length"):
        if _read_optional_count(name, params) not in (None, 1):
            raise CheckError("params", f"{name} 1", f"{getattr(params, name)}", verb="have")
    if not check.boolean()(is_finite_guarantee=params.is_finite_guarantee):
        raise CheckError("params", "is_finite_guarantee True", "False", verb="have")
    method = params.sampling_method.name
    if method != "POISSON":
        raise CheckError("params", "the sampling method POISSON", method, verb="have")
    if (limit := _read_optional_count("truncated_batch_size", params)) not in (None, largest):
        raise CheckError("params", "the truncated batch size of the selection, or none", f"{limit}", verb="have")
    rate = min(check.integer(1)(batch_size=params.batch_size) / check.integer(1)(num_samples=params.num_samples), 1.0)
    stated = _read_noise_schedule(params.noise_multipliers, updates)
    if stated == schedule:
        return rate, None, None
    if stated[1]:
        raise CheckError("params", "the noise multipliers of the loop, or one", "a schedule of others", verb="have")
    return rate, stated[0], None


def _read_event_inputs(event: Any) -> tuple[float, float | None, int | None]:
    from epsilog.adapters.dp_accounting import from_event

    match [(part.sampled_gaussian, count) for part, count in flatten(from_event(event)).items()]:
        case [((noise, rate), count)]:
            return rate, noise, count
    raise CheckError("params", "DpParams, or an event of one Poisson-sampled Gaussian in each update", f"{event!r:.80}")
